# The rows of the benchmark (sourced in the guest). `before` is outside the measured time, `setup` and `undo` are
# measured, and `inside COMMAND` starts the workload in the place that the tool requires. Other tools run the
# workload at FIFO 97, with the kernel's per-CPU threads raised to 99 by hand. Their documentation uses FIFO 99,
# which hangs an RT kernel (see the rows `…-99`), so this favours them.
before() { :; }
setup() { :; }
undo() { :; }
inside() { taskset -c "$cpu" "$@"; }
mask=$(printf %x $((1 << cpu)))

raise_kernel_threads() {
    local file name
    for file in /proc/[0-9]*/comm; do
        read -r name <"$file" || continue
        case $name in
        rcuc/$cpu | ktimers/$cpu | ksoftirqd/$cpu) chrt -f -p 99 "$(cut -d/ -f3 <<<"$file")" ;;
        esac
    done 2>/dev/null
}
fifo() { # priority, command…
    [ "$1" = 99 ] || raise_kernel_threads
    inside chrt -f "$@"
}
tuned_before() {
    echo "isolated_cores=$cpu" >/etc/tuned/cpu-partitioning-variables.conf
    systemctl start dbus tuned
}

case $row in
nothing) workload() { inside "$@"; } ;;
taskset) workload() { fifo 97 "$@"; } ;;
taskset-99) workload() { fifo 99 "$@"; } ;;
isolcpus) workload() { fifo 97 "$@"; } ;;
cset)
    setup() { cset shield --kthread=on --cpu "$cpu"; }
    undo() { cset shield --reset; }
    inside() { cset shield --exec -- "$@"; }
    workload() { fifo 97 "$@"; }
    ;;
partrt | partrt-99)
    setup() { bash /host/peers/partrt create "0x$mask"; }
    undo() { bash /host/peers/partrt undo; }
    workload() {
        local priority=97
        [ "$row" = partrt ] && raise_kernel_threads || priority=99
        bash /host/peers/partrt run -f $priority rt "$@"
    }
    ;;
tuned | tuned-boot | tuned-boot-99)
    before() { tuned_before; }
    setup() { tuned-adm profile cpu-partitioning; }
    undo() { tuned-adm off; }
    case $row in
    *-99) workload() { fifo 99 "$@"; } ;;
    *) workload() { fifo 97 "$@"; } ;;
    esac
    ;;
cpushield*)
    setup() { cpushield apply --cpus "$cpu"; }
    undo() { cpushield undo; }
    case $row in
    *-fifo) workload() { cpushield run --fifo 97 -- "$@"; } ;;
    *-fifo99) workload() { cpushield run --fifo 99 -- "$@"; } ;;
    *) workload() { cpushield run -- "$@"; } ;;
    esac
    ;;
*)
    echo "bench: no row $row" >&2
    exit 2
    ;;
esac
