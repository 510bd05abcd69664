# The kernel's own trace of CPU $cpu, which judge.awk reads (sourced in the guest after rows.sh sets $mask). It is made
# ready before the load, because kernel patching under load is not measured.
tracing=/sys/kernel/tracing
trace_ready() {
    local event
    echo 0 >$tracing/tracing_on
    echo x86-tsc >$tracing/trace_clock
    echo "$mask" >$tracing/tracing_cpumask
    echo 64 >$tracing/buffer_size_kb
    echo 60000 >$tracing/per_cpu/cpu$cpu/buffer_size_kb
    for event in irq_vectors irq exceptions nmi workqueue/workqueue_execute_start \
        timer/hrtimer_expire_entry timer/timer_expire_entry sched/sched_switch; do
        [ ! -e $tracing/events/$event/enable ] || echo 1 >$tracing/events/$event/enable
    done
    for event in $tracing/events/irq_vectors/vector_*; do echo 0 >"$event/enable"; done
}
# The senders of interrupts to that CPU, with their kernel stacks. They are not judged, but they explain a leak.
# They are in a separate instance; kernels before 6.4 have no such events.
senders=$tracing/instances/senders
senders_ready() {
    mkdir $senders
    echo 0 >$senders/tracing_on
    echo x86-tsc >$senders/trace_clock
    echo 1 >$senders/options/stacktrace
    echo "cpu == $cpu" >$senders/events/csd/csd_queue_cpu/filter
    echo 1 >$senders/events/csd/csd_queue_cpu/enable
    # The tasks that make the kernel patch its code permanently: they queue the work that does it.
    echo "function == 0x$(sed -n 's/ . once_deferred$//p' /proc/kallsyms)" \
        >$senders/events/workqueue/workqueue_queue_work/filter &&
        echo 1 >$senders/events/workqueue/workqueue_queue_work/enable
}
