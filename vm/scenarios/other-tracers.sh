# Before a watch, verify names each program that traces the machine too: by its name, or because the trace instance of
# another verify belongs to it.
# guest, slow: 6.12-rt --timeout 600
. /host/lib.sh
needs apply undo verify
status "a shield" 0 cpushield apply --cpus 3
# warnings NAME: the lines about a program of this name, or about any.
warnings() { cpushield verify --for 2s 2>&1 >/dev/null | grep -F 'may also be tracing' | grep -F "$1"; }
is "alone, verify warns of no program" "" warnings ""
for name in trace-cmd perf rtla bpftrace kernelshark; do
    cp "$(command -v sleep)" /tmp/$name
    /tmp/$name 1000 &
    claim "it warns of $name, with its number" test "$(warnings "$name ($!)" | grep -c '^warning')" = 1
    kill $!
    wait $! 2>/dev/null
done
# On another CPU: on the same one verify refuses to delay the gap sampler of the other. Its trace interrupts the shield.
cpushield verify --cpus 2 --for 1000s --disturb >/dev/null 2>&1 &
other=$!
for _ in $(seq 200); do grep -q 1 /sys/kernel/tracing/instances/cpushield-*/tracing_on 2>/dev/null && break; sleep 0.1; done
claim "it warns of another verify" test "$(warnings "cpushield ($other)" | grep -c '^warning')" = 1
kill -TERM $other
wait $other 2>/dev/null
is "afterwards it warns of none" "" warnings ""
status "undo" 0 cpushield undo
finish
