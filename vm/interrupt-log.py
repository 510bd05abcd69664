#!/usr/bin/env python3
"""interrupt-log.py DIR: compares what cpushield recorded about a CPU with what QEMU logged about that vCPU. It runs on the host
after the guest has ended. DIR has `trace.dat` and `verdict` (of `cpushield verify`), `provoked` (of vm/guest/interrupt_log.py), and
`vcpu.TID`, the logs of QEMU's threads (`-d int,tid`).

It prints claims in TAP: the interrupts and page faults of the trace are a contiguous part of the log of one vCPU, in
order. `verify` reports the number that came from user mode (CPL 3), and the number that hit the kernel. The script shares
no code with cpushield: it parses the pages with the kernel's own description of them."""

import bisect
import collections
import json
import re
import struct
import sys
from pathlib import Path

# Interrupts and exceptions in a form that both sides have: APIC vectors by number, all device vectors as one kind (the
# trace has the number of the interrupt, not of the vector), page faults by privilege level.
DEVICE, FAULT_USER, FAULT_KERNEL, NMI = "device", "page fault from user mode", "page fault of the kernel", "nmi"
# Vectors from here on are the kernel's own (arch/x86/include/asm/irq_vectors.h: FIRST_SYSTEM_VECTOR is 0xec or lower,
# and what is between is not used here); the first 32 are the processor's exceptions.
SYSTEM, EXCEPTIONS = 0xEC, 0x20
NAMES = {0xEC: "local timer", 0xFD: "reschedule", 0xFC: "call function", 0xFB: "call function single",
         0xF6: "irq_work", 0xF7: "platform", 0xFF: "spurious", 0xFE: "error", 0xFA: "thermal"}
EXCEPTION = {0: "#DE", 1: "#DB", 3: "#BP", 4: "#OF", 6: "#UD", 7: "#NM", 13: "#GP", 16: "#MF", 17: "#AC", 19: "#XF"}

Event = collections.namedtuple("Event", "at kind")
Logged = collections.namedtuple("Logged", "kind cpl")


def kind_of(vector, cpl):
    if vector == 14:
        return FAULT_USER if cpl == 3 else FAULT_KERNEL
    if vector == 2:
        return NMI
    if vector < EXCEPTIONS:
        return EXCEPTION.get(vector, f"exception {vector}")
    return NAMES.get(vector, f"vector {vector:#x}") if vector >= SYSTEM or vector in NAMES else DEVICE


def logged(path):
    """What QEMU logged of one thread: `do_interrupt_all()` of target/i386/tcg/seg_helper.c writes the vector (v), the
    privilege level (cpl) and whether it was an instruction (i)."""
    line = re.compile(rb"^ *\d+: v=([0-9a-f]+) e=\S+ i=(\d) cpl=(\d)", re.M)
    found = line.findall(path.read_bytes())
    return [Logged(kind_of(int(v, 16), int(cpl)), int(cpl)) for v, _, cpl in found]


