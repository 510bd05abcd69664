# The CPUs of isolcpus= are the default of a shield: a partition if the kernel makes one of them, otherwise a group with
# affinities, which only apply can find out. On cgroup v1 it is an exclusive cpuset. The user's program that is there
# already becomes a program of the shield. Isolated CPUs that are not shielded get nothing. Undo leaves what isolcpus= did.
# guest, slow: 6.1-rt --append "isolcpus=3"
# guest: 6.1-rt --cgroup v1 --append "isolcpus=2-3"
# guest, slow: 6.12-rt --append "isolcpus=3"
# guest, slow: 6.12 --append "isolcpus=2-3 nohz_full=2-3"
# guest, slow: 6.12 --append "isolcpus=0,1"
# guest, slow: 6.12 --systemd --append "isolcpus=3"
# guest, slow: 6.12-rt --smp 4,sockets=2,cores=2 --numa 2 --append "isolcpus=2-3"
# guest, slow: 6.12-rt --smp 4,cores=2,threads=2 --append "isolcpus=3"
# guest, slow: sid-rt --append "isolcpus=2-3"
. /host/lib.sh
partition() { cat /sys/fs/cgroup/cpushield*/cpuset.cpus.partition; }
isolated=$(cat /sys/devices/system/cpu/isolated)
# The shield is one of them, and another one stays closed. Of 0-1 the boot CPU is not chosen.
case $isolated in
2-3) cpu=3 closed=2 ;;
0-1) cpu=1 closed=0 ;;
*) cpu=$isolated closed= ;;
esac
# Whether an unrelated program can move there.
enters() { taskset -c $cpu true 2>/dev/null && echo open || echo closed; }
# What is sent to a CPU that the shield leaves alone: of threads, interrupts and queues whose CPUs changed.
sent_to_closed() {
    snapshot /tmp/now
    diff /tmp/before /tmp/now | sed -n 's/^> //p' | grep -v "^thread $program " | grep -E 'smp_affinity|cpumask|Cpus_allowed' | while read -r line; do
        case $line in
        *Cpus_allowed*)
            list=${line##*[[:space:]]}
            # With a partition, the kernel gives programs without a mask of their own all CPUs of the root cpuset. Its
            # scheduler puts none on a CPU of isolcpus=.
            [ "$list" != "$(cat /sys/fs/cgroup/cpuset.cpus.effective 2>/dev/null)" ] || continue
            ;;
        */workqueue/*) mask_covers "${line##*:}" "$1" && echo "$line" && continue || continue ;;
        *default_smp_affinity*) mask_covers "${line##*:}" "$1" && echo "$line" && continue || continue ;;
        *) list=${line##*:} ;;
        esac
        covers "$list" "$1" && echo "$line"
    done
}
kernel=$(uname -r)
# As LinuxCNC: one thread is pinned to the CPU and has a real-time priority, the first one is not.
python3 -c 'import os, sys, threading, time
def pinned():
    os.sched_setaffinity(0, {int(sys.argv[1])})
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
    time.sleep(1000)
threading.Thread(target=pinned).start()
time.sleep(1000)' $cpu &
program=$!
if [ -n "$closed" ]; then
    taskset -c "$closed" sleep 1000 &
    other=$!
fi
sleep 1
v1=/sys/fs/cgroup/cpuset
[ ! -e $v1 ] || kernel=v1
place() { echo "$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/$1/status) $(grep -E '(:cpuset:|^0::)' /proc/$1/cgroup | head -1 | cut -d: -f3)"; }
snapshot /tmp/before
is "the isolated CPU is the default" "$cpu" sh -c 'cpushield plan --count 1 --json |
    python3 -c "import json, sys; print(json.load(sys.stdin)[\"shield\"][\"cpus\"])"'
status "the shield comes up" 0 sh -c 'cpushield apply --count 1 >/tmp/answer'
group=/cpushield
[ ! -d /sys/fs/cgroup/cpushield.slice ] || group=/cpushield.slice
is "the user's program is in the shield" "$cpu $group" place $program
[ -z "$closed" ] || is "a program on a closed CPU stays" "$closed" sh -c "sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/$other/status"
[ -z "$closed" ] || is "nothing is sent to the closed CPU" "" sent_to_closed "$closed"
is "nothing is sent to the shield" "" sent_to_closed "$cpu"
case $kernel in
v1)
    is "it is an exclusive cpuset" 1 cat $v1/cpushield/cpuset.cpu_exclusive
    is "without load balancing" 0 cat $v1/cpushield/cpuset.sched_load_balance
    is "others cannot enter" closed enters
    ;;
6.12*)
    is "it is a group, for the kernel makes no partition of it" member partition
    claim "and the kernel's answer is reported" grep 'partition config conflicts' /tmp/answer
    # The warning is longer than a line.
    claim "a plan during the shield knows it" \
        sh -c "cpushield plan --cpus $cpu | tr -s '\n ' ' ' | grep 'cannot make it a partition (the kernel refused one'"
    claim "status says that others may enter" sh -c 'cpushield status | grep "open: others may enter"'
    is "others can enter" open enters
    status "a program is started in it" 0 cpushield run -- true
    ;;
*)
    is "it is a partition" isolated partition
    is "others cannot enter" closed enters
    ;;
esac
status "undo is clean" 0 cpushield undo
as_before "everything is as it was, what isolcpus= did too" /tmp/before
finish
