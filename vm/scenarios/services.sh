# Services with the slice of a shield, and threaded groups in a shield: undo stops no service, moves every other program,
# and always completes; the next shield takes the slice over.
# guest, slow: 6.12-rt --systemd --timeout 600
# guest, slow: 6.12-rt --timeout 600
. /host/lib.sh
needs apply undo run add status
list() { sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' "/proc/$1/status"; }
systemd=
[ -d /run/systemd/system ] && systemd=1
root=/sys/fs/cgroup
status "a shield, once before" 0 cpushield apply --shield rt --cpus 3
status "its undo" 0 cpushield undo --shield rt
snapshot /tmp/before

# A program of the shield with a thread group of its own, as a hypervisor makes for its CPUs.
status "a shield" 0 cpushield apply --shield rt --cpus 3
group=$root/cpushield_rt
[ $systemd ] && group=$group.slice
sleep 1000 &
program=$!
status "a program is added" 0 cpushield add --shield rt $program
group=$root$(sed -n 's/^0:://p' /proc/$program/cgroup)
mkdir "$group/vcpus"
claim "it makes a threaded group" eval "echo threaded >'$group/vcpus/cgroup.type'"
claim "the kernel does not list processes there" eval "! cat '$group/vcpus/cgroup.procs' 2>/dev/null"
claim "its thread enters that group" eval "echo $program >'$group/vcpus/cgroup.threads'"
status "status reads it" 0 cpushield status --shield rt
status "undo" 0 cpushield undo --shield rt
claim "the program still runs" kill -0 $program
is "it may run everywhere" 0-3 list $program
is "the group is gone" "" sh -c "ls -d $root/cpushield* 2>/dev/null"
as_before "everything is as before" /tmp/before

if [ $systemd ]; then
    printf '%s\n' '[Service]' 'ExecStart=/bin/sh -c "sleep 2000 & exec sleep 1000"' 'Slice=cpushield_rt.slice' \
        >/run/systemd/system/mill.service
    systemctl daemon-reload
    slice=$root/cpushield_rt.slice
    pid() { systemctl show -p MainPID --value mill; }
    for order in shield-first service-first; do
        # Another unit with a cpuset: systemd cannot disable cpusets then, and the kernel refuses its empty list.
        other=
        [ $order = shield-first ] || other=other.slice
        [ ! $other ] || systemctl set-property --runtime $other AllowedCPUs=0-1
        [ ! $other ] || systemctl start $other
        [ $order = shield-first ] || status "$order: the service starts" 0 systemctl start mill
        status "$order: a shield" 0 cpushield apply --shield rt --cpus 3
        [ $order = service-first ] || status "$order: the service starts" 0 systemctl start mill
        main=$(pid)
        worker=$(pgrep -f 'sleep 2000')
        is "$order: it is in the shield" "3 3" eval "echo \$(list $main) \$(list $worker)"
        status "$order: undo" 0 cpushield undo --shield rt
        is "$order: the service is active" active systemctl is-active mill
        is "$order: with the same processes" "$main $worker" eval "echo \$(pid) \$(pgrep -f 'sleep 2000')"
        is "$order: systemd still has both" 2 eval "wc -l <$slice/mill.service/cgroup.procs"
        is "$order: they may run everywhere" "0-3 0-3" eval "echo \$(list $main) \$(list $worker)"
        is "$order: no partition is left" "" sh -c "grep -sl isolated $root/*/cpuset.cpus.partition"
        status "$order: the next shield takes the slice over" 0 cpushield apply --shield rt --cpus 2-3
        is "$order: the service is in it" "2-3 2-3" eval "echo \$(list $main) \$(list $worker)"
        status "$order: undo again" 0 cpushield undo --shield rt
        is "$order: the service is still active" active systemctl is-active mill
        status "$order: it can be stopped" 0 systemctl stop mill
        claim "$order: and then no process of it runs" eval '! pgrep -f "sleep 2000"'
        systemctl stop cpushield_rt.slice $other
        [ ! $other ] || systemctl revert $other
        is "$order: nothing is left of the slice" "" sh -c "ls -d $root/cpushield* /run/systemd/system.control/* 2>/dev/null"
    done
    rm /run/systemd/system/mill.service
    systemctl daemon-reload
    as_before "everything is as before" /tmp/before
fi
kill $program
finish