class Trace:
    """A `trace.dat` of version 6 (trace-cmd.dat.v6(5)), as far as it is needed."""

    def __init__(self, path):
        self.bytes, self.place = path.read_bytes(), 0
        assert self.take(10) == b"\x17\x08\x44tracing", "no trace.dat"
        assert self.take(2) == b"6\0" and self.take(1) == b"\0", "a version or an order of bytes that is not read here"
        self.long, self.page = self.take(1)[0], self.number("I")
        self.formats = {}
        for name in ("header_page", "header_event"):
            assert self.word() == name
            self.text("Q")
        for _ in range(self.number("I")):
            self.form(self.text("Q"))
        for _ in range(self.number("I")):
            self.word()
            for _ in range(self.number("I")):
                self.form(self.text("Q"))
        self.text("I"), self.text("I"), self.text("Q")
        cpus = self.number("I")
        assert self.word() == "options  "
        while self.number("H"):
            self.text("I")
        assert self.word() == "flyrecord"
        self.lanes = [(self.number("Q"), self.number("Q")) for _ in range(cpus)]

    def take(self, size):
        self.place += size
        return self.bytes[self.place - size:self.place]

    def number(self, form):
        return struct.unpack("<" + form, self.take(struct.calcsize(form)))[0]

    def word(self):
        end = self.bytes.index(b"\0", self.place)
        return self.take(end + 1 - self.place)[:-1].decode()

    def text(self, form):
        return self.take(self.number(form)).decode(errors="replace")

    def form(self, text):
        name = re.search(r"^name: (\S+)", text).group(1)
        number = int(re.search(r"^ID: (\d+)", text, re.M).group(1))
        fields = re.findall(r"field:[^;]*?(\w+)(?:\[[^]]*\])?;\s*offset:(\d+);\s*size:(\d+)", text)
        self.formats[number] = name, {field: (int(offset), int(size)) for field, offset, size in fields}

    def records(self, cpu):
        """Time, name and a function from the name of a field to its number, of each record."""
        start, size = self.lanes[cpu]
        for page in range(start, start + size, self.page):
            now, commit = struct.unpack_from("<QQ", self.bytes, page)
            assert not commit & 0xC0000000, "events are missing"
            at, end = page + 16, page + 16 + (commit & 0xFFFFF)
            while at < end:
                head = struct.unpack_from("<I", self.bytes, at)[0]
                kind, delta = head & 31, head >> 5
                at += 4
                if kind == 29:  # padding: the rest of the page, or so many bytes
                    if not delta:
                        break
                    now += delta
                    at += struct.unpack_from("<I", self.bytes, at)[0]
                    continue
                if kind in (30, 31):
                    whole = (struct.unpack_from("<I", self.bytes, at)[0] << 27) + delta
                    now = now + whole if kind == 30 else whole | now >> 59 << 59
                    at += 4
                    continue
                now += delta
                length = kind * 4
                data = at
                if not kind:
                    length = struct.unpack_from("<I", self.bytes, at)[0]
                    data = at + 4
                name, fields = self.formats.get(struct.unpack_from("<H", self.bytes, data)[0], ("", {}))
                yield now, name, data, fields
                at += length
        return

    def name(self, data, fields):
        place = self.field(data, fields, "name")  # `__data_loc`: offset, and length above it
        return self.bytes[data + (place & 0xFFFF):data + (place & 0xFFFF) + (place >> 16)]

    def field(self, data, fields, name):
        offset, size = fields[name]
        return int.from_bytes(self.bytes[data + offset:data + offset + size], "little")


def recorded(trace, cpu):
    """Interrupts and page faults of the trace, and when each other event of interest was."""
    events, others = [], collections.defaultdict(list)
    last = None  # of a shared line and of an NMI all handlers are called in turn
    for at, name, data, fields in trace.records(cpu):
        before, last = last, None
        if name.endswith("_entry") and set(fields) >= {"vector"}:
            events.append(Event(at, kind_of(trace.field(data, fields, "vector"), 0)))
        elif name == "irq_handler_entry":
            # The next handler of a shared line has another name; the same name is the next interrupt.
            last = (trace.field(data, fields, "irq"), trace.name(data, fields))
            if not (before and before[0] == last[0] and before[1] != last[1]):
                events.append(Event(at, DEVICE))
        elif name in ("irq_handler_exit", "kernel_stack"):
            last = before
        elif name == "nmi_handler":
            events.append(Event(at, NMI))
        elif name == "page_fault_user":
            events.append(Event(at, FAULT_USER))
        elif name == "page_fault_kernel":
            events.append(Event(at, FAULT_KERNEL))
        else:
            others[name].append(at)
    return events, others


def place_of(events, log):
    """The positions of the events in a log if they are a contiguous part of it, otherwise nothing. NMIs are left out: they
    are recorded when their handler ends, and what they interrupt may be recorded after them."""
    codes = collections.defaultdict(lambda: chr(256 + len(codes)))
    inner = [event.kind for event in events if event.kind != NMI]
    known = set(inner) | {DEVICE, FAULT_USER, FAULT_KERNEL} | set(NAMES.values())
    outer = [n for n, it in enumerate(log) if it.kind in known and it.kind != NMI]
    wanted = "".join(codes[kind] for kind in inner)
    text = "".join(codes[log[n].kind] for n in outer)
    first = text.find(wanted)
    if not wanted or first < 0:
        return None
    assert text.find(wanted, first + 1) < 0, "the run lies in the log twice"
    return outer[first:first + len(inner)]


def longest_run(events, log):
    """For debugging: how many of the events, from the first on, are a contiguous part of the log, and what follows on both
    sides."""
    low, high = 0, len(events)
    while low < high:
        middle = (low + high + 1) // 2
        try:
            fits = place_of(events[:middle], log) is not None
        except AssertionError:
            fits = True
        low, high = (middle, high) if fits else (low, middle - 1)
    return low


