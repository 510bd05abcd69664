# An active shield changes: it grows, shrinks and moves, and switches protections off and on. After each change, and after
# a kill at any moment, the machine is as if only that version had ever been applied. No program enters a CPU that stays.
# On CPUs of `nohz_full=` a shield takes its CPUs offline and online once, but never those that it has already.
# `cpushield.kills` is how often a change is killed.
# guest, slow: 6.1-rt --cgroup v1 --timeout 900 --append cpushield.kills=4
# guest, slow: 6.1-rt --timeout 1200
# guest, slow: 6.12-rt --timeout 1200
# guest, slow: 6.12-rt --timeout 1200 --append "nohz_full=1-3 rcu_nocbs=1-3 irqaffinity=0"
# guest, slow: 6.12-rt --systemd --timeout 1200
# guest, slow: sid-rt --timeout 1200
. /host/lib.sh
needs apply undo run status
list() { sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' "/proc/$1/status"; }
mask() { printf '%x\n' "$((0x$(cat /proc/irq/default_smp_affinity)))"; }
cpu_of() { sed 's/.*) //' "/proc/$1/stat" | cut -d ' ' -f 37; }
policy_of() { sed 's/.*) //' "/proc/$1/stat" | cut -d ' ' -f 39; }
stat_interval() { cat /proc/sys/vm/stat_interval; }
# changed TEXT PID COMMAND…: the command changes the shield, and a program in it stays on its CPU all the time.
changed() {
    local text=$1 pid=$2 watch
    shift 2
    rm -f /tmp/changed
    while [ ! -e /tmp/changed ]; do
        echo "$(cpu_of "$pid") of $(list "$pid")"
        sleep 0.02
    done >/tmp/places &
    watch=$!
    status "$text" 0 "$@"
    touch /tmp/changed
    wait $watch
    is "its program stays on its CPU" 1 eval 'sort -u /tmp/places | wc -l'
}
waits_for() { # LIST PID: whether the process gets these CPUs
    for _ in $(seq 100); do
        [ "$(list "$2")" = "$1" ] && return 0
        sleep 0.2
    done
    return 1
}
# The groups and the lists of the kernel appear with the first shield, so each version has been made once before.
# The first partition also gives kernel threads more CPUs than a boot with `nohz_full=` did. Undo gives them their own
# again, and since 6.2 the kernel never widens a mask that was set (`user_cpus_ptr`, kernel/sched/core.c). So the state of
# each version is taken after one undo.
status "a first shield" 0 cpushield apply --cpus 3
status "undo of it" 0 cpushield undo
for cpus in 3 2-3 2; do
    status "the version with CPU $cpus" 0 cpushield apply --cpus $cpus
    snapshot /tmp/only-$cpus
    status "undo of it" 0 cpushield undo
done
snapshot /tmp/before
first_mask=$(mask)
first_interval=$(stat_interval)

# Tries to enter CPU 3 all the time, from its own place and as new processes.
cat >/tmp/intruder.py <<'END_OF_PYTHON'
import errno, os, time
tries = entries = others = 0
while not os.path.exists("/tmp/stop-intruder"):
    tries += 1
    try:
        os.sched_setaffinity(0, {3})
        entries += 1
        os.sched_setaffinity(0, {0, 1})
    except OSError as error:
        others += error.errno != errno.EINVAL
    if tries % 200 == 0:
        child = os.fork()
        if child == 0:
            try:
                os.sched_setaffinity(0, {3})
                os._exit(1)
            except OSError as error:
                os._exit(0 if error.errno == errno.EINVAL else 2)
        entries += os.waitpid(child, 0)[1] != 0
    time.sleep(0.0005)
open("/tmp/intruder-result", "w").write(f"{tries} {entries} {others}\n")
END_OF_PYTHON
status "the shield" 0 cpushield apply --cpus 3
python3 /tmp/intruder.py &
intruder=$!
status "the same again" 0 cpushield apply --cpus 3
claim "changes nothing" sh -c 'cpushield apply --cpus 3 | grep -q "nothing was changed"'
for cpus in 2-3 3 2-3 3; do
    status "changed to CPU $cpus" 0 cpushield apply --cpus $cpus
    as_before "only CPU $cpus was ever shielded" /tmp/only-$cpus
    status "it is active" 0 cpushield status
done
touch /tmp/stop-intruder
wait $intruder
read -r tries entries others </tmp/intruder-result
claim "the intruder tried often ($tries times)" [ "$tries" -gt 500 ]
is "and never entered CPU 3" 0 echo "$entries"
is "the kernel answered EINVAL each time" 0 echo "$others"

cpushield run -- sh -c 'while :; do :; done' &
busy=$!
claim "a program runs in the shield" waits_for 3 $busy
changed "without the protection from interrupts" $busy cpushield apply --cpus 3 --off irq-affinity
is "interrupts that are requested later go anywhere" "$first_mask" mask
changed "with it again" $busy cpushield apply --cpus 3
is "they avoid the shield" "$(printf '%x' $((0x$first_mask & ~8)))" mask
is "the memory statistics are updated once an hour" 3600 stat_interval
changed "without the protection from timers" $busy cpushield apply --cpus 3 --off vm-stat-interval
is "they are updated as before the shield" "$first_interval" stat_interval
changed "with it again" $busy cpushield apply --cpus 3
is "they are updated once an hour" 3600 stat_interval
kill $busy
wait $busy 2>/dev/null
as_before "only CPU 3 was ever shielded" /tmp/only-3
status "without the protection from programs" 0 cpushield apply --cpus 3 --off cpuset
claim "any program enters CPU 3" taskset -c 3 true
status "with it again" 0 cpushield apply --cpus 3
claim "no program enters CPU 3" eval "! taskset -c 3 true 2>/dev/null"
as_before "only CPU 3 was ever shielded" /tmp/only-3

status "moved to CPU 2" 0 cpushield apply --cpus 2
as_before "only CPU 2 was ever shielded" /tmp/only-2
status "grown" 0 cpushield apply --cpus 2-3
cpushield run --cpu 3 -- sh -c 'while :; do :; done' &
busy=$!
claim "a program runs on CPU 3" waits_for 3 $busy
status "balanced" 0 cpushield apply --cpus 2-3 --balance
is "it still has only that CPU" 3 list $busy
kill $busy
wait $busy 2>/dev/null
for group in /sys/fs/cgroup/cpuset/cpushield /sys/fs/cgroup/cpushield.slice /sys/fs/cgroup/cpushield; do
    [ -e $group ] && break
done
balances() { # whether the kernel balances load in the shield
    [ "$(cat $group/cpuset.cpus.partition $group/cpuset.sched_load_balance 2>/dev/null)" = "$1" ]
}
is_balanced() { balances root || balances 1; }
is_unbalanced() { balances isolated || balances 0; }
claim "the kernel balances load there" is_balanced
for n in 1 2; do
    cpushield run -- sh -c 'while :; do :; done' &
    eval "busy$n=$!"
done
claim "a program may use both CPUs" waits_for 2-3 "$busy1"
claim "so may another one" waits_for 2-3 "$busy2"
sleep 2
claim "the scheduler gives each of them one" [ "$(cpu_of $busy1)" != "$(cpu_of $busy2)" ]
kill $busy1 $busy2
wait $busy1 $busy2 2>/dev/null
status "without balancing again" 0 cpushield apply --cpus 2-3
claim "the kernel balances no load there" is_unbalanced
as_before "only CPU 2-3 was ever shielded" /tmp/only-2-3
cpushield run --cpu 2 -- sleep 1000 &
pinned=$!
claim "a program is confined to CPU 2" waits_for 2 $pinned
status "a change that takes CPU 2 away is refused" 3 cpushield apply --cpus 3
claim "the refusal names the program" sh -c 'cpushield apply --cpus 3 2>&1 | grep -q "sleep ('$pinned') may only run on CPU 2"'
as_before "nothing was changed" /tmp/only-2-3
status "unless programs may be moved" 0 cpushield apply --cpus 3 --move-programs
is "it is on the CPU that stays" 3 list $pinned
as_before "only CPU 3 was ever shielded" /tmp/only-3
kill $pinned
wait $pinned 2>/dev/null
# It sleeps: some writes of a change wait for kernel threads of a busy CPU, and would be refused.
cpushield run --fifo 50 -- sleep 1000 2>/dev/null &
run=$!
realtime=
for _ in $(seq 100); do
    realtime=$(pgrep -P $run -x sleep) && break
    sleep 0.2
done
claim "a real-time program is confined to CPU 3" waits_for 3 "$realtime"
below() { # CPU: the vital kernel threads of this CPU that are not above the program
    ps -eLo comm=,rtprio= | awk -v cpu="$1" '$1 ~ "^(rcuc|ktimers|ksoftirqd)/" cpu "$" && $2 + 0 <= 50 { print $1 }'
}
is "the kernel's threads there are above it" "" below 3
status "it is moved to CPU 2" 0 cpushield apply --cpus 2 --move-programs
is "it is on CPU 2" 2 list "$realtime"
is "the kernel's threads are above it there" "" below 2
claim "those of CPU 3 have their own priority again" [ -n "$(below 3)" ]
kill $run
wait $run 2>/dev/null
as_before "only CPU 2 was ever shielded" /tmp/only-2
status "grown for a program with a budget" 0 cpushield apply --cpus 2-3
cpushield run --deadline 1ms/100ms -- sleep 1000 &
budget=$!
# Whether the program itself runs under SCHED_DEADLINE, which the kernel permits on all CPUs of the shield only. Its start
# takes a while with 1 % of a CPU.
has_budget() {
    for _ in $(seq 100); do
        [ "$(policy_of $budget)$(cat /proc/$budget/comm)" = 6sleep ] && [ "$(list $budget)" = 2-3 ] && return 0
        sleep 0.2
    done
    return 1
}
claim "a program runs under SCHED_DEADLINE" has_budget
status "a change of its CPUs is refused" 3 cpushield apply --cpus 3
claim "the refusal names it" sh -c "cpushield apply --cpus 3 2>&1 | grep -q 'sleep ($budget) runs under SCHED_DEADLINE'"
as_before "nothing was changed" /tmp/only-2-3
status "unless programs may be moved" 0 cpushield apply --cpus 3 --move-programs
is "it has the CPU that stays" 3 list $budget
is "it keeps its policy" 6 policy_of $budget
as_before "only CPU 3 was ever shielded" /tmp/only-3
kill $budget
wait $budget 2>/dev/null
status "undo" 0 cpushield undo
as_before "as before" /tmp/before

for hundredths in $(kill_times 02 05 08 12 18 26 38 55 80); do
    status "the shield" 0 cpushield apply --cpus 3
    cpushield apply --cpus 2 >/tmp/apply 2>&1 &
    job=$!
    sleep 0.$hundredths
    kill -9 $job 2>/dev/null
    wait $job 2>/dev/null
    ended=$?
    if [ $((10#$hundredths % 2)) = 0 ]; then
        cpushield apply --cpus 2 >/tmp/apply 2>&1
        code=$?
        as_before "a change killed after 0.$hundredths s (ended $ended), again ($code): only CPU 2" /tmp/only-2
    fi
    cpushield undo >/tmp/undo 2>&1
    code=$?
    as_before "a change killed after 0.$hundredths s (ended $ended), undo ended $code: as before" /tmp/before
done
finish
