"""Runs in the guest: provokes interruptions of CPU 3 from outside, and prints what three witnesses report, one after the
other: `cpushield verify`, `rtla osnoise top`, and the awk recipe that measures the longest time without a task switch.
It prints the rows of a table. Each action is repeated equally often for each witness."""

import re
import subprocess
import sys
import time

sys.path.insert(0, "/host/guest")
import lab  # noqa: E402

CPU = 3
ACTIONS = ["quiet", "perf-read", "perf-clock", "msr", "cpuid", "vmstat", "tracepoint", "static-key", "stop-machine",
           "nmi", "module", "serial", "machine-check"]
TRACE = "/sys/kernel/tracing"


def by_cpushield(name):
    seen = lab.watch(CPU, lab.Window(False, [] if name == "quiet" else [name]))
    rows = seen.document["evidence"]["cpus"][0]["interruptions"]
    told = [f"{row['count'] or row['nested']} {row['cause']} {row['culprit']['text']}".strip() for row in rows[:3]]
    more = f", {len(rows) - 3} more" if len(rows) > 3 else ""
    counted = ", ".join(f"{label} {n}" for label, n in seen.counted["all"].items())
    return seen.done.get(name, 0), counted or "nothing", ", ".join(told) + more or "nothing"


def provoke(name):
    provoker = None if name == "quiet" else lab.Provoker(CPU, [name])
    return provoker


def act(provoker):
    if provoker:
        provoker.act()
    else:
        time.sleep(2)


def by_rtla(name):
    """The last row of the CPU: noise in us, and the count of each class."""
    provoker = provoke(name)
    try:
        rtla = subprocess.Popen(["rtla", "osnoise", "top", "-q", "-c", str(CPU), "-d", "14s"], stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True)
        time.sleep(7)
        act(provoker)
        text, _ = rtla.communicate(timeout=120)
    finally:
        if provoker:
            provoker.end()
    rows = [line.split() for line in text.splitlines() if re.match(rf"\s*{CPU} #", line)]
    if not rows:
        return "no row: " + text.strip().replace("\n", " ")[-80:]
    hardware, nmi, irq, softirq, thread = rows[-1][-5:]
    return f"IRQ {irq}, softirq {softirq}, thread {thread}, NMI {nmi}, hardware {hardware}"


def tell(file, text):
    with open(f"{TRACE}/{file}", "w") as to:
        to.write(text)


def by_switches(name):
    """The recipe traces the function that ends each switch; its answer is the longest time between two calls."""
    tell("tracing_on", "0")
    tell("set_ftrace_filter", "finish_task_switch*")
    tell("tracing_cpumask", f"{1 << CPU:x}")
    tell("current_tracer", "function")
    loop = subprocess.Popen(["cpushield", "run", "--", "sh", "-c", "while :; do :; done"], stdout=subprocess.DEVNULL,
                            stderr=subprocess.DEVNULL)
    provoker = provoke(name)
    try:
        time.sleep(3)
        tell("trace", "")
        tell("tracing_on", "1")
        begin = time.monotonic()
        act(provoker)
        span = time.monotonic() - begin
        tell("tracing_on", "0")
        with open(f"{TRACE}/per_cpu/cpu{CPU}/trace") as file:
            times = [float(found[1]) for found in re.finditer(r" (\d+\.\d+): finish_task_switch", file.read())]
    finally:
        loop.terminate()
        loop.wait()
        if provoker:
            provoker.end()
        tell("current_tracer", "nop")
        tell("tracing_on", "1")
    longest = max((b - a for a, b in zip(times, times[1:])), default=span)
    return f"{len(times)} switches, longest without {longest * 1e3:.0f} ms of {span * 1e3:.0f}"


for one in sys.argv[1:] or ACTIONS:
    cells = [one]
    try:
        cells += map(str, by_cpushield(one))
    except (RuntimeError, subprocess.SubprocessError, ValueError) as error:
        cells += ["", "", f"{type(error).__name__}: {error}"]
    for witness in (by_rtla, by_switches):
        try:
            cells.append(witness(one))
        except (OSError, RuntimeError, subprocess.SubprocessError, ValueError) as error:
            cells.append(f"{type(error).__name__}: {error}")
    print("|", " | ".join(cell.replace("|", "/") for cell in cells), "|", flush=True)