def main():
    folder = Path(sys.argv[1])
    said = json.loads((folder / "verdict").read_text())["evidence"]
    provoked = json.loads((folder / "provoked").read_text())
    cpu, failed = provoked["cpu"], []

    def claim(holds, text, *more):
        print(f"{'ok' if holds else 'not ok'} - {text}")
        for line in more:
            print(f"#   {line}")
        if not holds:
            failed.append(text)

    events, others = recorded(Trace(folder / "trace.dat"), cpu)
    logs = {path: logged(path) for path in sorted(folder.glob("vcpu.*"))}
    places = {path: place_of(events, log) for path, log in logs.items()}
    places = {path: found for path, found in places.items() if found}
    if len(places) != 1:
        # The log of that CPU is the one that contains most of the trace.
        runs = {path: longest_run(events, log) for path, log in logs.items()}
        claim(False, f"the {len(events)} interrupts and page faults of the trace lie in the log of one vCPU as one run",
              *(f"{path.name}: {len(log)} logged, the first {runs[path]} of the trace lie there, then the trace has "
                f"{[event.kind for event in events[max(runs[path] - 3, 0):runs[path] + 4]]}"
                for path, log in logs.items()))
        return 1
    (path, found), = places.items()
    log = logs[path]
    inner = [event for event in events if event.kind != NMI]
    began, ended = said["traced"]["began"], said["traced"]["ended"]
    claim(True, f"the {len(inner)} interrupts and page faults of the trace lie in the log of one vCPU as one run, in order")

    # NMIs: as many between the first and the last of the run, each next to the same neighbour or the next but one.
    nmis = [event for event in events if event.kind == NMI and inner[0].at < event.at < inner[-1].at]
    times = [event.at for event in inner]
    wanted = [n for n in range(found[0], found[-1]) if log[n].kind == NMI]
    moved = [abs(bisect.bisect(times, event.at) - bisect.bisect(found, place)) for event, place in zip(nmis, wanted)]
    claim(len(nmis) == len(wanted) and max(moved, default=0) <= 1,
          f"so do the {len(nmis)} NMIs, of which {sum(map(bool, moved))} changed places with a neighbour",
          *([f"logged {len(wanted)}, moved by {max(moved, default=0)}"] if len(nmis) != len(wanted) else []))

    # The span that counts.
    within = [n for n, event in enumerate(inner) if began < event.at <= ended]
    span = range(found[within[0]], found[within[-1]] + 1)
    of_user, of_kernel, unseen = collections.Counter(), collections.Counter(), collections.Counter()
    matched = {found[n] for n in within}
    for n in span:
        kind, cpl = log[n]
        if n in matched or kind == NMI:
            if cpl == 3:
                of_user[kind] += 1
            elif kind != FAULT_KERNEL:
                of_kernel[kind] += 1
        elif cpl == 3:
            unseen[kind] += 1  # exceptions that have no event of their own
    calls = sum(began < at <= ended for at in others["sys_enter"])
    one = next(it for it in said["cpus"] if it["cpu"] == cpu)
    logged_user = sum(of_user.values()) + sum(unseen.values()) + calls
    claim(one["entries"] == logged_user,
          f"entries from user mode: {logged_user} by QEMU (with {calls} system calls), {one['entries']} by verify",
          *(f"{n} {kind}" for kind, n in (of_user + unseen).most_common()))
    logged_kernel = sum(of_kernel.values())
    claim(one["kernel_interrupts"] == logged_kernel,
          f"interrupts that hit the kernel: {logged_kernel} by QEMU, {one['kernel_interrupts']} by verify",
          *(f"{n} {kind}" for kind, n in of_kernel.most_common()))
    inside = provoked["inside"]
    # Each `sleeps`, `fault-kernel` and `system-call` is one call; signal handlers return by one.
    least = {"system-call": 1, "fault-kernel": 1, "sleeps": 1, "breakpoint": 1, "divide": 1, "illegal": 1}
    own = sum(inside.get(name, 0) * n for name, n in least.items())
    claim(calls >= own, f"the program made {own} system calls and returns of handlers, {calls} are in the trace")
    print(f"# {provoked['kernel']} {'nohz_full' if 'nohz_full' in provoked['command_line'] else 'ticks'}: run of "
          f"{len(inner)} and {len(nmis)} NMIs, in the span {logged_user} from user mode, {logged_kernel} of the kernel, "
          f"lost {one['lost']}, provoked {json.dumps({**inside, **provoked['outside']})}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
