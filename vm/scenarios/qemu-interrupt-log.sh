# QEMU logs each interrupt and exception of the watched CPU with its privilege level. The trace that `verify` reads is
# a contiguous part of that log, and `verify` reports the same number of entries from user mode.
# guest: 6.12-rt --interrupt-log --net --timeout 600 --append "nohz_full=1-3 rcu_nocbs=1-3 cpushield.entries=4000"
# guest, slow: 6.1-rt --interrupt-log --net --timeout 1800 --append "nohz_full=1-3 rcu_nocbs=1-3 cpushield.entries=130000"
# guest, slow: 6.1-rt --interrupt-log --net --timeout 1800 --append "cpushield.entries=130000"
# guest, slow: 6.12 --interrupt-log --net --timeout 1800 --append "nohz_full=1-3 rcu_nocbs=1-3 cpushield.entries=130000"
# guest, slow: 6.12 --interrupt-log --net --timeout 1800 --append "cpushield.entries=130000"
# guest, slow: 6.12-rt --interrupt-log --net --timeout 1800 --append "nohz_full=1-3 rcu_nocbs=1-3 cpushield.entries=130000"
# guest, slow: 6.12-rt --interrupt-log --net --timeout 1800 --append "cpushield.entries=130000"
# guest, slow: sid-rt --interrupt-log --net --timeout 1800 --append "nohz_full=1-3 rcu_nocbs=1-3 cpushield.entries=140000"
# guest, slow: sid-rt --interrupt-log --net --timeout 1800 --append "cpushield.entries=130000"
. /host/lib.sh
needs apply add verify
echo 1 >/proc/sys/kernel/printk # backtraces of NMIs would use the serial line
modprobe e1000e
for _ in $(seq 50); do [ -e /sys/class/net/eth0 ] && break; sleep 0.1; done
ip link set eth0 up && ip address add 10.0.2.15/24 dev eth0
status "apply shields CPU 3" 0 cpushield apply --cpus 3
status "entries of many kinds are provoked and watched" 0 \
    python3 /host/guest/interrupt_log.py 3 "$(sed -n 's/.*cpushield\.entries=\([0-9]*\).*/\1/p' /proc/cmdline)" /host/out
status "undo" 0 cpushield undo
finish
