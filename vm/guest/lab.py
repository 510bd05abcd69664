#!/usr/bin/env python3
"""lab.py CPU [WINDOW…]: provokes one cause after the other on a shielded CPU (`provoke`, vm/tools) while `cpushield
verify` watches, and compares what was provoked with what was named.

It prints claims in TAP. The expected counts never come from the program under test. They come from the program that
provokes, or from /proc/interrupts."""

import collections
import glob
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

# How verify names an action: cause, pattern of the culprit, and count. The count is `n` (as often as it was provoked) or
# a row of /proc/interrupts; `slack` is in hundredths. A kworker or a program that was preempted before it finished
# (`again`) interrupts once more, as often as the kernel counted that. An instruction that the kernel emulates has no
# event: an interrupt during the emulation takes its place, and the emulation makes the kernel log. High-resolution timers
# armed on a CPU without a tick expire on another one, so none are expected there.
Named = collections.namedtuple("Named", "cause culprit truth slack again")
Action = collections.namedtuple("Action", "count interval_us named beside")


def named(cause, culprit, truth="n", slack=1, again=""):
    return Named(cause, culprit, truth, slack, again)


def action(count, interval_us, *names, beside=""):
    return Action(count, interval_us, names, beside)


# `beside`: expected side effects, as a pattern of `cause culprit`.
ACTIONS = {
    "membarrier-private": action(50, 5000, named("ipi-call", "ipi_mb")),
    "membarrier-global": action(50, 5000, named("ipi-call", "ipi_mb")),
    "membarrier-code": action(50, 5000, named("ipi-call", "ipi_sync_core")),
    "membarrier-rseq": action(50, 5000, named("ipi-call", "ipi_rseq")),
    "tlb-madvise": action(50, 5000, named("ipi-call", "flush_tlb_func")),
    "tlb-munmap": action(50, 5000, named("ipi-call", "flush_tlb_func"), beside="ipi-call tlb_remove_table_smp_sync"),
    "tlb-mprotect": action(50, 5000, named("ipi-call", "flush_tlb_func")),
    "signal-kill": action(50, 5000, named("signal", r"SIGUSR1 by kill\(2\)"), named("ipi-reschedule", "", "RES")),
    "signal-queue": action(50, 5000, named("signal", r"SIGUSR1 by sigqueue\(3\)")),
    "perf-read": action(50, 5000, named("ipi-call", "__perf_event_read"), beside="ipi-call "),
    "perf-clock": action(50, 5000, named("hrtimer", "perf_swevent_hrtimer"), beside="ipi-call "),
    "perf-wakeup": action(50, 5000, named("hrtimer", "perf_swevent_hrtimer"), named("ipi-irq-work", "(raised by .*)?", "IWI"),
                          beside="(ipi-call |tick)"),
    "msr": action(50, 5000, named("ipi-call", "__rdmsr(_safe)?_on_cpu")),
    "cpuid": action(50, 5000, named("ipi-call", "cpuid_smp_cpuid")),
    "vmstat": action(20, 10000, named("workqueue", "refresh_vm_stats", again="kworker"),
                     beside="(tick|workqueue kworker/)"),  # a pool with a surplus idle worker wakes one to end it
    "tracepoint": action(5, 10000, named("ipi-call", "(do_sync_core|text_poke.*)", "CAL")),
    "static-key": action(5, 10000, named("ipi-call", "(do_sync_core|text_poke.*)", "CAL")),
    "stop-machine": action(10, 20000, named("kthread", r"migration/\d+", "RES"), beside="(ipi|hrtimer)"),
    "nmi": action(5, 20000, named("nmi", "nmi_cpu_backtrace_handler", "NMI"), beside="(nmi|ipi)"),
    "hotplug": action(1, 1000, named("kthread", r"migration/\d+", "RES"), beside="(ipi|kthread|workqueue|tick)"),
    "module": action(3, 10000, named("ipi-(call|irq-work)", "(?!raised by ).+", "CAL"), beside="workqueue"),
    "serial": action(50, 5000, named("irq", "IRQ 4 ttyS0", "4"), beside="(kthread irq/|softirq|tick)"),
    "fault-write": action(50, 5000, named("page-fault", "write to a page that was not mapped")),
    "fault-read": action(50, 5000, named("page-fault", "read of a page that was not mapped")),
    "fault-copy": action(50, 5000, named("page-fault", "write to a write-protected page")),
    "fault-kernel": action(50, 5000, named("page-fault", "write to a page that was not mapped, by a system call"),
                           named("syscall", "read")),
    "rcu": action(400, 5000, named("kthread", r"rcuc/\d+", "rcuc", slack=10, again="rcuc around"), named("syscall", "setgid"), beside=".+"),
    "tlb-lazy": action(50, 5000, named("ipi-call", "flush_tlb_func", "TLB"), beside="(ipi-call tlb_remove_table_smp_sync|tick)"),
    "system-call": action(50, 5000, named("syscall", "getppid")),
    "breakpoint": action(50, 5000, named("exception", "SIGTRAP.*")),
    "divide": action(50, 5000, named("exception", "SIGFPE.*")),
    "illegal": action(50, 5000, named("exception", "SIGILL.*")),
    "emulated": action(50, 5000, named("exception", "no event: .*", slack=10), beside="(tick|ipi-irq-work)"),
    "sleeps": action(50, 5000, named("syscall", "(clock_)?nanosleep")),
    "disk": action(30, 5000, named("irq", r"IRQ \d+ virtio\d+-req.*"), named("syscall", "pread64")),
    "itimer-real": action(50, 10000, named("signal", "SIGALRM by the kernel")),
    "itimer-prof": action(20, 20000, named("signal", "SIGPROF.*"), beside="tick"),
    "timer-real": action(50, 10000, named("signal", "SIGALRM by a timer")),
    "timer-cpu": action(20, 20000, named("signal", "SIGALRM by a timer"), beside="tick"),
    "futex": action(50, 5000, named("user-task", r"provoke \(\d+\)", again="provoke"),
                    beside="(tick|kthread rcuc|ipi-call nohz_full_kick)"),
    "eventfd": action(50, 5000, named("user-task", r"provoke \(\d+\)", again="provoke"),
                      beside="(tick|kthread rcuc|ipi-call nohz_full_kick)"),
    "fifo": action(50, 5000, named("user-task", r"provoke \(\d+\)")),
    "wheel": action(20, 20000, named("user-task", r"provoke \(\d+\)", slack=5, again="provoke"),
                    beside="(tick|kthread rcuc|ipi-call nohz_full_kick)"),
    "machine-check": action(1, 5000000, named("(timer|ipi-call)", "mce_(timer_fn|cpu_restart)", "MCP"), beside="tick"),
}
# The actions of one run of verify, because starting it takes longest. Actions by the process on the CPU, or on it, are
# watched together with it (`busy`); otherwise the sampler runs there.
Window = collections.namedtuple("Window", "busy actions flags", defaults=([],))
WINDOWS = {
    "quiet": Window(False, []),
    "memory": Window(True, ["membarrier-private", "membarrier-code", "membarrier-rseq", "tlb-madvise", "signal-kill",
                            "signal-queue"], ["--syscalls"]),
    "memory2": Window(True, ["membarrier-global", "tlb-munmap", "tlb-mprotect"], ["--syscalls"]),
    "own": Window(True, ["fault-write", "fault-read", "fault-copy", "fault-kernel", "system-call", "breakpoint", "divide",
                         "illegal", "emulated", "sleeps", "disk"], ["--syscalls"]),
    "lazy": Window(True, ["tlb-lazy"], ["--syscalls"]),
    "timers": Window(True, ["itimer-real", "timer-real", "itimer-prof", "timer-cpu"], ["--syscalls"]),
    "others": Window(False, ["perf-read", "perf-clock", "perf-wakeup", "msr", "cpuid", "vmstat"]),
    "text": Window(False, ["tracepoint", "static-key"]),
    "kernel": Window(False, ["stop-machine", "nmi", "module", "hotplug"]),
    "tasks": Window(False, ["futex", "eventfd", "fifo"]),
    "devices": Window(False, ["serial", "machine-check"]),
    "wheel": Window(False, ["wheel"]),
    "neighbour": Window(False, [f"neighbour.{what}" for what in [
        "namespace", "family", "stamps", "ring", "barrier", "perf", "memory", "proc"]]),
}
BUSY = {name for window in WINDOWS.values() if window.busy for name in window.actions} | {"rcu"}
# Events that a signal, a wake-up or a time-out causes on its way.
WAY = re.compile("|".join([
    "ipi-reschedule ",
    "ipi-call (sched_ttwu_pending|generic_smp_call_function.*)?$",
    "ipi-irq-work nohz_full_kick_func",
    "kthread (ktimers|ksoftirqd)/",
    "softirq (TIMER|HRTIMER)",
    "hrtimer (timers that expire in a softirq|no hrtimer)",
    "syscall (went to sleep|rt_sigreturn|timer_settime|timer_create|setitimer|futex)",
]))


