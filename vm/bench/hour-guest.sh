# Watches CPU 3 for a long time in the guest, with verify and with the kernel's own trace. Arguments: KIND of the load,
# SECONDS. The kernel's trace covers SECONDS; verify watches for two minutes more, one before and one after.
kind=$1 seconds=$2 cpu=3
out=/host/out
mask=$(printf %x $((1 << cpu)))
mkdir -p /root/bin
cp /host/cpushield /root/bin/ # program pages must not be read from the shared directory
PATH=/root/bin:$PATH
cp /host/tools/* /root/bin/
. /host/bench/load.sh
. /host/bench/kernel_trace.sh

trace_ready 2>$out/trace.log
senders_ready 2>/dev/null
forks() { sed -n 's/^processes //p' /proc/stat; }
load_start $out/spawner "$kind"
cpushield apply --cpus $cpu >$out/setup.log 2>&1
echo "setup_status=$?" >$out/facts
rm -f /tmp/pid
cpushield verify --for $((seconds + 120))s --json -- spin /tmp/pid >$out/verify.json 2>$out/verify.log &
verify=$!
for _ in $(seq 120); do
    [ -s /tmp/pid ] && break
    sleep 0.5
done
pid=$(cat /tmp/pid) || echo "the workload did not start" >>$out/facts
sleep 60 # the watch has begun, and the effects of its start are over
: >$tracing/trace
echo 1 >$senders/tracing_on 2>/dev/null
forked=$(forks)
read -r begin_tsc begin_ns < <(now)
echo 1 >$tracing/tracing_on
sleep "$seconds"
echo 0 >$tracing/tracing_on
read -r end_tsc end_ns < <(now)
{
    echo "pid=$pid"
    echo "begin_tsc=$begin_tsc begin_ns=$begin_ns end_tsc=$end_tsc end_ns=$end_ns"
    echo "kernel=$(uname -r)"
    echo "forks=$(($(forks) - forked))"
    sed -n "s/^cpu=$cpu errno=\([0-9]*\).*/spawner_errno=\1/p" $out/spawner
    sed -n 's/^overrun: /lost=/p' $tracing/per_cpu/cpu$cpu/stats
} >>$out/facts
cat $tracing/per_cpu/cpu$cpu/trace >$out/trace
cat $senders/trace >$out/senders 2>/dev/null
wait $verify
echo "verify_status=$?" >>$out/facts
cpushield undo >$out/undo.log 2>&1
echo "undo_status=$?" >>$out/facts
load_stop
echo "stalls=$(dmesg | grep -cE 'rcu.*(stall|starved)|soft lockup|blocked for more than')" >>$out/facts
