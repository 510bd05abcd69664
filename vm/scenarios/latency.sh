# `latency`: each instrument reports a known delay at the right time, with the right length and the right culprit.
# Doubts, refusals and missing devices are reported.
# guest, slow: 6.12-rt --timeout 400
# guest, slow: 6.1-rt --timeout 400
. /host/lib.sh
needs latency apply run
echo 1 >/proc/sys/kernel/printk

for instrument in timer timerfd wakeup eventfd spin; do held $instrument hold 3 1500 60; done

# ---- in a shield -------------------------------------------------------------------------------------
status "apply shields CPU 3" 0 cpushield apply --cpus 3
# value EXPRESSION: the value of a Python expression; d is the document.
value() { python3 -c 'import json, sys; d = json.load(open("/tmp/latency.json")); print(eval(sys.argv[1]))' "$1"; }
held "timer in the shield" cpushield run --quiet -- hold 3 1500 60
is "the shield is reported, and that it was active" "('cpushield', True)" \
    value "(d['isolation']['shield'], d['isolation']['held'])"
cpushield latency timer --for 3s --thread 5ms --thread 20ms --max 1h --histogram /tmp/histogram --json \
    >/tmp/latency.json 2>/tmp/said &
measurement=$!
measuring
sleep 1
echo member >/sys/fs/cgroup/cpushield/cpuset.cpus.partition
wait $measurement
is "a shield that is taken away during the run leaves no limit certain" 1 echo $?
claim "and it is reported" grep "its cpuset.cpus.partition is now member" /tmp/latency.json
# Plots of cyclictest's histograms (OSADL's latency plot) use lines without #, with a column for each thread.
grep -v -e '^#' -e '^$' /tmp/histogram | tr ' ' '\t' >/tmp/plot
for column in 2 3; do
    cut -f 1,$column /tmp/plot >/tmp/plot.$column
    beyond=$(sed -n 's/^# Histogram Overflows: //p' /tmp/histogram | cut -d ' ' -f $((column - 1)))
    is "column $column of the histogram has all samples of its thread" \
        "$(value "sorted(d['series'], key=lambda s: s['period_ns'])[$column - 2]['samples']")" \
        awk -v n="$beyond" '{ n += $2 } END { print n }' /tmp/plot.$column
done
status "undo" 0 cpushield undo

# ---- limits, and a CPU that goes offline ---------------------------------------------------------------------
status "a limit that nothing reaches holds" 0 cpushield latency timer --thread 10ms --cpus 3 --for 1s --max 1h
status "a limit that everything breaks does not" 1 cpushield latency timer --thread 10ms --cpus 3 --for 1s --max 1ns
cpushield latency timer --thread 10ms --cpus 3 --for 4s --why --max 1h --json >/tmp/latency.json 2>/tmp/said &
measurement=$!
measuring
sleep 1.5
echo 0 >/sys/devices/system/cpu/cpu3/online
wait $measurement
is "a CPU that goes makes the limit uncertain" 1 echo $?
echo 1 >/sys/devices/system/cpu/cpu3/online
claim "it is reported" grep "CPU 3 was offline" /tmp/latency.json
is "results from before are kept" True value "d['series'][0]['samples'] > 50"
is "and each of the worst has a cause or the reason why not" True \
    value "all('why' in worst for worst in d['series'][0]['worst'])"

# ---- without root ------------------------------------------------------------------------------------
plain() {
    setpriv --reuid 1000 --regid 1000 --clear-groups \
        cpushield latency timer --thread 10ms --cpus 3 --for 1s --json "$@"
}
plain >/tmp/latency.json 2>/tmp/said
is "a user may not have real-time threads" 3 echo $?
claim "and the message says so" grep "SCHED_FIFO 80" /tmp/said
plain --other --why >/tmp/latency.json 2>/tmp/said
is "ordinary threads are measured" 0 echo $?
claim "without a cause, and with the reason" grep -E '"note": *"causes-unknown"' /tmp/latency.json
claim "and with what the counters saw" grep -E '"note": *"frequent-interrupts"' /tmp/latency.json
is "no thread and no trace is left" "" \
    sh -c 'grep -ls "^latency/" /proc/[0-9]*/task/*/comm; ls /sys/kernel/tracing/instances 2>/dev/null'
finish
