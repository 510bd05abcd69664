#!/usr/bin/env python3
"""blind.py CPU [all | N] [from NAME]: interferes with the instruments of `verify` while it watches a program on the
shielded CPU, by every known method, and claims that the verdict is never `holds`. Each method has up to six ways: for a
blink and for good, with interrupts, with page faults, and quiet. `all` tries every way. Otherwise one way of each method
is tried: the methods' ways alternate, and N (0) is the way of the first one. With a name it begins with that method.

An attack begins when verify reports that it watches. A trial counts only if the attack was within the watched span,
according to the evidence; otherwise it is repeated with a longer span, with which the attack's other trials begin."""

import collections
import contextlib
import ctypes
import errno
import fcntl
import glob
import json
import mmap
import os
import resource
import signal
import struct
import subprocess
import sys
import threading
import time

sys.path.insert(0, "/host/guest")
import lab  # noqa: E402

CPU = int(sys.argv[1])
ALL = "all" in sys.argv[2:]
FIRST_WAY = next((int(word) for word in sys.argv[2:] if word.isdecimal()), 0)
BLINK_S = 0.4
SHORTEST_SPAN_S, LONGEST_SPAN_S = 2, 64
# x86-64, arch/x86/entry/syscalls/syscall_64.tbl
PERF_EVENT_OPEN, BPF, PIDFD_OPEN, PIDFD_GETFD = 298, 321, 434, 438
# include/uapi/linux/perf_event.h
COUNTERS_ON, COUNTERS_OFF, COUNTERS_RESET, WHOLE_GROUP = 0x2400, 0x2401, 0x2403, 1
SET_BPF, TRACEPOINT = 0x40042408, 2
# include/uapi/linux/bpf.h
PROG_LOAD, PROG_TYPE_TRACEPOINT = 5, 5
# include/uapi/linux/fanotify.h, fcntl.h
FAN_OPEN, FAN_MARK_ADD, AT_FDCWD = 0x20, 1, -100
INOTIFY_MAX = "/proc/sys/fs/inotify/max_user_instances"

failed = 0
REFUSED = "the kernel refused: "


def claim(text, held, detail=""):
    global failed
    print(("ok - " if held else "not ok - ") + text, flush=True)
    if not held:
        failed += 1
        print("\n".join("#   " + line for line in detail.splitlines()[:12]), flush=True)


def instance(pid):
    """The instance of this process that records CPU: the only one with enabled exception events. Those of the watch
    before may still be there, because a child of it removes them."""
    for path in glob.glob(f"/sys/kernel/tracing/instances/cpushield-{pid}-*"):
        if read(path, "events/exceptions/page_fault_user/enable").strip() == "1":
            return path
    return None


def watcher(base):
    """The process that made an instance."""
    return int(base.rsplit("cpushield-", 1)[1].split("-")[0])


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


def reset_all(_):
    """What trace-cmd reset -a does: the top level and every instance as after a boot."""
    for base in ["/sys/kernel/tracing", *glob.glob("/sys/kernel/tracing/instances/*")]:
        for file, text in [("tracing_on", "0"), ("current_tracer", "nop"), ("events/enable", "0"),
                           ("set_event_pid", " "), ("trace", ""), ("trace_clock", "local")]:
            put(f"{base}/{file}", text)
        if "/instances/" in base:
            with contextlib.suppress(OSError):  # a reader has it open
                os.rmdir(base)


def take(file, once=False):
    """Takes records away for a short time."""

    def act(base):
        command = ["timeout", str(BLINK_S), "cat", f"{base}/{file}"]
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    return act


def cpu_online(text):
    return lambda _: put(f"/sys/devices/system/cpu/cpu{CPU}/online", text)


def run(*words):
    return lambda _=None: subprocess.run(words, check=True)


def counters(request):
    """Changes the perf events of verify through descriptors that are copied from it."""

    def act(base):
        call = ctypes.CDLL(None, use_errno=True).syscall
        pid = watcher(base)
        process = call(PIDFD_OPEN, pid, 0)
        for name in os.listdir(f"/proc/{pid}/fd"):
            if os.readlink(f"/proc/{pid}/fd/{name}") == "anon_inode:[perf_event]":
                copy = call(PIDFD_GETFD, process, int(name), 0)
                fcntl.ioctl(copy, request, WHOLE_GROUP)
                os.close(copy)
        os.close(process)

    return act


