# guest: 6.12-rt --grub --timeout 3600
# slow: eight boots of systemd
# An unattended trial boot under systemd. The unit verifies the parameters and makes them permanent. It reverts a
# trial whose parameters differ from the requested ones. A boot without a login falls back by itself.
. /host/lib.sh
n=$(boot_number)
last_boot 8
cfg=/boot/grub/grub.cfg
unit=/etc/systemd/system/cpushield-trial.service
as_at_first() { # files of the boot loader, with their bytes and permissions
    find /etc/grub.d /etc/default/grub /boot /etc/systemd/system -type f -exec stat -c '%a %u %n' {} + \
        -exec sha256sum {} + | sort
}
unchanged() { as_at_first | diff /host/before -; }
settled() { # waits until the unit has finished
    local i
    for i in $(seq 600); do
        case $(systemctl is-active cpushield-trial) in
        failed) return 1 ;;
        inactive) [ -e $unit ] || return 0 ;;
        esac
        sleep 1
    done
    return 1
}
last_trial() { cpushield boot status | sed -n 's/^Last trial: \([a-z ]*\): .*/\1/p'; }
[ "$n" = 1 ] || is "systemd is up" 1 sh -c 'systemctl is-active multi-user.target | grep -cx active'
case $n in
1)
    with_systemd
    grub-editenv /boot/grub/grubenv set saved_entry=0
    boot_again
    ;;
2)
    as_at_first >/host/before
    # Killed at any point: the files that GRUB reads are complete, and undo restores every byte.
    for delay in 0.3 1 2 4 6 9; do
        cpushield boot apply --trial --cpus 3 >/dev/null 2>&1 &
        job=$!
        sleep $delay
        kill -9 $job 2>/dev/null
        wait $job 2>/dev/null
        claim "killed after $delay s GRUB's checker takes grub.cfg" grub-script-check $cfg
        claim "and undo ends well" cpushield boot undo
        is "with every file restored, byte for byte" "" unchanged
    done
    status "boot apply --trial" 0 cpushield boot apply --trial --cpus 3
    is "the unit is enabled" enabled systemctl is-enabled cpushield-trial
    claim "systemd takes it" systemd-analyze verify $unit
    boot_again
    ;;
3)
    is "the trial booted" 3 cat /sys/devices/system/cpu/nohz_full
    claim "the unit has ended" settled
    journalctl -b --no-pager -u cpushield-trial 2>/dev/null | tail -n 5
    cpushield boot status
    case $(last_trial) in
    "made permanent") ok "a shield held, and the parameters are permanent" ;;
    *)
        # The host can take time from a guest; the verdict is then a justified doubt.
        said=$(cpushield boot status | grep '^Last trial')
        case $said in
        *"the trial booted, but failed"*)
            skip "a shield held, and the parameters are permanent" "$said"
            is "a trial that does not hold was reverted, byte for byte" "" unchanged
            finish
            ;;
        *) not_ok "a shield held, and the parameters are permanent: $said" ;;
        esac
        ;;
    esac
    is "no shield is left" "" cat /sys/fs/cgroup/cpuset.cpus.isolated
    boot_again
    ;;
4)
    is "they are booted by default" 3 cat /sys/devices/system/cpu/nohz_full
    is "without the word of the trial" "" grep -o panic=30 /proc/cmdline
    status "boot undo" 0 cpushield boot undo
    is "every file is restored, byte for byte" "" unchanged
    status "another trial" 0 cpushield boot apply --trial --cpus 3
    sed -i 's/nohz_full=3/nohz_full=2/' $cfg # the booted parameter differs from the requested one
    boot_again
    ;;
5)
    is "a wrong parameter booted" 2 cat /sys/devices/system/cpu/nohz_full
    claim "the unit has ended" settled
    is "it reverted the trial" "undone" last_trial
    cpushield boot status
    is "every file is restored, byte for byte" "" unchanged
    # This guest has no getty and no network, so nothing comes up.
    status "a trial that waits for a login" 0 cpushield boot apply --trial --cpus 3 --until login --within 90s
    is "both units are enabled" 2 sh -c 'systemctl is-enabled cpushield-trial cpushield-trial-deadline | grep -cx enabled'
    claim "systemd takes them" systemd-analyze verify $unit ${unit%.service}-deadline.service
    boot_again
    ;;
6)
    is "a boot without a login was the trial" 3 cat /sys/devices/system/cpu/nohz_full
    echo "$failed" >/host/failed
    sync
    sleep 1000 # the unit reboots
    not_ok "the machine boots the old entry again by itself"
    finish
    ;;
7)
    is "the old entry booted by itself" "" grep -o nohz_full /proc/cmdline
    is "the trial was undone" "undone" last_trial
    is "because no login came up" 1 sh -c 'cpushield boot status | tr -s "\n " " " | grep -c "a login did not become available within 90 s"'
    cpushield boot status
    is "every file is restored, byte for byte" "" unchanged
    # Something with the name of a getty waits from now on. In the guest systemd-user-sessions, which permits logins,
    # is masked.
    cp /bin/sleep /usr/local/bin/agetty
    printf '%s\n' '[Service]' 'ExecStartPre=/bin/rm -f /run/nologin' 'ExecStart=/usr/local/bin/agetty 100000' \
        '[Install]' 'WantedBy=multi-user.target' \
        >/etc/systemd/system/waiter.service
    systemctl enable waiter
    mkdir -p /etc/cpushield
    printf '%s\n' '[shield.a]' 'cpus = "2"' '[shield.b]' 'cpus = "3"' >/etc/cpushield/policy.toml
    status "two shields at every boot" 0 cpushield enable --all
    status "a trial with a login" 0 cpushield boot apply --trial --cpus 2-3 --until login --within 240s
    boot_again
    ;;
8)
    is "the trial booted" 2-3 cat /sys/devices/system/cpu/nohz_full
    claim "the unit has ended" settled
    is "both shields of the boot were watched" "" \
        sh -c 'cpushield boot status | tr -s "\n " " " | grep -oE "could not be watched|several shields"'
    case $(last_trial) in
    "made permanent") ok "they hold, or the one that leaks is named" ;;
    *) is "they hold, or the one that leaks is named" 1 \
        sh -c 'cpushield boot status | tr -s "\n " " " | grep -cE "shield [ab] does not hold"' ;;
    esac
    is "with a login it is not the login that decides" "" \
        sh -c 'cpushield boot status | tr -s "\n " " " | grep -o "did not become available"'
    is "and no unit is left" "" sh -c 'ls /etc/systemd/system | grep cpushield-trial'
    cpushield boot status
    ;;
esac
finish
