# A watch of an hour that is killed leaves a file that says how long it was unbroken, no verdict, and a machine from which
# undo restores everything. A measurement of latency that is killed leaves its figures.
# guest, slow: 6.12-rt --append "nohz_full=1-3 rcu_nocbs=1-3 irqaffinity=0" --timeout 600
. /host/lib.sh
needs apply undo verify latency compare
snapshot /tmp/before
status "the shield" 0 cpushield apply --cpus 3

cpushield verify --for 1h -o /tmp/hour.json >/tmp/said 2>&1 &
job=$!
is "before the watch ends, the file is empty or missing" "" sh -c 'cat /tmp/hour.json 2>/dev/null'
for _ in $(seq 1500); do [ -s /tmp/hour.json ] && break; sleep 0.2; done
kill -9 $job
wait $job 2>/dev/null
of_file() { # a condition on the document of the watch
    python3 -c '
import json, sys
watch = json.load(open("/tmp/hour.json"))
if not eval(sys.argv[1]):
    sys.exit(json.dumps(watch)[:2000])' "$1" 2>&1
}
claim "after a minute the file says how long the watch was" of_file \
    'watch["asked_ns"] == 3600 * 10**9 and 60 * 10**9 <= watch["watched_ns"] < 120 * 10**9'
claim "and which CPU it watched, with the entries so far" of_file 'watch["cpus"] == "3" and watch["entries"] is not None'
claim "it has no verdict" of_file '"verdict" not in watch and "state" not in watch'
status "it is no document to compare" 2 sh -c 'cpushield compare /tmp/hour.json /tmp/hour.json >/tmp/said 2>&1'
claim "the error says how long the watch was unbroken" grep -E 'ended early, after [0-9.]+s of 3600s' /tmp/said
sed 's/^/# /' /tmp/said
claim "the next watch works" sh -c 'cpushield verify --for 2s --json | grep -q "\"state\""'

options="timer --thread 20ms --cpus 3"
cpushield latency $options --for 24h -o /tmp/day.json >/tmp/said 2>&1 &
job=$!
samples() { python3 -c 'import json; print(json.load(open("/tmp/day.json"))["series"][0]["samples"])' 2>/dev/null || echo 0; }
for _ in $(seq 600); do [ "$(samples)" -gt 50 ] && break; sleep 0.2; done
kill -9 $job
wait $job 2>/dev/null
before=$(samples)
claim "the killed measurement has samples ($before)" [ "$before" -gt 50 ]
status "another measurement does not overwrite it" 2 cpushield latency $options --for 1s -o /tmp/day.json
is "its file still has them" "$before" samples
status "undo" 0 cpushield undo
as_before "as before" /tmp/before
finish
