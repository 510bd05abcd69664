# Each cause is provoked on purpose on a shielded CPU, a known number of times. `verify` names it with the same
# count, and names nothing else.
# slow: it takes minutes on a loaded host
# guest: 6.12-rt --timeout 900 --append "nohz_full=1-3 rcu_nocbs=1-3 irqaffinity=0"
# guest: 6.12-rt --timeout 400 --append "irqaffinity=0"
. /host/lib.sh
needs apply add run verify
echo 1 >/proc/sys/kernel/printk # backtraces of NMIs would use the serial line
status "apply shields CPU 3" 0 cpushield apply --cpus 3
python3 /host/guest/lab.py 3 || failed=$((failed + 1))

# A real-time task occupies the shielded CPU before verify starts.
cpushield run --fifo 50 -- spin /tmp/spin 2>/dev/null &
run=$!
for _ in $(seq 100); do
    [ -s /tmp/spin ] && break
    sleep 0.2
done
timeout -s KILL 120 cpushield verify --busy --for 2s --json >/tmp/verdict 2>/tmp/errors
claim "with a FIFO spinner verify ends by itself" test $? -le 1
claim "and its trace has watched, or says why not" python3 -c '
import json
witnesses = json.load(open("/tmp/verdict"))["evidence"]["witnesses"]
trace = next(witness for witness in witnesses if witness["kind"] == "trace")
assert trace["absent"] is None or "FIFO" in trace["absent"], trace
'
kill -TERM $run
wait $run 2>/dev/null
status "undo" 0 cpushield undo
finish