def take_by_copy(base):
    """Takes records away through a descriptor that is copied from verify: no file is opened."""
    call = ctypes.CDLL(None, use_errno=True).syscall
    pid = watcher(base)
    process = call(PIDFD_OPEN, pid, 0)
    copies = [call(PIDFD_GETFD, process, int(name), 0) for name in os.listdir(f"/proc/{pid}/fd")
              if os.readlink(f"/proc/{pid}/fd/{name}").endswith(f"per_cpu/cpu{CPU}/trace_pipe_raw")]

    def steal():
        end = time.monotonic() + 2 * BLINK_S
        while time.monotonic() < end:
            for copy in copies:
                with contextlib.suppress(OSError):  # there is none now
                    os.read(copy, 4096)
        for file in [*copies, process]:
            os.close(file)

    threading.Thread(target=steal).start()


def both(first, second):
    """Both witnesses at once."""

    def act(base):
        first(base)
        second(base)

    return act


class BpfProgram:
    """A BPF program on tracepoints that returns 0: the kernel then drops the event for every perf event
    (perf_trace_run_bpf_submit() in kernel/events/core.c, 6.12)."""

    def __init__(self, *events):
        self.events, self.files = events, []

    def attach(self, base):
        call = ctypes.CDLL(None, use_errno=True).syscall
        # r0 = 0; exit (include/uapi/linux/bpf.h: BPF_ALU64 | BPF_MOV | BPF_K, BPF_JMP | BPF_EXIT).
        code = ctypes.create_string_buffer(struct.pack("<BBhiBBhi", 0xB7, 0, 0, 0, 0x95, 0, 0, 0))
        licence = ctypes.create_string_buffer(b"GPL")
        words = struct.pack("<IIQQ", PROG_TYPE_TRACEPOINT, 2, ctypes.addressof(code), ctypes.addressof(licence))
        attr = ctypes.create_string_buffer(words.ljust(128, b"\0"))
        program = call(BPF, PROG_LOAD, attr, 128)
        if program < 0:
            raise OSError(ctypes.get_errno(), "bpf")
        self.files = [program]
        for name in self.events:
            number = int(read(base, f"events/{name}/id"))
            event = ctypes.create_string_buffer(struct.pack("<IIQ", TRACEPOINT, 64, number).ljust(64, b"\0"))
            counter = call(PERF_EVENT_OPEN, event, -1, 0, -1, 8)
            if counter < 0:
                raise OSError(ctypes.get_errno(), "perf_event_open")
            self.files.append(counter)
            fcntl.ioctl(counter, SET_BPF, program)
            fcntl.ioctl(counter, COUNTERS_ON, 0)

    def detach(self):
        while self.files:
            os.close(self.files.pop())


class OtherEvents:
    """Triggers of two events that verify does not record switch the recording off and on: nothing is written to a file
    of an event that it records. Both events are in use elsewhere before, so no code is patched for the triggers."""

    EVENTS = ["events/syscalls/sys_enter_getppid", "events/syscalls/sys_enter_getpgrp"]
    MOUNT = "/tmp/elsewhere"
    ELSEWHERE = ["/sys/kernel/tracing/instances/elsewhere-1", "/sys/kernel/tracing/instances/elsewhere-2"]

    def prepare(self):
        for base in self.ELSEWHERE:
            os.mkdir(base)
            for event in self.EVENTS:
                put(f"{base}/{event}/enable", "1")

    def off(self, base):
        put(f"{base}/{self.EVENTS[0]}/trigger", "traceoff")
        os.getppid()

    def on(self, base):
        put(f"{base}/{self.EVENTS[1]}/trigger", "traceon")
        os.getpgrp()
        put(f"{base}/{self.EVENTS[0]}/trigger", "!traceoff")
        put(f"{base}/{self.EVENTS[1]}/trigger", "!traceon")

    def off_without_files(self, base):
        """verify may open no file, so fanotify(7) cannot give it one."""
        self.limit = resource.prlimit(watcher(base), resource.RLIMIT_NOFILE)
        resource.prlimit(watcher(base), resource.RLIMIT_NOFILE, (3, self.limit[1]))
        self.off(base)

    def on_without_files(self, base):
        self.on(base)
        time.sleep(1)
        resource.prlimit(watcher(base), resource.RLIMIT_NOFILE, self.limit)

    def off_by_mount(self, base):
        """The files have other paths: a directory of the instance is mounted elsewhere."""
        os.makedirs(f"{self.MOUNT}/events", exist_ok=True)
        subprocess.run(["mount", "--bind", f"{base}/events", f"{self.MOUNT}/events"], check=True)
        self.off(self.MOUNT)

    def on_by_mount(self, _):
        self.on(self.MOUNT)
        # verify may have a file of it open for a moment.
        subprocess.run(["umount", "-l", f"{self.MOUNT}/events"], check=True)

    def restore(self):
        for base in self.ELSEWHERE:
            put(f"{base}/events/enable", "0")
            os.rmdir(base)


