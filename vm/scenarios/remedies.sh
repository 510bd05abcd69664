# Each remedy that verify offers at runtime is applied and looked at: the interruption is gone. What no tunable removes has
# no remedy: work whose mask was put back, and what another tracer sends.
# guest: 6.12-rt --append "nohz_full=1-3 rcu_nocbs=1-3 irqaffinity=0"
# guest, slow: sid-rt --append "nohz_full=1-3 rcu_nocbs=1-3 irqaffinity=0"
. /host/lib.sh
needs apply undo verify
status "apply shields CPU 3" 0 cpushield apply --cpus 3
python3 /host/guest/remedies.py 3 || failed=$((failed + 1))
status "undo" 0 cpushield undo
finish
