# guest: 6.12-rt --grub --timeout 1800
# slow: five boots, three of systemd
# The shield of `cpushield enable` is active before services start, with a sysvinit script and with systemd. undo
# leaves it enabled; disable removes every file of it. Stopping its unit undoes it, except while the system goes down.
. /host/lib.sh
n=$(boot_number)
last_boot 5
settings() { # files that start programs at boot, with contents
    find /etc/init.d /etc/rc*.d /etc/systemd -type l -printf '%p %l\n' -o -type f -exec sha256sum {} + | sort
}
isolated() { cat /sys/fs/cgroup/cpuset.cpus.isolated; }
when() { systemctl show -p "$1" --value "$2"; }
allowed() { awk '/^Cpus_allowed_list/ { print $2 }' "/proc/$1/status"; }
# The mask of the CPUs that irqbalance leaves alone, by its own answer; waits until it is this one.
banned() { # mask
    python3 - "$1" <<'END'
import glob, os, socket, struct, sys, time
mask = "irqbalance does not answer"
for _ in range(60):
    for path in glob.glob("/run/irqbalance/*.sock"):
        try:
            s = socket.socket(socket.AF_UNIX)
            s.settimeout(3)
            s.connect(path)
            who = struct.pack("3i", os.getpid(), 0, 0)
            s.sendmsg([b"setup"], [(socket.SOL_SOCKET, socket.SCM_CREDENTIALS, who)])
            mask = "%x" % int(s.recv(65536).decode().split("BANNED ")[1].replace(",", ""), 16)
        except (OSError, IndexError, ValueError):
            pass
    if mask == sys.argv[1]:
        break
    time.sleep(1)
print(mask)
END
}
case $n in
1)
    settings >/host/before
    status "a request that no machine can have" 2 cpushield enable --cpus 0-3
    is "it wrote nothing" "" sh -c "$(declare -f settings); settings | diff /host/before -"
    status "enable without systemd" 0 cpushield enable --cpus 3
    is "nothing is shielded now" "" isolated
    status "apply" 0 cpushield apply --cpus 3
    status "enable with an active shield" 0 cpushield enable --cpus 3
    status "undo" 0 cpushield undo
    is "the CPU is free" "" isolated
    claim "the shell accepts the script" sh -n /etc/init.d/cpushield
    is "it is one of those that run at boot" 1 sh -c 'ls /etc/rcS.d/S*cpushield | wc -l'
    boot_again
    ;;
2)
    is "nothing is shielded by the kernel" "" isolated
    # This is what rc does.
    for script in /etc/rcS.d/S*cpushield; do status "${script##*/} start" 0 "$script" start; done
    is "the script has shielded the CPU" 3 isolated
    status "status" 0 cpushield status
    is "status tells of it" 1 sh -c 'cpushield status | grep -c "^Enabled at every boot: cpushield apply --cpus 3"'
    status "disable" 0 cpushield disable
    is "the active shield stays" 3 isolated
    status "disable again" 0 cpushield disable
    status "undo" 0 cpushield undo
    is "the CPU is free" "" isolated
    status "enable --now" 0 cpushield enable --now --cpus 3
    status "apply another shield" 0 cpushield apply --cpus 2 --shield audio
    status "disable --now" 0 cpushield disable --now
    is "only the other shield stays" 2 isolated
    status "undo of it" 0 cpushield undo
    is "what starts at boot is as it was" "" sh -c "$(declare -f settings); settings | diff /host/before -"
    with_systemd
    boot_again
    ;;
3)
    settings >/host/before
    status "enable --now with systemd" 0 cpushield enable --now --cpus 3
    is "the CPU is shielded" 3 isolated
    status "undo" 0 cpushield undo
    is "it is still enabled" enabled systemctl is-enabled cpushield
    claim "systemd accepts the unit" systemd-analyze verify /etc/systemd/system/cpushield.service
    boot_again
    ;;
4)
    is "the unit has done its work" active systemctl is-active cpushield
    is "the CPU is shielded" 3 isolated
    claim "it was so before basic.target" test "$(when ActiveEnterTimestampMonotonic cpushield)" -le \
        "$(when ActiveEnterTimestampMonotonic basic.target)"
    is "no program may run there" "" threads_allowed_on 3 user
    status "status" 0 cpushield status
    # irqbalance starts later, and forgets the ban when it ends.
    systemctl start irqbalance
    is "an irqbalance that starts later leaves the CPU alone" 8 banned 8
    systemctl restart irqbalance
    is "and so it does after a restart" 8 banned 8
    systemctl stop irqbalance
    # The unit of a workload, as the guide shows it.
    printf '%s\n' '#!/bin/sh' 'exec sleep 100000' >/usr/local/bin/control
    chmod 755 /usr/local/bin/control
    awk '/^```ini guest/ { inside = 1; next } /^```/ { inside = 0 } inside' /host/docs/guides/shield.md |
        sed "s,=cpushield ,=$(command -v cpushield) ," >/etc/systemd/system/control.service
    claim "systemd accepts the unit of the guide" systemd-analyze verify /etc/systemd/system/control.service
    systemctl daemon-reload
    status "the workload starts" 0 systemctl start control
    sleep 2
    is "it is on the shielded CPU" 3 allowed "$(systemctl show -p MainPID --value control)"
    status "the shield is stopped" 0 systemctl stop cpushield
    is "the CPU is free" "" isolated
    is "the workload has stopped" inactive systemctl is-active control
    status "the workload starts again" 0 systemctl start control
    is "and the shield with it" 3 isolated
    systemctl stop control
    is "the shield stays without the workload" 3 isolated
    # A program that is bound to nothing.
    cpushield run -- sleep 100000 &
    left=$!
    until [ "$(allowed $left)" = 3 ]; do sleep 0.2; done
    status "the shield is stopped with a program in it" 0 systemctl stop cpushield
    is "the log names the program" 1 sh -c "journalctl -b --no-pager -u cpushield | grep -c 'sleep ($left): CPU 0-3'"
    kill $left
    status "a shield by hand" 0 cpushield apply --cpus 3
    status "the unit takes it over" 0 systemctl start cpushield
    status "and undoes it" 0 systemctl stop cpushield
    is "the CPU is free" "" isolated
    status "the shield is started" 0 systemctl start cpushield
    # Stopped after the shield's unit when the system goes down. systemd itself removes the slice then, so another
    # setting of the shield shows whether it was undone.
    printf '%s\n' '[Unit]' 'DefaultDependencies=no' 'Conflicts=shutdown.target' 'Before=cpushield.service' \
        'RequiresMountsFor=/host' '[Service]' 'Type=oneshot' 'RemainAfterExit=yes' 'ExecStart=true' \
        'ExecStop=sh -c "cat /proc/irq/default_smp_affinity >/host/going-down"' \
        >/run/systemd/system/witness.service
    systemctl daemon-reload
    systemctl start witness
    rm /etc/systemd/system/control.service
    echo "$failed" >/host/failed
    sync
    systemctl start --no-block --job-mode=replace-irreversibly reboot.target # logind is masked
    sleep 600
    ;;
5)
    is "the shield was not undone while the system went down" 7 cat /host/going-down
    is "the CPU is shielded again" 3 isolated
    status "disable --now" 0 cpushield disable --now
    is "the CPU is free" "" isolated
    is "the unit is not active" inactive systemctl is-active cpushield
    is "what starts at boot is as it was" "" sh -c "$(declare -f settings); settings | diff /host/before -"
    is "systemd has forgotten it" not-found when LoadState cpushield
    ;;
esac
finish
