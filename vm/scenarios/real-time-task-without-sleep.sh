# A real-time task that never sleeps starts while the shield is active, or before it. apply and undo end with a
# clear outcome, and nothing waits forever.
# guest, slow: 6.12-rt --timeout 400
# guest, slow: 6.12 --timeout 400
# guest, slow: 6.1-rt --timeout 400
. /host/lib.sh
needs apply undo
# A write that never returns ends the scenario but not the guest.
shield() { timeout -s KILL 40 cpushield "$@"; }
# The timer of a program that slept on CPU 3 would be there, below the task on PREEMPT_RT.
taskset -pc 0-2 $$ >/dev/null
rcu=$(pgrep -x rcuc/3)
timers=$(pgrep -x ktimers/3)
fair_server=/sys/kernel/debug/sched/fair_server/cpu3/runtime
runtime=/proc/sys/kernel/sched_rt_runtime_us
served() { # whether ordinary threads of CPU 3 get some time despite real-time tasks
    if [ -e $fair_server ]; then test "$(cat $fair_server)" != 0; else test "$(cat $runtime)" != -1; fi
}
# Priority and last CPU.
spinning() { awk '{ sub(/^.*\) /, ""); print $38, $37 }' "/proc/$spinner/stat"; }
spin() { # a program that never gives up CPU 3
    [ -z "$rcu" ] || { chrt -f -p 60 "$rcu" && chrt -f -p 60 "$timers"; }
    rm -f /tmp/spin
    taskset -c 3 chrt -f 50 spin /tmp/spin &
    spinner=$!
    while [ ! -s /tmp/spin ]; do sleep 0.2; done
    is "spin runs under FIFO 50 on CPU 3" "50 3" spinning
}
stop() {
    kill -KILL $spinner
    wait $spinner 2>/dev/null
    [ -z "$rcu" ] || { chrt -f -p 1 "$rcu" && chrt -f -p 1 "$timers"; }
}
snapshot /tmp/before

# The task starts when nothing guarantees other threads any time.
status "apply without a group" 0 shield apply --cpus 3 --off cpuset --on rt-throttling
if served; then
    skip "nothing gives other threads time" "this kernel does not let its fair server be switched off"
else
    ok "nothing gives other threads time"
fi
spin
shield undo >/tmp/said 2>&1
is "undo ends" 0 echo $?
claim "it took the priority from the program first" \
    grep -F "spin ($spinner, SCHED_FIFO 50) continues as an ordinary program" /tmp/said
is "which runs on" "0 3" spinning
stop
as_before "everything is as it was" /tmp/before

# The task starts first.
spin
if [ -n "$rcu" ]; then
    chrt -f -p 50 "$rcu"
    shield apply --cpus 3 >/tmp/said 2>&1
    is "on this kernel nothing would ever end, so apply is refused" 3 echo $?
    claim "with the task, its policy, and what waits for it" \
        grep -F "CPU 3 is busy with spin ($spinner, SCHED_FIFO 50), which does not sleep, and rcuc/3" /tmp/said
    claim "and what to do" grep -F "chrt -o -p 0 $spinner" /tmp/said
    claim "nothing was begun" test ! -e /var/lib/cpushield/journal.jsonl
    chrt -f -p 60 "$rcu"
fi
status "apply ends without a group" 0 shield apply --cpus 3 --off cpuset --on rt-throttling
claim "what gives other threads time is not switched off, and the task is named" \
    grep -qF "CPU 3 is busy with spin ($spinner, SCHED_FIFO 50)" /var/lib/cpushield/journal.jsonl
claim "other threads get time" served
is "so the watchdog has the new mask" 0-2 cat /proc/sys/kernel/watchdog_cpumask
status "undo ends" 0 shield undo
is "spin is what it was" "50 3" spinning
if [ -n "$rcu" ]; then
    status "with a group the task would stop RCU on another CPU: refused" 3 shield apply --cpus 3
    claim "nothing was begun" test ! -e /var/lib/cpushield/journal.jsonl
else
    status "apply ends with a group" 0 shield apply --cpus 3
    is "spin, which is pinned to CPU 3, is a program of the shield" 3 \
        sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/$spinner/status
    status "undo ends" 0 shield undo
fi
stop
as_before "everything is as it was" /tmp/before

# The task starts first, and nothing guarantees other threads any time: steps that wait for them are not done.
if [ -e $fair_server ]; then
    skip "a step that would wait forever" "this kernel does not let its fair server be switched off"
    finish
fi
kept=$(cat $runtime)
echo -1 >$runtime
spin
status "apply ends without a group" 0 shield apply --cpus 3 --off cpuset
is "the watchdog still has the old mask" 0-3 cat /proc/sys/kernel/watchdog_cpumask
claim "and the task is named" \
    grep -qF "forever for a thread of this CPU; stop it, or make it an ordinary task (chrt -o -p 0 $spinner)" \
    /var/lib/cpushield/journal.jsonl
status "undo ends" 0 shield undo
is "spin is what it was" "50 3" spinning
stop
echo "$kept" >$runtime
as_before "everything is as it was" /tmp/before
finish
