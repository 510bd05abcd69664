# What cset, partrt and the kernel's command line have set up becomes a policy, and its shield has the same CPUs.
# The cpusets are made as the tools make them: make_shield() in cpuset/commands/shield.py (1.6), create() in
# partrt/partrt (1.2).
# guest: 6.1-rt --cgroup v1 --append "nohz_full=2-3 rcu_nocbs=2-3" --timeout 400
. /host/lib.sh
needs plan apply undo
sets=/sys/fs/cgroup/cpuset
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
        rmdir $sets/"$name"
    done
}
shield_cpus() { cat $sets/cpushield_"$1"/cpuset.cpus; }
# The policy of TOOL makes the shield NAME with these CPUs, after the other tool has removed its sets.
imported() { # TOOL NAME CPUS SET…
    local tool=$1 name=$2 cpus=$3
    shift 3
    status "the setup of $tool becomes a policy" 0 cpushield plan --from "$tool" -o /tmp/policy.toml
    if [ $# -gt 0 ]; then
        status "its CPUs are not shielded while $tool has them" 3 cpushield apply --policy /tmp/policy.toml
        remove_sets "$@"
        echo 1 >$sets/cpuset.sched_load_balance
    fi
    status "the policy of $tool is applied" 0 cpushield apply --policy /tmp/policy.toml
    is "the shield has the CPUs of $tool" "$cpus" shield_cpus "$name"
    status "undo" 0 cpushield undo
}

imported cmdline cmdline 2-3

make_set user 2-3 1
make_set system 0-1 1
move_all $sets $sets/system
imported cset user 2-3 user system

# `cset shield --userset=cage --sysset=free`
make_set cage 3 1
make_set free 0-2 1
move_all $sets $sets/free
imported cset cage 3 cage free

interval=$(cat /proc/sys/vm/stat_interval)
make_set rt 2-3 1
make_set nrt 0-1 0
move_all $sets $sets/nrt
echo 0 >$sets/cpuset.sched_load_balance
echo 0 >$sets/rt/cpuset.sched_load_balance
echo 1000 >/proc/sys/vm/stat_interval
cpushield plan --from partrt >/tmp/partrt.toml
is "a setting of partrt becomes a tunable" "vm-stat-interval = true" grep '^vm-stat' /tmp/partrt.toml
imported partrt rt 2-3 rt nrt
echo "$interval" >/proc/sys/vm/stat_interval

for tool in cset partrt tuned; do
    status "without $tool there is one error" 3 cpushield plan --from $tool
done
finish
