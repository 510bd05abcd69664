# CPUs that another program has made exclusive (a partition of cgroup v2): a shield there is refused before any write, one
# on other CPUs works, and the other program's partition stays.
# guest, slow: 6.12-rt
# guest, slow: 6.1-rt
. /host/lib.sh
needs apply undo
root=/sys/fs/cgroup
partition=$root/theirs/cpuset.cpus.partition
status "a shield, once before" 0 cpushield apply --cpus 2
status "its undo" 0 cpushield undo
echo +cpuset >$root/cgroup.subtree_control
mkdir $root/theirs
echo 3 >$root/theirs/cpuset.cpus
echo isolated >$partition
is "another program isolates CPU 3" isolated cat $partition
snapshot /tmp/before
status "a shield there is refused" 3 cpushield apply --cpus 3
claim "the refusal names the group" sh -c "cpushield apply --cpus 3 2>&1 | grep -q theirs"
as_before "nothing was written" /tmp/before
status "a shield that overlaps is refused" 3 cpushield apply --cpus 2-3
as_before "nothing was written again" /tmp/before
status "a shield on another CPU works" 0 cpushield apply --cpus 2
is "the partition stays" isolated cat $partition
is "with its CPU" 3 cat $root/theirs/cpuset.cpus.effective
status "undo" 0 cpushield undo
as_before "everything is as before" /tmp/before
finish