# Rows of `counters` that count task switches, not interrupts.
SWITCHED = ("kworker", "rcuc", "provoke")


def counters(cpu):
    with open("/proc/interrupts") as file:
        place = file.readline().split().index(f"CPU{cpu}") + 1
        rows = (line.split() for line in file)
        counted = {row[0].rstrip(":"): int(row[place]) for row in rows if len(row) > place and row[place].isdigit()}
    return {**counted, "kworker": switches(f"kworker/{cpu}:", "nonvoluntary"), "rcuc": switches(f"rcuc/{cpu}", ""),
            "provoke": switches("provoke", "nonvoluntary", cpu)}


def switches(comm, kind, cpu=None):
    """How often the kernel switched away from tasks with such a name (bound to this CPU): all switches, or only the
    involuntary ones."""
    count = 0
    for status in glob.glob("/proc/[0-9]*/status"):
        try:
            with open(status) as file:
                text = file.read()
        except OSError:  # it is gone
            continue
        only = f"\nCpus_allowed_list:\t{cpu}\n"
        if text.startswith(f"Name:\t{comm}") and (cpu is None or only in text):
            found = re.findall(rf"^{kind or '(?:non)?voluntary'}_ctxt_switches:\s*(\d+)", text, re.M)
            count += sum(map(int, found))
    return count


