# verify never says `holds` if another process disabled or changed its instruments in any way. Each guest tries another
# way of each method (blind.py); `--append blind=all` tries every way, which takes an hour.
# slow: it takes eight minutes or more on a loaded host
# guest: 6.12-rt --timeout 3600 --append "nohz_full=3 rcu_nocbs=3 irqaffinity=0"
# guest, slow: 6.1-rt --timeout 3600 --append "nohz_full=3 rcu_nocbs=3 irqaffinity=0 blind=1"
# guest, slow: sid-rt --timeout 3600 --append "nohz_full=3 rcu_nocbs=3 irqaffinity=0 blind=2"
# guest, slow: 6.12 --timeout 3600 --append "nohz_full=3 rcu_nocbs=3 irqaffinity=0 blind=3"
. /host/lib.sh
needs apply run verify
# khugepaged would send an interrupt to every CPU now and then (tlb_remove_table_sync_one(), mm/khugepaged.c).
status "apply shields CPU 3" 0 cpushield apply --cpus 3 --on thp
ways=$(sed -n 's/.*blind=\([^ ]*\).*/\1/p' /proc/cmdline)
# shellcheck disable=SC2086
python3 /host/guest/blind.py 3 $ways || failed=$((failed + 1))
finish
