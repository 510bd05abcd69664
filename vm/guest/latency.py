"""latency.py WHAT FILE HELD CODE: runs in a guest and checks what `latency` reports about a known delay. It prints claims
about the document FILE. HELD is the line of `hold` (when it occupied the CPU), CODE the exit status. The bounds are valid
however slow the guest is: no thread can have run before the end of `hold`."""

import json
import sys

failed = 0


def claim(words, holds, told=""):
    global failed
    print(("ok - " if holds else "not ok - ") + words)
    if not holds:
        failed += 1
        for line in str(told).splitlines():
            print("#   " + line)


def main(what, file, held, code):
    latency = json.load(open(file))
    series = latency["series"][0]
    begin, end = (int(word) for word in held.split())
    hold = end - begin
    period = series["period_ns"]
    doubts = latency["doubts"] + series["doubts"] + latency["isolation"]["broken"]
    moments = [(worst["at_ns"] + latency["began_ns"], worst) for worst in series["worst"]]
    longest = "\n".join(f"due {due}, seen {due + worst['late_ns']}" for due, worst in moments)
    texts = [one["text"] for one in doubts + latency["notes"]]
    told = "\n".join([f"began {latency['began_ns']}, {latency['span_ns']} ns", longest, *texts])

    # Due while the CPU was held, or just before, and seen not before its end. A waking thread may be late itself.
    there = [(due, worst) for due, worst in moments if due <= begin + hold / 2 and due + worst["late_ns"] >= end]
    claim(f"{what}: the delay is where it was, and as long", len(there) > 0, f"held {begin} to {end}\n{told}")
    claim(f"{what}: the worst is no shorter than it", series["max_ns"] >= hold / 2, told)
    whys = [worst["why"] for _, worst in there]
    known = [why for why in whys if why["unknown"] is None]
    claim(f"{what}: its cause is known", len(known) > 0, json.dumps(whys, indent=1))
    for due, worst in there:
        why = worst["why"]
        if why["unknown"] is not None:
            continue
        took = sum(share["took_ns"] for share in why["shares"] if share["culprit"]["text"].startswith("hold ("))
        alone = end - max(due, begin)
        claim(f"{what}: it is the one who held the CPU, for as long", took >= alone * 2 / 3, json.dumps(why, indent=1))
        whole = sum(share["took_ns"] for share in why["shares"]) + why["unseen_ns"] + why["rest_ns"]
        most = 2 * why["error_ns"] + worst["late_ns"] / 1000 + 1000
        claim(f"{what}: and nothing is told twice", abs(whole - worst["late_ns"]) <= most, json.dumps(worst, indent=1))
    if period:
        met, periods = series["samples"] + series["missed"], latency["span_ns"] / period
        ends = 10 + series["max_ns"] / period
        claim(f"{what}: samples and missed are all periods", abs(met - periods) <= ends, f"{met} of {periods}\n{told}")
        claim(f"{what}: it missed the periods of that time", series["missed"] >= hold / period / 2, told)
    if series["jitter_ns"] is not None:
        # The time between two seen events, minus the period (LinuxCNC's max jitter).
        jitter = series["jitter_ns"]
        claim(f"{what}: the max jitter is that delay", hold - 2 * period <= jitter <= series["max_ns"] + period, told)
    gate = latency["gates"][0]
    claim(f"{what}: a limit below it does not hold", gate["held"] is False and code == 1, json.dumps(gate))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
    sys.exit(min(failed, 1))
