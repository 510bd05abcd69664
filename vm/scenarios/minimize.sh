# guest, slow: 6.12-rt --append "nohz_full=3 rcu_nocbs=3 irqaffinity=0-2" --timeout 3000
# `experiment --minimize --max-entries 0` finds the one tunable that removes a planted source of entries into the kernel:
# first the timer of the lockup detector, then an interrupt. The kernel's own counters confirm both. A search that is
# killed leaves the machine as it was.
. /host/lib.sh
needs experiment undo verify
# Nothing runs on CPU 3 by itself, although no tunable keeps it away. With isolcpus= the planted interrupt would stay: the
# user has put it there.
for task in /proc/[0-9]*; do taskset -apc 0-2 "${task#/proc/}"; done >/dev/null 2>&1
# With a threshold of 1 s the timer of the lockup detector expires every 0.4 s.
echo 1 >/proc/sys/kernel/watchdog_thresh
echo 0-3 >/proc/sys/kernel/watchdog_cpumask
# Its timer interrupts CPU 3 now and then, so that no option would suffice.
mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug
echo 0 >/sys/kernel/debug/sched/fair_server/cpu3/runtime
cat >/tmp/m.toml <<'END_OF_MATRIX'
cpus = "3"
time = "1s"
warmup = "300ms"
[[row]]
name = "nothing"
[[row]]
name = "three"
shield = true
[row.tunables]
watchdog = true
irq-affinity = true
workqueues = true
fair-server = false
cpuset = false
kthreads = false
rps = false
mce-check-interval = false
vm-stat-interval = false
cpu-hotplug-cycle = false
[[column]]
name = "spin"
instrument = "spin"
END_OF_MATRIX
# What interrupted CPU 3: its own timer, the serial line.
timer() { awk '$1 == "LOC:" { print $5 }' /proc/interrupts; }
serial() { awk '$1 == "4:" { print $5 }' /proc/interrupts; }
grows() { # a function that prints a number
    local before=$($1)
    sleep 10
    [ $(($($1) - before)) -gt 20 ]
}
stays() { ! grows "$1"; }
search() { # a condition on the search
    python3 -c '
import json, sys
search = json.load(open("/tmp/search.json"))
states = {it["option"]["name"]: it["state"] for it in search["options"]}
end = (search["end"] or {}).get("end")
trial_of = {it["option"]["name"]: search["trials"][it["trial"]] for it in search["options"] if it["trial"] is not None}
on = {name for name, on in (search["found"] or {"tunables": {}})["tunables"].items() if on}
if not eval(sys.argv[1]):
    sys.exit(json.dumps([states, end, search["trials"]])[:3000])
' "$1" 2>&1
}
found_on() { python3 -c '
import json
print(*(f"--on {name}" for name, on in json.load(open("/tmp/search.json"))["found"]["tunables"].items() if on))'; }
off="--off fair-server --off cpuset --off kthreads --off rps --off mce-check-interval --off vm-stat-interval"
all_off="$off --off irq-affinity --off workqueues --off watchdog --off cpu-hotplug-cycle"
# with_found FUNCTION: whether the count stays with the tunables of the result alone.
with_found() {
    local options=$all_off on=$(found_on) name ended
    for name in $(echo "$on" | sed 's/--on//g'); do options=${options/--off $name/}; done
    # shellcheck disable=SC2086
    cpushield apply --cpus 3 $options $on || return 1
    stays "$1"
    ended=$?
    cpushield undo || return 1
    return $ended
}
snapshot /tmp/before

claim "the timer interrupts CPU 3" grows timer
begin=$SECONDS
cpushield experiment /tmp/m.toml --minimize --max-entries 0 --row three -o /tmp/search.json >/tmp/said 2>&1
is "the first search ends well" 0 echo $?
echo "# it took $((SECONDS - begin)) s"
sed 's/^/# /' /tmp/said
claim "the tunable against the timer is needed" search 'states["watchdog"] == "needed"'
claim "without it every measurement counts entries" search 'min(trial_of["watchdog"]["figures"]) > 0'
claim "that against the interrupt is not" search 'all(states.get(name, "left-out") == "left-out" for name in ("irq-affinity", "workqueues"))'
claim "the result is 1-minimal" search 'end == "least-set" and "watchdog" in on'
claim "the kernel counts no timers with the result alone" with_found timer
as_before "the search left the machine as it was" /tmp/before

echo 0-2 >/proc/sys/kernel/watchdog_cpumask
echo 3 >/proc/irq/4/smp_affinity_list
while :; do
    echo '# a line for the serial interrupt' >/dev/ttyS0
    sleep 0.1
done &
snapshot /tmp/before
claim "an interrupt is on CPU 3" grows serial
cpushield experiment /tmp/m.toml --minimize --max-entries 0 --row three -o /tmp/search.json >/tmp/said 2>&1
is "the second search ends well" 0 echo $?
sed 's/^/# /' /tmp/said
claim "the tunable against the interrupt is needed" search 'states["irq-affinity"] == "needed"'
claim "that against the timer is not" search 'states.get("watchdog", "left-out") == "left-out"'
claim "the kernel counts no interrupts with the result alone" with_found serial
as_before "the search left the machine as it was" /tmp/before

cpushield experiment /tmp/m.toml --minimize --max-entries 0 --row three >/tmp/said 2>&1 &
job=$!
sleep 25
kill -9 $job
wait $job 2>/dev/null
for i in $(seq 60); do [ -e /var/lib/cpushield/journal.jsonl ] || break; sleep 1; done
claim "what was measured is kept" sh -c 'cpushield experiment --status --json | grep -q "\"state\": \"unfinished\""'
status "a killed search is stopped" 0 cpushield experiment --stop
as_before "and leaves the machine as it was" /tmp/before
finish
