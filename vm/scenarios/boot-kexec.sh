# guest: 6.12-rt --smp 2 --grub --one-thread --reset-after 90 --timeout 600
# slow: three boots on one thread
# The running kernel starts the chosen one with its parameters. The boot loader is not involved in that trial.
. /host/lib.sh
n=$(boot_number)
last_boot 3
as_at_first() { # files of the boot loader, with their bytes
    find /etc/grub.d /etc/default/grub /boot -type f -exec sha256sum {} + | sort
}
case $n in
1)
    grub-editenv /boot/grub/grubenv set saved_entry=0
    as_at_first >/host/before
    echo 1 >/proc/sys/kernel/kexec_load_disabled
    status "where kexec is switched off it is refused" 3 cpushield boot apply --trial --kexec --cpus 1
    is "and the reason is reported" 1 sh -c 'cpushield boot apply --trial --kexec --cpus 1 2>&1 | grep -c kexec_load_disabled'
    status "boot undo" 0 cpushield boot undo
    is "every file is restored, byte for byte" "" sh -c "$(declare -f as_at_first); as_at_first | diff /host/before -"
    boot_again # kexec stays disabled until a boot
    ;;
2)
    status "boot apply --trial --kexec" 0 cpushield boot apply --trial --kexec --cpus 1
    is "a kernel is loaded" 1 cat /sys/kernel/kexec_loaded
    is "GRUB has no one-shot entry" "" grep next_entry=. /boot/grub/grubenv
    echo "$failed" >/host/failed
    rm -f /host/uptime /host/status
    umount /boot
    sync
    # This is the last step of an init system.
    python3 -c 'import ctypes; ctypes.CDLL(None).reboot(0x45584543)'
    not_ok "the kernel was not started"
    ;;
3)
    is "the kernel started with the parameters" 1 cat /sys/devices/system/cpu/nohz_full
    status "boot undo" 0 cpushield boot undo
    is "every file is restored, byte for byte" "" sh -c "$(declare -f as_at_first); as_at_first | diff /host/before -"
    ;;
esac
finish
