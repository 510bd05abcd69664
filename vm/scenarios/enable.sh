# guest: 6.12-rt --grub --timeout 600
# slow: four boots, two of systemd
# The shield of `cpushield enable` is active before services start, with a sysvinit script and with systemd. undo
# leaves it enabled; disable removes every file of it.
. /host/lib.sh
n=$(boot_number)
settings() { # files that start programs at boot, with contents
    find /etc/init.d /etc/rc*.d /etc/systemd -type l -printf '%p %l\n' -o -type f -exec sha256sum {} + | sort
}
isolated() { cat /sys/fs/cgroup/cpuset.cpus.isolated; }
when() { systemctl show -p "$1" --value "$2"; }
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
    status "disable --now" 0 cpushield disable --now
    is "the CPU is free" "" isolated
    is "what starts at boot is as it was" "" sh -c "$(declare -f settings); settings | diff /host/before -"
    is "systemd has forgotten it" not-found when LoadState cpushield
    ;;
esac
finish
