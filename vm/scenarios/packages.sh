# The packages on a bare Debian: they are installed, the tutorial runs command by command, a shield is proven, an
# upgrade leaves it, and removal restores the machine. Debian installs the .rpm without its dependencies (--nodeps),
# because its database of rpm is empty.
# guest, slow: 6.12-rt --packages --systemd --append "nohz_full=1-3 rcu_nocbs=1-3 irqaffinity=0" --timeout 900
# guest, slow: 6.12-rt --packages --grub --timeout 900
. /host/lib.sh
# The program of the package, not the one that a guest gets otherwise.
PATH=/host/tools:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
deb=$(echo /host/packages/*.deb) rpm=$(echo /host/packages/*.rpm)
[ -e "$deb" ] && [ -e "$rpm" ] || {
    skip "the packages" "!! NOT RUN: there are no packages: run make packages"
    finish
}
isolated() { cat /sys/fs/cgroup/cpuset.cpus.isolated; }
# Everything on disk that is not a log, and not the package managers' own. A directory changes its time when a file
# in it comes and goes.
files() {
    find / -xdev \( -path /var/lib/dpkg -o -path /var/lib/rpm -o -path /var/log -o -path /var/lib/systemd \
        -o -path /tmp -o -path /root -o -path /host -o -path /run \) -prune \
        -o -type d -printf '%m %u %p\n' -o -printf '%m %u %s %T@ %p %l\n' | sort
    [ ! -e /boot/grub ] || find /boot /etc/default/grub /etc/grub.d -type f ! -name grubenv -exec sha256sum {} + | sort
}
running_services() { # each with the start of its present run
    systemctl list-units --type=service --state=running --no-legend --plain | cut -d' ' -f1 |
        xargs systemctl show -p Id -p InvocationID
}
at_boot() { sha256sum /etc/systemd/system/cpushield.service /etc/grub.d/07_cpushield /boot/grub/grub.cfg 2>/dev/null; }
newer() { # the same package as another version
    dpkg-deb -R "$deb" /tmp/newer && sed -i 's/^Version: .*/Version: 99/' /tmp/newer/DEBIAN/control &&
        dpkg-deb -Znone -b /tmp/newer /tmp/newer.deb
}
with_terminal() { script -qec "$1" /dev/null </dev/null; }
# refused TEXT COMMAND: removal at a terminal fails, names the process, and changes nothing.
refused() {
    cpushield run -- sleep 600 &
    until grep -rqs . /sys/fs/cgroup/cpushield*/ --include=cgroup.procs; do sleep 0.1; done
    local said code process
    said=$(with_terminal "$2" 2>&1)
    code=$?
    process=$(pgrep -x sleep)
    claim "$1: at a terminal it is refused while a program runs in the shield (exit status $code)" test $code != 0
    claim "$1: the refusal names the process" grep -qF "$process (sleep)" <<<"$said"
    echo "${said//$'\r'/}" | sed 's/^/#   /'
    is "$1: the shield stays" 3 isolated
    claim "$1: the program stays" test -x /usr/bin/cpushield
}
proven_shield() {
    local attempt
    status "apply" 0 cpushield apply --cpus 3
    # The host can take time from a guest; the verdict is then a justified `unknown`. So there are three attempts.
    for attempt in 1 2 3; do
        cpushield verify --for 10s --max-entries 0 >/tmp/verdict 2>&1 && break
    done
    claim "verify proves that the shield holds (attempt $attempt of 3)" \
        sh -c 'grep -i "holds" /tmp/verdict && ! grep -iE "leaks|unknown" /tmp/verdict || { cat /tmp/verdict; false; }'
}
rpm_root() { # rpm, its libraries and the directories of every rpm distribution, which are no part of what is tested
    mkdir -p /usr/share/licenses /usr/share/man/man1 /usr/share/man/man5
    tar -C /host/rpm -cf - . | tar -C / --keep-directory-symlink -xf -
    ldconfig
}

