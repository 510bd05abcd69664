#!/usr/bin/env python3
"""blind.py CPU [all]: interferes with the instruments of `verify` while it watches a program on the shielded CPU, by
every known method, and claims that the verdict is never `holds`. Without `all` each method is tried once, with
alternating kinds of events and durations.

A trial counts only if its attack was within the span that verify watched, according to the evidence."""

import ctypes
import glob
import json
import mmap
import os
import subprocess
import sys
import time

CPU = int(sys.argv[1])
ALL = "all" in sys.argv[2:]
BLINK_S = 0.4
SPAN_S = 4
PERF_EVENT_OPEN = 298  # x86-64, arch/x86/entry/syscalls/syscall_64.tbl

failed = 0
# Seconds from the first record to the span: warm-up and the positive control. They vary in emulation.
delay = 1.5


def claim(text, held, detail=""):
    global failed
    print(("ok - " if held else "not ok - ") + text, flush=True)
    if not held:
        failed += 1
        print("\n".join("#   " + line for line in detail.splitlines()[:12]), flush=True)


def instance():
    """The instance that records CPU: the only one with enabled exception events."""
    for path in glob.glob("/sys/kernel/tracing/instances/cpushield-*"):
        if read(path, "events/exceptions/page_fault_user/enable").strip() == "1":
            return path
    return None


def read(base, file):
    try:
        with open(f"{base}/{file}") as text:
            return text.read()
    except OSError:
        return ""


def write(file, text):
    return lambda base: put(f"{base}/{file}", text)


def put(path, text):
    with open(path, "w") as file:
        file.write(text + "\n")


def each_armed_event(base):
    for path in glob.glob(f"{base}/events/*/*/enable"):
        with open(path) as file:
            armed = file.read().startswith("1")
        if armed:
            put(path, "0")


def stop_all(text):
    """What trace-cmd stop -a does: tracing_on of the top level and of every instance."""

    def act(_):
        for path in ["/sys/kernel/tracing", *glob.glob("/sys/kernel/tracing/instances/*")]:
            put(f"{path}/tracing_on", text)

    return act


def take(file, once=False):
    """Takes records away for a short time."""

    def act(base):
        command = ["timeout", str(BLINK_S), "cat", f"{base}/{file}"]
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    return act


def cpu_online(text):
    return lambda _: put(f"/sys/devices/system/cpu/cpu{CPU}/online", text)


FAULT = "events/exceptions/page_fault_user"
NOTHING = None
# Name, attack, and how to revert it after a short time; without that the attack is permanent.
ATTACKS = [
    ("tracing_on", write("tracing_on", "0"), write("tracing_on", "1")),
    ("trace-cmd stop -a", stop_all("0"), stop_all("1")),
    ("all events off", write("events/enable", "0"), NOTHING),
    ("all events off by set_event", write("set_event", "!*:*"), NOTHING),
    ("the armed events off", each_armed_event, NOTHING),
    ("page faults off", write(f"{FAULT}/enable", "0"), write(f"{FAULT}/enable", "1")),
    ("vectors off", write("events/irq_vectors/enable", "0"), write("events/irq_vectors/enable", "1")),
    ("a filter", write(f"{FAULT}/filter", "error_code == 99"), write(f"{FAULT}/filter", "0")),
    ("a trigger", write(f"{FAULT}/trigger", "traceoff"), write(f"{FAULT}/trigger", "!traceoff")),
    ("the CPU mask", write("tracing_cpumask", "1"), write("tracing_cpumask", format(1 << CPU, "x"))),
    ("the pid filter", write("set_event_pid", "1"), write("set_event_pid", " ")),
    ("emptied", write("trace", ""), NOTHING),
    ("pages taken", take(f"per_cpu/cpu{CPU}/trace_pipe_raw"), NOTHING),
    ("records taken", take("trace_pipe"), NOTHING),
    ("shrunk", write(f"per_cpu/cpu{CPU}/buffer_size_kb", "4"), write(f"per_cpu/cpu{CPU}/buffer_size_kb", "8192")),
    ("freed", write("free_buffer", "1"), NOTHING),
    ("another clock", write("trace_clock", "local"), write("trace_clock", "x86-tsc")),
    ("a snapshot", write("snapshot", "1"), NOTHING),
    ("the CPU offline", cpu_online("0"), cpu_online("1")),
]


