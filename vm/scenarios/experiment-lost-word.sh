# guest: 6.12-rt --grub --timeout 900
# slow: boots of systemd
# Another program removes `isolcpus=` from the boot entry after an experiment has written it. The row that requests it is
# not measured: the document says which word the boot lacked, and the row without it is measured all the same.
. /host/lib.sh
n=$(boot_number)
unit=/etc/systemd/system/cpushield-experiment.service
document() { # python
    python3 -c "import json
document = json.load(open('/host/experiment.json'))
$1"
}
[ "$n" = 1 ] || is "systemd is up" 1 sh -c 'systemctl is-active multi-user.target | grep -cx active'
case $n in
1)
    with_systemd
    grub-editenv /boot/grub/grubenv set saved_entry=0
    boot_again
    ;;
2)
    cat >/host/m.toml <<'END'
cpus = "3"
repeats = 1
time = "5s"
[[row]]
name = "base"
[[row]]
name = "isolcpus"
boot = ["isolcpus={cpus}"]
[[column]]
name = "timer"
instrument = "timer"
END
    # Its stop at the shutdown removes the word.
    cat >/etc/systemd/system/other-program.service <<'END'
[Unit]
RequiresMountsFor=/boot
After=mount-boot.service
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=true
ExecStop=sed -i "s/ isolcpus=[^ ]*//" /boot/grub/grub.cfg
END
    systemctl daemon-reload
    systemctl start other-program
    ln -s ../other-program.service /etc/systemd/system/multi-user.target.wants/
    echo "$failed" >/host/failed
    cpushield experiment /host/m.toml --reboot -o /host/experiment.json
    sleep 600
    not_ok "the experiment reboots the machine"
    ;;
3)
    is "the boot has lost the word" "" grep -o isolcpus /proc/cmdline
    echo "$failed" >/host/failed
    sleep 600
    not_ok "the experiment tries the boot once more"
    ;;
4)
    is "the boot has lost the word again" "" grep -o isolcpus /proc/cmdline
    is "and CPU 3 is an ordinary CPU" "" cat /sys/devices/system/cpu/isolated
    for i in $(seq 120); do
        [ -s /host/experiment.json ] && [ ! -e $unit ] && break
        sleep 1
    done
    claim "the experiment has ended" test ! -e $unit
    is "the row without the word was measured" 1 document '
print(sum(len(cell["runs"]) for cell in document["cells"] if cell["row"] == 0))'
    is "the row that lost it was not" 0 document '
print(sum(len(cell["runs"]) for cell in document["cells"] if cell["row"] == 1))'
    claim "the document names the word that the boot lacked" document '
missing = [run for cell in document["cells"] if cell["row"] == 1 for run in cell["missing"]]
assert "isolcpus=3" in json.dumps(missing), missing'
    cpushield experiment --status
    ;;
esac
finish