def more(before, after):
    return {row: n - before.get(row, 0) for row, n in after.items() if n > before.get(row, 0)}


class Said(threading.Thread):
    """The output of a program on a terminal, where it shows its progress."""

    def __init__(self, screen):
        super().__init__(daemon=True)
        self.screen, self.text = screen, ""
        self.start()

    def run(self):
        try:
            while True:
                self.text += os.read(self.screen, 4096).decode(errors="replace")
        except OSError:  # the other end is closed
            os.close(self.screen)

    def wait_for(self, word, seconds):
        end = time.monotonic() + seconds
        while word not in self.text:
            if not self.is_alive() or time.monotonic() > end:
                raise RuntimeError(f"verify does not say {word!r}: {self.text}")
            time.sleep(0.02)


def on_terminal(words, **options):
    """Starts a program that shows its progress on a terminal: the process, and what it says there."""
    screen, stderr = pty.openpty()
    process = subprocess.Popen(words, stderr=stderr, env={**os.environ, "TERM": "xterm"}, **options)
    os.close(stderr)
    return process, Said(screen)


Provoked = collections.namedtuple("Provoked", "done counted document")


class Provoker:
    """A `provoke` process that is ready."""

    def __init__(self, cpu, actions):
        self.actions = actions
        if actions[0].startswith("neighbour."):
            shutil.copy("/host/guest/neighbour.py", "/tmp/neighbour.py")  # the user `nobody` may not read /host
            words = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "python3",
                     "/tmp/neighbour.py", *[name.partition(".")[2] for name in actions]]
        else:
            words = ["provoke", str(cpu)]
            words += [f"{name}:{ACTIONS[name].count}:{ACTIONS[name].interval_us}" for name in actions]
        self.job = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/tmp")
        victim = int(self.job.stdout.readline().split()[1])
        if victim:
            subprocess.run(["cpushield", "add", str(victim)], check=True, stdout=subprocess.DEVNULL)

    def act(self):
        self.job.stdin.write("go\n")
        self.job.stdin.flush()
        return int(self.job.stdout.readline().split()[1])

    def end(self):
        self.job.stdin.close()
        self.job.wait()


