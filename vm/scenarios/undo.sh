# More duties of undo: it leaves the changes of other processes, programs in the shield continue to run, and it
# survives being killed or stopped at any moment, and damaged input.
# guest: 6.12-rt --timeout 400
# guest, slow: 6.12-rt --systemd --timeout 400
# guest, slow: 6.1-rt --cgroup v1 --timeout 400
. /host/lib.sh
needs apply undo
journal=/var/lib/cpushield/journal.jsonl
list() { sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' "/proc/$1/status"; }
taskset -c 3 sleep 1000 &
pinned=$!
sleep 1000 &
own=$!
sleep 1000 &
asks=$!

status "undo without a shield is no error" 0 cpushield undo
snapshot /tmp/before
status "apply shields CPU 3" 0 cpushield apply --cpus 3
status "a second shield with the same CPU is refused" 2 cpushield apply --shield b --cpus 3
is "the pinned program is in the shield" 3 list $pinned

# Other processes work while the shield is active.
for group in /sys/fs/cgroup/cpushield /sys/fs/cgroup/cpushield.slice /sys/fs/cgroup/cpuset/cpushield; do
    [ -d $group ] && break
done
sleep 1000 &
inside=$!
echo $inside >$group/cgroup.procs
is "a program is in the shield" 3 list $inside
interval=$(cat /proc/sys/vm/stat_interval)
echo 33 >/proc/sys/vm/stat_interval
taskset -pc 1 $own >/dev/null
# The task requests the CPUs that it already has: since 6.2 the kernel remembers the request.
taskset -pc 0-2 $asks >/dev/null
taskset -c 0-2 sleep 1000 &
born_asking=$!
sleep 1000 &
born=$!
case $(uname -r) in 6.1.*) asked=0-3 ;; *) asked=0-2 ;; esac
status "undo leaves that alone and says so" 0 cpushield undo
is "their sysctl is kept" 33 cat /proc/sys/vm/stat_interval
is "their affinity is kept" 1 list $own
is "a task that requested the remaining CPUs has them" $asked list $asks
is "so does a new task that requested an affinity" $asked list $born_asking
is "a new task that did not may run everywhere" 0-3 list $born
claim "the program in the shield lives" kill -0 $inside
is "and may run everywhere" 0-3 list $inside
is "the pinned program is back" 3 list $pinned
echo 1 >/proc/sys/vm/stat_interval
[ "$interval" != 1 ] || not_ok "apply left vm.stat_interval alone, so nothing was tested"
taskset -pc 0-3 $own >/dev/null
taskset -pc 0-3 $asks >/dev/null
kill $inside $born $born_asking
wait $inside 2>/dev/null
as_before "all else is as before" /tmp/before
status "a second undo has nothing to do" 0 cpushield undo

# An incomplete journal.
status "apply again" 0 cpushield apply --cpus 3
cp $journal /tmp/journal
begin=$(grep -n '^{"begin"' /tmp/journal | cut -d: -f1)
snapshot /tmp/shielded
head -n $((begin - 1)) /tmp/journal >$journal
status "a journal without its begin is refused" 3 cpushield undo
head -c 1000 /tmp/journal >$journal
status "a torn one too" 3 cpushield undo
status "and apply does not go over it" 3 cpushield apply --cpus 3
as_before "nothing was written because of it" /tmp/shielded
head -n $((begin + 3)) /tmp/journal | head -c -10 >$journal
status "outcomes that are missing are found out" 0 cpushield undo
as_before "as before without outcomes" /tmp/before

# A disk that is full by then, on which the lines of undo have reserved space, and one that became read-only.
disk=${journal%/*}
mount -t tmpfs -o size=8m tmpfs "$disk"
status "apply with the journal on a small disk" 0 cpushield apply --cpus 3
cat /dev/zero >"$disk/filler" 2>/dev/null
is "the disk is full" 0 stat -f -c %f "$disk"
cpushield undo >/tmp/undo 2>&1 || not_ok "undo with a full disk ended with $?: $(cat /tmp/undo)"
claim "its lines had their room" test -z "$(grep ENOSPC /tmp/undo)"
umount "$disk"
as_before "as before with a full disk" /tmp/before
mount -t tmpfs -o size=8m tmpfs "$disk"
status "apply on a disk that is still writable" 0 cpushield apply --cpus 3
mount -o remount,ro "$disk"
# The journal stays, so the shield still counts as active: the exit status says so.
cpushield undo >/tmp/undo 2>&1
is "undo with a read-only disk has an exit status of its own" 3 echo $?
claim "it undid every change" grep -q 'every change was undone' /tmp/undo
umount "$disk"
as_before "as before with a read-only disk" /tmp/before

# Stopped and killed when the journal has this many outcome lines (0: when it appears).
outcomes() { grep -c '^{"out' $journal 2>/dev/null || true; }
undone() { grep -c '^{"undone' $journal 2>/dev/null || true; }
when() { # COUNTER N JOB: waits for it, or for the end of the job
    while [ -d "/proc/$3" ] && { [ ! -e $journal ] || [ "$($1)" -lt "$2" ]; }; do :; done
}
for lines in 0 2 9 30; do
    cpushield apply --cpus 3 >/tmp/said 2>&1 &
    job=$!
    when outcomes $lines $job
    kill -TERM $job 2>/dev/null
    wait $job
    ended=$?
    case $ended in
    0) cpushield undo >/dev/null ;; # apply had already finished
    3) ;;                          # stopped, and it undid its own changes
    *) not_ok "apply that gets a signal ended with $ended: $(cat /tmp/said)" ;;
    esac
    as_before "apply stopped after $lines outcomes (ended $ended): as before" /tmp/before
    claim "no shield is on record" test ! -e $journal
done
for lines in 0 1 4 16 40; do
    cpushield apply --cpus 3 >/dev/null 2>&1 &
    job=$!
    when outcomes $lines $job
    kill -KILL $job 2>/dev/null
    wait $job 2>/dev/null
    status "undo after apply was killed after $lines outcomes" 0 cpushield undo
    as_before "as before" /tmp/before
done
for lines in 0 1 5 20; do
    cpushield apply --cpus 3 >/dev/null 2>&1 || not_ok "apply ended with $?"
    cpushield undo >/dev/null 2>&1 &
    job=$!
    when undone $lines $job
    kill -KILL $job 2>/dev/null
    wait $job 2>/dev/null
    status "undo after undo was killed after $lines changes" 0 cpushield undo
    as_before "as before" /tmp/before
done
finish
