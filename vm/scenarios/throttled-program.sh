# A program that used up its CPU time waits while its CPU idles. verify names that, counts it as often as the kernel
# did, and does not let a limit of gaps pass.
# guest, slow: 6.12
# guest, slow: 6.1-rt --timeout 400
. /host/lib.sh
needs apply undo verify
status "a shield that leaves programs where they are" 0 cpushield apply --cpus 3 --off cpuset --off rt-throttling
throttled() { awk '/^nr_throttled/ { print $2 }' /sys/fs/cgroup/limited/cpu.stat; }
# watched TEXT LOW HIGH: the CPU waited that often, and the longest time is a gap.
watched() {
    claim "$1" python3 - "$2" "$3" <<'PYTHON'
import json, sys
low, high = map(int, sys.argv[1:])
document = json.load(open("/tmp/verdict"))
rows = document["evidence"]["cpus"][0]["interruptions"]
waits = [row for row in rows if row["cause"] == "throttling"]
assert len(waits) == 1, rows
# `nested` counts the rest of a wait after another task ran.
assert low <= waits[0]["count"] <= high, waits
assert waits[0]["max_ns"] > 10_000_000, waits
gate = document["verdict"]["gates"][0]
assert gate["held"] is False and gate["found"]["longest_ns"] >= waits[0]["max_ns"], gate
print(waits, gate)
PYTHON
}
verify() { status "a gap is beyond the limit" 1 eval 'cpushield verify --busy --cpus 3 --for 5s --max-gap 10ms --json >/tmp/verdict'; }

if [ -e /proc/sys/kernel/sched_rt_runtime_us ] && [[ $(uname -r) == 6.1.* ]]; then
    # Real-time throttling: 50 ms of each second. It stops every real-time task, so it does not help a reader of RCU that
    # was preempted here and that the kernel has boosted (to priority 1): above that, the machine could hang.
    taskset -c 3 chrt --rr 1 spin /tmp/spin &
    spinner=$!
    verify
    watched "real-time throttling is named" 3 7
else
    echo +cpu >/sys/fs/cgroup/cgroup.subtree_control
    mkdir /sys/fs/cgroup/limited
    echo "50000 100000" >/sys/fs/cgroup/limited/cpu.max
    sh -c 'echo $$ >/sys/fs/cgroup/limited/cgroup.procs && exec taskset -c 3 spin /tmp/spin' &
    spinner=$!
    while [ ! -s /tmp/spin ]; do sleep 0.2; done
    before=$(throttled)
    verify
    after=$(throttled)
    watched "cpu.max is named, at most as often as the kernel throttled the cgroup ($before to $after)" 20 $((after - before))
fi
kill -KILL $spinner
wait $spinner 2>/dev/null
status "undo" 0 cpushield undo
finish
