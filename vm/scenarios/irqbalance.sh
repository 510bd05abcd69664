# irqbalance moves interrupts every few seconds. apply bans it from the shielded CPU, and it obeys.
# guest, slow: 6.12-rt --systemd --net --timeout 400
. /host/lib.sh
needs apply undo
modprobe e1000e
sleep 1
systemctl start irqbalance
sleep 3
claim "irqbalance runs" pgrep -x irqbalance
before=$(pgrep -x irqbalance)
status "apply shields CPU 3" 0 cpushield apply --cpus 3
list() { # movable interrupts that name CPU 3
    local dir list
    for dir in /proc/irq/[0-9]*; do
        list=$(cat "$dir/smp_affinity_list" 2>/dev/null) || continue
        covers "$list" 3 || continue
        echo 0-2 2>/dev/null >"$dir/smp_affinity_list" && echo "${dir##*/} is on $list"
    done
}
sleep 25 # two periods of irqbalance
is "two rounds later no interrupt that can be moved is on CPU 3" "" list
is "irqbalance was not killed" "$before" pgrep -x irqbalance
status "undo" 0 cpushield undo
claim "irqbalance still runs" pgrep -x irqbalance
finish
