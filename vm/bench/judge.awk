# judge.awk: reads `facts` and the text trace of one CPU, and prints what interrupted the workload:
# `key=value` lines, rates per second of the measured window. Clock: x86-tsc (whole numbers).
#     awk -f judge.awk DIR/facts DIR/trace
function stretch(until) { if (until - last > longest) longest = until - last }
FILENAME ~ /facts$/ {
    for (i = 1; i <= NF; i++) if (split($i, kv, "=") == 2) fact[kv[1]] = kv[2]
    next
}
!ready {
    ready = 1
    begin = fact["begin_tsc"] + 0; end = fact["end_tsc"] + 0
    span = (fact["end_ns"] - fact["begin_ns"]) / 1e9
    last = begin; running = fact["pid"]
}
/^#/ { next }
match($0, /-[0-9]+ +(\(.......\) +)?\[[0-9]+\] /) {
    pid = substr($0, RSTART + 1) + 0
    rest = substr($0, RSTART + RLENGTH)
    split(rest, word, " ")
    time = word[2] + 0; event = word[3]
    sub(/:$/, "", event)
    if (time < begin || time > end) next
    # The gap that ends here belonged to the workload when this event interrupted it.
    if (pid == fact["pid"]) stretch(time)
    last = time; seen++
    if (event == "local_timer_entry") cause = "tick"
    else if (event ~ /^(reschedule|call_function|call_function_single|irq_work)_entry$/) cause = "ipi"
    else if (event == "irq_handler_entry") cause = "irq"
    else if (event == "page_fault_user") cause = "fault"
    else if (event == "nmi_handler") cause = "nmi"
    else if (event ~ /_entry$/ && event !~ /^(softirq|hrtimer|timer|tasklet)/) cause = "other"
    else cause = ""
    if (cause) { count[cause]++; entries++ }
    if (event == "sched_switch") {
        switches++
        if (match($0, /next_pid=[0-9]+/)) running = substr($0, RSTART + 9, RLENGTH - 9)
        if (running != fact["pid"] && match($0, /next_comm=.* next_pid/))
            who[substr($0, RSTART + 10, RLENGTH - 19)]++
    }
    if (event == "workqueue_execute_start" && match($0, /function [^ ]+/))
        who["work " substr($0, RSTART + 9, RLENGTH - 9)]++
    if (event == "timer_expire_entry" && match($0, /function=[^ ]+/))
        who["timer " substr($0, RSTART + 9, RLENGTH - 9)]++
}
END {
    if (!ready) { # no event: the file was empty
        begin = fact["begin_tsc"] + 0; end = fact["end_tsc"] + 0
        span = (fact["end_ns"] - fact["begin_ns"]) / 1e9
        last = begin; running = fact["pid"]
    }
    if (running == fact["pid"]) stretch(end)
    if (!span) { print "span=0"; exit 1 }
    printf "span=%.1f\nentries=%d\nentries_per_s=%.2f\nswitches_per_s=%.2f\nlongest_percent=%.2f\n",
        span, entries, entries / span, switches / span, 100 * longest / (end - begin)
    n = split("tick ipi irq fault nmi other", names, " ")
    for (i = 1; i <= n; i++) if (count[names[i]])
        causes = causes (causes ? ", " : "") names[i] " " sprintf("%.1f", count[names[i]] / span)
    print "causes=" (causes ? causes : "none")
    for (i = 1; i <= 4; i++) { # the four tasks that ran most instead of the workload
        top = ""
        for (w in who) if (who[w] && (top == "" || who[w] > who[top])) top = w
        if (top == "") break
        list = list (list ? ", " : "") top " " sprintf("%.1f", who[top] / span)
        who[top] = 0
    }
    print "instead=" list
}
