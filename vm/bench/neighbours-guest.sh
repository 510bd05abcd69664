# Counts in the guest what interrupts CPU 3, the CPU of shield `a`, while shield `b` is made, changed, undone and verified
# beside it, and while CPU 2 is taken offline and online. Arguments: how often each of the three. Each phase has a trace
# of its own.
rounds=$1 verified=$2 cycles=$3 cpu=3
out=/host/out
mask=$(printf %x $((1 << cpu)))
mkdir -p /root/bin
cp /host/cpushield /root/bin/ # program pages must not be read from the shared directory
PATH=/root/bin:$PATH
cp /host/tools/* /root/bin/
. /host/bench/load.sh
. /host/bench/kernel_trace.sh

make_b() { cpushield apply --shield b --cpus 2; }
change_b() { cpushield apply --shield b --cpus 1-2; }
undo_b() { cpushield undo --shield b; }
count() { [ "$1" = 0 ] || failed=$((failed + 1)); }
# The control: as long as the longest of the other phases, so that the rates compare.
longest=0
quiet() { sleep "$longest"; }
made() {
    local round
    for round in $(seq "$rounds"); do
        make_b
        count $?
        change_b
        count $?
        undo_b
        count $?
    done
}
verify_b() {
    local round
    make_b
    count $?
    for round in $(seq "$verified"); do
        cpushield verify --shield b --for 1s --disturb
        [ $? -le 1 ] || count 3 # leaks are no failure here
    done
    undo_b
    count $?
}
# What the tunable cpu-hotplug-cycle does. Apply leaves it out beside another shield.
cycled() {
    local round
    for round in $(seq "$cycles"); do
        echo 0 >/sys/devices/system/cpu/cpu2/online
        count $?
        sleep 1
        echo 1 >/sys/devices/system/cpu/cpu2/online
        count $?
        sleep 1
    done
}
phase() { # NAME: runs the function of that name while CPU 3 is traced
    local started=$SECONDS
    failed=0
    mkdir -p $out/$1
    : >$tracing/trace
    echo 1 >$senders/tracing_on 2>/dev/null
    : >$senders/trace 2>/dev/null
    read -r begin_tsc begin_ns < <(now)
    echo 1 >$tracing/tracing_on
    "$1" >$out/$1/log 2>&1
    echo 0 >$tracing/tracing_on
    read -r end_tsc end_ns < <(now)
    {
        echo "pid=$pid begin_tsc=$begin_tsc begin_ns=$begin_ns end_tsc=$end_tsc end_ns=$end_ns"
        echo "failed=$failed"
        sed -n 's/^overrun: /lost=/p' $tracing/per_cpu/cpu$cpu/stats
    } >$out/$1/facts
    [ $((SECONDS - started)) -le $longest ] || longest=$((SECONDS - started))
    cat $tracing/per_cpu/cpu$cpu/trace >$out/$1/trace
    cat $senders/trace >$out/$1/senders 2>/dev/null
}

trace_ready 2>$out/trace.log
senders_ready 2>/dev/null
load_start $out/spawner usual
cpushield apply --shield a --cpus $cpu >$out/setup.log 2>&1 || exit 1
cpushield run --shield a -- spin /tmp/pid &
run=$!
for _ in $(seq 120); do
    [ -s /tmp/pid ] && break
    sleep 0.5
done
pid=$(cat /tmp/pid) || exit 1
# What a kernel does once after a boot is not measured.
{ make_b && change_b && undo_b; } >$out/first.log 2>&1
sleep 10
phase made
phase verify_b
phase cycled
phase quiet
{
    echo "kernel=$(uname -r)"
    sed -n "s/^cpu=$cpu errno=\([0-9]*\).*/spawner_errno=\1/p" $out/spawner
    cpushield status --shield a >$out/status.log
    echo "a_status=$?"
    kill $pid
    wait $run 2>/dev/null
    cpushield undo --all >$out/undo.log 2>&1
    echo "undo_status=$?"
} >$out/facts
load_stop
echo "stalls=$(dmesg | grep -cE 'rcu.*(stall|starved)|soft lockup|blocked for more than')" >>$out/facts
