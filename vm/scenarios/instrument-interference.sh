# verify never says `holds` if another process disabled or changed its instruments in any way.
# slow: it takes eight minutes or more on a loaded host
# guest: 6.12-rt --timeout 3600 --append "nohz_full=3 rcu_nocbs=3 irqaffinity=0"
# guest, slow: 6.1-rt --timeout 3600 --append "nohz_full=3 rcu_nocbs=3 irqaffinity=0"
# guest, slow: sid-rt --timeout 3600 --append "nohz_full=3 rcu_nocbs=3 irqaffinity=0"
# guest, slow: 6.12 --timeout 3600 --append "nohz_full=3 rcu_nocbs=3 irqaffinity=0"
# guest, slow: 6.12-rt --timeout 10800 --append "nohz_full=3 rcu_nocbs=3 irqaffinity=0 blind=all"
. /host/lib.sh
needs apply run verify
# khugepaged would send an interrupt to every CPU now and then (tlb_remove_table_sync_one(), mm/khugepaged.c).
status "apply shields CPU 3" 0 cpushield apply --cpus 3 --on thp
grep -q blind=all /proc/cmdline && every=all || every=''
python3 /host/guest/blind.py 3 $every || failed=$((failed + 1))
finish