def write_by_fanotify(text):
    """Writes tracing_on through a descriptor that fanotify(7) opens. No such write is reported to anybody
    (FMODE_NONOTIFY, include/linux/fs.h, 6.12)."""

    def act(base):
        libc = ctypes.CDLL(None, use_errno=True)
        group = libc.fanotify_init(0, os.O_RDWR)
        if group < 0:
            raise OSError(ctypes.get_errno(), "fanotify_init")
        path = f"{base}/tracing_on".encode()
        libc.fanotify_mark(group, FAN_MARK_ADD, ctypes.c_uint64(FAN_OPEN), AT_FDCWD, path)
        os.close(os.open(path, os.O_RDONLY))
        # struct fanotify_event_metadata: the descriptor is at 16.
        (file,) = struct.unpack_from("<i", os.read(group, 24), 16)
        os.write(file, text.encode())
        os.close(file)
        os.close(group)

    return act


def stop_verify(base):
    """Stops the process for the blink: it neither reads nor notices anything meanwhile."""
    os.kill(watcher(base), signal.SIGSTOP)


def senders_off(base):
    """Kernels before 6.5 have no such events."""
    if not os.path.isdir("/sys/kernel/tracing/events/csd"):
        raise OSError(errno.EOPNOTSUPP, "this kernel has no events of function calls")
    put(f"{base}/events/csd/enable", "0")


def continue_verify(base):
    os.kill(watcher(base), signal.SIGCONT)


def leave_out_program(base):
    """set_event_notrace_pid: the events of the watched program are not recorded."""
    pids = subprocess.run(["pgrep", "-x", "faults"], capture_output=True, text=True, check=True).stdout.split()
    put(f"{base}/set_event_notrace_pid", " ".join(pids))


FAULT = "events/exceptions/page_fault_user"
FIRST_TIMER = "events/irq_vectors/local_timer_entry/trigger"
DISABLE = "disable_event:exceptions:page_fault_user"
NOTHING = None
BPF_PROGRAM = BpfProgram("irq_vectors/call_function_single_entry")
BPF_PROGRAMS = BpfProgram("irq_vectors/call_function_single_entry", "exceptions/page_fault_user",
                          "context_tracking/user_exit")
