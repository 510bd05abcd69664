#!/usr/bin/env python3
"""remedies.py CPU: interrupts a shielded CPU on purpose, applies each remedy that `cpushield verify` offers at runtime, and
looks whether the interruption is gone. It prints claims in TAP, and how many remedies were true, false and withheld."""

import collections
import json
import os
import re
import shlex
import subprocess
import sys
import time

import lab
import tap
from tap import claim

KPROBE = "/sys/kernel/tracing/kprobe_events"
# Work of a terminal: it runs on an unbound queue.
TERMINAL = "python3 -u -c " + shlex.quote("""
import os, pty, time
master, slave = pty.openpty()
while True:
    os.write(slave, b"x" * 64)
    os.read(master, 4096)
    time.sleep(0.02)
""")
PROBES = f"""
mkdir -p /sys/kernel/tracing/instances/other
while :; do
    echo 'p:other do_sys_openat2' >>{KPROBE}
    for i in 1 2 3; do
        echo 1 >/sys/kernel/tracing/instances/other/events/kprobes/other/enable; sleep 0.05
        echo 0 >/sys/kernel/tracing/instances/other/events/kprobes/other/enable; sleep 0.05
    done
    echo '-:other' >>{KPROBE}
done"""
Case = collections.namedtuple("Case", "begin busy change end remedy")
# What runs once, what runs during the watch, what changes inside the span, and what puts everything back. `remedy`: the
# tunable that must be offered; empty: none. The thread of an interrupt may be moved by `kthreads` too.
CASES = {
    "work of unbound queues": Case("echo {only} >{mask}", TERMINAL, "", "echo {old} >{mask}", "workqueues"),
    "work of unbound queues whose mask was put back": Case(
        "echo {only} >{mask}", TERMINAL, "echo {old} >{mask}", "echo {old} >{mask}", ""),
    "an interrupt of a device": Case(
        "echo {cpu} >/proc/irq/4/smp_affinity_list", "while :; do printf '\\0' >/dev/ttyS0; sleep 0.05; done", "",
        "echo 0 >/proc/irq/4/smp_affinity_list", "irq-affinity"),
    "another tracer": Case("", PROBES, "", "", ""),
}
MASK = "/sys/devices/virtual/workqueue/cpumask"
cpu = int(sys.argv[1])
with open(MASK) as file:
    old = file.read().strip()
counts = collections.Counter()


def shell(text):
    return subprocess.run(["bash", "-c", text.format(cpu=cpu, mask=MASK, old=old, only=f"{1 << cpu:x}")], stdout=subprocess.DEVNULL, check=False)


def watch(case):
    words = ["cpushield", "verify", "--json", "--for", "20s" if case.change else "5s"]
    verify, said = lab.on_terminal(words, stdout=subprocess.PIPE, text=True)
    if case.change:
        # It says so when it begins to warm up: the work of the terminal would interrupt the CPU.
        said.wait_for("watching", 300)
        time.sleep(12)
        shell(case.change)
    text, _ = verify.communicate(timeout=200)
    return json.loads(text)


def rows(document):
    [judged] = document["verdict"]["cpus"]
    strip = lambda leak: re.sub(r" \(\d+\)| *, sent by.*", "", leak["interruptions"]["culprit"]["text"])
    return {(leak["interruptions"]["cause"], strip(leak)): leak for leak in judged["leaks"]}


def check(name, case):
    shell(case.begin)
    busy = subprocess.Popen(["bash", "-c", case.busy], start_new_session=True) if case.busy else None
    time.sleep(0.5)
    while subprocess.run(["pgrep", "-x", "cpushield-close"], stdout=subprocess.DEVNULL).returncode == 0:
        time.sleep(0.1)
    document = watch(case)
    seen = rows(document)
    [judged] = document["verdict"]["cpus"]
    claim(f"{name}: it leaks, whatever is doubted", judged["state"] == "leaks", judged)
    offered = {key: leak["remedy"] for key, leak in seen.items() if leak["remedy"] and leak["remedy"]["when"] == "runtime"}
    counts["withheld"] += sum(not leak["remedy"] for leak in seen.values())
    tunables = {remedy["tunable"] for remedy in offered.values()}
    claim(f"{name}: the remedy is {case.remedy or 'withheld'}", tunables - {"kthreads"} == ({case.remedy} - {""}), json.dumps(list(seen.items())))
    [watched] = document["evidence"]["cpus"]
    own = [sender for sender in watched["senders"] if sender["by"]["from"] == "watcher"]
    claim(f"{name}: verify itself interrupts nothing", not own, json.dumps(own))
    programs = [key for key in seen if key[0] == "user-task"]
    claim(f"{name}: no kernel thread is a user task", not any("kworker" in culprit for _, culprit in programs), programs)
    for remedy in offered.values():
        shell(remedy["how"].split(" (")[0].replace("{", "{{").replace("}", "}}"))
    after = rows(watch(case._replace(change=""))) if offered else {}
    for key, remedy in offered.items():
        counts["false" if key in after else "true"] += 1
        claim(f"{name}: {remedy['how']} removes {' '.join(key)}", key not in after, json.dumps(after.get(key)))
    if busy:
        os.killpg(busy.pid, 9)
        busy.wait()
    shell(case.end)


for name, case in CASES.items():
    check(name, case)
print(f"# remedies offered and true: {counts['true']}, offered and false: {counts['false']}, withheld: {counts['withheld']}")
claim("remedies were offered, and none was false", counts["true"] and not counts["false"])
sys.exit(bool(tap.failed))
