# `cpushield try` ends well everywhere and leaves nothing behind, killed at any moment too.
# guest: 6.12-rt systemd timeout=400
# guest: 6.1-rt cgroup=v1 timeout=400
. /host/lib.sh
needs try undo
snapshot /tmp/before
status "try ends well" 0 cpushield try --seconds 3
as_before "try leaves the machine as it was" /tmp/before

# SIGKILL can hit any line; what is on disk must be enough for undo. Moments are spread over its run.
for tenth in 5 17 41 70; do
    cpushield try --seconds 2 >/tmp/try 2>&1 &
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
cpushield try --seconds 4 >/tmp/try 2>&1 &
job=$!
sleep 6
kill -TERM $job
wait $job
as_before "SIGTERM: try itself puts everything back" /tmp/before
finish