OTHER_EVENTS = OtherEvents()
# `back` reverts the attack after a short time; without it the attack is permanent. `before` prepares the machine before
# verify starts, and `after` restores it after verify has ended. An early attack comes before the trace records.
Attack = collections.namedtuple("Attack", "name act back before after early", defaults=[NOTHING] * 3 + [False])
ATTACKS = [Attack(*words) for words in [
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
    ("the records of the CPU emptied", write(f"per_cpu/cpu{CPU}/trace", ""), NOTHING),
    ("an option", write("options/overwrite", "0"), write("options/overwrite", "1")),
    ("a command of the function tracer", write("set_ftrace_filter", "schedule:traceoff:1"), NOTHING),
    ("the counters reset", counters(COUNTERS_RESET), NOTHING),
    ("the counters off", counters(COUNTERS_OFF), counters(COUNTERS_ON)),
]] + [
    Attack("tracefs unmounted", run("umount", "-l", "/sys/kernel/tracing"), NOTHING,
           after=run("mount", "-t", "tracefs", "tracefs", "/sys/kernel/tracing")),
    Attack("tracing_on without inotify", write("tracing_on", "0"), write("tracing_on", "1"),
           before=lambda: put(INOTIFY_MAX, "0"), after=lambda: put(INOTIFY_MAX, "128")),
    Attack("a filter before it records", write(f"{FAULT}/filter", "error_code == 99"), NOTHING, early=True),
    Attack("page faults off before it records", write(f"{FAULT}/enable", "0"), NOTHING, early=True),
    Attack("the program left out", leave_out_program, write("set_event_notrace_pid", " ")),
    Attack("another tracer", write("current_tracer", "function"), write("current_tracer", "nop")),
    Attack("larger pages", write("buffer_subbuf_size_kb", "64"), write("buffer_subbuf_size_kb", "4")),
    Attack("a snapshot of the CPU", write(f"per_cpu/cpu{CPU}/snapshot", "1"), NOTHING),
    Attack("all exceptions off", write("events/exceptions/enable", "0"), write("events/exceptions/enable", "1")),
    Attack("all CPUs shrunk", write("buffer_size_kb", "4"), write("buffer_size_kb", "8192")),
    Attack("a trigger that disables another event", write(FIRST_TIMER, DISABLE), write(FIRST_TIMER, "!" + DISABLE)),
    Attack("the instance removed", os.rmdir, NOTHING),
    Attack("trace-cmd reset -a", reset_all, NOTHING),
    Attack("the senders of calls off", senders_off, write("events/csd/enable", "1")),
    Attack("both witnesses off", both(write("tracing_on", "0"), counters(COUNTERS_OFF)),
           both(write("tracing_on", "1"), counters(COUNTERS_ON))),
    Attack("page faults off and the counters reset",
           both(write(f"{FAULT}/enable", "0"), counters(COUNTERS_RESET)), NOTHING),
    Attack("a BPF program that drops events", BPF_PROGRAM.attach, NOTHING, after=BPF_PROGRAM.detach),
    Attack("triggers of other events", OTHER_EVENTS.off, OTHER_EVENTS.on, OTHER_EVENTS.prepare, OTHER_EVENTS.restore),
    Attack("triggers of other events and BPF programs", both(BPF_PROGRAMS.attach, OTHER_EVENTS.off),
           both(OTHER_EVENTS.on, lambda _: BPF_PROGRAMS.detach()), OTHER_EVENTS.prepare,
           lambda: (BPF_PROGRAMS.detach(), OTHER_EVENTS.restore())),
    Attack("a trigger of another event before it records", OTHER_EVENTS.off, NOTHING, OTHER_EVENTS.prepare,
           OTHER_EVENTS.restore, early=True),
    Attack("triggers of other events without descriptors", OTHER_EVENTS.off_without_files, OTHER_EVENTS.on_without_files,
           OTHER_EVENTS.prepare, OTHER_EVENTS.restore),
    Attack("triggers of other events by another mount", OTHER_EVENTS.off_by_mount, OTHER_EVENTS.on_by_mount,
           OTHER_EVENTS.prepare, OTHER_EVENTS.restore),
    Attack("tracing_on by a descriptor of fanotify", write_by_fanotify("0"), write_by_fanotify("1")),
    Attack("pages taken by a copied descriptor", take_by_copy, NOTHING),
    Attack("pages taken by a copied descriptor, and BPF programs", both(BPF_PROGRAMS.attach, take_by_copy), NOTHING,
           after=BPF_PROGRAMS.detach),
    Attack("verify stopped", stop_verify, continue_verify),
]
# These hide nothing: verify reads later what was recorded. It must report what happened.
ONLY_LATE = ["verify stopped"]
# Without an event there is nothing to take.
NOT_QUIET = ["pages taken by a copied descriptor", "pages taken by a copied descriptor, and BPF programs", *ONLY_LATE]
# The machine must be restored in the span.
ONLY_BLINK = ["the CPU offline", "tracing_on without inotify", "triggers of other events without descriptors",
              "triggers of other events by another mount", *ONLY_LATE]


class Watch:
    """`verify` and the program that it starts and watches. The program computes on CPU, and takes page faults on
    command."""

    def __init__(self, span_s, *flags):
        with open("/tmp/word", "wb") as file:
            file.write(bytes(4096))
        with open("/tmp/word", "r+b") as file:
            self.word = mmap.mmap(file.fileno(), 4096)
        self.verify, self.said = lab.on_terminal(
            ["cpushield", "verify", "--for", f"{span_s}s", "--warmup", "300ms", "--json", *flags,
             "--", "/host/tools/faults", "/tmp/word"], stdout=subprocess.PIPE, text=True)

    def armed(self):
        """Waits until the events are armed, and returns the instance. Nothing is recorded yet."""
        while self.verify.poll() is None:
            base = instance(self.verify.pid)
            if base:
                return base
            time.sleep(0.001)
        return None

    def watching(self):
        """Waits until the span has begun, and returns the instance."""
        try:
            self.said.wait_for("watching", 300)
        except RuntimeError:
            return None
        return instance(self.verify.pid)

    def faults(self, on):
        self.word[0] = 1 if on else 0

    def document(self):
        """Waits for the end of the span, and returns the document as text."""
        return self.verify.communicate(timeout=300)[0]

    def kill(self):
        self.word[0] = 2
        if self.verify.poll() is None:
            self.verify.kill()
            self.verify.communicate()


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


def keep_busy(seconds, kind, watch, interrupts):
    watch.faults(kind == "page faults")
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if kind == "interrupts":
            interrupts.once()
        time.sleep(0.02)
    watch.faults(False)


