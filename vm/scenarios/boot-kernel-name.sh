# guest: 6.12-rt --grub
# slow: four boots
# A kernel whose file has the name of a package, as on Arch and Alpine: it is known by its release, and a trial of it
# holds and becomes permanent.
. /host/lib.sh
n=$(boot_number)
last_boot 4
cfg=/boot/grub/grub.cfg
release=$(uname -r)
files() { find /etc/grub.d /boot -type f -exec stat -c '%a %u %n' {} + -exec sha256sum {} + | sort; }
unchanged() { files | diff /host/before -; }
case $n in
1)
    for file in /boot/vmlinuz-* /boot/initrd.img-*; do
        case $file in *"$release") ;; *) mv "$file" "/boot/away-${file##*/}" ;; esac
    done
    mv "/boot/vmlinuz-$release" /boot/vmlinuz-linux-rt
    # 10_linux takes the part after the last `-` in front of a number for the version.
    mv "/boot/initrd.img-$release" /boot/initrd.img-rt
    grub-mkconfig -o $cfg
    claim "the menu has the kernel under its name" grep -q 'vmlinuz-linux-rt' $cfg
    boot_again
    ;;
2)
    files >/host/before
    is "GRUB names the file of the running kernel" 1 grep -c '^BOOT_IMAGE=[^ ]*/vmlinuz-linux-rt ' /proc/cmdline
    is "the kernel is known by its release" 1 sh -c "cpushield boot plan | grep -c 'linux-rt ($release) *gets the parameters'"
    is "a pattern for the release chooses it" 0 sh -c "cpushield boot plan --kernels '$release' | grep -c 'stays as it is'"
    status "boot apply --trial" 0 cpushield boot apply --trial
    boot_again
    ;;
3)
    is "the trial booted" 1-3 cat /sys/devices/system/cpu/nohz_full
    is "status knows that the kernel runs" 0 sh -c "cpushield boot status | grep -c 'not one of the chosen kernels'"
    status "the trial is concluded" 0 cpushield boot conclude
    boot_again
    ;;
4)
    is "the parameters are permanent" 1-3 cat /sys/devices/system/cpu/nohz_full
    is "status finds no difference" 0 sh -c "cpushield boot status | grep -c Warning"
    cpushield boot status
    status "boot undo" 0 cpushield boot undo
    is "every file is restored, byte for byte" "" unchanged
    ;;
esac
finish
