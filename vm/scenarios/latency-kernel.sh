# The instruments that use the kernel's tracers: stages, counts and a delay of known length. Afterwards the machine
# is unchanged, even if the measurement was killed.
# slow: many measurements in emulation
# guest: 6.12-rt
# guest: 6.1-rt
. /host/lib.sh
needs apply undo latency
tracing=/sys/kernel/tracing
osnoise=$tracing/osnoise
# The contents of the tracers' files, the active tracers, and the existing instances.
settings() {
    local file
    for file in $osnoise/{cpus,options,timerlat_period_us,stop_tracing_us,stop_tracing_total_us,print_stack} \
        $tracing/hwlat_detector/{mode,width,window} $tracing/{tracing_thresh,current_tracer}; do
        echo "$file: $(cat $file 2>&1)"
    done
    ls $tracing/instances
    ps -eo comm | grep -E '^(timerlat|hwlatd)/'
}
as_they_were() { settings >/tmp/settings.now; diff /tmp/settings /tmp/settings.now; }
# check TEXT PYTHON: claims something of the document `d`, whose series are by stage in `s`.
check() {
    claim "$1" python3 -c '
import json, sys
d = json.load(open("/tmp/latency"))
s = {one.get("stage"): one for one in d["series"]}
'"$2"
}
[ -e $osnoise/per_cpu/cpu3/timerlat_fd ] && stages="irq thread user" || stages="irq thread"
modprobe msr 2>/dev/null

# Settings that differ from every default, so that restoring a default is detected.
echo 1-2 >$osnoise/cpus
echo 700 >$osnoise/timerlat_period_us
echo 123456 >$osnoise/stop_tracing_us
echo 900000 >$tracing/hwlat_detector/window
settings >/tmp/settings

measure() {
    cpushield latency kernel --cpus 3 --json "$@" >/tmp/latency 2>/tmp/errors
}
status "the kernel's own measure runs" 0 measure --for 5s --over 4ms
cat /tmp/errors
check "each stage is a series of its own: $stages" "assert sorted(s) == '$stages'.split() and len(d['series']) == len(s), s.keys()"
check "a later stage is later" '
worst = [s[name]["max_ns"] for name in "'"$stages"'".split()]
least = [s[name]["min_ns"] for name in "'"$stages"'".split()]
assert worst == sorted(worst) and least == sorted(least), (worst, least)'
check "every period is a sample or was missed" '
one = s["'"${stages##* }"'"]
seen, asked = one["samples"] + one["missed"], d["span_ns"] / one["period_ns"]
late = one["max_ns"] / one["period_ns"]
assert abs(seen - asked) <= 100 + late, (seen, asked, late)'
check "no record is missing, and each was made where it belongs" '
assert all(one["doubts"] == [] and one["elsewhere"] == 0 for one in s.values()), d'
claim "the settings are as they were" as_they_were

# A program of a higher priority occupies the CPU for 30 ms, ten times. It delays the thread, but not the
# interrupt. It starts when the measurement runs.
hog() {
    chrt -f 90 taskset -c 3 python3 -c '
import glob, time
def on():
    return any(open(file).read() == "1\n" for file in glob.glob("'$tracing'/instances/cpushield-*/tracing_on"))
while not on(): time.sleep(0.1)
time.sleep(1)
for _ in range(10):
    end = time.monotonic() + 0.030
    while time.monotonic() < end: pass
    time.sleep(0.2)'
}
hog &
measure --for 12s --fifo 50 --over 28ms
wait $!
check "a program that has the CPU for 30 ms makes the thread that late ten times, at least" '
for name in "'"${stages#irq }"'".split():
    assert 9 <= s[name]["over"][0]["count"], (name, s[name]["over"], s[name]["max_ns"])
    assert 28e6 <= s[name]["max_ns"] < 500e6, s[name]["max_ns"]'
# A host that takes the CPU delays both in the same sample; the delay of the program comes on top.
check "and the interrupt is not: it comes while that program runs" '
late = {name: s[name]["over"][0]["count"] for name in ("irq", "thread")}
assert 9 <= late["thread"] - late["irq"], late'

# A tracer of another process.
mkdir $tracing/instances/other
echo timerlat >$tracing/instances/other/current_tracer
settings >/tmp/settings.other
measure --for 1s
is "a tracer that another process uses is left alone" 3 echo $?
claim "the other tracer is named" grep -q "timerlat tracer in $tracing/instances/other" /tmp/errors
settings >/tmp/settings.now
claim "nothing was touched" diff /tmp/settings.other /tmp/settings.now
rmdir $tracing/instances/other

# In a shield, killed.
cpushield apply --cpus 3 >/dev/null 2>&1
status "it measures in a shield" 0 cpushield latency kernel --for 2s --json
cpushield latency kernel --for 5s --json >/tmp/latency 2>/dev/null
check "the shield was active all the time" 'assert d["isolation"]["held"] is True, d["isolation"]'
kill_it() { # instrument
    cpushield latency "$1" --for 600s >/dev/null 2>&1 &
    local job=$! i
    for i in $(seq 300); do cat $tracing/instances/cpushield-*/tracing_on 2>/dev/null | grep -q 1 && break; sleep 0.1; done
    sleep 1
    kill -9 $job
    wait $job 2>/dev/null
}
left() { ! as_they_were >/dev/null; }
for after in "latency kernel --for 1s" "status" "undo"; do
    kill_it kernel
    claim "a killed one leaves its settings" left
    cpushield $after >/tmp/said 2>&1
    claim "and the next $after puts them back" as_they_were
done
claim "the saved settings are removed" test ! -e /var/lib/cpushield/tracer.json

# rtla uses the same tracer for the same time, so the counts must agree.
if rtla timerlat hist -k -c 3 -p 1000 -d 5s --no-aa -b 100 -E 9000 >/tmp/rtla 2>&1; then
    measure --for 5s
    check "of five seconds rtla has as many samples, but for periods that were missed" '
import re
text = open("/tmp/rtla").read()
count = [int(n) for n in re.search(r"^count:(.*)$", text, re.M)[1].split()]
one = s["irq"]
assert 0.5 < count[0] / one["samples"] < 2, (count, one["samples"])
'
else
    skip "rtla counts the same" "rtla: $(tail -n 1 /tmp/rtla)"
fi
# rtla leaves its own settings.
echo 1-2 >$osnoise/cpus
echo 700 >$osnoise/timerlat_period_us
echo 123456 >$osnoise/stop_tracing_us
settings >/tmp/settings

# Time below the kernel: here the host, which takes a guest's CPU at any time.
status "what is below the kernel is measured" 0 cpushield latency hardware --cpus 3 --for 5s
cpushield latency hardware --cpus 3 --for 5s --json >/tmp/latency 2>/dev/null
# The kernel reports what exceeds 1 µs, in whole microseconds.
check "with its threshold, and the count of SMIs or why there is none" '
one = d["series"][0]
assert len(d["series"]) == 1 and one["threshold_ns"] == 2000, one
assert "smis" in one or any(note["note"] == "smis-not-counted" for note in d["notes"]), d["notes"]
assert one["samples"] == 0 or one["min_ns"] >= 2000, one'
check "that it disturbs is reported" 'assert any(note["note"] == "interrupts-disabled" and note["cpus"] == "3" for note in d["notes"]), d["notes"]'
claim "its settings are as they were" as_they_were
cpushield apply --cpus 3 >/dev/null 2>&1
kill_it hardware
claim "a killed one leaves its settings" left
cpushield undo >/tmp/said 2>&1
claim "and undo puts them back" as_they_were
finish
