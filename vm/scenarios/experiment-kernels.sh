# guest: 6.12-rt --grub --timeout 2400
# slow: about four boots of systemd
# An experiment with a row on another installed kernel: it boots that kernel once, measures, and returns.
. /host/lib.sh
n=$(boot_number)
rt=$(ls /boot | sed -n 's/^vmlinuz-\(.*-rt-.*\)/\1/p')
plain=$(ls /boot | sed -n 's/^vmlinuz-//p' | grep -v -- -rt-)
cfg=/boot/grub/grub.cfg
running=/var/lib/cpushield/experiment/journal.json
as_at_first() { # files of the boot loader and units, with their bytes and permissions
    find /etc/grub.d /etc/default/grub /boot /etc/systemd/system -type f -exec stat -c '%a %u %n' {} + \
        -exec sha256sum {} + | sort
}
unchanged() { as_at_first | diff /host/before -; }
state() { # of the experiment: running, finished or none
    python3 -c 'import json; print(json.load(open("'$running'"))["phase"])' 2>/dev/null || echo none
}
phase() { cat /host/phase; }
# The experiment reboots the machine by itself; the next boot looks again. Returns when it has ended.
until_it_ends() {
    local i
    echo $failed >/host/failed
    for i in $(seq 900); do
        [ "$(state)" = finished ] && return 0
        sleep 1
    done
    not_ok "the experiment ends (its state: $(state))"
    cat /host/said
    finish
}
until_the_reboot() {
    echo $failed >/host/failed
    sleep 600
    not_ok "the experiment reboots the machine (its state: $(state))"
    cat /host/said
    finish
}
found() { # a condition on a document
    python3 -c '
import json, sys
found = json.load(open(sys.argv[1]))
if not eval(sys.argv[2]):
    sys.exit(json.dumps(found)[:3000])' "$@" 2>&1
}
if [ "$n" = 1 ]; then
    with_systemd
    sed -i 's/^GRUB_CMDLINE_LINUX="/&nohz_full=3 isolcpus=domain,3 rcu_nocbs=3 irqaffinity=0-2 /' /etc/default/grub
    grub-mkconfig -o $cfg 2>/dev/null
    grub-editenv /boot/grub/grubenv set saved_entry=0
    echo begin >/host/phase
    boot_again
    finish
fi
is "systemd is up" 1 sh -c 'systemctl is-active multi-user.target | grep -cx active'
mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug
echo 0 >/sys/kernel/debug/sched/fair_server/cpu3/runtime 2>/dev/null
case $(phase) in
begin)
    is "the RT kernel boots by default" "$rt" uname -r
    cat >/host/m.toml <<END
cpus = "3"
repeats = 2
boots = 1
time = "3s"
[[row]]
name = "real-time"
[[row]]
name = "plain"
kernel = "$plain"
[[row]]
name = "named"
kernel = "$rt"
shield = true
[[column]]
name = "timer"
instrument = "timer"
END
    status "a dry run" 0 cpushield experiment /host/m.toml --reboot --dry-run
    is "it names the other kernel once" 1 sh -c "cpushield experiment /host/m.toml --reboot --dry-run | grep -c '^ *kernel $plain: 2'"
    sed 's/^kernel = .*/kernel = "9.9.9-none"/' /host/m.toml >/host/wrong.toml
    status "a kernel that is not installed is refused" 2 cpushield experiment /host/wrong.toml --reboot
    as_at_first >/host/before
    echo matrix >/host/phase
    cpushield experiment /host/m.toml --reboot -o /host/experiment.json >/host/said 2>&1 &
    until_the_reboot
    ;;
matrix)
    until_it_ends
    is "the original kernel is back" "$rt" uname -r
    is "and every boot file and unit" "" unchanged
    claim "every row was measured" found /host/experiment.json 'all(row["missing"] is None for row in found["rows"])'
    claim "the row has its kernel" found /host/experiment.json "found['rows'][1].get('kernel') == '$plain'"
    claim "the running kernel's name changes nothing" found /host/experiment.json '"kernel" not in found["rows"][2]'
    cpushield experiment --status
    ;;
esac
finish
