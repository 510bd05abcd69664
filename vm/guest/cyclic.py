#!/usr/bin/env python3
"""cyclic.py CPU: programs that sleep (`servo`, vm/tools) in a shield on that CPU, planted interruptions (`provoke`), and
what `cpushield verify` says about them. It prints claims in TAP. What is expected comes from the planting program and from
the programs' own measurements, never from the program under test."""

import bisect
import collections
import json
import os
import re
import signal
import subprocess
import sys
import time

import lab
import tap
from tap import claim

PERIOD_US = 2000
# Actions of `provoke` that need no program on the CPU.
PLANTED = ["signal", "msr", "cpuid", "vmstat", "static-key", "stop-machine"]
# Before Linux 6.5, no event names the function of a call.
NAMES_CALLS = os.path.exists("/sys/kernel/tracing/events/csd/csd_function_entry")


class Servo:
    def __init__(self, file, period_us=PERIOD_US):
        self.file = file
        words = ["cpushield", "run", "--quiet", "--", "servo", file, str(period_us)]
        self.job = subprocess.Popen(words, stdout=subprocess.DEVNULL)
        time.sleep(1)

    def end(self):
        self.job.send_signal(signal.SIGTERM)
        self.job.wait()
        with open(self.file) as file:
            return [tuple(map(int, line.split())) for line in file]


def start_verify(*flags):
    words = ["cpushield", "verify", "--json", "--for", "300s", "--warmup", "1s", *flags]
    return lab.on_terminal(words, stdout=subprocess.PIPE, text=True)


def end_verify(verify):
    verify.send_signal(signal.SIGINT)
    text, _ = verify.communicate(timeout=90)
    return json.loads(text)


def watch(act, *flags):
    """The document of a watch during which `act` runs."""
    verify, said = start_verify(*flags)
    said.wait_for("watching", 300)
    act()
    return end_verify(verify)


def split(document):
    return document["evidence"]["cpus"][0]["ownership"]


def rows(document, owner):
    found = collections.Counter()
    for row in split(document)["rows"]:
        if row["owner"] == owner:
            found[row["cause"], row["culprit"]["text"]] += row["count"]
    return found


def show(document):
    lines = [json.dumps(document["verdict"]["cpus"][0]["state"])]
    lines += [why["text"] for why in document["verdict"]["cpus"][0]["unknown"]]
    lines += [json.dumps(total) for total in split(document)["sums"]]
    for row in split(document)["rows"]:
        by = (row.get("by") or {}).get("text", "")
        harmless = " harmless" * row["harmless"]
        lines.append(f"{row['count']} {row['owner']}{harmless} {row['cause']} {row['culprit']['text']} {by}")
    return "\n".join(lines)


def quiet(cpu):
    """Without anything planted: own activations, and each delay as the program measured it."""
    servo = Servo("/tmp/servo")
    document = watch(lambda: time.sleep(8))
    measured = servo.end()
    own = split(document)
    # Without a prepared boot, the kernel works on the CPU too.
    strange = rows(document, "unassigned")
    if "nohz_full=" in open("/proc/cmdline").read():
        strange += rows(document, "foreign")
    claim("nothing that the program caused is foreign or unassigned", not strange, show(document))
    print("# " + show(document).replace("\n", "\n# "), flush=True)
    began, span = document["evidence"]["began_ns"], document["evidence"]["span_ns"]
    # When it is late for its next timer too, it may go on without sleeping.
    on_time = [now for (before, _), (now, late) in zip(measured, measured[1:]) if before < now - late]
    least, most = [sum(began <= now < began + span for now in times) for times in (on_time, [now for now, _ in measured])]
    claim(f"{own['activations']} activations, {least} to {most} by the program",
          least - 3 <= own["activations"] <= most + 3, own["delays"])
    claim(*agreeing(own["delays"]["worst"], began, measured))


