# `latency hpet` and `latency rtc` on devices: a delay of known length, every interrupt that the kernel counted, and a
# clear message if a device is not available.
# guest, slow: 6.12 --append hpet_mmap=0
# guest, slow: 6.12 --timeout 300
# guest, slow: 6.1-rt --timeout 400
. /host/lib.sh
needs latency
echo 1 >/proc/sys/kernel/printk
value() { python3 -c 'import json, sys; d = json.load(open("/tmp/latency.json")); print(eval(sys.argv[1]))' "$1"; }
# Interrupts with the name of a timer of /dev/hpet: a process waits for them.
named() { grep -cE 'IO-APIC.* hpet[0-9]+$' /proc/interrupts; }
# How often interrupt $irq occurred since the guest booted; /proc/interrupts loses the count with the handler.
counted() { awk -v irq="$irq" '$1 == "intr" { print $(irq + 3) }' /proc/stat; }
refused() { # INSTRUMENT WORDS
    cpushield latency "$1" --cpus 3 --for 1s >/tmp/out 2>/tmp/said
    is "latency $1 is refused" 3 echo $?
    claim "and says why: $2" grep "$2" /tmp/said
}

if grep -q hpet_mmap=0 /proc/cmdline; then
    refused hpet "boot with hpet_mmap=1"
    finish
    exit
fi

# ---- the interrupt of a device ------------------------------------------------------------------------
held hpet hold 3 1500 60
irq=$(value "next(note['irq'] for note in d['notes'] if note['note'] == 'hpet-handled')")
before=$(counted)
cpushield latency hpet --cpus 3 --thread 10ms --for 4s --warmup 0s --json >/tmp/latency.json 2>/tmp/said &
measurement=$!
measuring
claim "its interrupt has its name during the run" [ "$(named)" = 1 ]
wait $measurement
is "it ends well" 0 echo $?
there=$(($(counted) - before))
# While one interrupt waits for its handler, the chip raises others, which the kernel does not see.
seen=$(value "d['series'][0]['samples']") missed=$(value "d['series'][0]['missed']")
claim "it has many samples: $seen" [ "$seen" -gt 20 ]
claim "each is one of the $there interrupts that the kernel counted" [ "$seen" -le "$((there + 1))" ]
claim "none of those is neither a sample nor among the $missed missed" [ "$there" -le "$((seen + missed + 2))" ]
is "none of them before it was due" "[]" value "d['series'][0]['doubts']"
claim "the CPU that handled the interrupt is reported" grep "handled HPET interrupt [0-9]" /tmp/latency.json
is "its interrupt is gone afterwards" 0 named
status "a period that the device cannot have is refused" 2 cpushield latency hpet --cpus 3 --thread 3ms --for 1s
exec 5</dev/hpet
refused hpet "no timer of /dev/hpet is free"
exec 5<&-
status "and when it is free again, it measures" 0 cpushield latency hpet --cpus 3 --thread 10ms --for 1s

# ---- the real-time clock ------------------------------------------------------------------------------
held rtc hold 3 1500 60
cpushield latency rtc --cpus 3 --thread 10ms --for 2s --json >/tmp/latency.json 2>/tmp/said
is "the real-time clock is measured" 0 echo $?
is "each of its events is a sample or was missed" True \
    value "abs(d['series'][0]['samples'] + d['series'][0]['missed'] - d['span_ns'] / 1e7) <= 2 + d['series'][0]['max_ns'] / 1e7"
is "and how exactly it is known when they were due" True \
    value "any(note['note'] == 'latencies-too-long' for note in d['notes'])"
exec 5</dev/rtc0
refused rtc "another program uses /dev/rtc0"
exec 5<&-
finish
