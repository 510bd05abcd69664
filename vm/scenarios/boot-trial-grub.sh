# guest: 6.12-rt --grub --reset-after 90 --timeout 1000
# slow: six boots, and a reset after a hang
# A trial boot with a real GRUB. A trial that holds becomes permanent. After one that hangs (until a reset) or
# crashes, the old entry boots by itself.
. /host/lib.sh
n=$(boot_number)
last_boot 6
cfg=/boot/grub/grub.cfg
as_at_first() { # files of the boot loader, with their bytes and permissions
    find /etc/grub.d /etc/default/grub /boot -type f -exec stat -c '%a %u %n' {} + -exec sha256sum {} + | sort
}
unchanged() { as_at_first | diff /host/before -; }
case $n in
1)
    grub-editenv /boot/grub/grubenv set saved_entry=0
    as_at_first >/host/before
    status "without systemd nothing could wait for a login" 3 cpushield boot apply --trial --until login
    is "so nothing was written" "" unchanged
    status "boot apply --trial" 0 sh -c 'cpushield boot apply --trial >/tmp/said'
    claim "it says what to do if the machine cannot be reached" grep -q 'This machine does not use systemd' /tmp/said
    claim "GRUB's own checker takes grub.cfg" grub-script-check $cfg
    claim "GRUB has the one-shot entry" grep -q next_entry=cpushield- /boot/grub/grubenv
    status "before the boot there is nothing to conclude" 3 cpushield boot conclude
    boot_again
    ;;
2)
    is "the trial booted" 1-3 cat /sys/devices/system/cpu/nohz_full
    is "GRUB has taken the wish" 0 sh -c 'grep -c next_entry=. /boot/grub/grubenv'
    is "its entry is not the default" 1 sh -c 'cpushield boot status | grep -c "^Next boot: Debian GNU/Linux (saved"'
    status "the trial is concluded" 0 cpushield boot conclude
    boot_again
    ;;
3)
    is "the parameters are permanent" 1-3 cat /sys/devices/system/cpu/nohz_full
    status "boot undo" 0 cpushield boot undo
    is "every file is restored, byte for byte" "" unchanged
    status "another trial" 0 cpushield boot apply --trial
    # The kernel finds no init and stops there.
    sed -i '/nohz_full=1-3/s/$/ rdinit=\/nope panic=0/' $cfg
    boot_again
    ;;
4)
    is "after the hang the old entry booted" "" grep -o nohz_full /proc/cmdline
    status "the trial is concluded" 0 cpushield boot conclude
    is "which says that it did not hold" 1 sh -c 'cpushield boot status | grep -c "^Last trial: undone"'
    cpushield boot status
    is "every file is restored, byte for byte" "" unchanged
    status "a third trial" 0 cpushield boot apply --trial
    boot_again
    ;;
5)
    is "the third trial booted" 1-3 cat /sys/devices/system/cpu/nohz_full
    is "status says that it is not concluded" 1 sh -c 'cpushield boot status | grep -c "not concluded yet"'
    echo "$failed" >/host/failed
    sync
    # The crash comes before the trial is concluded. The kernel waits for the time of panic= and reboots.
    echo c >/proc/sysrq-trigger
    ;;
6)
    is "after the crash the old entry booted" "" grep -o nohz_full /proc/cmdline
    fell_back() { cpushield boot status | tr -s '\n ' ' ' | grep -c "$1"; }
    is "status says that the boot did not end well" 1 fell_back 'Trial failed: cpushield-[^ ]* was booted, but the boot failed'
    is "and that the machine fell back, and since when" 1 fell_back 'The machine fell back and has run another entry since 20'
    is "and what to do" 1 fell_back 'to restore every boot file: cpushield boot undo'
    is "nothing tells to boot the entry of the trial" 0 fell_back 'boot the entry'
    cpushield boot status
    status "boot undo" 0 cpushield boot undo
    is "every file is restored, byte for byte" "" unchanged
    is "no trial is left" 0 fell_back 'Trial failed'
    ;;
esac
finish
