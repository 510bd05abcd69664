# Ten settings are wrong at once, and `verify --fix` repairs all that this boot allows. undo still knows the original
# values from before the shield.
# guest: 6.12-rt --append "nohz_full=1-3 rcu_nocbs=1-3 irqaffinity=0"
# guest, slow: 6.12-rt
# guest, slow: 6.1-rt --cgroup v1
. /host/lib.sh
needs apply undo verify
grep -q nohz_full= /proc/cmdline && prepared=1 || prepared=''
status "without a shield there is nothing to fix" 3 cpushield verify --fix --cpus 3 --for 1s
snapshot /tmp/before
status "apply shields CPU 3" 0 cpushield apply --cpus 3

# thing NAME FILE KIND VALUE: writes VALUE to FILE. In the end the file must have the value of the shield (`same`), or
# a list or mask without CPU 3. If the kernel refuses VALUE, the setting does not count.
journal=$(cat /var/lib/cpushield/journal.jsonl)
names=()
declare -A file kind good bad first
list() { sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' "/proc/$1/status"; }
thing() {
    [ -e "$2" ] || return 0
    good[$1]=$(cat "$2")
    { echo "$4" >"$2"; } 2>/dev/null
    bad[$1]=$(cat "$2")
    [ "${bad[$1]}" != "${good[$1]}" ] || return 0
    # If the shield had changed the setting, undo restores the value from before the shield, otherwise the value
    # from before the fix.
    case $journal in
    *"\"path\":\"$2\""*) first[$1]=$(sed -n "s,^$2:,,p" /tmp/before) ;;
    *) first[$1]=${bad[$1]} ;;
    esac
    names+=("$1") file[$1]=$2 kind[$1]=$3
}
for irq in $(ls /proc/irq | grep -v default); do # the first interrupt that can be moved and is used
    ls -d /proc/irq/"$irq"/*/ >/dev/null 2>&1 || continue
    was=$(cat "/proc/irq/$irq/smp_affinity_list")
    { echo 3 >"/proc/irq/$irq/smp_affinity_list"; } 2>/dev/null || continue
    echo "$was" >"/proc/irq/$irq/smp_affinity_list"
    break
done
thing "interrupt $irq" "/proc/irq/$irq/smp_affinity_list" list 3
thing "new interrupts" /proc/irq/default_smp_affinity mask f
thing "unbound work" /sys/devices/virtual/workqueue/cpumask mask f
thing "work of writeback" /sys/devices/virtual/workqueue/writeback/cpumask mask f
thing "memory statistics" /proc/sys/vm/stat_interval same 1
thing "timers of the shield" /proc/sys/kernel/timer_migration same 0
thing "lockup detectors" /proc/sys/kernel/watchdog_cpumask list 0-3
thing "packets" /sys/class/net/lo/queues/rx-0/rps_cpus mask 8
thing "RCU in a hurry" /sys/kernel/rcu_normal same 0
thing "machine checks" /sys/devices/system/machinecheck/machinecheck0/check_interval same 300
thing "the partition" /sys/fs/cgroup/cpushield/cpuset.cpus.partition same member
thing "the cpuset" /sys/fs/cgroup/cpuset/cpushield/cpuset.cpu_exclusive same 0
thread=$(pgrep -x kauditd || pgrep -x kswapd0)
taskset -pc 0-3 "$thread" >/dev/null
covers "$(list "$thread")" 3 && names+=("a kernel thread") kind["a kernel thread"]=thread
claim "ten things are wrong at once (${#names[@]}: ${names[*]})" test ${#names[@]} -ge 10
right() { # whether a setting is correct
    case ${kind[$1]} in
    same) [ "$(cat "${file[$1]}")" = "${good[$1]}" ] ;;
    list) ! covers "$(cat "${file[$1]}")" 3 ;;
    mask) ! mask_covers "$(cat "${file[$1]}")" 3 ;;
    thread) ! covers "$(list "$thread")" 3 ;;
    esac
}
for name in "${names[@]}"; do right "$name" && not_ok "it is not wrong: $name"; done
# Another process uses the CPU if it can.
taskset -c 3 sh -c 'while :; do :; done' 2>/dev/null &
neighbour=$!

begin=$SECONDS
cpushield verify --fix --for 2s >/tmp/fixed 2>&1
code=$?
echo "# verify --fix ended after $((SECONDS - begin)) s"
for name in "${names[@]}"; do
    claim "put right: $name" right "$name"
done
is "no user thread may run on CPU 3" "" threads_allowed_on 3 user
is "a neighbour that pins itself to CPU 3 gets EINVAL" errno=22 intrusion 3
if [ $prepared ]; then
    is "it holds in the end" 0 echo $code
else
    is "without the boot parameters it cannot hold" 1 echo $code
    claim "what remains is reported with its remedy" eval "tr -s '\n ' ' ' </tmp/fixed | grep -q 'only a boot parameter removes it: nohz_full=3'"
fi
claim "the rounds are reported" grep -q '^Round 2: ' /tmp/fixed
cat /tmp/fixed
kill $neighbour 2>/dev/null
wait $neighbour 2>/dev/null
status "undo" 0 cpushield undo
for name in "${names[@]}"; do
    [ -n "${file[$name]:-}" ] && [ -e "${file[$name]}" ] || continue
    is "after undo: $name" "${first[$name]}" cat "${file[$name]}"
    sed -n "s,^${file[$name]}:,,p" /tmp/before >"${file[$name]}"
done
as_before "all else is as before the shield" /tmp/before
finish
