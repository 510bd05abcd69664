# The guests have the properties that the scenarios rely on, and the static binary runs in each.
# guest, slow: 6.12-rt
# guest, slow: 6.12-rt --systemd
# guest, slow: 6.1-rt --cgroup v1
# guest, slow: 6.1-rt --cgroup hybrid --systemd
# guest, slow: 6.12 --smp 8,cores=4,threads=2 --numa 2 --nvme --net-queues 4 --append "nohz_full=2-3 rcu_nocbs=2-3"
. /host/lib.sh
line=" $(cat /proc/cmdline) "
wants() { case $line in *" $1"*) true ;; *) false ;; esac; }
mode=$(sed -n 's/.*cpushield\.cgroup=\([a-z0-9]*\).*/\1/p' /proc/cmdline)

is "the binary runs" "3 0x8 8 1" sh -c 'cpushield mask 0x8 | tail -n1 | tr -s " "'
claim "we are root" test "$(id -u)" = 0
claim "the kernel's events are there" test -e /sys/kernel/tracing/events/sched/sched_switch
if [ "$mode" = v2 ]; then
    claim "cgroup v2 with cpusets" grep -qw cpuset /sys/fs/cgroup/cgroup.controllers
else
    claim "cgroup v1 has the cpusets" test -e /sys/fs/cgroup/cpuset/cpuset.cpus
fi
[ "$mode" != hybrid ] ||
    claim "hybrid also has a v2 tree" test -e /sys/fs/cgroup/unified/cgroup.procs
if wants cpushield.systemd; then
    is "systemd is init" systemd cat /proc/1/comm
else
    is "a script is init" boot cat /proc/1/comm
fi
if wants nohz_full=2-3; then
    is "nohz_full is in force" 2-3 cat /sys/devices/system/cpu/nohz_full
    is "CPUs 2 and 3 are one core" 2-3 cat /sys/devices/system/cpu/cpu2/topology/thread_siblings_list
    is "CPUs 4-7 are node 1" 4-7 cat /sys/devices/system/node/node1/cpulist
    modprobe -a nvme virtio_net
    sleep 1
    claim "the NVMe disk has a queue per CPU" test "$(grep -c 'nvme0q' /proc/interrupts)" -ge 9
    claim "the network card has four queue pairs" \
        test "$(grep -c 'virtio.*-\(in\|out\)put' /proc/interrupts)" = 8
    rcu=$(pgrep -c '^rcuo[gsp]')
    claim "RCU's callbacks of CPUs 2 and 3 are offloaded ($rcu threads)" test "$rcu" -ge 2
fi
answers=$(spawner 1 | sed -n 's/.*\(errno=[0-9]*\).*/\1/p' | sort -u)
is "an unshielded machine lets a neighbour on every CPU" errno=0 echo "$answers"
finish
