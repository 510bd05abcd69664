# Two shields: they are made, listed and undone in any order and killed at any moment, and after each undo the machine
# is as if only the other one had ever been applied. No program enters either of them.
# `cpushield.kills` is how often an apply, and an undo, is killed.
# guest, slow: 6.1-rt --cgroup v1 --timeout 900 --append cpushield.kills=3
# guest, slow: 6.12-rt --timeout 1200
# guest, slow: 6.12-rt --systemd --timeout 1200
# guest, slow: sid-rt --timeout 1200
. /host/lib.sh
needs apply undo run status
list() { sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' "/proc/$1/status"; }
moved_to() { # CPU: where a program of the root may run after it has requested this CPU
    sleep 1000 &
    local pid=$!
    taskset -pc "$1" $pid >/dev/null 2>&1
    list $pid
    kill $pid
    wait $pid 2>/dev/null
}
function_calls() { awk '$1 == "CAL:" { print $5 }' /proc/interrupts; } # of CPU 3, the CPU of a
mask() { printf '%x\n' "$((0x$(cat /proc/irq/default_smp_affinity)))"; }
# The groups and the lists of the kernel appear with the first shield, so both have been made once before.
for name in a b; do
    cpus=3
    [ $name = a ] || cpus=2
    status "shield $name alone" 0 cpushield apply --shield $name --cpus $cpus
    snapshot /tmp/only-$name
    status "undo of $name alone" 0 cpushield undo --shield $name
done
snapshot /tmp/before

for first in a b; do
    other=b
    [ $first = a ] || other=a
    status "shield a" 0 cpushield apply --shield a --cpus 3
    status "shield b joins it" 0 cpushield apply --shield b --cpus 2
    status "a third one on the same CPU is refused" 2 cpushield apply --shield c --cpus 2
    status "b as it is: nothing changes" 0 cpushield apply --shield b --cpus 2
    status "b on the CPU of a is refused" 2 cpushield apply --shield b --cpus 2-3
    status "both are active" 0 cpushield status
    status "each can be asked for" 0 cpushield status --shield b
    status "an unknown one cannot" 3 cpushield status --shield mill
    is "interrupts that are requested later avoid both" 3 mask
    for cpu in 2 3; do
        case $(moved_to $cpu) in
            $cpu) not_ok "no program enters CPU $cpu" ;;
            *) ok "no program enters CPU $cpu" ;;
        esac
    done
    status "verify of b would interrupt a" 3 cpushield verify --shield b --for 1s
    calls=$(function_calls)
    cpushield verify --shield b --for 1s --disturb >/tmp/verify 2>&1
    echo "# verify of b has interrupted CPU 3 $(($(function_calls) - calls)) times"
    status "run without a name is a usage error" 125 cpushield run -- true
    cpushield run --shield $other -- sleep 1000 &
    program=$!
    wanted=2
    [ $other = b ] || wanted=3
    for _ in $(seq 100); do
        [ "$(list $program)" = $wanted ] && break
        sleep 0.2
    done
    is "a program runs in shield $other" $wanted list $program
    status "undo without a name is a usage error" 2 cpushield undo
    status "undo of $first" 0 cpushield undo --shield $first
    is "the program stays in shield $other" $wanted list $program
    kill $program
    wait $program 2>/dev/null
    as_before "only $other was ever applied" /tmp/only-$other
    status "$other is active" 0 cpushield status
    status "undo of $other" 0 cpushield undo
    as_before "undo of $first, then $other: as before" /tmp/before
done

kills=$(kill_times 02 05 08 12 18 26 38 55)
status "shield a" 0 cpushield apply --shield a --cpus 3
for hundredths in $kills; do
    cpushield apply --shield b --cpus 2 >/tmp/apply 2>&1 &
    job=$!
    sleep 0.$hundredths
    kill -9 $job 2>/dev/null
    wait $job 2>/dev/null
    ended=$?
    cpushield undo --shield b >/tmp/undo 2>&1
    code=$?
    as_before "apply of b killed after 0.$hundredths s (ended $ended), undo ended $code: only a" /tmp/only-a
done
for hundredths in $kills; do
    cpushield apply --shield b --cpus 2 >/tmp/apply 2>&1 || not_ok "b joins: $(cat /tmp/apply)"
    cpushield undo --shield b >/tmp/undo 2>&1 &
    job=$!
    sleep 0.$hundredths
    kill -9 $job 2>/dev/null
    wait $job 2>/dev/null
    ended=$?
    cpushield undo --shield b >/tmp/undo 2>&1
    code=$?
    as_before "undo of b killed after 0.$hundredths s (ended $ended), undo ended $code: only a" /tmp/only-a
done
status "a is active" 0 cpushield status --shield a
status "b again" 0 cpushield apply --shield b --cpus 2
status "undo of all" 0 cpushield undo --all
as_before "as before" /tmp/before

printf '[shield.b]\ncpus = "2"\n[shield.a]\ncpus = "3"\n' >/tmp/two.toml
printf '[shield.b]\ncpus = "2-3"\n[shield.a]\ncpus = "3"\n' >/tmp/same.toml
status "a policy whose shields request one CPU is refused" 2 cpushield apply --all --policy /tmp/same.toml
as_before "the refused policy changed nothing" /tmp/before
status "both shields of a policy" 0 cpushield apply --all --policy /tmp/two.toml
status "both are active" 0 cpushield status
is "interrupts avoid both" 3 mask
status "the same policy: nothing changes" 0 cpushield apply --all --policy /tmp/two.toml
status "undo of b" 0 cpushield undo --shield b
as_before "only a is left of the policy" /tmp/only-a
status "the policy again" 0 cpushield apply --all --policy /tmp/two.toml
status "the shields of the policy are taken down" 0 cpushield undo --all --policy /tmp/two.toml
as_before "undo of the policy: as before" /tmp/before
for hundredths in 10 20 35 60; do
    cpushield apply --all --policy /tmp/two.toml >/tmp/apply 2>&1 &
    job=$!
    sleep 0.$hundredths
    kill -9 $job 2>/dev/null
    wait $job 2>/dev/null
    ended=$?
    cpushield undo --all >/tmp/undo 2>&1
    code=$?
    as_before "apply --all killed after 0.$hundredths s (ended $ended), undo ended $code: as before" /tmp/before
done
finish