def watch(cpu, window):
    """Runs the actions of a window while verify watches."""
    # A program that spins on the CPU does all its actions; those that sleep there are many.
    parts = [window.actions] * bool(window.actions) if window.busy else [[name] for name in window.actions]
    provokers = []
    try:
        provokers += [Provoker(cpu, part) for part in parts]
        return under_verify(cpu, window, provokers)
    finally:
        for provoker in provokers:
            provoker.end()


def under_verify(cpu, window, provokers):
    words = ["cpushield", "verify", "--json", "--for", "300s", "--warmup", "300ms", *window.flags]
    done, counted, rcuc = {}, {}, counters(cpu)["rcuc"]
    verify, said = on_terminal(words + ["--busy"] * window.busy, stdout=subprocess.PIPE, text=True)
    try:
        said.wait_for("watching", 100)
        first = before = counters(cpu)
        for provoker in provokers:
            for name in provoker.actions:
                done[name], after = provoker.act(), counters(cpu)
                counted[name], before = more(before, after), after
        counted["all"] = more(first, before)
        time.sleep(0 if provokers else 2)
        verify.send_signal(signal.SIGINT)
        text, _ = verify.communicate(timeout=90)
        # Callbacks come at any time, and verify also sees those before and after the actions.
        counted["all"]["rcuc around"] = counters(cpu)["rcuc"] - rcuc - counted["all"].get("rcuc", 0)
    finally:
        if verify.poll() is None:
            verify.kill()
    return Provoked(done, counted, json.loads(text))


def judge(window, seen):
    """The errors of the report, by action; nothing if it is correct."""
    if window.actions and window.actions[0].startswith("neighbour."):
        return pierced(seen.document["evidence"]["cpus"][0]), {}
    evidence = seen.document["evidence"]["cpus"][0]
    rows = [(row["cause"], row["culprit"]["text"], row["count"], row["nested"]) for row in evidence["interruptions"]]
    wrong, expected, truths, slacks, more_of = [], set(), collections.Counter(), {}, collections.Counter()
    # Actions with the same name are reported together; the kernel's count is that of the whole time.
    for name in window.actions:
        for want in ACTIONS[name].named:
            slacks[want.cause, want.culprit] = want.slack
            more_of[want.cause, want.culprit] = seen.counted["all"].get(want.again, 0)
            if want.truth == "n":
                truths[want.cause, want.culprit] += seen.done[name]
            else:
                truths[want.cause, want.culprit] = seen.counted["all"].get(want.truth, 0)
    for (cause, culprit), truth in truths.items():
        match = [row for row in rows if re.fullmatch(cause, row[0]) and re.fullmatch(culprit, row[1])]
        expected.update(match)
        said = sum(row[2] + row[3] for row in match)
        slack = truth * slacks[cause, culprit] // 100
        again = more_of[cause, culprit]
        if not truth - slack <= said <= truth + again + slack or not truth:
            wrong.append(f"{cause} {culprit}: provoked {truth}{f' and up to {again} again' * bool(again)}, said {said}")
    # An interruption that was not provoked is correct if the kernel counted it as often.
    def times(cause):
        return sum(row[2] + row[3] for row in rows if row[0] == cause and row[1] != "nohz_full_kick_func")

    there = [cause for cause, label in {"ipi-irq-work": "IWI", "tick": "LOC"}.items()
             if times(cause) <= seen.counted["all"].get(label, 0) + 1]
    beside = [ACTIONS[name].beside for name in window.actions if ACTIONS[name].beside]
    for row in rows:
        text = f"{row[0]} {row[1]}"
        known = WAY.match(text) or any(re.match(pattern, text) for pattern in beside) or row[0] in there
        # RCU's thread ran as often as the kernel counted its switches.
        known = known or text.startswith("kthread rcuc/") and row[2] + row[3] <= seen.counted["all"].get("rcuc", 0) + 1
        if row[2] and row not in expected and not known:
            wrong.append(f"not provoked: {row[2]} {text}")
    if evidence["lost"]:
        wrong.append(f"lost {evidence['lost']} events")
    # Another clock source is what stops the machine there.
    clock = "stop-machine" in window.actions and "time stamp counter"
    wrong += [f"in doubt: {doubt}" for doubt in evidence["doubts"] if not clock or clock not in doubt]
    return wrong, truths


