# Operators, users other than root: what a policy permits works, everything else is refused, and nothing of root's
# changes. On cgroup v2 a helper moves them, on v1 they may write the lists of tasks.
# guest, slow: 6.12-rt --systemd --timeout 900
# guest, slow: 6.1-rt --cgroup v1 --timeout 600
# guest, slow: sid-rt --systemd --timeout 900
. /host/lib.sh
needs apply undo run status enable
# Users cannot enter /host.
install -m 755 "$(command -v cpushield)" /usr/local/bin/cpushield
PATH=/usr/local/bin:$PATH
echo 'joe:x:1000:1000::/tmp:/bin/sh' >>/etc/passwd
echo 'eve:x:1001:1001::/tmp:/bin/sh' >>/etc/passwd
printf '%s\n' 'joe:x:1000:' 'eve:x:1001:' 'realtime:x:4444:joe' >>/etc/group
mkdir -p /etc/cpushield
policy() { # the lines for operators of shield rt
    printf '%s\n' '[shield.rt]' 'cpus = "2-3"' '[shield.rt.operators]' "$@" '[shield.own]' 'cpus = "1"' \
        >/etc/cpushield/policy.toml
}
joe() { (cd /tmp && setpriv --reuid 1000 --regid 1000 --groups 4444,1000 "$@" </dev/null); }
eve() { (cd /tmp && setpriv --reuid 1001 --regid 1001 --groups 1001 "$@" </dev/null); }
refused=0
# refuses TEXT WHO COMMAND…: ok if the command of the user fails.
refuses() {
    local text=$1 said
    shift
    refused=$((refused + 1))
    if said=$("$@" 2>&1); then
        not_ok "refused: $text"
        echo "$said" | sed 's/^/#   /'
    else ok "refused: $text"; fi
}
puts() { echo "echo $1 >$2"; }
v2=
[ -e /sys/fs/cgroup/cgroup.controllers ] && v2=1

is "without a shield every user sees that" 3 sh -c "$(declare -f joe); joe cpushield status >/dev/null; echo \$?"
policy 'group = "ghosts"'
status "an unknown group is a clear error" 2 cpushield apply --shield rt
is "it names the line" 1 sh -c 'cpushield apply --shield rt 2>&1 | grep -c "policy.toml:4: no group \"ghosts\""'
policy 'users = ["ghost"]'
status "an unknown user is a clear error" 2 cpushield apply --shield rt
if [ $v2 ]; then
    policy 'group = "realtime"' 'priority = 80' 'locked_memory = "64MiB"'
    status "enable opens the socket" 0 cpushield enable --now --shield rt
    is "the socket belongs to the group" "root:realtime 660" stat -c '%U:%G %a' /run/cpushield/operators-rt.sock
    dir=/sys/fs/cgroup/cpushield_rt.slice
    other=/sys/fs/cgroup/cpushield_own.slice
    root=/sys/fs/cgroup
    list=cgroup.procs
else
    policy 'users = ["joe"]'
    status "on v1 single users are refused" 3 cpushield apply --shield rt
    policy 'group = "realtime"'
    status "apply" 0 cpushield apply --shield rt
    root=/sys/fs/cgroup/cpuset
    dir=$root/cpushield_rt
    other=$root/cpushield_own
    list=tasks
    is "the list of tasks is given to the group" "root:realtime 664" stat -c '%U:%G %a' $dir/tasks
    is "no other file is" "" sh -c "find $dir $root/cpushield_housekeeping -group 4444 ! -name tasks"
fi
status "a second shield without operators" 0 cpushield apply --shield own --cpus 1

status "status as a normal user" 0 joe cpushield status
status "status of one shield" 0 joe cpushield status --shield rt
status "status of an unknown one" 3 joe cpushield status --shield mill
is "it says who may enter" 1 sh -c "$(declare -f joe); joe cpushield status | grep -c 'operators *group realtime'"
is "it says what was not checked" 1 sh -c "$(declare -f joe); joe cpushield status | grep -c '^Not checked'"
status "status of a user who is no operator" 0 eve cpushield status
said=$(joe cpushield run --shield rt -- sh -c 'cat /proc/self/cgroup; grep Cpus_allowed_list /proc/self/status' 2>&1)
claim "an operator runs a program in the shield" sh -c "echo '$said' | grep -q 'cpushield_rt'"
claim "it has one CPU of the shield" sh -c "echo '$said' | grep -q 'list:[[:space:]]*[23]\$'"
is "its exit status is returned" 7 sh -c "$(declare -f joe); joe cpushield run --shield rt -- sh -c 'exit 7'; echo \$?"
joe cpushield run --shield rt -- sleep 1000 &
joe cpushield run --shield rt --cpu 3 -- sleep 1000 &
for _ in $(seq 150); do
    [ "$(pgrep -c -u 1000 -x sleep)" = 2 ] && break
    sleep 0.2
