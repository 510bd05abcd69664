# guest: 6.12-rt --grub --init-roots --timeout 900
# slow: three boots
# The scripts of `cpushield enable` without systemd are started by the programs that start them on a real machine:
# OpenRC and sysvinit's rc of Debian, in separate roots, each after a boot.
. /host/lib.sh
isolated() { cat /sys/fs/cgroup/cpuset.cpus.isolated; }
unpacked() { # kind
    mkdir "/$1"
    tar -C "/$1" -xf "/host/$1.tar"
    install -m 755 /host/cpushield "/$1/usr/sbin/cpushield"
    : >"/$1/etc/fstab"
    # They would end the guest when OpenRC's runlevels of a shutdown run.
    rm -f "/$1"/etc/runlevels/off/{umount*,sendsigs}
}
entered() { # kind: its file systems, as the kernel and init mount them
    local dir
    for dir in proc sys dev; do mount --rbind "/$dir" "/$1/$dir"; done
    mount -t tmpfs run "/$1/run"
}
inside() { # kind, command
    local kind=$1
    shift
    chroot "/$kind" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin TERM=dumb "$@" </dev/null
}
# What inittab runs: rcS, then the default runlevel.
begun() { inside "$1" sh -c '/etc/init.d/rcS && /etc/init.d/rc 2'; }
settings() { # files that start programs at boot, with contents; without the caches of insserv and OpenRC
    (cd "/$1/etc" && find init.d rc?.d runlevels -type l -printf '%p %l\n' -o -type f ! -name '.depend.*' \
        -exec sha256sum {} + 2>/dev/null | sort)
}
installed() { # kind
    settings "$1" >"/host/before-$1"
    status "$1: enable --now" 0 inside "$1" cpushield enable --now --cpus 3
    is "$1: the CPU is shielded" 3 isolated
}
started() { # kind
    is "$1: nothing is shielded by the kernel" "" isolated
    entered "$1"
    begun "$1" >"/host/$1.log" 2>&1
    is "$1: the CPU is shielded after it" 3 isolated
    claim "$1: it was so before ordinary services" test -e "/$1/var/lib/cpushield/early"
    claim "$1: nothing was said against the script" sh -c "! grep -i -E 'cpushield.*(error|fail|needs|warning)' /host/$1.log"
    status "$1: status" 0 inside "$1" cpushield status
    status "$1: it is stopped" 0 stopped "$1"
    is "$1: the CPU is free" "" isolated
    status "$1: it is started" 0 inside "$1" "$(service_program "$1")" cpushield start
    is "$1: the CPU is shielded again" 3 isolated
    # What init runs when the system goes down, without the end.
    going_down "$1" >"/host/down-$1.log" 2>&1
    is "$1: the shield stays while the system goes down" 3 isolated
    status "$1: disable --now" 0 inside "$1" cpushield disable --now
    is "$1: the CPU is free" "" isolated
    settings "$1" >"/host/after-$1"
    claim "$1: what starts at boot is as it was" diff "/host/before-$1" "/host/after-$1"
}
service_program() { case $1 in openrc) echo rc-service ;; *) echo service ;; esac; }
stopped() { inside "$1" "$(service_program "$1")" cpushield stop; }
going_down() { # kind
    case $1 in
    openrc) inside openrc sh -c 'openrc off; openrc shutdown' ;;
    *) inside sysv-rc env RUNLEVEL=0 /etc/init.d/cpushield stop ;;
    esac
}
# A service of the default runlevel that reports whether the shield was active before it.
witness() { # kind
    cat >"/$1/etc/init.d/witness" <<'END'
#!/bin/sh
### BEGIN INIT INFO
# Provides:          witness
# Required-Start:    $local_fs
# Required-Stop:
# Default-Start:     2
# Default-Stop:
# Short-Description: tells whether a shield is there
### END INIT INFO
[ "$1" != start ] || [ "$(cat /sys/fs/cgroup/cpuset.cpus.isolated)" != 3 ] || : >/var/lib/cpushield/early
END
    chmod 755 "/$1/etc/init.d/witness"
    inside "$1" update-rc.d witness defaults
}
case $(boot_number) in
1)
    unpacked openrc
    entered openrc
    witness openrc
    begun openrc >/host/openrc-first.log 2>&1
    claim "OpenRC runs" test -e /openrc/run/openrc/softlevel
    installed openrc
    is "openrc: it is in the runlevel of Debian's rcS" 1 sh -c 'ls /openrc/etc/runlevels/sysinit | grep -c cpushield'
    boot_again
    ;;
2)
    started openrc
    unpacked sysv-rc
    entered sysv-rc
    witness sysv-rc
    installed sysv-rc
    is "sysv-rc: insserv has placed it" 1 sh -c 'ls /sysv-rc/etc/rcS.d | grep -c "^S..cpushield$"'
    is "sysv-rc: behind the file systems" mountall.sh sh -c \
        'ls /sysv-rc/etc/rcS.d | sed -n "s/^S..\(mountall.sh\|cpushield\)$/\1/p" | head -n 1'
    boot_again
    ;;
3) started sysv-rc ;;
esac
finish
