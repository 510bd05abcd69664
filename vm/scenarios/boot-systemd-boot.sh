# guest: 6.12-rt --efi --timeout 600
# slow: five boots
# Kernel parameters with a real systemd-boot, started by real firmware: a trial that boots once and is not the
# default, entries of the RT kernel only, kernels that kernel-install adds later, and restored files.
. /host/lib.sh
n=$(boot_number)
last_boot 5
entries=/boot/loader/entries
rt=$(ls /boot | sed -n 's/^vmlinuz-\(.*-rt-.*\)/\1/p' | grep -v ^9)
plain=$(ls /boot | sed -n 's/^vmlinuz-//p' | grep -v -- -rt-)
# Everything that is written: entries, hooks, the loader's settings.
as_at_first() { find $entries /boot/loader/loader.conf /etc/kernel -type f -exec sha256sum {} + | sort; }
unchanged() { as_at_first | diff /host/before -; }
has() { grep -l nohz_full=3 $entries/*.conf | xargs -n1 basename | paste -sd' '; }
efi_says() { cat "/sys/firmware/efi/efivars/$1-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f" | tail -c +5 | tr -d '\0'; }
case $n in
1)
    is "systemd-boot started the machine" 1 sh -c "$(declare -f efi_says); efi_says LoaderInfo | grep -c '^systemd-boot'"
    is "the RT kernel is the default" "$rt" uname -r
    # The guest has no depmod step and only the kernel image.
    ln -s /dev/null /etc/kernel/install.d/50-depmod.install
    printf 'layout=bls\nBOOT_ROOT=/boot\ninitrd_generator=none\n' >/etc/kernel/install.conf
    echo guest >/etc/kernel/entry-token
    as_at_first >/host/before
    status "boot plan" 0 cpushield boot plan
    cpushield boot plan
    status "boot apply --trial" 0 cpushield boot apply --trial --cpus 3
    is "an entry of its own has the parameters" "a-cpushield-trial-$rt.conf" has
    is "the loader has the one-shot entry" "a-cpushield-trial-$rt.conf" efi_says LoaderEntryOneShot
    boot_again
    ;;
2)
    is "the trial booted" 3 cat /sys/devices/system/cpu/nohz_full
    is "by its own entry" "a-cpushield-trial-$rt.conf" efi_says LoaderEntrySelected
    is "which is not the default" 1 sh -c 'cpushield boot status | grep -c "^Next boot: Debian GNU/Linux ([^)]*) (it is the first entry)"'
    boot_again # as a button would do it: nothing has concluded the trial
    ;;
3)
    is "the old entry booted by itself" "" grep -o nohz_full /proc/cmdline
    status "the trial is concluded" 0 cpushield boot conclude
    is "every file is restored, byte for byte" "" unchanged
    status "boot apply" 0 cpushield boot apply --cpus 3
    is "the RT kernel's entry has them, the other has not" "guest-$rt.conf" has
    boot_again
    ;;
4)
    is "the RT kernel booted with them" 3 cat /sys/devices/system/cpu/nohz_full
    is "status says that nothing differs" 0 sh -c 'cpushield boot status | grep -c ^Note'
    # Two kernel packages; kernel-install copies the running kernel's command line to their entries.
    for version in "$rt" "$plain"; do
        status "kernel-install add 9.$version" 0 kernel-install add "9.$version" "/boot/vmlinuz-$version"
    done
    is "the RT kernel that came later has them, the other has not" "guest-$rt.conf guest-9.$rt.conf" has
    for version in "$rt" "$plain"; do kernel-install remove "9.$version"; done
    bootctl set-oneshot "guest-$plain.conf"
    boot_again
    ;;
5)
    is "the other kernel booted" "$plain" uname -r
    is "without them" "" grep -o nohz_full /proc/cmdline
    kernel-install add "9.$rt" "/boot/vmlinuz-$rt" >/dev/null 2>&1
    is "the later RT kernel has them" "guest-$rt.conf guest-9.$rt.conf" has
    status "boot undo" 0 cpushield boot undo
    is "undo removes them from its entry too" "" sh -c "grep -l nohz_full $entries/*.conf"
    kernel-install remove "9.$rt"
    is "every file is restored, byte for byte" "" unchanged
    ;;
esac
finish