def agreeing(longest, began, measured):
    """Whether the longest delays are those that the program measured. Each timer was due at one moment for both. Two clocks
    are read one after the other where the span begins, and the emulator may stop in between: one shift must fit all of them.
    It may also stop after the switch to the program, before that reads the clock; and a program that is late already when it
    goes to sleep counts from then in one of them only."""
    dues = [(began + one["at_ns"] - one["delay_ns"], one["delay_ns"]) for one in longest]
    timers = sorted((now - late, late) for now, late in measured)

    def between(first, last):
        return timers[bisect.bisect(timers, (first, 0)):bisect.bisect(timers, (last, 0))]

    def near(shift):
        more = [late - delay for due, delay in dues for _, late in between(due + shift - 300_000, due + shift + 300_000)]
        return more, [ns for ns in more if -50_000 <= ns <= 200_000]

    shifts = {due - known for known, _ in dues[:4] for due, _ in between(known - 100_000_000, known + 100_000_000)}
    found, same = max((near(shift) for shift in shifts), key=lambda found: len(found[1]), default=([], []))
    shorter = sum(ns < -50_000 for ns in found)
    text = f"{len(found)} of the {len(longest)} longest delays are of timers that the program knows; it measured"
    text += f" {len(same)} alike to 200 us, {shorter} shorter"
    enough = len(found) * 4 >= len(longest) * 3 and len(same) * 6 >= len(found) * 5 and shorter * 16 <= len(found)
    return text, enough, f"{len(shifts)} shifts\n{longest[:4]}"


def planted(cpu):
    """Each planted item is a foreign row; nothing else is."""
    for name in PLANTED:
        servo = Servo("/tmp/servo")
        if name == "signal":
            pid = int(subprocess.run(["pgrep", "-x", "servo"], capture_output=True, text=True, check=True).stdout.split()[0])
            wanted = [("signal", r"SIGUSR1 by kill\(2\)")]

            def act(count=30):
                for _ in range(count):
                    subprocess.run(["kill", "-USR1", str(pid)], check=True)
                    time.sleep(0.05)
                return count
        else:
            provoker = lab.Provoker(cpu, [name])
            wanted = [(one.cause, one.culprit if NAMES_CALLS or one.cause != "ipi-call" else "")
                      for one in lab.ACTIONS[name].named]
            act = provoker.act
        count = 0

        def plant():
            nonlocal count
            count = act()
            time.sleep(1)

        document = watch(plant)
        servo.end()
        foreign = rows(document, "foreign")
        for cause, culprit in wanted:
            said = sum(n for key, n in foreign.items() if re.fullmatch(cause, key[0]) and re.fullmatch(culprit, key[1]))
            # Two calls may arrive with one interrupt, which only the functions show.
            least = count if NAMES_CALLS else count - 2
            claim(f"{name}: {count} planted, {said} foreign {cause}", said >= least, show(document))
        own = rows(document, "own")
        strange = [key for key in own for cause, culprit in wanted
                   if re.fullmatch(cause, key[0]) and re.fullmatch(culprit, key[1])]
        claim(f"{name}: none of it is called the program's own", not strange, show(document))
        if name != "signal":
            provoker.end()


def swapped():
    """Two programs of one binary and period, watched at once: what is foreign to one is the other's own."""
    servos = [Servo(f"/tmp/servo{n}") for n in range(2)]
    pids = subprocess.run(["pgrep", "-x", "servo"], capture_output=True, text=True, check=True).stdout.split()
    watches = [start_verify("--pid", pid) for pid in pids]
    for _, said in watches:
        said.wait_for("watching", 300)
    time.sleep(10)
    documents = [end_verify(verify) for verify, _ in watches]
    for servo in servos:
        servo.end()
    for one, other in [(0, 1), (1, 0)]:
        timer = ("hrtimer", "hrtimer_wakeup")
        foreign, own = rows(documents[one], "foreign")[timer], rows(documents[other], "own")[timer]
        span = [documents[n]["evidence"]["span_ns"] / 1e9 for n in (one, other)]
        rate = (foreign / span[0]) / (own / span[1]) if own else 0
        claim(f"swapped: the timers foreign to one ({foreign}) are the other's own ({own})", 0.97 <= rate <= 1.03,
              show(documents[one]) + "\n" + show(documents[other]))
        state = documents[one]["verdict"]["cpus"][0]["state"]
        claim("swapped: the verdict is `leaks`", state == "leaks", state)


