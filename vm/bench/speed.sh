# Runs in the guest: how long tools take to shield CPU 3 and to undo it, one after the other under the same load,
# ROUNDS times. Arguments: ROUNDS TOOL… Prints `tool=… setup_s=… undo_s=…` lines.
rounds=$1
shift
cpu=3
mkdir -p /root/bin
cp /host/cpushield /host/tools/* /root/bin/
PATH=/root/bin:/host/peers:$PATH
. /host/bench/load.sh
# left_by TOOL: reports remaining cpusets, and removes them before the next tool runs.
left_by() {
    local root=/sys/fs/cgroup/cpuset left task
    for left in "$root"/*/; do
        [ -d "$left" ] || continue
        echo "# left by $1: $left"
        while read -r task; do echo "$task" >"$root/tasks"; done <"$left/tasks" 2>/dev/null
        rmdir "$left"
    done
}
load_start /tmp/spawner
for ((round = 0; round < rounds; round++)); do
    for row in "$@"; do
        (
            . /host/bench/rows.sh
            before >/dev/null 2>&1
            a=$EPOCHREALTIME
            setup >/tmp/log 2>&1
            did=$?
            b=$EPOCHREALTIME
            sleep 2
            c=$EPOCHREALTIME
            undo >>/tmp/log 2>&1
            undid=$?
            d=$EPOCHREALTIME
            awk -v a="$a" -v b="$b" -v c="$c" -v d="$d" -v t="$row" -v s="$did/$undid" \
                'BEGIN { printf "tool=%s setup_s=%.3f undo_s=%.3f status=%s\n", t, b - a, d - c, s }'
            [ "$did$undid" = 00 ] || sed 's/^/# /' /tmp/log
        )
        sleep 1
        left_by "$row"
    done
done
load_stop
for words in "status" "survey" "undo"; do
    echo "command=$words $(cost 20 cpushield $words)"
done
