# After apply is killed at any moment, the next undo restores everything.
# guest, slow: 6.12-rt --timeout 400
# guest, slow: 6.12-rt --systemd --timeout 400
# guest, slow: 6.1-rt --cgroup v1 --timeout 400
. /host/lib.sh
needs apply undo
taskset -c 3 sleep 1000 &
snapshot /tmp/before
for hundredths in 01 02 03 05 08 12 18 26 38 55 80; do
    cpushield apply --cpus 3 >/tmp/apply 2>&1 &
    job=$!
    sleep 0.$hundredths
    kill -9 $job 2>/dev/null
    wait $job 2>/dev/null
    ended=$?
    cpushield undo >/tmp/undo 2>&1
    code=$?
    as_before "apply killed after 0.$hundredths s (ended $ended), undo ended $code: as before" /tmp/before
    [ -e /var/lib/cpushield/journal.jsonl ] && not_ok "no shield is left on record"
done
finish
