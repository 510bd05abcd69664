# A shield does what it says, according to the kernel's own files, and undo leaves no trace of it.
# guest, slow: 6.12-rt
# guest, slow: 6.12-rt --systemd
# guest: 6.1-rt --cgroup v1
# guest, slow: 6.1-rt --cgroup hybrid --systemd
# guest, slow: 6.12 --smp 8,cores=4,threads=2
# guest, slow: 6.12-rt --numa 2 --nvme --net-queues 4
. /host/lib.sh
needs apply undo
cpus=3
[ "$(cat /sys/devices/system/cpu/cpu3/topology/thread_siblings_list)" = 3 ] || cpus=2-3
modprobe -a nvme virtio_net 2>/dev/null
sleep 1

# Neighbour processes of all kinds, started before the shield.
taskset -c 3 sleep 1000 & # joins the shield
pinned=$!
taskset -c 1-3 sleep 1000 &
taskset -c 0,3 chrt -f 5 sleep 1000 &
nice -n 5 sleep 1000 &
neighbour=$!
if [ -e /sys/fs/cgroup/cgroup.procs ]; then
    mkdir /sys/fs/cgroup/neighbour
    echo $neighbour >/sys/fs/cgroup/neighbour/cgroup.procs
elif [ -d /sys/fs/cgroup/cpuset ]; then
    mkdir /sys/fs/cgroup/cpuset/neighbour
    echo 0-3 >/sys/fs/cgroup/cpuset/neighbour/cpuset.cpus
    echo 0 >/sys/fs/cgroup/cpuset/neighbour/cpuset.mems
    echo $neighbour >/sys/fs/cgroup/cpuset/neighbour/cgroup.procs
fi
snapshot /tmp/before
as_before "two snapshots of an untouched machine are equal" /tmp/before

status "apply shields CPU $cpus" 0 cpushield apply --cpus $cpus

is "a neighbour that pins itself to CPU $cpus gets EINVAL" errno=22 intrusion $cpus
if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
    partition=$(grep -lx isolated /sys/fs/cgroup/cpushield*/cpuset.cpus.partition)
    claim "a partition is isolated" test -n "$partition"
    is "it has CPU $cpus" $cpus cat "${partition%.partition}.effective"
    [ ! -e /sys/fs/cgroup/cpuset.cpus.isolated ] ||
        is "the root calls CPU $cpus isolated" $cpus cat /sys/fs/cgroup/cpuset.cpus.isolated
else
    v1=/sys/fs/cgroup/cpuset
    is "the cpuset has CPU $cpus" $cpus cat $v1/cpushield/cpuset.cpus
    is "alone" 1 cat $v1/cpushield/cpuset.cpu_exclusive
    is "without load balancing" 0 cat $v1/cpushield/cpuset.sched_load_balance
    is "the root does not balance either" 0 cat $v1/cpuset.sched_load_balance
fi
strangers() { threads_allowed_on $cpus user | grep -v "^$pinned "; }
is "no other user thread may run on CPU $cpus" "" strangers
kill $pinned # the shield is free for programs
is "no kernel thread that can be moved may run on CPU $cpus" "" threads_allowed_on $cpus kernel

# An interrupt that still names the CPU must be one that the kernel refuses to move.
movable_interrupts() {
    local dir list housekeeping
    housekeeping=0-1
    for dir in /proc/irq/[0-9]*; do
        list=$(cat "$dir/smp_affinity_list" 2>/dev/null) || continue
        covers "$list" "$cpus" || continue
        echo $housekeeping 2>/dev/null >"$dir/smp_affinity_list" && echo "${dir##*/} was on $list"
    done
}
is "every interrupt that can be moved is off CPU $cpus" "" movable_interrupts
claim "new interrupts stay off it" eval \
    "! mask_covers $(cat /proc/irq/default_smp_affinity) $cpus"
for file in /sys/devices/virtual/workqueue/cpumask /sys/devices/virtual/workqueue/*/cpumask; do
    mask_covers "$(cat "$file")" $cpus && echo "$file $(cat "$file")"
done >/tmp/workqueues
is "every work queue is off it" "" cat /tmp/workqueues
if [ -d /sys/devices/system/node/node1 ]; then
    node=$(basename "$(readlink -f /sys/devices/system/cpu/cpu$cpus/node*)")
    is "programs of the shield get memory of its node alone" "${node#node}" \
        cpushield run -- sed -n 's/^Mems_allowed_list:[[:space:]]*//p' /proc/self/status
fi
claim "a record of what was there is on disk" test -s /var/lib/cpushield/journal.jsonl

status "undo puts everything back" 0 cpushield undo
as_before "the machine is as it was" /tmp/before
is "a neighbour is let on CPU $cpus again" errno=0 intrusion $cpus

if [ -d /sys/devices/system/node/node1 ]; then
    all=$(cat /sys/devices/system/node/node1/cpulist)
    status "a list that takes a whole node is refused" 2 cpushield apply --cpus "$all"
    status "apply gives node 1 away" 0 cpushield apply --node 1 --whole-node
    is "the shield has every CPU of the node" "$all" cat /sys/fs/cgroup/cpushield*/cpuset.cpus.effective
    claim "kswapd of the node runs on another node" eval \
        '! covers "$(taskset -pc "$(pgrep -x kswapd1)" | sed "s/.*: //")" "$all"'
    is "a program of the shield gets memory of the node alone" 1 \
        cpushield run -- sed -n 's/^Mems_allowed_list:[[:space:]]*//p' /proc/self/status
    status "everything is active" 0 cpushield status
    status "undo puts everything back" 0 cpushield undo
    as_before "the machine is as it was" /tmp/before
fi

if [ "$cpus" = 2-3 ]; then
    online=/sys/devices/system/cpu/cpu3/online
    status "apply takes the SMT sibling offline" 0 cpushield apply --cpus 2 --siblings offline
    is "CPU 3 is offline" 0 cat $online
    status "status agrees" 0 cpushield status
    is "a neighbour that pins itself to CPU 2 gets EINVAL" errno=22 intrusion 2
    is "a program of the shield runs on CPU 2" 2 cpushield run -- sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status
    echo 1 >$online
    status "status notices that another program brought it online" 1 cpushield status
    echo 0 >$online
    status "undo brings it online" 0 cpushield undo
    is "CPU 3 is online" 1 cat $online
    as_before "the machine is as it was" /tmp/before
    for delay in 0.05 0.2 0.5 1; do
        cpushield apply --cpus 2 --siblings offline >/dev/null 2>&1 &
        sleep $delay
        kill -9 $! 2>/dev/null
        wait $! 2>/dev/null
        cpushield undo >/dev/null 2>&1
        is "CPU 3 is online after an apply that was killed after $delay s" 1 cat $online
    done
    as_before "and the machine is as it was" /tmp/before
fi
finish
