# The positive control on a CPU that is idle and polls: since 5.8 the kernel sends it no function-call IPI
# (call_function_single_prep_ipi(), kernel/sched/core.c, 6.12), so that none is seen there proves nothing.
# guest, slow: 6.12-rt --smp 2 --timeout 600 --append "idle=poll nohz_full=1 rcu_nocbs=1 irqaffinity=0"
. /host/lib.sh

watched() { cpushield verify --for 3s "$@" >/tmp/said 2>&1; }
seen='every witness saw the positive control'

status "a shield on the second CPU" 0 cpushield apply --cpus 1
watched
is "the busy loop of the sampler sees the control" 1 grep -c "$seen" /tmp/said

cpushield run -- sleep 1000 &
sleep 3
watched --busy
# The first of the two controls may reach it, when something has just run there.
is "an idle CPU is named" 1 grep -cE 'CPU 1 was idle (before|after) the span' /tmp/said
is "the control of an idle CPU is not missed" 0 grep -c 'positive control was not seen' /tmp/said
is "the control leaves nothing behind in the span" 0 grep -c 'perf_sched_delayed' /tmp/said
cpushield remove "$(pgrep -x sleep)" >/dev/null
pkill -x sleep
wait

# It sleeps most of the time, and wakes up often.
cpushield run -- sh -c 'while :; do sleep 0.02; done' &
sleep 3
watched --busy
is "a CPU that is busy at times sees the control" 1 grep -c "$seen" /tmp/said
pkill -f 'sleep 0.02'
wait
finish
