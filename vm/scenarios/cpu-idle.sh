# A limit for the exit latency of idle states is kept by the kernel, according to its own counters and its trace: of C1
# (2 us), C2 (133 us) and C3 (890 us) the shield uses what its limit allows, and the other CPUs use all.
# guest: 6.12-rt --power --timeout 400
# guest, slow: 6.1-rt --power --cgroup v1 --timeout 400
# guest, slow: sid-rt --power --timeout 400
. /host/lib.sh
needs apply undo run
cd /sys/devices/system/cpu
limit() { cat cpu$1/power/pm_qos_resume_latency_us; }
entered() { cat cpu$1/cpuidle/state$2/usage; }
# slept CPU: how often the CPU enters C2 and C3 in 2 s, in which a program in the shield sleeps 1,000 times.
slept() {
    local cpu=$1 c2 c3
    c2=$(entered $cpu 2) c3=$(entered $cpu 3)
    wait_for_periods
    echo "$(($(entered $cpu 2) - c2)) $(($(entered $cpu 3) - c3))"
}
wait_for_periods() {
    "${program[@]}" python3 -c 'import time; [time.sleep(0.002) for _ in range(1000)]'
}
is "the guest has these states" "POLL C1 C2 C3" eval 'echo $(cat cpu3/cpuidle/state*/name)'
is "and these latencies" "0 2 133 890" eval 'echo $(cat cpu3/cpuidle/state*/latency)'
snapshot /tmp/before
program=(taskset -c 3)
before=$(slept 3)
claim "without a shield CPU 3 enters C2 and C3 ($before)" test $((${before/ /+})) -gt 0
cpushield plan --cpus 3 --workload cyclic >/tmp/plan
claim "the plan names the states that are too deep" grep -F 'leaving C2 (133 µs), C3 (890 µs) takes longer than 20 µs' /tmp/plan

status "apply shields CPU 3 for a cyclic program" 0 cpushield apply --cpus 3 --workload cyclic
is "its limit is 20 us" 20 limit 3
is "that of another CPU is none" 0 limit 1
program=(cpushield run --)
# The counters of the other CPUs prove that the guest sleeps at all.
others=$(($(entered 0 2) + $(entered 0 3) + $(entered 1 2) + $(entered 1 3)))
is "in 1,000 periods CPU 3 enters neither C2 nor C3" "0 0" slept 3
others=$(($(entered 0 2) + $(entered 0 3) + $(entered 1 2) + $(entered 1 3) - others))
claim "the others enter them ($others times)" test $others -gt 0
tracing=/sys/kernel/tracing
echo 1 >$tracing/events/power/cpu_idle/enable
: >$tracing/trace
wait_for_periods
echo 0 >$tracing/events/power/cpu_idle/enable
is "the trace has no deep state of CPU 3" 0 grep -cE 'cpu_idle: state=[23] cpu_id=3' $tracing/trace
claim "it has C1 of CPU 3" grep -qE 'cpu_idle: state=1 cpu_id=3' $tracing/trace
: >$tracing/trace

status "the limit of the live shield is changed" 0 cpushield apply --cpus 3 --workload cyclic --on cpu-idle=200us
is "it is 200 us" 200 limit 3
deep=$(slept 3)
claim "C2 may be entered, and C3 is not ($deep)" test "${deep#* }" = 0
status "a second shield has a limit of its own" 0 cpushield apply --shield other --cpus 2 --workload cyclic --on cpu-idle=50us
is "that of CPU 2 is 50 us" 50 limit 2
is "that of CPU 3 stays" 200 limit 3
echo 0 >cpu2/online
echo 1 >cpu2/online
is "hotplug keeps it" 50 limit 2
status "undo of the second" 0 cpushield undo --shield other
is "CPU 2 has no limit again" 0 limit 2
is "CPU 3 keeps its own" 200 limit 3
status "undo of the first" 0 cpushield undo
as_before "everything is as before" /tmp/before
finish
