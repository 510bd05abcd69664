# Operators on cgroup v2 without systemd: sudo starts the helper, with the line for sudoers that cpushield prints. It lets
# operators enter the shield and leave it, and gives nothing else away.
# guest, slow: 6.12-rt --timeout 600
. /host/lib.sh
needs apply undo run status
install -m 755 "$(command -v cpushield)" /usr/local/bin/cpushield
PATH=/usr/local/bin:$PATH
for user in joe:1000 eve:1001; do
    echo "${user%:*}:x:${user#*:}:${user#*:}::/tmp:/bin/sh" >>/etc/passwd
    echo "${user%:*}:*:20000:0:99999:7:::" >>/etc/shadow
    echo "${user%:*}:x:${user#*:}:" >>/etc/group
done
echo 'realtime:x:4444:joe' >>/etc/group
mkdir -p /etc/cpushield
printf '%s\n' '[shield.rt]' 'cpus = "2-3"' '[shield.rt.operators]' 'group = "realtime"' 'priority = 80' \
    >/etc/cpushield/policy.toml
joe() { (cd /tmp && setpriv --reuid 1000 --regid 1000 --groups 4444,1000 "$@" </dev/null); }
eve() { (cd /tmp && setpriv --reuid 1001 --regid 1001 --groups 1001 "$@" </dev/null); }
status "a shield" 0 cpushield apply --shield rt
status "without the line an operator is refused" 125 joe cpushield run --shield rt -- true
line=$(joe cpushield run --shield rt -- true 2>&1 | sed -n 's/.*(use visudo): //p')
claim "the refusal has the line for sudoers" [ -n "$line" ]
echo "# $line"
(umask 337 && echo "$line" >/etc/sudoers.d/cpushield)
status "visudo accepts it" 0 visudo -c -f /etc/sudoers.d/cpushield
status "the operator runs a program in the shield" 0 joe cpushield run --shield rt -- grep -q cpushield_rt /proc/self/cgroup
is "it is not root" 1000 joe cpushield run --shield rt -- id -u
is "it gets the priority of the policy" 80 sh -c "$(declare -f joe); \
    joe cpushield run --shield rt --fifo 80 -- chrt -p 0 2>/dev/null | sed -n 's/.*priority: //p'"
status "a higher priority is refused" 125 joe cpushield run --shield rt --fifo 81 -- true
joe cpushield run --shield rt -- sleep 1000 &
sleep 3
pid=$(pgrep -u 1000 -x sleep)
claim "a program of the operator is in the shield" grep -q cpushield_rt "/proc/$pid/cgroup"
status "another user does not remove it" 3 eve cpushield remove --shield rt "$pid"
status "the operator does" 0 joe cpushield remove --shield rt "$pid"
is "it is outside" "" sh -c "grep cpushield_rt /proc/$pid/cgroup"
pkill -u 1000 sleep
wait
status "another user is refused" 125 eve cpushield run --shield rt -- true
claim "sudo runs no other command of cpushield" eval "! joe sudo -n /usr/local/bin/cpushield undo 2>/dev/null"
claim "nor another program" eval "! joe sudo -n /bin/sh -c true 2>/dev/null"
status "the shield is as it was" 0 cpushield status
status "undo" 0 cpushield undo --shield rt
finish