class Program:
    """Computes on CPU, and takes page faults on command."""

    def __init__(self):
        with open("/tmp/word", "wb") as file:
            file.write(bytes(4096))
        with open("/tmp/word", "r+b") as file:
            self.word = mmap.mmap(file.fileno(), 4096)
        self.process = subprocess.Popen(["cpushield", "run", "--quiet", "--", "/host/tools/faults", "/tmp/word"])
        time.sleep(0.2)

    def faults(self, on):
        self.word[0] = 1 if on else 0

    def end(self):
        self.word[0] = 2
        try:
            self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Interrupts:
    """Reads a perf event of CPU; each read is one function-call IPI there."""

    def __init__(self):
        attr = (ctypes.c_uint64 * 8)(1 | 64 << 32)
        call = ctypes.CDLL(None, use_errno=True).syscall
        self.file = call(PERF_EVENT_OPEN, ctypes.byref(attr), -1, CPU, -1, 8)

    def once(self):
        if self.file >= 0:
            os.read(self.file, 8)

    def end(self):
        if self.file >= 0:
            os.close(self.file)


def watch():
    return subprocess.Popen(
        ["cpushield", "verify", "--busy", "--warmup", "300ms", "--for", f"{SPAN_S}s", "--json"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for_span(program):
    """Until the trace records and the positive control is over."""
    for _ in range(600):
        base = instance()
        if base and read(base, "tracing_on").strip() == "1":
            seen = time.monotonic_ns()
            time.sleep(delay)
            return base, seen
        if program.poll() is not None:
            break
        time.sleep(0.05)
    return None, 0


def keep_busy(seconds, kind, program, interrupts):
    program.faults(kind == "page faults")
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if kind == "interrupts":
            interrupts.once()
        time.sleep(0.02)
    program.faults(False)


def trial(act, back, kind, busy):
    """One attack in one watch: the state of CPU, whether the attack was within the span, and the
    output."""
    global delay
    program, interrupts = Program(), Interrupts()
    verify = watch()
    base, seen = wait_for_span(verify)
    at = time.monotonic_ns()
    try:
        if base and act:
            act(base)
    except OSError as error:
        verify.kill()
        verify.communicate()
        return None, f"refused: {error}", True
    if busy:
        keep_busy(BLINK_S, kind, program, interrupts)
    else:
        time.sleep(BLINK_S)
    if base and back:
        back(base)
    done = time.monotonic_ns()
    out, err = verify.communicate()
    program.end()
    interrupts.end()
    try:
        document = json.loads(out)
        evidence, cpu = document["evidence"], document["verdict"]["cpus"][0]
    except (ValueError, KeyError, IndexError):
        return None, out[-300:] + err, False
    began, span = evidence["began_ns"], evidence["span_ns"]
    within = base is not None and began <= at and done <= began + span
    if seen:
        delay = max(0.5, (began - seen) / 1e9 + 0.5)
    leaks = [leak["interruptions"]["culprit"]["text"] for leak in cpu["leaks"]]
    return cpu["state"], f"{cpu['unknown']} {leaks} {err}", within


def tried(act, back, kind, busy):
    for _ in range(4):
        state, said, within = trial(act, back, kind, busy)
        if within:
            break
    return state, said, within


def calm():
    """Control: without an attack the shield holds, and harmless actions are not reported."""
    harmless = write("tracing_on", "1")
    for name, act in [
        ("nothing", None),
        ("the top level's tracing_on", lambda _: harmless("/sys/kernel/tracing")),
        ("a look at the settings", lambda base: read(base, "tracing_on") and read(base, "set_event")),
    ]:
        for _ in range(4):
            state, said, within = trial(act, None, "interrupts", False)
            if state == "holds" and within:
                break
        claim(f"{name}: holds", state == "holds", said)


def attacks():
    turn = 0
    for name, act, back in ATTACKS:
        backs = [back, NOTHING] if back else [NOTHING]
        if name == "the CPU offline":
            backs = [back]
        ways = [(kind, busy, b) for kind in ("interrupts", "page faults") for busy in (True, False) for b in backs]
        if not ALL:
            ways = [ways[turn % len(ways)]]
            turn += 3
        for kind, busy, b in ways:
            state, said, within = tried(act, b, kind, busy)
            text = f"{name}, {'for a blink' if b else 'for good'}, {kind if busy else 'quiet'}"
            if state is None and said.startswith("refused"):
                print(f"ok - {text} # SKIP the kernel {said}", flush=True)
                continue
            claim(f"{text}: {state}", within and state == "unknown", f"within the span: {within}\n{said}")


calm()
attacks()
sys.exit(failed > 0)
