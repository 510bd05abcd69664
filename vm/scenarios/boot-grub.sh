# guest: 6.12-rt --grub --timeout 900
# Kernel parameters for the RT kernel only, with a real GRUB: written, booted, removed, every file restored byte for
# byte.
. /host/lib.sh
n=$(boot_number)
last_boot 3
cfg=/boot/grub/grub.cfg
lines() { grep -c -- "$1" $cfg; }
rt=$(ls /boot | sed -n 's/^vmlinuz-\(.*-rt-.*\)/\1/p')
plain=$(ls /boot | sed -n 's/^vmlinuz-//p' | grep -v -- -rt-)
as_at_first() { # files of the boot loader, with their bytes and permissions
    find /etc/grub.d /etc/default/grub /boot -type f -exec stat -c '%a %u %n' {} + -exec sha256sum {} + |
        grep -v '/boot/grub/grubenv' | sort
}
case $n in
1)
    is "the first boot has no parameters" "" \
        grep -o nohz_full /proc/cmdline
    as_at_first >/host/before
    cp $cfg /host/cfg.before
    status "boot plan" 0 cpushield boot plan
    cpushield boot plan
    status "a list with every CPU is refused" 2 cpushield boot apply --cpus 0-3
    status "a CPU that is not there is refused" 2 cpushield boot apply --cpus 9
    # A file system that is read-only or full is detected before the first write.
    mount --bind /boot/grub /boot/grub
    mount -o remount,ro,bind /boot/grub
    status "a /boot/grub that is mounted read-only is refused" 3 cpushield boot apply
    claim "and the refusal says so" sh -c 'cpushield boot apply 2>&1 | grep "/boot/grub.*mounted read-only"'
    umount /boot/grub
    mkdir /tmp/grub
    cp -a $cfg /tmp/grub/
    mount -t tmpfs -o size=128k boot /boot/grub
    cp -a /tmp/grub/grub.cfg /boot/grub/
    status "so is one without room" 3 cpushield boot apply
    claim "and the refusal says how much is needed" sh -c 'cpushield boot apply 2>&1 | grep "KiB are needed"'
    umount /boot/grub
    is "nothing was written by a refusal" "" sh -c "$(declare -f as_at_first); as_at_first | diff /host/before -"
    status "boot apply" 0 cpushield boot apply
    claim "the shell accepts the generator" sh -n /etc/grub.d/07_cpushield
    claim "GRUB's own checker takes grub.cfg" grub-script-check $cfg
    is "one line of grub.cfg has the parameters" 1 lines 'nohz_full=1-3 rcu_nocbs=1-3'
    is "it is of the RT kernel" 1 lines "linux.*vmlinuz-$rt .*nohz_full=1-3"
    boot_again
    ;;
2)
    is "the RT kernel booted by default" "$rt" uname -r
    is "with nohz_full in force" 1-3 cat /sys/devices/system/cpu/nohz_full
    claim "and rcu_nocbs on its line" grep -q rcu_nocbs=1-3 /proc/cmdline
    status "boot status" 0 cpushield boot status
    is "which says that nothing differs" 0 sh -c 'cpushield boot status | grep -c ^Note'
    cpushield boot status
    grub-reboot "$(sed -n "s/.*menuentry_id_option '\(gnulinux-advanced-[^']*\)'.*/\1/p" $cfg)>$(
        sed -n "s/.*menuentry_id_option '\(gnulinux-$plain-advanced-[^']*\)'.*/\1/p" $cfg)"
    boot_again
    ;;
3)
    is "the other kernel booted" "$plain" uname -r
    is "without parameters" "" grep -o nohz_full /proc/cmdline
    # A kernel package: the same kernel under another version, and the last step of its script.
    for file in vmlinuz config initrd.img; do cp /boot/$file-"$rt" /boot/$file-"9.$rt"; done
    grub-mkconfig -o $cfg 2>/dev/null
    is "a kernel installed later has the parameters" 1 lines "linux.*vmlinuz-9.$rt .*nohz_full=1-3"
    rm /boot/*-"9.$rt"
    grub-mkconfig -o $cfg 2>/dev/null
    status "boot undo" 0 cpushield boot undo
    is "every file is restored, byte for byte" "" sh -c "$(declare -f as_at_first); as_at_first | diff /host/before -"
    status "a second undo has nothing to do" 0 cpushield boot undo
    ;;
esac
finish
