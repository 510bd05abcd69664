# `cpushield try` ends well everywhere and leaves nothing behind, killed at any moment too.
# slow: several minutes in each guest under emulation
# guest: 6.12-rt timeout=240
# guest: 6.12-rt systemd timeout=240
# guest: 6.1-rt cgroup=v1 timeout=240
# guest: 6.12 smp=8,cores=4,threads=2 timeout=240
. /host/lib.sh
needs try undo
snapshot /tmp/before
status "try ends well" 0 cpushield try
as_before "try leaves the machine as it was" /tmp/before

# SIGKILL can hit any line; what is on disk must be enough for undo. Moments are spread over its run.
for tenth in 5 17 29 41 61 97; do
    cpushield try >/tmp/try 2>&1 &
    job=$!
    sleep $((tenth / 10)).$((tenth % 10))
    kill -9 $job 2>/dev/null
    wait $job 2>/dev/null
    cpushield undo >/tmp/undo 2>&1
    code=$?
    # Nothing to undo is an answer too, when the kill came before the first write.
    as_before "killed after $tenth tenths of a second, undo (exit status $code) leaves no trace" /tmp/before
done

# A polite end needs no undo at all.
cpushield try >/tmp/try 2>&1 &
job=$!
sleep 6
kill -TERM $job
wait $job
as_before "SIGTERM: try itself puts everything back" /tmp/before
finish
