# guest: 6.12-rt --grub --timeout 900
# slow: five boots
# The machine of the LinuxCNC wiki: an RTAI kernel runs, and a newer generic and a newer PREEMPT_RT kernel are installed
# next to it. There is no RTAI kernel in Debian 13, so this one is made: the image and the configuration of Debian's RT
# kernel are copied, the configuration has the options of such a kernel, the version in the image's header is patched,
# and /proc/sys/kernel/osrelease is mounted over. The RTAI kernel gets `isolcpus=`, the PREEMPT_RT kernel gets
# `nohz_full=`, the generic one gets nothing.
. /host/lib.sh
n=$(boot_number)
last_boot 5
cfg=/boot/grub/grub.cfg
rtai=5.4.258-rtai-amd64
lines() { grep -c -- "$1" $cfg; }
as_at_first() { # files of the boot loader, with their bytes and permissions
    find /etc/grub.d /etc/default/grub /boot -type f -exec stat -c '%a %u %n' {} + -exec sha256sum {} + |
        grep -v '/boot/grub/grubenv' | sort
}
entry() { # a kernel: the name of its entry for GRUB
    echo "$(sed -n "s/.*menuentry_id_option '\(gnulinux-advanced-[^']*\)'.*/\1/p" $cfg | head -n 1)>$(
        sed -n "s/.*menuentry_id_option '\(gnulinux-$1-advanced-[^']*\)'.*/\1/p" $cfg | head -n 1)"
}
image() { tr ' ' '\n' </proc/cmdline | sed -n 's/^BOOT_IMAGE=.*vmlinuz-//p'; }
call_it_rtai() {
    echo $rtai >/tmp/osrelease
    mount --bind /tmp/osrelease /proc/sys/kernel/osrelease
}
plain=$(ls /boot | sed -n 's/^vmlinuz-//p' | grep -v -e -rt- -e rtai)
case $n in
1)
    rt=$(ls /boot | sed -n 's/^vmlinuz-\(.*-rt-.*\)/\1/p')
    for file in vmlinuz config initrd.img; do cp /boot/$file-"$rt" /boot/$file-$rtai; done
    sed -i -E 's/^(CONFIG_(PREEMPT_RT|NO_HZ_FULL|VIRT_CPU_ACCOUNTING_GEN|CONTEXT_TRACKING_USER))=y/# \1 is not set/' \
        /boot/config-$rtai
    echo CONFIG_IPIPE=y >>/boot/config-$rtai
    # The boot protocol of x86: the offset of the version's text, less 0x200, is at 0x20e.
    python3 - /boot/vmlinuz-$rtai $rtai <<'END'
import struct, sys
image = bytearray(open(sys.argv[1], "rb").read())
at = struct.unpack_from("<H", image, 0x20E)[0] + 0x200
end = image.index(b"\0", at)
text = sys.argv[2].encode() + b" (patched)"
image[at:end] = text.ljust(end - at, b" ")[: end - at]
open(sys.argv[1], "wb").write(image)
END
    grub-mkconfig -o $cfg 2>/dev/null
    grub-editenv /boot/grub/grubenv set "saved_entry=$(entry $rtai)"
    boot_again
    ;;
2)
    is "the RTAI kernel runs" $rtai image
    call_it_rtai
    as_at_first >/host/before
    cpushield boot plan --cpus 3
    status "boot plan" 0 cpushield boot plan --cpus 3
    status "boot apply" 0 cpushield boot apply --cpus 3
    # The saved entry is the user's, so apply leaves it alone and says what to do.
    is "apply says that the saved entry has no parameters" 1 sh -c 'cpushield boot apply --cpus 3 2>/dev/null | grep -c "^Next boot, without the parameters"'
    is "and apply names the command that chooses the new one" 1 sh -c "cpushield boot apply --cpus 3 2>/dev/null | grep -c 'grub-set-default.*cpushield-$rtai'"
    grub-editenv /boot/grub/grubenv set saved_entry=cpushield-$rtai
    claim "GRUB's own checker takes grub.cfg" grub-script-check $cfg
    is "one line of grub.cfg has the parameter" 1 lines 'isolcpus=3'
    is "it is of the RTAI kernel" 1 lines "linux.*vmlinuz-$rtai .*isolcpus=3"
    is "one line has nohz_full" 1 lines nohz_full
    is "it is of the PREEMPT_RT kernel" 1 lines 'linux.*vmlinuz-[^ ]*-rt-amd64 .*nohz_full=3'
    is "which has no isolcpus" 0 lines 'nohz_full.*isolcpus'
    boot_again
    ;;
3)
    is "the RTAI kernel booted by default" $rtai image
    is "with isolcpus in force" 3 cat /sys/devices/system/cpu/isolated
    call_it_rtai
    status "boot status" 0 cpushield boot status
    cpushield boot status
    grub-editenv /boot/grub/grubenv set "saved_entry=cpushield-$(ls /boot | sed -n 's/^vmlinuz-\(.*-rt-.*\)/\1/p')"
    boot_again
    ;;
4)
    is "the PREEMPT_RT kernel booted with its own parameters" 3 cat /sys/devices/system/cpu/nohz_full
    is "and without isolcpus" "" cat /sys/devices/system/cpu/isolated
    status "boot status" 0 cpushield boot status
    grub-reboot "$(entry "$plain")"
    boot_again
    ;;
5)
    is "the generic kernel booted" "$plain" image
    is "without parameters" "" grep -o isolcpus /proc/cmdline
    status "boot undo" 0 cpushield boot undo
    is "every file is restored, byte for byte" "" sh -c "$(declare -f as_at_first); as_at_first | diff /host/before -"
    ;;
esac
finish
