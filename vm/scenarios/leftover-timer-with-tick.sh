# Timers that were armed on a CPU which ticks, before it was shielded: the plan names those that a file of the kernel
# shows, and offers the CPU cycle with its cost. `verify` names a timer of the wheel, which no file shows. The cycle moves
# it away.
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
for i in $(seq 100); do grep -q armed /tmp/armed && break; sleep 0.1; done
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
finish