class Spans:
    """How long `verify` watches for each attack, by name. One attack needs longer than another, and a host can be slow
    for a while: an attack begins with half of what the one before needed."""

    def __init__(self):
        self.seconds, self.latest = {}, SHORTEST_SPAN_S

    def of(self, name):
        self.latest = self.seconds.setdefault(name, max(SHORTEST_SPAN_S, self.latest // 2))
        return self.latest

    def double(self, name):
        self.seconds[name] *= 2


spans = Spans()


def trial(attack, back, kind, *flags):
    """Tries an attack until it was within the span: the state of CPU, and what verify said. The state is None if there is
    no verdict about the attack."""
    begin = time.monotonic()
    if attack.before:
        attack.before()
    try:
        while True:
            span_s = spans.of(attack.name)
            state, said, within = watched_attack(attack, back, kind, span_s, *flags)
            if within or span_s >= LONGEST_SPAN_S:
                return state, said
            print(f"# not within a span of {span_s} s", flush=True)
            spans.double(attack.name)
    finally:
        if attack.after:
            attack.after()
        print(f"# {time.monotonic() - begin:.1f} s", flush=True)


def watched_attack(attack, back, kind, span_s, *flags):
    interrupts, watch = Interrupts(), Watch(span_s, *flags)
    try:
        base = watch.armed() if attack.early else watch.watching()
        at = time.monotonic_ns()
        try:
            if base and attack.act:
                attack.act(base)
        except (OSError, subprocess.CalledProcessError) as error:
            # verify removes its instance at the end: ENODEV or ENOENT for one of its files.
            gone = getattr(error, "errno", None) in (errno.ENODEV, errno.ENOENT)
            if gone or "collecting" in watch.said.text or watch.verify.poll() is not None:
                return None, f"the span had ended: {error}", False
            return None, f"{REFUSED}{error}", True
        if attack.early:
            watch.watching()
        keep_busy(BLINK_S, kind, watch, interrupts)
        if base and back and os.path.isdir(base):
            back(base)
        done = time.monotonic_ns()
        out = watch.document()
    finally:
        watch.kill()
        interrupts.end()
    try:
        document = json.loads(out)
        evidence, cpu = document["evidence"], document["verdict"]["cpus"][0]
    except (ValueError, KeyError, IndexError):
        return None, out[-300:] + watch.said.text[-300:], False
    began, span = evidence["began_ns"], evidence["span_ns"]
    # An early attack lasts from before the span to its end.
    within = base is not None and (attack.early or began <= at and done <= began + span)
    leaks = [leak["interruptions"]["culprit"]["text"] for leak in cpu["leaks"]]
    said = f"{cpu['unknown']} {leaks} {watch.said.text[-300:]}"
    return cpu["state"] if within else None, said, within


def calm():
    """Control: without an attack the shield holds, and harmless actions are not reported."""
    harmless = write("tracing_on", "1")
    for name, act, flags in [
        ("nothing", None, []),
        ("the top level's tracing_on", lambda _: harmless("/sys/kernel/tracing"), []),
        ("a look at the settings", lambda base: read(base, "tracing_on") and read(base, "set_event"), []),
        ("a trace that is kept", None, ["--trace-dat", "/tmp/trace.dat"]),
    ]:
        state, said = trial(Attack(name, act), None, "quiet", *flags)
        claim(f"{name}: holds", state == "holds", said)


def attacks():
    words = sys.argv[2:]
    names = [attack.name for attack in ATTACKS]
    first = names.index(words[words.index("from") + 1]) if "from" in words else 0
    for turn, attack in enumerate(ATTACKS[first:], first):
        backs = [attack.back, NOTHING] if attack.back else [NOTHING]
        if attack.name in ONLY_BLINK:
            backs = [attack.back]
        kinds = ["interrupts", "page faults"] + ["quiet"] * (attack.name not in NOT_QUIET)
        ways = [(kind, back) for kind in kinds for back in backs]
        if not ALL:
            ways = [ways[(turn + FIRST_WAY) % len(ways)]]
        for kind, back in ways:
            state, said = trial(attack, back, kind)
            text = f"{attack.name}, {'for a blink' if back else 'for good'}, {kind}"
            if state is None and said.startswith(REFUSED):
                print(f"ok - {text} # SKIP {said}", flush=True)
                continue
            late = attack.name in ONLY_LATE and state not in (None, "holds")
            # The attack itself sends interrupts. Where both witnesses have them, they are leaks, and the attack is named.
            named = state == "unknown" or state == "leaks" and ("interfered" in said or "disagreement" in said)
            claim(f"{text}: {state}", late or named, said)


calm()
attacks()
sys.exit(failed > 0)
