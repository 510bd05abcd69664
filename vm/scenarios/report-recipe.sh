# The commands that a report gives to repeat it, in a shell and in an empty directory: each runs, they make the same
# kinds of documents under the same conditions, and leave no shield. The report of the repetition has the same commands.
# guest, slow: 6.12-rt --append "nohz_full=1-3 rcu_nocbs=1-3 irqaffinity=0" --timeout 500
# guest, slow: 6.1-rt --cgroup v1 --timeout 500
. /host/lib.sh
needs survey plan verify latency report apply undo
snapshot /tmp/before
mkdir /tmp/first /tmp/again
cd /tmp/first
measured() { # NAME: with options that are not the defaults
    cpushield verify --cpus 3 --for 2s --warmup 300ms --syscalls --json >verify-$1.json
    cpushield latency timer --cpus 3 --for 3s --thread 10ms --fifo 70 --json >latency-$1.json
}
cpushield survey --json >machine.json
measured before
cpushield plan --cpus 3 --off mce-check-interval -o shield.plan >/dev/null
status "the shield" 0 cpushield apply shield.plan
measured after
status "undo" 0 cpushield undo
recipe() { # of a report in Markdown
    awk '/^In a shell, as root/ { found = 1 } found && /^```/ { inside++; next } inside == 1' "$1"
}
status "the report" 0 cpushield report machine.json before=verify-before.json latency-before.json shield.plan \
    verify-after.json latency-after.json -o /tmp/first.md
recipe /tmp/first.md >/tmp/recipe
sed 's/^/# /' /tmp/recipe
is "it has nine commands" 9 sh -c 'grep -c "^cpushield " /tmp/recipe'

rm /tmp/first.md
cd /tmp/again
while read -r line; do
    said=$(bash -c "$line" 2>&1 </dev/null)
    code=$?
    # A watch without a shield, or in emulation, has a negative result.
    if [ $code = 0 ] || { [ $code = 1 ] && [[ $line = "cpushield verify "* ]]; }; then
        ok "$line (exit status $code)"
    else
        not_ok "$line (exit status $code)"
        echo "$said" | sed 's/^/#   /'
    fi
done </tmp/recipe
as_before "as before" /tmp/before
# The documents of both, each with its kind and what it was made with: CPUs, options, the shield.
conditions() {
    python3 - "$1" <<'END_OF_PYTHON'
import json, sys
from pathlib import Path
rows = []
for file in Path(sys.argv[1]).iterdir():
    it = json.loads(file.read_text())
    if "evidence" in it:
        cpus = [cpu["cpu"] for cpu in it["evidence"]["cpus"]]
        rows.append(("verify", cpus, it["evidence"]["options"], it["verdict"].get("shield")))
    elif "series" in it:
        series = it["series"][0]
        rows.append(("latency", it["asked_ns"], series["cpu"], series["period_ns"], it["isolation"]["shield"]))
    elif "steps" in it:
        rows.append(("plan", it["shield"]["cpus"], [step["tunable"] for step in it["steps"]]))
    else:
        rows.append(("survey", it["kernel"]["release"]))
print(*sorted(map(str, rows)), sep="\n")
END_OF_PYTHON
}
conditions /tmp/first >/tmp/conditions
claim "the conditions of six documents are known" test "$(wc -l </tmp/conditions)" = 6
is "the repetition has the same documents, made in the same way" "$(cat /tmp/conditions)" conditions /tmp/again
is "the report of the repetition has the same commands" "$(cat /tmp/recipe)" recipe /tmp/first.md
finish
