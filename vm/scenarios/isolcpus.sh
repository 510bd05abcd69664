# A CPU of isolcpus= can be shielded: as a partition if the kernel accepts one, otherwise by affinities. Only apply can
# find out. On cgroup v1 it is an exclusive cpuset. In each case undo leaves what isolcpus= did at boot.
# guest, slow: 6.1-rt --append "isolcpus=3"
# guest: 6.1-rt --cgroup v1 --append "isolcpus=3"
# guest, slow: 6.12-rt --append "isolcpus=3"
# guest, slow: 6.12 --systemd --append "isolcpus=3"
# guest, slow: sid-rt --append "isolcpus=3"
. /host/lib.sh
partition() { cat /sys/fs/cgroup/cpushield*/cpuset.cpus.partition; }
# Whether an unrelated program can move there.
enters() { taskset -c 3 true 2>/dev/null && echo open || echo closed; }
kernel=$(uname -r)
sleep 1000 &
snapshot /tmp/before
status "the shield comes up" 0 sh -c 'cpushield apply --cpus 3 >/tmp/answer'
v1=/sys/fs/cgroup/cpuset
[ ! -e $v1 ] || kernel=v1
case $kernel in
v1)
    is "it is an exclusive cpuset" 1 cat $v1/cpushield/cpuset.cpu_exclusive
    is "without load balancing" 0 cat $v1/cpushield/cpuset.sched_load_balance
    is "others cannot enter" closed enters
    ;;
6.12*)
    is "there is no group, for the kernel makes no partition of it" none sh -c \
        'ls -d /sys/fs/cgroup/cpushield* 2>/dev/null || echo none'
    claim "and the kernel's answer is reported" grep 'partition config conflicts' /tmp/answer
    # The warning is longer than a line.
    claim "a plan during the shield knows it" \
        sh -c 'cpushield plan --cpus 3 | tr -s "\n " " " | grep "cannot make it a partition (the kernel refused one"'
    is "others can enter" open enters
    ;;
*)
    is "it is a partition" isolated partition
    is "others cannot enter" closed enters
    ;;
esac
status "undo is clean" 0 cpushield undo
as_before "everything is as it was, what isolcpus= did too" /tmp/before
finish
