# guest: 6.12-rt --grub --timeout 1500
# slow: six boots of systemd
# An experiment under systemd, with a row on the running kernel and one with a kernel parameter that boots once. It is
# killed in the first and loses power in the second. Its unit resumes it, and it ends with the original boot entry and
# boot files. The document says of each row whether its CPU was isolated: only the row with the shield was.
. /host/lib.sh
n=$(boot_number)
unit=/etc/systemd/system/cpushield-experiment.service
journal=/var/lib/cpushield/experiment/journal.json
as_at_first() { # files of the boot loader and units, with their bytes and permissions
    find /etc/grub.d /etc/default/grub /boot /etc/systemd/system -type f -exec stat -c '%a %u %n' {} + \
        -exec sha256sum {} + | sort
}
unchanged() { as_at_first | diff /host/before -; }
measured() { find /var/lib/cpushield/experiment -name 'cell-*.json' 2>/dev/null | wc -l; }
# The experiment reboots the machine by itself, so the next boot checks what it did in this one.
until_the_reboot() {
    echo $failed >/host/failed
    sleep 600
    not_ok "the experiment reboots the machine"
    finish
}
wait_for() { # seconds, a command
    local i
    for i in $(seq "$1"); do
        "${@:2}" >/dev/null 2>&1 && return 0
        sleep 1
    done
    return 1
}
measuring() { pgrep -f __measure; }
init_cpus() { sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/1/status; }
document() { # python
    python3 -c "import json
document = json.load(open('/host/experiment.json'))
rows = document['rows']
$1"
}
# What it says of each row.
marks() { document 'for row in rows: print(row["name"], row["isolation"]["isolation"])'; }
# The CPUs that each witness showed as isolated, for each run: the kernel's files, PID 1, the probe.
witnesses() {
    document '
for cell in document["cells"]:
    for run in cell["runs"]:
        shown = [run["isolation"][it].get("isolated", "missing") or "-" for it in ("kernel", "init", "probe")]
        print(rows[cell["row"]]["name"], *shown)' | sort
}
[ "$n" = 1 ] || is "systemd is up" 1 sh -c 'systemctl is-active multi-user.target | grep -cx active'
case $n in
1)
    with_systemd
    grub-editenv /boot/grub/grubenv set saved_entry=0
    boot_again
    ;;
2)
    as_at_first >/host/before
    cat >/host/m.toml <<'END'
cpus = "3"
repeats = 1
# On a slow host, the unit may begin half a minute before this scenario does.
time = "40s"
[[row]]
name = "base"
[[row]]
name = "shield"
shield = true
[[row]]
name = "nohz"
boot = ["nohz_full={cpus}"]
[[column]]
name = "timer"
instrument = "timer"
END
    status "without --reboot nothing is rebooted" 0 cpushield experiment /host/m.toml --dry-run
    is "and nothing is written" "" unchanged
    cpushield experiment /host/m.toml --reboot -o /host/experiment.json >/host/said 2>&1 &
    job=$!
    claim "the shield's row comes" wait_for 120 grep -qx 3 /sys/fs/cgroup/cpuset.cpus.isolated
    is "and PID 1 may not run on its CPU" 0-2 init_cpus
    kill -9 $job
    wait $job 2>/dev/null
    claim "killed, its shield is undone" wait_for 60 sh -c '! grep -q . /sys/fs/cgroup/cpuset.cpus.isolated'
    is "one cell was measured" 1 measured
    status "another experiment is refused" 3 cpushield experiment /host/m.toml
    echo $failed >/host/failed
    cpushield experiment --resume
    until_the_reboot
    ;;
3)
    is "the row booted" 3 cat /sys/devices/system/cpu/nohz_full
    is "its parameter alone keeps no task off the CPU" 0-3 init_cpus
    is "after what had to be measured before" 2 measured
    is "its entry is not the default" 0 sh -c 'grep -c next_entry=. /boot/grub/grubenv'
    claim "its unit measures" wait_for 120 measuring
    sleep 2
    echo $failed >/host/failed
    # A power failure.
    echo b >/proc/sysrq-trigger
    sleep 60
    ;;
4)
    is "after the power failure the old entry booted" "" grep -o nohz_full /proc/cmdline
    is "nothing was lost" 2 measured
    until_the_reboot
    ;;
5)
    is "the row booted again" 3 cat /sys/devices/system/cpu/nohz_full
    until_the_reboot
    ;;
6)
    is "the old entry is back" "" grep -o nohz_full /proc/cmdline
    claim "the unit has ended and is removed" wait_for 120 test ! -e $unit
    is "every cell was measured" 3 measured
    is "every file is restored, byte for byte" "" unchanged
    is "no shield is left" "" cat /sys/fs/cgroup/cpuset.cpus.isolated
    claim "the result was written" grep -q '"state": "finished"' /host/experiment.json
    is "it marks the row with the shield as isolated, and no other" \
        $'base ordinary\nshield isolated\nnohz ordinary' marks
    is "by three witnesses that agree: the kernel's files, PID 1 and the probe" \
        $'base - - -\nnohz - - -\nshield 3 3 3' witnesses
    is "nothing is missing in it" 0 grep -c '"reason": "did-not-come-up"' /host/experiment.json
    cpushield experiment --status
    ;;
esac
finish
