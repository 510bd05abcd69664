"""latency.py PAIRS SECONDS [CPU]: compares `cpushield latency` with its peers, PAIRS times SECONDS each. The tools
alternate in going first. It uses the shielded CPU 3 of the guest, or CPU of any machine without a shield. `timer` and
cyclictest get the same period and policy and no more options. The latencies of both come from histograms of whole
microseconds in cyclictest's format, so both are rounded in the same way. The CPU time is that of the one thread that
measures, by the kernel's count (/proc/PID/task/TID/schedstat), divided by the periods of that time. For `spin` and oslat
it is the time of the loop without interruptions, divided by the number of iterations. It prints tables."""

import glob
import json
import os
import re
import statistics
import subprocess
import sys
import time

CPU = int(sys.argv[3]) if len(sys.argv) > 3 else 3
HERE = ["--cpus", str(CPU)] if len(sys.argv) > 3 else []
# A peer, started in the shield.
SHIELDED = [] if HERE else ["cpushield", "run", "--quiet", "--"]
PERIOD_US = 1000


def started(words):
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def measuring_thread(policy):
    """The one thread with this real-time priority on the shielded CPU; waited for."""
    for _ in range(600):
        for stat in glob.glob("/proc/[0-9]*/task/[0-9]*/stat"):
            try:
                with open(stat) as file:
                    words = file.read().rsplit(")", 1)[1].split()
            except (OSError, IndexError):
                continue
            # Fields 39 and 40 of proc_pid_stat(5): CPU and real-time priority; 9 are the flags (PF_KTHREAD).
            kernel = int(words[6]) & 0x200000
            if not kernel and int(words[36]) == CPU and int(words[37]) == policy:
                return os.path.dirname(stat)
        time.sleep(0.1)
    raise SystemExit("no thread measures")


def cpu_time_ns(thread):
    with open(f"{thread}/schedstat") as file:
        return int(file.read().split()[0])


def histogram(text):
    """Microseconds and counts of a single column."""
    rows = (line.split() for line in text.splitlines() if re.match(r"^\d+[ \t]+\d+\s*$", line))
    return {int(us): int(count) for us, count in rows if int(count)}


def percentile(of, percent):
    left = sum(of.values()) * percent / 100
    for us, count in sorted(of.items()):
        left -= count
        if left <= 0:
            return us
    return None


def periodic(words, read, seconds):
    job = started(words)
    thread = measuring_thread(80)
    # The start of the tool is not compared.
    time.sleep(1)
    before, since = cpu_time_ns(thread), time.monotonic()
    time.sleep(seconds)
    used, span = cpu_time_ns(thread) - before, time.monotonic() - since
    out, err = job.communicate(timeout=seconds + 120)
    if job.returncode:
        raise SystemExit(f"{words}: {err}")
    seen = histogram(read(out))
    return {"median": percentile(seen, 50), "99.9 %": percentile(seen, 99.9), "samples": sum(seen.values()),
            "CPU time": used / (span * 1e6 / PERIOD_US)}


def timer(seconds):
    file = "/tmp/histogram"

    def read(_):
        with open(file) as text:
            return text.read()
    words = ["cpushield", "latency", "timer", *HERE, "--for", f"{seconds + 3}s", "--histogram", file]
    return periodic(words, read, seconds)


def cyclictest(seconds):
    words = [*SHIELDED, "cyclictest", "-t1", "-a", str(CPU), "-p", "80", "-m", "-q", "-i",
             str(PERIOD_US), "-D", str(seconds + 3), "-h", "100000", "--default-system"]
    return periodic(words, lambda out: out, seconds)


def spin(seconds):
    words = ["cpushield", "latency", "spin", *HERE, "--for", f"{seconds}s", "--json"]
    out = subprocess.run(words, capture_output=True, text=True)
    series = json.loads(out.stdout)["series"][0]
    return {"loop": series["look_ns"]}


def oslat(seconds):
    # Buckets of 1 ns up to a microsecond distinguish the loop from interruptions.
    file = "/tmp/oslat.json"
    words = [*SHIELDED, "oslat", "-c", str(CPU), "-C", "0" if HERE else str(CPU), "-D", str(seconds), "-q", "-b",
             "1000", "-W", "1", "--json", file]
    out = subprocess.run(words, capture_output=True, text=True)
    try:
        thread = json.load(open(file))["thread"]["0"]
    except (OSError, ValueError, KeyError) as error:
        raise SystemExit(f"oslat: {error}: {out.stderr}")
    # The last bucket has all longer times: the interruptions.
    seen = {float(us) * 1000: count for us, count in thread["histogram"].items()}
    longest = max(seen)
    loops = {ns: count for ns, count in seen.items() if ns < longest}
    return {"loop": sum(ns * count for ns, count in loops.items()) / sum(loops.values())}


def pairs(ours, theirs, rounds, seconds):
    seen = []
    for nth in range(rounds):
        order = [ours, theirs] if nth % 2 == 0 else [theirs, ours]
        found = {tool: tool(seconds) for tool in order}
        seen.append((found[ours], found[theirs]))
        print(f"pair {nth + 1}: {found[ours]} {found[theirs]}", file=sys.stderr, flush=True)
    return seen


def table(seen, ours, theirs, rows):
    print(f"| median of {len(seen)} pairs | {ours} | {theirs} | median of the ratios | ratio of each pair |")
    print("|---|---|---|---|---|")
    for name, words in rows:
        a, b = ([pair[side][name] for pair in seen] for side in (0, 1))
        ratios = [x / y for x, y in zip(a, b) if y]
        each = ", ".join(f"{ratio:.2f}" for ratio in ratios)
        a, b, ratio = (statistics.median(of) for of in (a, b, ratios))
        print(f"| {words} | {a:.4g} | {b:.4g} | {ratio:.2f} | {each} |")
    print(flush=True)


if __name__ == "__main__":
    ROUNDS, SECONDS = int(sys.argv[1]), int(sys.argv[2])
    table(pairs(timer, cyclictest, ROUNDS, SECONDS), "`latency timer`", "cyclictest",
          [("median", "median, µs"), ("99.9 %", "99.9 %, µs"), ("CPU time", "CPU time for each period, ns")])
    table(pairs(spin, oslat, ROUNDS, SECONDS), "`latency spin`", "oslat", [("loop", "once round the loop, ns")])
