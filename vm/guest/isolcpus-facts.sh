# What the words of this boot do to CPU 3 of 4: prints `key=value` lines, read from the kernel's own files. The guest has an
# NVMe disk with two queues (`vm/isolcpus` runs this).
cpu=3
value() { cat "$1" 2>/dev/null || echo missing; }
echo "kernel=$(uname -r)"
echo "isolated=$(value /sys/devices/system/cpu/isolated)"
echo "nohz_full=$(value /sys/devices/system/cpu/nohz_full)"
echo "init=$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/1/status)"
echo "unbound_work=$(value /sys/devices/virtual/workqueue/cpumask)"

# Two busy processes for each CPU, which may run anywhere: how often one was seen on the CPU.
busy=()
for _ in 1 2 3 4 5 6 7 8; do
    taskset -c 0-3 bash -c 'while :; do :; done' &
    busy+=($!)
done
seen=0
for _ in $(seq 30); do
    sleep 0.1
    for pid in "${busy[@]}"; do
        read -r line <"/proc/$pid/stat"
        read -r -a words <<<"${line##*) }"
        [ "${words[36]}" != $cpu ] || seen=$((seen + 1)) # `processor` is the 39th field, and the state the third
    done
done
kill "${busy[@]}"
wait "${busy[@]}" 2>/dev/null
echo "other_programs=$seen"

# One pinned program, which computes: the timer interrupts of five seconds, there and on CPU 1.
ticks() { awk -v cpu="$1" '$1 == "LOC:" { print $(cpu + 2) }' /proc/interrupts; }
taskset -c $cpu bash -c 'while :; do :; done' &
one=$!
taskset -c 1 bash -c 'while :; do :; done' &
other=$!
sleep 2
before=$(ticks $cpu) before_other=$(ticks 1)
sleep 5
echo "ticks=$(($(ticks $cpu) - before))"
echo "ticks_other=$(($(ticks 1) - before_other))"
kill $one $other
wait $one $other 2>/dev/null

modprobe nvme 2>/dev/null
for _ in $(seq 50); do
    [ -e /dev/nvme0n1 ] && break
    sleep 0.2
done
# The queue of the disk that CPU 3 shares with another CPU.
for irq in /proc/irq/[0-9]*; do
    name=$(ls "$irq" | grep -E 'nvme0q[1-9]') || continue
    cpus=$(value "$irq/smp_affinity_list")
    case $cpus in *3*) echo "queue=$name: $cpus, effective $(value "$irq/effective_affinity_list")" ;; esac
done

# Whether an isolated partition can be made of it, or on cgroup v1 an exclusive set.
if [ -e /sys/fs/cgroup/cpuset ]; then
    group=/sys/fs/cgroup/cpuset/probe
    mkdir $group
    echo $cpu >$group/cpuset.cpus
    echo 0 >$group/cpuset.mems
    echo 1 >$group/cpuset.cpu_exclusive 2>/dev/null
    sleep 1000 &
    echo $! >$group/tasks
    echo "partition=cpu_exclusive $(value $group/cpuset.cpu_exclusive), CPUs" \
        "$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/$!/status)"
    kill $!
    wait $! 2>/dev/null
else
    group=/sys/fs/cgroup/probe
    echo +cpuset >/sys/fs/cgroup/cgroup.subtree_control
    mkdir $group
    echo $cpu >$group/cpuset.cpus
    echo $cpu >$group/cpuset.cpus.exclusive 2>/dev/null
    echo isolated >$group/cpuset.cpus.partition 2>/dev/null
    echo "partition=$(value $group/cpuset.cpus.partition)"
    echo member >$group/cpuset.cpus.partition
fi
echo "nohz_full_after=$(value /sys/devices/system/cpu/nohz_full)"
rmdir $group
dmesg | grep -iE 'isolcpus|housekeeping|nohz_full' | sed 's/^\[[^]]*\] //' | grep -viE 'command line' | sort -u | sed 's/^/said=/'