if [ ! -e /boot/grub ]; then
    # ---- the shield --------------------------------------------------------------------------------
    rm -f /etc/dpkg/dpkg.cfg.d/99mmdebstrap # it leaves out documents and man pages
    rpm_root
    claim "no cpushield is installed" eval '! command -v cpushield'
    files >/tmp/files.before
    running_services >/tmp/services.before
    snapshot /tmp/before
    status "dpkg -i" 0 dpkg -i "$deb"
    claim "the package has the program under test" cmp /host/cpushield /usr/bin/cpushield
    claim "and its man page, completions, guides and examples" ls /usr/share/man/man1/cpushield.1.gz \
        /usr/share/man/man5/cpushield-policy.5.gz /usr/share/bash-completion/completions/cpushield \
        /usr/share/doc/cpushield/guides/recipes.md /usr/share/doc/cpushield/examples/policy.toml
    claim "systemd accepts the unit of the examples" \
        systemd-analyze verify /usr/share/doc/cpushield/examples/cpushield.service
    claim "the shell accepts the script of the examples" sh -n /usr/share/doc/cpushield/examples/cpushield.sysv
    is "nothing runs after the installation" "" isolated
    tutorial
    as_before "after the tutorial the machine is as before" /tmp/before
    proven_shield
    status "a newer version to upgrade to" 0 newer
    status "upgrade" 0 dpkg -i /tmp/newer.deb
    is "it is the newer version" 99 dpkg-query -W -f='${Version}' cpushield
    is "the shield is active after the upgrade" 3 isolated
    status "the new program reads the old journal" 0 cpushield status
    refused dpkg "dpkg -r cpushield"
    status "a second shield" 0 cpushield apply --shield b --cpus 2
    # A program that runs in the shield goes on without it.
    status "dpkg -r without a terminal" 0 dpkg -r cpushield
    is "the CPU is free" "" isolated
    claim "the program that ran in the shield still runs" pgrep -x sleep
    pkill -x sleep
    mkdir -p /etc/cpushield
    echo '[shield.a]' >/etc/cpushield/policy.toml
    status "dpkg --purge" 0 dpkg --purge cpushield
    as_before "after the removal the machine is as before" /tmp/before
    claim "and so is the file system" eval 'files | diff /tmp/files.before -'

    status "rpm -i --nodeps" 0 rpm -i --nodeps "$rpm"
    claim "the package has the program under test" cmp /host/cpushield /usr/bin/cpushield
    claim "its files are as the package says" rpm -V --nodeps cpushield
    status "apply" 0 cpushield apply --cpus 3
    status "rpm -U of the same version" 0 rpm -U --nodeps --replacepkgs "$rpm"
    is "the shield is active after the upgrade" 3 isolated
    status "the new program reads the old journal" 0 cpushield status
    refused rpm "rpm -e cpushield"
    pkill -x sleep
    status "rpm -e at a terminal" 0 with_terminal "rpm -e cpushield"
    is "the CPU is free" "" isolated
    as_before "after the removal the machine is as before" /tmp/before
    claim "and so is the file system" eval 'files | diff /tmp/files.before -'
    claim "no service was started or stopped" eval 'running_services | diff /tmp/services.before -'
    finish
fi

# ---- what survives a boot ------------------------------------------------------------------------------
case $(boot_number) in
1)
    with_systemd
    boot_again
    ;;
2)
    rpm_root
    rm -f /etc/dpkg/dpkg.cfg.d/99mmdebstrap
    for kind in deb rpm; do
        files >/tmp/files.before
        systemctl list-unit-files >/tmp/units.before
        if [ $kind = deb ]; then
            status "dpkg -i" 0 dpkg -i "$deb"
        else
            status "rpm -i --nodeps" 0 rpm -i --nodeps "$rpm"
        fi
        status "$kind: enable --now" 0 cpushield enable --now --cpus 3
        status "$kind: boot apply" 0 cpushield boot apply
        is "$kind: a unit, a generator and a menu" 3 eval 'at_boot | wc -l'
        at_boot >/tmp/at_boot
        if [ $kind = deb ]; then
            status "a newer version to upgrade to" 0 newer
            status "$kind: upgrade" 0 dpkg -i /tmp/newer.deb
        else
            status "$kind: upgrade" 0 rpm -U --nodeps --replacepkgs "$rpm"
        fi
        is "$kind: the upgrade leaves the shield" 3 isolated
        is "$kind: it leaves the unit" enabled systemctl is-enabled cpushield
        claim "$kind: it leaves the boot files" eval 'at_boot | diff /tmp/at_boot -'
        status "$kind: the new program reads the old journals" 0 cpushield status
        claim "$kind: and the one of the boot files" eval 'cpushield boot status | grep -E "^ +nohz_full=1-3 +yes"'
        if [ $kind = deb ]; then
            status "dpkg --purge" 0 dpkg --purge cpushield
        else
            status "rpm -e" 0 rpm -e cpushield
        fi
        is "$kind: the CPU is free" "" isolated
        claim "$kind: systemd has its units as before" eval 'systemctl list-unit-files | diff /tmp/units.before -'
        claim "$kind: the file system, with the boot files, is as before" eval 'files | diff /tmp/files.before -'
    done
    ;;
esac
finish
