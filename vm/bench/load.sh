# The load of all measurements (sourced in the guest): ordinary unpinned programs, started before the shield.
# `load_start FILE [KIND]`, `load_stop`. KIND is `usual` (the default), `steady` (programs that run long, so that
# few processes begin and end) or `forks` (the usual load and fork storms).
load_jobs=()
# A kernel patches its code on all CPUs when it does something for the first time after a boot (DO_ONCE(),
# lib/once.c; in 6.12 mostly the secrets of network hashes). The first packet of each kind is sent here, so that
# this is over before a measurement. guest.sh still records the tasks that cause it later.
firsts() { # network card
    local address
    for address in 127.0.0.1 ::1; do
        timeout 3 busybox nc -l -p 5001 -s $address </dev/null &
        sleep 0.3
        echo x | timeout 3 busybox nc -w 1 $address 5001
        wait $!
        (echo x >/dev/tcp/$address/5002)
        (echo x >/dev/udp/$address/5003)
        busybox ping -c 1 -w 1 $address
    done
    for address in 10.0.2.2 10.0.2.3; do
        (echo x >/dev/tcp/$address/53)
        (echo x >/dev/udp/$address/53)
    done
    busybox ping -6 -c 1 -w 1 "ff02::1%$1"
    busybox ping -6 -c 1 -w 1 "ff02::2%$1"
}
load_usual() {
    (while :; do
        hackbench -l 20 -g 1 -f 4 >/dev/null 2>&1
        sleep 0.2
    done) &
    load_jobs+=($!)
    (while :; do
        dd if=/dev/zero of=/var/tmp/load/a bs=64k count=8 conv=fsync 2>/dev/null
        dd if=/dev/vda of=/dev/null bs=64k count=8 iflag=direct skip=$((RANDOM % 8192)) 2>/dev/null
        sleep 0.1
    done) &
    load_jobs+=($!)
}
load_steady() {
    hackbench -l 1000000000 -g 1 -f 4 >/dev/null 2>&1 &
    load_jobs+=($!)
    (while :; do dd if=/dev/zero of=/var/tmp/load/a bs=4k count=8192 oflag=dsync conv=notrunc 2>/dev/null; done) &
    load_jobs+=($!)
    (while :; do dd if=/dev/vda of=/dev/null bs=64k iflag=direct 2>/dev/null; done) &
    load_jobs+=($!)
}
load_forks() {
    local storm
    load_usual
    for storm in 1 2; do
        (while :; do busybox true; done) &
        load_jobs+=($!)
    done
}
load_start() { # file for the spawner's results, kind of load
    local card kind=${2:-usual}
    mkdir -p /var/tmp/load
    modprobe e1000e 2>/dev/null
    sleep 0.5
    for card in /sys/class/net/e*; do
        [ -e "$card" ] || continue
        ip link set "${card##*/}" up
        ip addr add 10.0.2.15/24 dev "${card##*/}"
        busybox ping -q -A 10.0.2.2 >/dev/null 2>&1 &
        load_jobs+=($!)
    done
    "load_$kind"
    spawner 100000 "$1" "$([ "$kind" = steady ] && echo 60 || echo 0.02)" >/dev/null &
    load_jobs+=($!)
    firsts "${card##*/}" >/dev/null 2>&1
    sleep 5
}
load_stop() {
    kill -9 "${load_jobs[@]}" 2>/dev/null
    wait "${load_jobs[@]}" 2>/dev/null
    load_jobs=()
}