done
is "run says when every CPU is taken" 1 sh -c \
    "$(declare -f joe); joe cpushield run --shield rt -- true 2>&1 | grep -c 'no CPU of the shield is free'"
pkill -u 1000 sleep
wait
if [ $v2 ]; then
    is "it gets the priority of the policy" 80 sh -c "$(declare -f joe); \
        joe cpushield run --shield rt --fifo 80 -- chrt -p 0 2>/dev/null | sed -n 's/.*priority: //p'"
fi
if [ $v2 ]; then
    joe cpushield run --shield rt --fifo 10 -- sleep 1000 &
    sleep 3
    pid=$(pgrep -u 1000 -x sleep)
    claim "a program of an operator is in the shield" grep -q cpushield_rt "/proc/$pid/cgroup"
    refuses "removing a program of another user" eve cpushield remove --shield rt "$pid"
    status "the operator moves it out by its number" 0 joe cpushield remove --shield rt "$pid"
    is "it is outside" "" sh -c "grep cpushield_rt /proc/$pid/cgroup"
    is "its priority stays behind" 0 sh -c "chrt -p $pid | sed -n 's/.*priority: //p'"
    status "it cannot leave twice" 3 joe cpushield remove --shield rt "$pid"
    pkill -u 1000 sleep
    wait
    joe cpushield run --shield rt --cpu 2 --own-priority 70 -- sleep 1000 &
    sleep 3
    pid=$(pgrep -u 1000 -x sleep)
    is "a program that sets its own priority has none at first" 0 sh -c "chrt -p $pid | sed -n 's/.*priority: //p'"
    for thread in rcuc/2 rcuc/3; do
        is "$thread is above the priority that it will set" 71 \
            sh -c "chrt -p \$(pgrep -x $thread) | sed -n 's/.*priority: //p'"
    done
    pkill -u 1000 sleep
    wait
fi
if [ $v2 ]; then
    # As systemd does below user@UID.service.
    mkdir /sys/fs/cgroup/terminal
    chown -R joe:joe /sys/fs/cgroup/terminal
    (
        echo $BASHPID >/sys/fs/cgroup/terminal/cgroup.procs
        joe cpushield run --shield rt -- sleep 1000
    ) &
    sleep 3
    pid=$(pgrep -u 1000 -x sleep)
    claim "a program of a group of its user is in the shield" grep -q cpushield_rt "/proc/$pid/cgroup"
    status "it leaves" 0 joe cpushield remove --shield rt "$pid"
    is "it is in its group again" 0::/terminal grep ^0:: "/proc/$pid/cgroup"
    pkill -u 1000 sleep
    wait
    rmdir /sys/fs/cgroup/terminal
fi
status "a request lowers what the last one raised" 0 joe cpushield run --shield rt -- true
sleep 1
snapshot /tmp/before

for file in $list cpuset.cpus cpuset.mems cpuset.cpus.partition cpuset.cpus.exclusive cgroup.freeze cgroup.kill \
    cgroup.subtree_control cgroup.type cpuset.cpu_exclusive cpuset.sched_load_balance cgroup.procs; do
    [ -e "$dir/$file" ] || continue
    [ "$file" = tasks ] || refuses "writing $file of the shield" joe sh -c "$(puts '$$' "$dir/$file")"
    refuses "writing $file of another shield" joe sh -c "$(puts '$$' "$other/$file")"
