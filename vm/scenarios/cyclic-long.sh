# A program that sleeps, for 50,000 activations: the kernel's own events, read by the guest, confirm every foreign row.
# guest, slow: 6.12-rt --append "nohz_full=1-3 rcu_nocbs=1-3 irqaffinity=0"
# guest, slow: sid-rt
. /host/lib.sh
needs apply undo verify run
status "apply shields CPU 3 for a cyclic program" 0 cpushield apply --cpus 3 --workload cyclic
echo 0 >/proc/sys/kernel/timer_migration
python3 /host/guest/cyclic.py 3 long || failed=$((failed + 1))
status "undo" 0 cpushield undo
finish
