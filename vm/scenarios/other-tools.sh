# What other tools have set up becomes a policy, and its shield has the same CPUs. On cgroup v1: cset itself, the sets
# of partrt as create() in partrt/partrt (1.2) makes them, and the kernel's command line. With systemd: tuned itself,
# which also loads the profile that a plan becomes.
# guest: 6.1-rt --cgroup v1 --append "nohz_full=2-3 rcu_nocbs=2-3" --timeout 600
# guest, slow: 6.12 --systemd --timeout 900
. /host/lib.sh
needs plan apply undo
sets=/sys/fs/cgroup/cpuset
shield_cpus() { cat $sets/cpushield_"$1"/cpuset.cpus; }
# The policy of TOOL makes the shield NAME with these CPUs. COMMAND removes the sets of the tool before.
imported() { # TOOL NAME CPUS [COMMAND…]
    local tool=$1 name=$2 cpus=$3
    shift 3
    status "the setup of $tool becomes a policy" 0 cpushield plan --from "$tool" -o /tmp/policy.toml
    if [ $# -gt 0 ]; then
        status "its CPUs are not shielded while $tool has them" 3 cpushield apply --policy /tmp/policy.toml
        status "the sets of $tool are removed" 0 "$@"
        echo 1 >$sets/cpuset.sched_load_balance
    fi
    status "the policy of $tool is applied" 0 cpushield apply --policy /tmp/policy.toml
    is "the shield has the CPUs of $tool" "$cpus" shield_cpus "$name"
    status "undo" 0 cpushield undo
}

if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
    sets=/sys/fs/cgroup
    shield_cpus() { cat $sets/cpushield_"$1".slice/cpuset.cpus; }
    echo isolated_cores=2-3 >/etc/tuned/cpu-partitioning-variables.conf
    systemctl start dbus tuned
    status "tuned loads its profile" 0 tuned-adm profile cpu-partitioning
    cpushield plan --from tuned >/tmp/tuned.toml
    is "a setting of tuned becomes a tunable" "workqueues = true" grep '^workqueues' /tmp/tuned.toml
    is "a parameter of tuned becomes one of the policy" "nohz-full = true" grep '^nohz-full' /tmp/tuned.toml
    status "tuned is switched off" 0 tuned-adm off
    cp /tmp/tuned.toml /tmp/policy.toml
    status "the policy of tuned is applied" 0 cpushield apply --policy /tmp/policy.toml
    is "the shield has the CPUs of tuned" 2-3 shield_cpus tuned
    status "undo" 0 cpushield undo

    mkdir -p /etc/tuned/profiles/own
    status "a plan becomes a profile" 0 cpushield plan --cpus 2-3 --shield own --export tuned \
        -o /etc/tuned/profiles/own/tuned.conf
    status "tuned loads it" 0 tuned-adm profile own
    sleep 1
    # The guest has not booted with the kernel parameters of the profile.
    status "tuned verifies its settings, and finds parameters that need a boot" 1 tuned-adm verify
    profile=/etc/tuned/profiles/own/tuned.conf
    verified=/var/log/tuned/tuned.log
    # The kernel refuses these files to any program while it has no bandwidth left for the fair server.
    refused=
    for file in /sys/kernel/debug/sched/fair_server/cpu[23]/runtime; do
        wanted=$(sed -n "s|^$file=||p" $profile)
        [ -z "$wanted" ] || echo "$wanted" >"$file" || refused="$refused $file"
    done 2>/dev/null
    is "each file of the profile has its value" "" awk -v refused="$refused" '
        BEGIN { for (n = split(refused, files, " "); n > 0; n--) passed[files[n]] = 1 }
        FNR == NR {
            if (/ verify: passed: /) { split($0, part, "\47"); passed[part[2]] = 1 }
            next
        }
        /^\[/ { section = $0; next }
        section ~ /^\[(sysctl|sysfs)\]$/ && /=/ {
            name = substr($0, 1, index($0, "=") - 1)
            if (!(name in passed)) print name
        }' $verified $profile
    # The kernel itself moves no interrupt of these: those that it manages, and that of the timer.
    fixed=
    for irq in /proc/irq/[0-9]*; do
        cat "$irq/smp_affinity" >/tmp/affinity
        cat /tmp/affinity 2>/dev/null >"$irq/smp_affinity" || fixed="$fixed ${irq##*/}"
    done 2>/dev/null
    is "only parameters and what the kernel refuses are wrong" "" awk -v fixed="$fixed" -v refused="$refused" '
        BEGIN {
            for (n = split(fixed, irqs, " "); n > 0; n--) forgiven["SMP affinity of IRQ " irqs[n]] = 1
            for (n = split(refused, files, " "); n > 0; n--) forgiven[files[n]] = 1
        }
        / verify: failed: cmdline arg / { next }
        / verify: failed: / { split($0, part, "\47"); if (!(part[2] in forgiven)) print part[2] }' $verified
    tuned-adm off
    status "without tuned there is one error" 3 cpushield plan --from tuned
    finish
fi

imported cmdline cmdline 2-3

status "cset makes a shield" 0 cset shield --kthread=on --cpu 2-3
imported cset user 2-3 cset shield --reset
names="--userset=cage --sysset=free"
status "cset makes a shield with other names" 0 cset shield $names --kthread=on --cpu 3
imported cset cage 3 cset shield $names --reset

move_all() { # FROM TO: as far as the kernel allows it
    local task
    for task in $(cat "$1/tasks"); do echo "$task" >"$2/tasks" 2>/dev/null; done
}
make_set() { # NAME CPUS EXCLUSIVE
    mkdir $sets/"$1"
    echo "$2" >$sets/"$1"/cpuset.cpus
    echo 0 >$sets/"$1"/cpuset.mems
    echo "$3" >$sets/"$1"/cpuset.cpu_exclusive
}
remove_sets() { # NAME…
    local name
    for name in "$@"; do
        move_all $sets/"$name" $sets
        rmdir $sets/"$name" || return
    done
}
interval=$(cat /proc/sys/vm/stat_interval)
make_set rt 2-3 1
make_set nrt 0-1 0
move_all $sets $sets/nrt
echo 0 >$sets/cpuset.sched_load_balance
echo 0 >$sets/rt/cpuset.sched_load_balance
echo 1000 >/proc/sys/vm/stat_interval
cpushield plan --from partrt >/tmp/partrt.toml
is "a setting of partrt becomes a tunable" "vm-stat-interval = true" grep '^vm-stat' /tmp/partrt.toml
imported partrt rt 2-3 remove_sets rt nrt
echo "$interval" >/proc/sys/vm/stat_interval

for tool in cset partrt tuned; do
    status "without $tool there is one error" 3 cpushield plan --from $tool
done
finish
