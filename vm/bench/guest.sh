# Runs one row of the benchmark in the guest. Arguments: ROW SECONDS. It writes its results to /host/out.
# The judge is the kernel's own trace of CPU 3, read as text afterwards, without code of cpushield.
row=$1 seconds=$2 cpu=3
out=/host/out
mkdir -p /root/bin
cp /host/cpushield /root/bin/ 2>/dev/null # program pages must not be read from the shared directory
PATH=/root/bin:/host/peers:$PATH
cp /host/tools/* /root/bin/
. /host/bench/rows.sh
. /host/bench/load.sh
. /host/bench/kernel_trace.sh

step() { echo "uptime $(cut -d' ' -f1 /proc/uptime): $*" >>$out/steps; } # to find where a guest hangs
seconds_of() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.2f", b - a }'; }

step before
before >$out/before.log 2>&1
step trace
trace_ready 2>$out/trace.log
senders_ready 2>/dev/null
step load
load_start $out/spawner
step setup
a=$EPOCHREALTIME
setup >$out/setup.log 2>&1
echo "setup_status=$?" >$out/facts
echo "setup_s=$(seconds_of "$a" "$EPOCHREALTIME")" >>$out/facts
sync

step workload
stalls() { dmesg | grep -cE 'rcu.*(stall|starved)|soft lockup|blocked for more than'; }
stalled=$(stalls)
rm -f /tmp/pid
workload spin /tmp/pid >$out/workload.log 2>&1 &
for _ in $(seq 60); do
    [ -s /tmp/pid ] && break
    sleep 0.5
done
pid=$(cat /tmp/pid) || echo "the workload did not start" >>$out/facts
step "workload runs as $pid"
sleep 3 # the after-effects of its start are over

: >$tracing/trace
step measure
echo 1 >$senders/tracing_on 2>/dev/null
read -r begin_tsc begin_ns < <(now)
echo 1 >$tracing/tracing_on
sleep "$seconds"
echo 0 >$tracing/tracing_on
read -r end_tsc end_ns < <(now)
step measured
{
    echo "pid=$pid"
    echo "ran_on=$(cut -d')' -f2 "/proc/$pid/stat" | cut -d' ' -f38)"
    echo "begin_tsc=$begin_tsc begin_ns=$begin_ns end_tsc=$end_tsc end_ns=$end_ns"
    echo "kernel=$(uname -r)"
    sed -n "s/^cpu=$cpu errno=\([0-9]*\).*/spawner_errno=\1/p" $out/spawner
    sed -n 's/^overrun: /lost=/p' $tracing/per_cpu/cpu$cpu/stats
} >>$out/facts
kill -9 "$pid"
cat $tracing/per_cpu/cpu$cpu/trace >$out/trace
cat $senders/trace >$out/senders 2>/dev/null
step undo
a=$EPOCHREALTIME
undo >$out/undo.log 2>&1
echo "undo_status=$?" >>$out/facts
echo "undo_s=$(seconds_of "$a" "$EPOCHREALTIME")" >>$out/facts
step done
load_stop
echo "stalls=$(($(stalls) - stalled))" >>$out/facts
