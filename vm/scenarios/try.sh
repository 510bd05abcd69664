# `cpushield try` succeeds everywhere and leaves nothing behind, even if it is killed at any moment.
# guest, slow: 6.12-rt --systemd --timeout 450
# guest, slow: 6.1-rt --cgroup v1 --timeout 450
. /host/lib.sh
needs try undo
snapshot /tmp/before
status "try ends well" 0 cpushield try --for 3s
as_before "try leaves the machine as it was" /tmp/before

# The price: the load ran on every CPU before, and on the housekeeping CPUs under the shield. The ratios are correct.
# One guest is enough: the kernel makes no difference here.
price() { python3 -c '
import json
attempt = json.load(open("/tmp/try.json"))
price, shield = attempt["price"], attempt["plan"]["shield"]
[load] = price["loads"]
assert load["name"] == "messages", load
assert price["cpus_before"] == "0-3" and price["cpus_shielded"] == shield["housekeeping"], price
before, shielded = load["before"]["per_s"], load["shielded"]["per_s"]
assert before > 0 and shielded > 0, load
assert abs(load["ratio"] - shielded / before) < 1e-9, load
assert abs(load["ratio_per_cpu"] - load["ratio"] * 4 / 3) < 1e-9, load
for rate in (load["before"], load["shielded"]):
    assert rate["least_per_s"] <= rate["per_s"] * 1.01 and rate["per_s"] <= rate["most_per_s"] * 1.01, rate
'; }
if [ ! -d /run/systemd/system ]; then
    cpushield try --for 3s --price --json >/tmp/try.json 2>/tmp/said
    is "try --price ends well" 0 echo $?
    claim "its price is of the CPUs that programs had and have" price
    as_before "try --price leaves the machine as it was" /tmp/before
fi

# SIGKILL can hit any line; the data on disk must be enough for undo. The kills are spread over the run.
for tenth in 5 17 41 70; do
    cpushield try --for 2s >/tmp/try 2>&1 &
    job=$!
    sleep $((tenth / 10)).$((tenth % 10))
    kill -9 $job 2>/dev/null
    wait $job 2>/dev/null
    cpushield undo >/tmp/undo 2>&1
    code=$?
    # If the kill came before the first write, there is nothing to undo.
    as_before "killed after $tenth tenths of a second, undo (exit status $code) leaves no trace" /tmp/before
done

# After a normal end no undo is needed.
cpushield try --for 4s >/tmp/try 2>&1 &
job=$!
sleep 6
kill -TERM $job
wait $job
as_before "SIGTERM: try itself puts everything back" /tmp/before
finish