def purpose_of(sender):
    return (sender["purpose"] or {}).get("text", "")


def pierced(evidence):
    """The errors of the report about other processes: each call has a sender with name, number and purpose. For a module
    that they cause to be loaded, the report names the requester and the remedy."""
    wrong, senders = [], evidence["senders"]
    for row in evidence["interruptions"]:
        if row["cause"] == "ipi-call" or row["culprit"]["text"] == "nohz_full_kick_func":
            sent = sum(sender["count"] for sender in senders if sender["what"]["text"] == row["culprit"]["text"])
            if sent < row["count"] + row["nested"]:
                wrong.append(f"{row['culprit']['text']}: {row['count']}+{row['nested']}, but sent {sent}")
        elif row["cause"] not in ("tick", "ipi-irq-work", "ipi-reschedule") and row["count"]:
            wrong.append(f"{row['cause']} {row['culprit']['text']}: {row['count']}")
    for sender in senders:
        what_for = sender["purpose"] or sender["within"]
        if not re.fullmatch(r".+ \(\d+\)|an interrupt on CPU \d+", sender["by"]["text"]) or not what_for:
            wrong.append(f"{sender['what']['text']} by {sender['by']['text']!r} for {sender['purpose']!r}")
        print(f"#   {sender['count']} {sender['what']['text']} by {sender['by']['text']}: {purpose_of(sender)}")
    for name in ["ip", "python3"]:
        asked = [sender for sender in senders if re.search(rf"requested by {name} \(\d+\)", purpose_of(sender))]
        if not asked or not all(sender["remedy"] for sender in asked):
            wrong.append(f"nobody says that {name} asked for a module, and what to do")
    return wrong


def show(seen):
    for row in seen.document["evidence"]["cpus"][0]["interruptions"]:
        print(f"#   {row['count']}+{row['nested']} {row['cause']} {row['culprit']['text']}")
    for name, counted in seen.counted.items():
        print(f"#   {name}: {seen.done.get(name, '')} done, counted {counted}")
    for sender in seen.document["evidence"]["cpus"][0]["senders"][:8]:
        print(f"#   {sender['count']} {sender['what']} by {sender['by']} from {sender['site']}")


def main():
    cpu, *names = sys.argv[1:]
    failed = attributed = entries = 0
    # A CPU with offloaded callbacks has no work for RCU. Another boot tests that, with many side effects.
    offloaded = "rcu_nocbs" in open("/proc/cmdline").read()
    for name in names or (WINDOWS if offloaded else ["rcu"]):
        window = WINDOWS.get(name) or Window(name in BUSY, [name], ["--syscalls"])
        begin = time.monotonic()
        try:
            seen = watch(int(cpu), window)
            wrong, truths = judge(window, seen)
        except (RuntimeError, subprocess.SubprocessError, ValueError, IndexError, KeyError) as error:
            wrong, seen, truths = f"{type(error).__name__}: {error}".splitlines(), None, {}
        print(f"# {name}: {time.monotonic() - begin:.1f} s", flush=True)
        if seen:
            rows = seen.document["evidence"]["cpus"][0]["interruptions"]
            entries += sum(row["count"] for row in rows)
            attributed += sum(row["count"] for row in rows if row["cause"] != "unattributed")
        for (cause, culprit), truth in truths.items():
            bad = any(line.startswith(f"{cause} {culprit}:") for line in wrong)
            print(f"{'not ok' if bad else 'ok'} - {truth} {cause} {culprit}", flush=True)
        print(f"{'not ok' if wrong else 'ok'} - {name}: what was provoked is what was named")
        for line in wrong:
            print(f"#   {line}")
        if wrong and seen:
            show(seen)
        failed += bool(wrong)
    well = entries and attributed * 1000 >= entries * 999
    print(f"{'ok' if well else 'not ok'} - {attributed} of {entries} interruptions have a cause")
    return failed > 0 or not well


if __name__ == "__main__":
    sys.exit(main())
