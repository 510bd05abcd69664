# A program that sleeps: its own interruptions are separated from foreign ones, each planted item is found, and the longest
# delays are those that the program measured itself.
# guest: 6.12-rt --append "nohz_full=1-3 rcu_nocbs=1-3 irqaffinity=0"
# guest, slow: 6.1-rt
# guest, slow: 6.12
# guest, slow: sid-rt --append "nohz_full=1-3 rcu_nocbs=1-3 irqaffinity=0"
. /host/lib.sh
needs apply undo verify run
status "apply shields CPU 3 for a cyclic program" 0 cpushield apply --cpus 3 --workload cyclic
echo 0 >/proc/sys/kernel/timer_migration
python3 /host/guest/cyclic.py 3 || failed=$((failed + 1))
status "undo" 0 cpushield undo
finish
