#!/usr/bin/env python3
"""interrupt_log.py CPU ENTRIES OUT: provokes many kinds of kernel entries at the same time on a shielded CPU, while `cpushield
verify` watches and QEMU logs every interrupt and exception of that CPU. It writes to OUT the output of `verify`
(`verdict`), the trace that it read (`trace.dat`), and what was provoked (`provoked`); vm/interrupt-log.py on the host compares
them.

A program on the CPU takes page faults, exceptions and system calls. Meanwhile other CPUs patch the kernel's code,
send NMIs, function calls and signals, sample by perf, and have a network card interrupt it."""

import json
import os
import signal
import socket
import sys
import threading
import time

sys.path.insert(0, "/host/guest")
import lab  # noqa: E402

# Actions of the program on the CPU: action, share of the entries, and microseconds between two.
INSIDE = [("fault-write", 40, 20), ("fault-read", 20, 20), ("system-call", 20, 20), ("fault-kernel", 10, 20),
          ("breakpoint", 3, 50), ("divide", 3, 50), ("illegal", 3, 50), ("sleeps", 1, 500)]
# Actions of other processes the whole time, with microseconds between two.
OUTSIDE = [("tracepoint", 50000), ("static-key", 50000), ("nmi", 300000), ("perf-read", 2000), ("perf-wakeup", 2000),
           ("msr", 5000)]


class Others:
    """Programs that interrupt the CPU until they are ended; each continues as soon as it has finished an action."""

    def __init__(self, cpu):
        self.over, self.done, self.threads = False, {}, []
        for name, interval_us in OUTSIDE:
            self.go(self.provoke, cpu, name, interval_us)
        self.go(self.send)

    def go(self, what, *words):
        thread = threading.Thread(target=what, args=words)
        self.threads.append(thread)
        thread.start()

    def provoke(self, cpu, name, interval_us):
        lab.ACTIONS[name] = lab.ACTIONS[name]._replace(count=20, interval_us=interval_us)
        self.done[name] = 0
        while not self.over:
            provoker = lab.Provoker(cpu, [name])
            try:
                self.done[name] += provoker.act()
            finally:
                provoker.end()

    def send(self):
        """Sent packets come back as interrupts of the card's queues."""
        port = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.done["packets"] = 0
        while not self.over:
            try:
                port.sendto(b"x" * 64, ("10.0.2.2", 9))
                self.done["packets"] += 1
            except OSError:
                pass
            time.sleep(0.005)

    def end(self):
        self.over = True
        for thread in self.threads:
            thread.join()


def steer(cpu):
    """Directs the interrupts of the network card to the CPU."""
    for line in open("/proc/interrupts"):
        number, _, rest = line.partition(":")
        if rest.split() and rest.split()[-1].startswith("eth0"):
            try:
                with open(f"/proc/irq/{number.strip()}/smp_affinity_list", "w") as file:
                    file.write(str(cpu))
            except OSError as error:
                print(f"# IRQ {number.strip()}: {error}")


def main():
    cpu, entries, out = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    for name, share, interval_us in INSIDE:
        count = max(entries * share // 100, 5)
        lab.ACTIONS[name] = lab.ACTIONS[name]._replace(count=count, interval_us=interval_us)
    steer(cpu)
    inside = lab.Provoker(cpu, [name for name, _, _ in INSIDE])
    monitor("log int")
    verify, said = lab.on_terminal(
        ["cpushield", "verify", "--busy", "--syscalls", "--json", "--for", "3600s", "--warmup", "300ms",
         "--trace-dat", f"{out}/trace.dat"], stdout=open(f"{out}/verdict", "w"))
    said.wait_for("watching", 300)
    others, done = Others(cpu), {}
    try:
        for name in inside.actions:
            begin = time.monotonic()
            done[name] = inside.act()
            print(f"# {name}: {done[name]} in {time.monotonic() - begin:.1f} s", flush=True)
    finally:
        others.end()
        time.sleep(0.5)
        verify.send_signal(signal.SIGINT)
        stopped(300)
        monitor("log none")  # the rest of verify would be slow with it
        inside.end()
        verify.wait(timeout=300)
    if "packets" not in others.done or verify.returncode not in (0, 1):
        print(f"# verify ended with {verify.returncode}: {said.text}")
        return 1
    with open(f"{out}/provoked", "w") as file:
        json.dump({"cpu": cpu, "inside": done, "outside": others.done, "kernel": os.uname().release,
                   "command_line": open("/proc/cmdline").read()}, file)
    return 0


def stopped(seconds):
    """Waits until the trace of verify has ended."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if all(open(f"{instance}/tracing_on").read().strip() == "0"
                   for instance in lab.glob.glob("/sys/kernel/tracing/instances/cpushield-*-0")):
                return
        except OSError:  # it is being removed
            return
        time.sleep(0.1)


def monitor(command):
    """Sends a command to QEMU's monitor."""
    name = next(name for name in os.listdir("/sys/class/virtio-ports")
                if open(f"/sys/class/virtio-ports/{name}/name").read().strip() == "monitor")
    with open(f"/dev/{name}", "r+b", buffering=0) as port:
        port.write(command.encode() + b"\n")
        time.sleep(0.5)


if __name__ == "__main__":
    sys.exit(main())