# Causes, and the event of the kernel that shows each culprit. A name is the start of `name (number)`.
EVENTS = {
    "kthread": r"sched_switch: .*next_comm={name} next_pid={number} ",
    "user-task": r"sched_switch: .*next_comm={name} next_pid={number} ",
    "hrtimer": r"hrtimer_expire_entry: .*function={name}\b",
    "softirq": r"softirq_entry: vec=\d+ \[action={name}\]",
    "irq": r"irq_handler_entry: irq={number} ",
    "ipi-call": r"csd_function_entry: func={name}\b" if NAMES_CALLS else r"call_function(_single)?_entry:",
    "ipi-reschedule": r"reschedule_entry:",
    "ipi-irq-work": r"irq_work_entry:",
    "workqueue": r"(workqueue_execute_start: .*function {name}\b|sched_switch: .*next_comm={name} )",
    "timer": r"timer_expire_entry: .*function={name}\b",
}


def long(cpu):
    """Many activations. A separate trace instance also records every foreign row."""
    instance = "/sys/kernel/tracing/instances/kit"
    os.mkdir(instance)

    def put(file, text):
        with open(f"{instance}/{file}", "w") as out:
            out.write(text)

    put(f"per_cpu/cpu{cpu}/buffer_size_kb", "131072")
    put("tracing_cpumask", f"{1 << cpu:x}")
    for event in ["sched/sched_switch", "timer/hrtimer_expire_entry", "timer/timer_expire_entry", "irq", "irq_vectors",
                  "workqueue/workqueue_execute_start"]:
        put(f"events/{event}/enable", "1")
    if NAMES_CALLS:
        put("events/csd/csd_function_entry/enable", "1")
    servo = Servo("/tmp/servo", 1000)
    document = watch(lambda: time.sleep(60))
    servo.end()
    put("tracing_on", "0")
    with open(f"{instance}/per_cpu/cpu{cpu}/stats") as stats:
        lost = [line.strip() for line in stats if re.match(r"(overrun|dropped events): [1-9]", line)]
    claim("the trace is whole", not lost, lost)
    with open(f"{instance}/per_cpu/cpu{cpu}/trace") as trace:
        text = trace.read()
    own = split(document)
    claim(f"{own['activations']} activations, the goal is 50000", own["activations"] >= 50_000, own["activations"])
    strange = rows(document, "unassigned")
    claim("nothing is unassigned", not strange, show(document))
    for (cause, culprit), said in rows(document, "foreign").items():
        irq, name, number = re.fullmatch(r"(?:IRQ (\d+) )?([^,]*?)(?: \((\d+)\)|, .*)?", culprit).groups()
        pattern = EVENTS.get(cause, "(?!)").format(name=re.escape(name), number=irq or number or r"\d+")
        seen = len(re.findall(pattern, text))
        claim(f"foreign {cause} {culprit}: {said}, in the trace {seen}", seen >= said, show(document))
    print("# " + show(document).replace("\n", "\n# "), flush=True)
    os.rmdir(instance)


def main():
    cpu = int(sys.argv[1])
    for part in sys.argv[2:] or ["quiet", "planted", "swapped"]:
        try:
            {"quiet": lambda: quiet(cpu), "planted": lambda: planted(cpu), "swapped": swapped,
             "long": lambda: long(cpu)}[part]()
        except (RuntimeError, subprocess.SubprocessError, ValueError, KeyError, TypeError) as error:
            claim(part, False, f"{type(error).__name__}: {error}")
            subprocess.run(["pkill", "-x", "servo"], check=False)
    return bool(tap.failed)


if __name__ == "__main__":
    sys.exit(main())