done
refuses "writing the list of the root" joe sh -c "$(puts '$$' $root/$list)"
refuses "making a group in the shield" joe mkdir $dir/below
refuses "removing the group" joe rmdir $dir
refuses "giving a file away" joe chmod 666 $dir/cpuset.cpus
refuses "taking a file" joe chown joe $dir/$list
refuses "moving a process of root" joe sh -c "$(puts 1 $dir/$list)"
refuses "moving a process of another user" joe sh -c "$(puts $$ $dir/$list)"
refuses "reading the journal" joe cat /var/lib/cpushield/journal.jsonl
refuses "writing the summary" joe sh -c "$(puts x /run/cpushield/shields.json)"
refuses "writing next to the summary" joe sh -c "$(puts x /run/cpushield/x)"
refuses "removing the summary" joe rm /run/cpushield/shields.json
refuses "moving interrupts" joe sh -c "$(puts f /proc/irq/default_smp_affinity)"
refuses "a priority from the kernel" joe chrt -f 80 true
refuses "entering by affinity" joe taskset -c 2 true
refuses "apply" joe cpushield apply --shield more --cpus 1
refuses "undo" joe cpushield undo --shield rt
refuses "enable" joe cpushield enable --cpus 1
refuses "disable" joe cpushield disable
refuses "adding a process of root" joe cpushield add --shield rt 1
refuses "removing a process of root" joe cpushield remove --shield rt 1
refuses "run as another user" joe cpushield run --shield rt --user root -- true
refuses "run with another policy" joe cpushield run --shield rt --rr 10 -- true
refuses "run with a budget" joe cpushield run --shield rt --deadline 1ms/10ms -- true
refuses "run in a shield without operators" joe cpushield run --shield own -- true
refuses "run on a CPU of another shield" joe cpushield run --shield rt --cpu 1 -- true
refuses "run with too high a priority" joe cpushield run --shield rt --fifo 90 -- true
refuses "run with too high an own priority" joe cpushield run --shield rt --own-priority 90 -- true
refuses "run by a user who is no operator" eve cpushield run --shield rt -- true
if [ $v2 ]; then
    # Each shield has a socket of its own, with its own group.
    printf '%s\n' '[Socket]' 'ListenStream=/run/cpushield/operators-own.sock' 'Accept=yes' 'RemoveOnStop=yes' \
        >/run/systemd/system/own.socket
    printf '%s\n' '[Service]' 'ExecStart=-/usr/local/bin/cpushield __operator --only-shield own' 'StandardInput=socket' \
        'StandardOutput=null' 'StandardError=journal' 'Slice=system.slice' >/run/systemd/system/own@.service
    systemctl daemon-reload
    status "a socket of another shield opens" 0 systemctl start own.socket
    refuses "removing the socket" joe rm /run/cpushield/operators-rt.sock
    python3 /host/guest/operators.py 1000 1000 /cpushield_rt.slice >/tmp/said 2>&1
    sed '$d' /tmp/said
    failed=$((failed + $(tail -n 1 /tmp/said)))
    refused=$((refused + $(grep -c '^ok - refused' /tmp/said)))
    systemctl stop own.socket
    is "the socket is still open" active systemctl is-active cpushield-operators-rt.socket
    status "the helper alone does nothing" 0 sh -c 'cpushield __operator </dev/null'
else
    joe sh -c "echo \$\$ >$dir/tasks && echo \$\$ >$root/cpushield_housekeeping/tasks && grep cpuset /proc/self/cgroup" \
        >/tmp/said 2>&1
    is "an operator enters and leaves by the lists of tasks" 1 grep -c cpushield_housekeeping /tmp/said
    refuses "entering as a user who is no operator" eve sh -c "$(puts '$$' $dir/tasks)"
fi
claim "$refused things were refused, at least 30" test $refused -ge 30
status "a last request lowers what others raised" 0 joe cpushield run --shield rt -- true
sleep 1
as_before "nothing of root's has changed" /tmp/before
status "the shield is active" 0 cpushield status --shield rt

if [ $v2 ]; then
    # A service enters by one line of its unit.
    printf '%s\n' '[Service]' 'ExecStart=/bin/sleep 1000' 'Slice=cpushield_rt.slice' >/etc/systemd/system/mill.service
    systemctl daemon-reload
    group() { sed 's/.*:://' "/proc/$(systemctl show -p MainPID --value mill)/cgroup"; }
    cpus() { sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' "/proc/$(systemctl show -p MainPID --value mill)/status"; }
    status "a service with the slice of the shield starts" 0 systemctl start mill
    is "it is in the shield" /cpushield_rt.slice/mill.service group
    is "it has its CPUs" 2-3 cpus
    first=$(systemctl show -p MainPID --value mill)
    status "it restarts" 0 systemctl restart mill
    claim "it is another process" test "$first" != "$(systemctl show -p MainPID --value mill)"
    is "it is in the shield again" /cpushield_rt.slice/mill.service group
    is "the partition is still isolated" isolated cat $dir/cpuset.cpus.partition
    status "programs of root enter next to it" 0 cpushield run --shield rt -- true
    status "operators too" 0 joe cpushield run --shield rt -- true
    status "the shield is active with a service" 0 cpushield status --shield rt
    joe cpushield run --shield rt -- sleep 1000 &
    sleep 2
    status "the service restarts next to a program" 0 systemctl restart mill
    is "it is in the shield once more" /cpushield_rt.slice/mill.service group
    status "the shield is active with both" 0 cpushield status --shield rt
    pkill -u 1000 sleep
    wait
    status "the service stops" 0 systemctl stop mill
    is "the shield stays" isolated cat $dir/cpuset.cpus.partition
    rm /etc/systemd/system/mill.service
    # Without the socket, sudo would permit the helper.
    systemctl stop cpushield-operators-rt.socket
    is "without the socket run prints the line for sudoers" 1 sh -c "$(declare -f joe); \
        joe cpushield run --shield rt -- true 2>&1 | grep -c '%realtime ALL=(root) NOPASSWD: /usr/local/bin/cpushield __operator\$'"
    status "undo of the second shield" 0 cpushield undo --shield own
    status "disable" 0 cpushield disable --now
    is "its units are gone" "" sh -c 'ls /etc/systemd/system | grep cpushield'
    is "its socket is gone" "" sh -c 'ls /run/cpushield | grep sock'
else
    status "undo of all" 0 cpushield undo --all
fi
is "every user sees that no shield is left" 3 sh -c "$(declare -f joe); joe cpushield status >/dev/null; echo \$?"
finish
