# The tutorial of the book, command by command, as a new user types it: each block marked `guest` succeeds, and at the
# end the machine is as before. A block marked `any-status` may end with a negative result.
# guest: 6.12-rt --systemd
. /host/lib.sh
snapshot /tmp/before
blocks=$(awk '
    /^```sh guest/ { marks = $0; inside = 1; next }
    /^```/ { inside = 0 }
    inside { print (marks ~ /any-status/ ? "any" : "ok") "\t" $0 }' /host/docs/tutorial.md)
claim "the tutorial has commands" test "$(wc -l <<<"$blocks")" -ge 8
while IFS=$'\t' read -r mark command; do
    said=$(eval "$command" 2>&1 </dev/null)
    code=$?
    if [ $code = 0 ] || { [ "$mark" = any ] && [ $code = 1 ]; }; then
        ok "$command (exit status $code)"
    else
        not_ok "$command (exit status $code)"
        echo "$said" | sed 's/^/#   /'
    fi
done <<<"$blocks"
as_before "after the tutorial the machine is as before" /tmp/before
finish
