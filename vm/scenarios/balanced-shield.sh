# In a shield whose CPUs the kernel balances, verify sees load balancing, and names what removes it. In the shield without
# balancing the same programs are interrupted by none of it.
# guest, slow: 6.12-rt --append "nohz_full=1-3 rcu_nocbs=1-3 irqaffinity=0" --timeout 400
# guest, slow: 6.1-rt --cgroup v1 --timeout 400
. /host/lib.sh
needs apply undo verify plan
# Three busy processes for two CPUs: the scheduler moves one of them again and again.
cat >/tmp/busy.sh <<'END_OF_PROGRAM'
for n in 1 2 3; do
    while :; do :; done &
done
wait
END_OF_PROGRAM
of_watch() { # a condition on `balancing`, the interruptions by load balancing, each with its remedy
    python3 -c '
import json, sys
verdict = json.load(open("/tmp/watch"))["verdict"]
leaks = [leak for cpu in verdict["cpus"] for leak in cpu["leaks"]]
def of_balancing(leak):
    text = leak["interruptions"]["culprit"]["text"]
    return "migration/" in text or text.startswith("SCHED")
balancing = [(leak["interruptions"]["culprit"]["text"], (leak["remedy"] or {}).get("how")) for leak in leaks if of_balancing(leak)]
if not eval(sys.argv[1]):
    sys.exit(json.dumps([balancing, leaks])[:3000])' "$1" 2>&1
}
snapshot /tmp/before
claim "the plan says what a balanced shield does not keep away" \
    sh -c 'cpushield plan --cpus 2-3 --balance | grep "the shield is balanced: the scheduler moves its programs"'
status "a balanced shield" 0 cpushield apply --cpus 2-3 --balance
status "it does not hold under more programs than CPUs" 1 \
    sh -c 'cpushield verify --for 10s --json -- bash /tmp/busy.sh >/tmp/watch 2>/tmp/said'
claim "load balancing is named" of_watch 'len(balancing) > 0'
claim "with the shield that has none" of_watch 'all(how == "cpushield apply --cpus 2-3" for _, how in balancing)'
status "that shield" 0 cpushield apply --cpus 2-3
cpushield verify --for 10s --json -- bash /tmp/busy.sh >/tmp/watch 2>/tmp/said
claim "there, nothing is balanced" of_watch 'balancing == []'
status "undo" 0 cpushield undo
as_before "as before" /tmp/before
finish
