# A timer was armed on the CPU before the shield, and always rearms itself there. With nohz_full, another CPU runs it
# and interrupts the shielded CPU each time. `verify` names the sender, the timer and the remedy, and `--fix` removes it.
# On a CPU that ticks, the plan names the timers that a file of the kernel shows, and offers the CPU cycle with its
# cost. `verify` names a timer of the wheel, which no file shows, and the cycle moves it away.
# guest, slow: 6.12-rt --append "nohz_full=1-3 rcu_nocbs=1-3 irqaffinity=0" --timeout 400
# guest, slow: 6.12-rt --timeout 500
# guest, slow: 6.1-rt --timeout 500
. /host/lib.sh
needs plan apply undo verify
ip link set lo up
cat >/tmp/keepalive.py <<'END'
import socket, time
server = socket.create_server(("127.0.0.1", 5000))
client = socket.create_connection(("127.0.0.1", 5000))
peer, _ = server.accept()
for end in (client, peer):
    end.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 1)
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 1)
print("armed", flush=True)
time.sleep(1000)
END
taskset -c 3 python3 /tmp/keepalive.py >/tmp/armed &
keeper=$!
for i in $(seq 100); do grep -q armed /tmp/armed && break; sleep 0.1; done
# A program that is pinned there would move into the shield.
taskset -pc 0 $keeper >/dev/null
check_on_a_cpu_that_ticks() {
    leftovers() { # a condition on the plan's warning
        cpushield plan --cpus 3 --json | python3 -c '
import json, sys
warnings = [it for it in json.load(sys.stdin)["warnings"] if "armed on CPU 3" in it["text"]]
if not eval(sys.argv[1]):
    sys.exit(json.dumps(warnings)[:2000])' "$1" 2>&1
    }
    claim "the plan warns of what was armed on CPU 3" leftovers 'len(warnings) == 1'
    shown=$(awk '/^cpu: / { cpu = $2 } cpu == 3 && /watchdog_timer_fn/ { print "shown" }' /proc/timer_list)
    is "the kernel shows the timer of the lockup detector there" shown echo "$shown"
    claim "the plan names it" leftovers '"watchdog_timer_fn" in warnings[0]["text"]'
    claim "and the step that moves all of them, with its cost" leftovers \
        '"--on cpu-hotplug-cycle" in warnings[0]["text"] and "stop_machine" in warnings[0]["text"]'
    watched() { cpushield verify --for 6s --json >/tmp/watch 2>/tmp/said; }
    status "the shield" 0 cpushield apply --cpus 3
    watched
    claim "verify names the timer of the wheel" grep -q tcp_keepalive_timer /tmp/watch
    status "the shield with the cycle" 0 sh -c 'cpushield undo && cpushield apply --cpus 3 --on cpu-hotplug-cycle'
    # Since 6.9 a busy CPU also expires the timers of idle ones (kernel/time/timer_migration.c), so the others are busy.
    for cpu in 0 1 2; do
        taskset -c $cpu sh -c 'while :; do :; done' &
    done
    claim "the plan then warns of nothing" sh -c \
        '! cpushield plan --cpus 3 --on cpu-hotplug-cycle 2>/dev/null | grep "armed on CPU 3"'
    watched
    claim "that timer no longer interrupts CPU 3" sh -c '! grep tcp_keepalive_timer /tmp/watch'
    claim "the watch saw the rest" grep -q '"cause": *"tick"' /tmp/watch
    status "undo" 0 cpushield undo
}
check_without_a_tick() {
    # A shield whose plan lacks the step that removes such timers.
    cpushield plan --cpus 3 --json | python3 -c '
import json, sys
plan = json.load(sys.stdin)
plan["steps"] = [step for step in plan["steps"] if step["tunable"] != "cpu-hotplug-cycle"]
json.dump(plan, open("/tmp/plan", "w"))'
    status "apply a plan that does not sweep" 0 cpushield apply /tmp/plan
    # The kernel sends the interrupt only while it regards the CPU as idle (`is_idle` in trigger_dyntick_cpu(),
    # kernel/time/timer.c), also under a program that started there without a tick. If the program had a tick at first
    # (a guess, by tick_nohz_idle_update_tick() in tick-sched.c, 6.12), no interrupt is sent, and the sampler starts
    # again.
    for try in 1 2 3 4 5 6 7 8; do
        cpushield verify --fix --for 4s --json >/tmp/fixed 2>/tmp/errors
        ! python3 -c 'import json; exit(len(json.load(open("/tmp/fixed"))["rounds"]) < 2)' || break
        sleep 1
    done
    echo "# looked $try times"
    cat /tmp/errors
    of_rounds() { # a condition on the rounds
        python3 -c '
import json, sys
rounds = json.load(open("/tmp/fixed"))["rounds"]
leaks = [[leak for cpu in it["verdict"]["cpus"] for leak in cpu["leaks"]] for it in rounds]
if not eval(sys.argv[1]):
    sys.exit(json.dumps([leaks, [it["done"] for it in rounds]])[:3000])
' "$1" 2>&1
    }
    claim "the kick is named, with its remedy" of_rounds 'any(
    leak["interruptions"]["cause"] == "ipi-call"
    and leak["interruptions"]["culprit"]["text"].startswith("nohz_full_kick_func")
    and (leak["remedy"] or {}).get("tunable") == "cpu-hotplug-cycle"
    for leak in leaks[0])'
    claim "it is swept away" of_rounds 'any(
    fix["tunable"] == "cpu-hotplug-cycle" and fix["result"] == "changed" for fix in rounds[0]["done"])'
    claim "and that timer kicks no more" of_rounds '"tcp_keepalive_timer" not in json.dumps(rounds[-1])'
    status "undo" 0 cpushield undo
}
if grep -q nohz_full= /proc/cmdline; then
    check_without_a_tick
else
    check_on_a_cpu_that_ticks
fi
finish
