"""Runs in the guest: measures the effect of `verify` on the watched CPU. A sampler that shares no code with cpushield
reads the clock on the shielded CPU 3 for SECONDS, alternately with and without `verify`, ROUNDS times. /proc/interrupts
counts the kernel entries. Then it measures one clock read of oslat, of that sampler and of cpushield's sampler, and the
memory of a long watch (`all`). It prints tables."""

import json
import re
import signal
import statistics
import subprocess
import sys
import time

sys.path.insert(0, "/host/guest")
import lab  # noqa: E402

CPU = 3
FLAG = "/dev/shm/flag"


def tell(byte):
    with open(FLAG, "r+b") as file:
        file.write(bytes([byte]))


class Verify:
    """A `verify --busy` that already watches."""

    def __init__(self, *flags):
        words = ["cpushield", "verify", "--busy", "--json", "--for", "900s", "--warmup", "300ms", *flags]
        self.job, said = lab.on_terminal(words, stdout=subprocess.PIPE, text=True)
        said.wait_for("watching", 100)

    def memory_kib(self):
        with open(f"/proc/{self.job.pid}/status") as file:
            return int(re.search(r"VmRSS:\s*(\d+)", file.read())[1])

    def end(self):
        self.job.send_signal(signal.SIGINT)
        text, _ = self.job.communicate(timeout=90)
        return json.loads(text)["evidence"]["cpus"][0]


def interrupts(counted):
    """Without the task switches that lab.py also counts."""
    return {row: n for row, n in counted.items() if row not in lab.SWITCHED}


def one(seconds, watched):
    """Entries that the kernel counted and the sampler's figures, from one run."""
    with open(FLAG, "wb") as file:
        file.write(b"\0" * 4096)
    sampler = subprocess.Popen(["cpushield", "run", "--", "gaps", FLAG], stdout=subprocess.PIPE, text=True,
                               stderr=subprocess.DEVNULL)
    # The after-effects of its start are over when counting begins, watched or not.
    time.sleep(10)
    verify = Verify() if watched else None
    tell(1)
    before = lab.counters(CPU)
    time.sleep(seconds)
    counted = interrupts(lab.more(before, lab.counters(CPU)))
    tell(2)
    text, _ = sampler.communicate(timeout=60)
    if verify:
        verify.end()
    seen = {name: float(value) for name, value in re.findall(r"(\w+)=([\d.]+)", text)}
    seen["entries"] = sum(counted.values())
    return seen


def taking_turns(rounds, seconds):
    seen = {"alone": [], "watched": []}
    for _ in range(rounds):
        for how, of in seen.items():
            of.append(one(seconds, how == "watched"))
    print(f"| on the shielded CPU, median of {rounds} times {seconds} s | without verify | with verify | ratio |")
    print("|---|---|---|---|")
    for name, words in [("entries", "entries into the kernel (/proc/interrupts)"), ("gaps", "gaps of 1 us or more"),
                        ("lost_us", "time lost in them, us"), ("longest_us", "the longest, us"),
                        ("look_ns", "one clock read, ns")]:
        alone, watched = (statistics.median(run[name] for run in of) for of in seen.values())
        ratio = f"{watched / alone:.2f}" if alone else ("equal" if not watched else "-")
        print(f"| {words} | {alone:g} | {watched:g} | {ratio} |", flush=True)
    print(f"\nEntries of each round: {[run['entries'] for run in seen['alone']]} and "
          f"{[run['entries'] for run in seen['watched']]}\n", flush=True)
    return statistics.median(run["look_ns"] for run in seen["alone"])


def looks(rounds, bare_ns):
    """One clock read: of cpushield, of oslat, and of the bare loop."""
    ours, oslat = [], []
    for _ in range(rounds):
        answer = subprocess.run(["cpushield", "verify", "--for", "3s", "--json"], capture_output=True, text=True)
        ours.append(json.loads(answer.stdout)["evidence"]["cpus"][0]["gaps"]["resolution_ns"])
        # Its buckets are of 1 us; the smallest that it saw is in the line `Minimum`.
        answer = subprocess.run(["cpushield", "run", "--quiet", "--", "oslat", "-c", str(CPU), "-C", str(CPU), "-D", "3s"],
                                capture_output=True, text=True)
        found = re.search(r"Minimum:\s*(\d+)", answer.stdout)
        if found:
            oslat.append(int(found[1]) * 1000)
    print("| one clock read, median | ns |")
    print("|---|---|")
    print(f"| cpushield's gap sampler | {statistics.median(ours):.0f} |")
    print(f"| oslat, its minimum (whole microseconds) | {statistics.median(oslat) if oslat else 'none reported'} |")
    print(f"| a bare loop over the TSC (gaps.c) | {bare_ns:.0f} |\n", flush=True)


def memory(seconds):
    """Watches a workload that sleeps a thousand times a second."""
    sleeper = subprocess.Popen(["cpushield", "run", "--quiet", "--", "python3", "-c",
                                "import time\nwhile True: time.sleep(0.001)"])
    time.sleep(2)
    verify = Verify("--syscalls")
    time.sleep(seconds / 10)
    early = verify.memory_kib()
    time.sleep(seconds * 9 / 10)
    late = verify.memory_kib()
    seen = verify.end()
    sleeper.terminate()
    sleeper.wait()
    print(f"Memory of a watch: {early} KiB after {seconds / 10:g} s, {late} KiB after {seconds:g} s, "
          f"{seen['entries']} entries, {seen['lost']} lost")


if __name__ == "__main__":
    ROUNDS, SECONDS = int(sys.argv[1]), int(sys.argv[2])
    BARE = taking_turns(ROUNDS, SECONDS)
    if "all" in sys.argv:
        looks(ROUNDS, BARE)
        memory(60)
