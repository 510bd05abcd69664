# Sourced by scenarios (`. /host/lib.sh`): claims in TAP, and facts that the shell alone reads from the kernel's
# files, so that they do not depend on the code under test.
failed=$(cat /host/failed 2>/dev/null || echo 0)
ok() { echo "ok - $*"; }
not_ok() {
    echo "not ok - $*"
    failed=$((failed + 1))
}
skip() { echo "ok - $1 # SKIP $2"; }
# claim TEXT COMMAND…: ok if the command ends with 0; otherwise its output is shown.
claim() {
    local text=$1 said
    shift
    if said=$("$@" 2>&1); then ok "$text"; else
        not_ok "$text"
        echo "$said" | sed 's/^/#   /'
    fi
}
# is TEXT WANTED COMMAND…: ok if the command prints exactly WANTED.
is() {
    local text=$1 wanted=$2 got
    shift 2
    got=$("$@" 2>&1)
    if [ "$got" = "$wanted" ]; then ok "$text"; else
        not_ok "$text"
        printf '#   wanted: %s\n#   got:    %s\n' "$wanted" "$got"
    fi
}
# status TEXT CODE COMMAND…: ok if the command ends with CODE; otherwise its output is shown.
status() {
    local text=$1 wanted=$2 said code
    shift 2
    said=$("$@" 2>&1)
    code=$?
    if [ $code = "$wanted" ]; then ok "$text"; else
        not_ok "$text (exit status $code, wanted $wanted)"
        echo "$said" | sed 's/^/#   /'
    fi
}
# ---- latency -----------------------------------------------------------------------------------------
# Waits until a thread of `latency` measures.
measuring() {
    local _
    for _ in $(seq 300); do
        grep -qs '^latency/' /proc/[0-9]*/task/*/comm && return
        sleep 0.1
    done
}
# held NAME COMMAND…: measures with the instrument NAME (its first word) and --why until COMMAND has occupied CPU 3
# for 60 ms and printed when; makes claims about that.
held() {
    local name=$1 measurement code line period='--thread 10ms'
    shift
    [ "$name" = spin ] && period=''
    cpushield latency ${name%% *} $period --cpus 3 --for 60s --why --max 5ms --json >/tmp/latency.json 2>/tmp/said &
    measurement=$!
    measuring
    line=$("$@")
    sleep 0.3
    kill -TERM $measurement
    wait $measurement
    code=$?
    python3 /host/guest/latency.py "$name" /tmp/latency.json "$line" $code || {
        failed=$((failed + 1))
        sed 's/^/#   /' /tmp/said
    }
}
# ---- facts -----------------------------------------------------------------------------------------
# snapshot FILE: everything that a shield may change, one fact per line: masks, cgroups, sysctls, workqueues,
# mounts, units, and each thread (by id and start time) with its affinity, policy, priority and cgroup.
# Facts that the kernel derives are left out: the affinity of interrupt threads (it follows the effective mask of
# the interrupt), and of kernel threads that cannot be moved (PF_NO_SETAFFINITY: a kworker follows its pool, one of
# an old pool stays idle for minutes; a rescuer keeps the CPUs of the pool it helped last). Also left out: whether
# the trace buffer was ever expanded (permanently, by the first event), and whether the kernel has warned of
# anything; `as_before` reports that separately.
snapshot() {
    # A child of the last watch removes its traces.
    for _ in $(seq 200); do pgrep -x cpushield-close >/dev/null || break; sleep 0.1; done
    {
        grep -sH '' /proc/irq/*/smp_affinity_list /proc/irq/default_smp_affinity \
            /sys/devices/virtual/workqueue/cpumask /sys/devices/virtual/workqueue/*/cpumask \
            /sys/devices/system/cpu/cpu*/online /sys/devices/system/cpu/cpuidle/current_governor \
            /sys/devices/system/cpu/cpu*/{cpufreq/scaling_{governor,min_freq,max_freq,setspeed},power/pm_qos_resume_latency_us,cpuidle/state*/disable} \
            /sys/class/graphics/fbcon/cursor_blink \
            /sys/devices/system/cpu/{intel_pstate/no_turbo,cpufreq/boost} \
            /sys/devices/system/machinecheck/machinecheck*/{check_interval,ignore_ce} \
            /sys/class/net/*/queues/*/{rps_cpus,rps_flow_cnt,xps_cpus,xps_rxqs} \
            /sys/kernel/rcu_{normal,expedited} /sys/kernel/mm/ksm/run \
            /sys/kernel/mm/transparent_hugepage/enabled \
            /sys/kernel/debug/sched/{fair,ext}_server/*/{runtime,period} \
            /sys/kernel/tracing/{tracing_on,trace_clock,current_tracer,tracing_cpumask,buffer_size_kb} \
            /sys/kernel/tracing/events/enable
        find /proc/sys/kernel /proc/sys/vm /proc/sys/net/core -type f -perm -400 \
            ! -path '*/random/*' ! -path '*/kernel/tainted' ! -path '*/ns_last_pid' ! -path '*/stat_refresh' -exec grep -sH '' {} +
        find /sys/fs/cgroup -type d
        find /sys/fs/cgroup -type f \( -name 'cpuset.*' -o -name cgroup.subtree_control \) \
            ! -name '*memory_pressure*' -perm -400 -exec grep -sH '' {} +
        find /sys/kernel/tracing/instances /run/systemd/transient /run/systemd/system.control \
            /etc/systemd/system.control -mindepth 1 -maxdepth 1 2>/dev/null
        cat /proc/mounts
        awk '
            function name(file) { split(file, f, "/"); return f[5] }
            FILENAME ~ /stat$/ {
                line = $0; sub(/^.*\) /, "", line); split(line, v, " ")
                # PF_KTHREAD and PF_NO_SETAFFINITY.
                derived = / \(irq\// || (int(v[7] / 0x200000) % 2 && int(v[7] / 0x4000000) % 2)
                task[name(FILENAME)] = "thread " name(FILENAME) " " v[20]
                print "thread", name(FILENAME), v[20], "nice", v[17], "fifo", v[38], "policy", v[39]
            }
            FILENAME ~ /status$/ && /^(Cpus|Mems)_allowed_list/ && !derived { print task[name(FILENAME)], $0 }
            FILENAME ~ /cgroup$/ { print task[name(FILENAME)], "group", $0 }
        ' $(ls -d /proc/[0-9]*/task/[0-9]* | sed 's,.*,&/stat &/status &/cgroup,') 2>/dev/null
    } | gawk '
        # The first event of any process enlarges the buffer permanently, so it counts as enlarged;
        # the kernel then shows that size rounded up to pages of 4080 bytes.
        /tracing\/buffer_size_kb:/ {
            kib = match($0, /expanded: [0-9]+/) ? substr($0, RSTART + 10) + 0 : substr($0, index($0, ":") + 1) + 0
            sub(/:.*/, ":" int(int((kib * 1024 + 4079) / 4080) * 4080 / 1024))
        }
        { print }' | sort >"$1"
}
# as_before TEXT BEFORE: ok if a snapshot taken now is equal. Threads that started or ended in between are left
# out, and so is the shell that takes it.
as_before() {
    snapshot /tmp/snapshot.now
    local side
    for side in "$2" /tmp/snapshot.now; do awk '/^thread/ { print $2, $3 }' "$side" | sort -u; done |
        sort | uniq -d >/tmp/snapshot.both
    for side in "$2" /tmp/snapshot.now; do
        awk 'NR == FNR { both[$1, $2]; next } $1 != "thread" || ($2, $3) in both' \
            /tmp/snapshot.both "$side" >"$side.both"
    done
    claim "$1 ($(wc -l <"$2.both") facts)" diff "$2.both" /tmp/snapshot.now.both
    # This is no failure: on a loaded host some of the kernel's time checks fail in a guest.
    local warning
    warning=$(dmesg | grep -m 1 'WARNING: ') && skip "the kernel has not warned" "$warning"
}
# A function for awk programs: adds the CPUs of a list such as 0-3,8 to an array.
add_cpus='function add_cpus(list, to, n, i, cpu, part, ends) {
    n = split(list, part, ",")
    for (i = 1; i <= n; i++) {
        if (split(part[i], ends, "-") == 1) ends[2] = ends[1]
        for (cpu = ends[1] + 0; cpu <= ends[2] + 0; cpu++) to[cpu]
    }
}'
# covers LIST CPUS: whether a CPU list names one of CPUS (both like 0-3,8).
covers() {
    awk -v a="$1" -v b="$2" "$add_cpus"'
        BEGIN { add_cpus(a, x); add_cpus(b, y); for (c in x) if (c in y) exit 0; exit 1 }'
}
# mask_covers MASK CPUS: the same for a hexadecimal mask (of up to 32 CPUs).
mask_covers() {
    local cpu
    for cpu in $(seq 0 31); do
        (((0x${1//,/} >> cpu) & 1)) && covers "$cpu" "$2" && return 0
    done
    return 1
}
# threads_allowed_on CPUS user|kernel: threads that may run there, `id name list` each. User: without PF_KTHREAD.
# Kernel: the threads that can be moved, so without PF_NO_SETAFFINITY.
threads_allowed_on() {
    gawk -v cpus="$1" -v wanted="$2" "$add_cpus"'
        function touches(list, allowed, c) {
            add_cpus(list, allowed)
            for (c in allowed) if (c in shielded) return 1
            return 0
        }
        BEGIN { add_cpus(cpus, shielded) }
        FILENAME ~ /stat$/ { line = $0; sub(/^.*\) /, "", line); split(line, v, " "); flags = v[7]; next }
        /^Name:/ { name = $2 }
        /^Pid:/ { id = $2 }
        /^Cpus_allowed_list:/ && touches($2) {
            kernel = and(flags, 0x200000) != 0
            if (wanted == "user" ? !kernel : kernel && !and(flags, 0x4000000)) print id, name, $2
        }
    ' $(ls -d /proc/[0-9]*/task/[0-9]* | sed 's,.*,&/stat &/status,') 2>/dev/null
    true
}
# intrusion CPUS: the kernel's answers to a process that tries to pin itself there, each answer once.
intrusion() {
    spawner 1 | while IFS='= ' read -r _ cpu _ errno _; do
        covers "$cpu" "$1" && echo "errno=$errno"
    done | sort -u
}

# The tutorial of the book, command by command, as a new user types it: each block marked `guest` succeeds. A block
# marked `any-status` may end with a negative result.
tutorial() {
    local blocks mark command said code
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
}

# The number of this boot, from 1, if GRUB boots the guest.
boot_number() {
    local n=$(($(cat /host/boots 2>/dev/null || echo 0) + 1))
    echo $n >/host/boots
    echo $n
}
# last_boot N: a boot after this one was not asked for. Without this, the claims of a boot that ended early were missed.
last_boot() {
    [ "$n" -gt "$1" ] || return 0
    not_ok "boot $n was not expected"
    cpushield boot status
    journalctl -b -1 --no-pager -n 40 2>/dev/null
    finish
}
# From the next boot on systemd is init, if GRUB boots the guest. udev is masked there, so only a unit that this
# function writes mounts /boot.
with_systemd() {
    sed -i '/^GRUB_CMDLINE_LINUX=/s/"$/ cpushield.systemd systemd.show_status=0"/' /etc/default/grub
    grub-mkconfig -o /boot/grub/grub.cfg 2>/dev/null
    mkdir -p /etc/systemd/system/multi-user.target.wants
    printf '%s\n' '[Service]' 'Type=oneshot' 'RemainAfterExit=yes' 'ExecStart=mount /dev/vdb1 /boot' \
        >/etc/systemd/system/mount-boot.service
    ln -s ../mount-boot.service /etc/systemd/system/multi-user.target.wants/
}
# Ends this boot; the script runs again in the next one.
boot_again() {
    echo "$failed" >/host/failed
    touch /host/again
    exit 0
}

# The last line of every scenario.
finish() {
    echo "# $failed failed"
    [ "$failed" = 0 ]
    exit
}
# Ends the scenario as skipped if the binary does not have the subcommand yet.
needs() {
    local command
    for command in "$@"; do
        cpushield help "$command" >/dev/null 2>&1 || {
            skip "$command" "this cpushield has no $command"
            finish
        }
    done
}
# kill_times TIME…: the times at which a scenario kills a command: all, or as many of them, evenly spread, as the kernel
# parameter `cpushield.kills` says.
kill_times() {
    local most n
    most=$(sed -n "s/.*cpushield\.kills=\([0-9]*\).*/\1/p" /proc/cmdline)
    most=${most:-$#}
    for n in $(seq 0 $((most - 1))); do
        eval "echo \${$((1 + n * $# / most))}"
    done
}
