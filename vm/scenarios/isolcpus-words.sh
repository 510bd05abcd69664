# In a boot with isolcpus= or nohz_full=, in forms that the kernel takes and in forms that it refuses: `survey` shows the
# lists of the kernel's files. `survey --lint` and `boot status` find something exactly if the kernel's log does, or if the
# kernel makes no partition of the CPUs. `plan` asks for nohz_full= exactly if the kernel's file lacks the CPU. A row of an
# experiment that requests nothing is marked as isolated exactly if the words isolate its CPU.
# guest, slow: 6.1-rt --append "isolcpus=nohz,domain,3"
# guest, slow: 6.1-rt --cgroup v1 --append "isolcpus=nohz,managed_irq,3"
# guest, slow: 6.1-rt --append "nohz_full=2-3 isolcpus=nohz,3"
# guest, slow: 6.12 --append "isolcpus=nohz,managed_irq,3"
# guest, slow: 6.12 --append "nohz_full=3-9"
# guest, slow: 6.12-rt --append "isolcpus=nohz,domain,3"
# guest, slow: 6.12-rt --append "isolcpus=3,x"
# guest, slow: 6.12-rt --append "isolcpus=nohz,managed_irq,3"
# guest, slow: sid-rt --append "isolcpus=nohz,domain,3"
# guest, slow: sid-rt --append "isolcpus=nohz,managed_irq,3"
# guest, slow: sid-rt --append "isolcpus=io_queue,3"
. /host/lib.sh
needs survey plan boot
of_kernel() { sed 's/(null)//' "/sys/devices/system/cpu/$1"; }
messages() { # what the kernel's log says against the words, once each, without the list of what init gets
    dmesg | sed 's/^\[[^]]*\] //' | grep -E '^(Housekeeping|isolcpus): ' | sort -u
}
isolated=$(of_kernel isolated) nohz_full=$(of_kernel nohz_full)
echo "# $(uname -r): $(cat /proc/cmdline)"
echo "# isolated $isolated, nohz_full $nohz_full"
messages | sed 's/^/# /'

of_survey() { # KEY: a list of CPUs in the survey
    python3 -c '
import json, sys
print(json.load(open("/tmp/survey"))["isolation"][sys.argv[1]] or "")' "$1"
}
cpushield survey --json >/tmp/survey 2>/tmp/said
is "survey shows the isolated CPUs" "$isolated" of_survey isolated
is "survey shows the CPUs of nohz_full" "$nohz_full" of_survey nohz_full

cpushield survey --lint >/tmp/lint 2>&1
linted=$?
cpushield boot status >/tmp/status 2>&1
is "boot status says that nothing was written" 3 sh -c 'cpushield boot status >/dev/null 2>&1; echo $?'

cpushield plan --cpus 3 --json >/tmp/plan 2>/tmp/said
code=$?
is "plan succeeds" 0 echo $code
wants_nohz_full() {
    python3 -c '
import json
words = [it["parameter"] for it in json.load(open("/tmp/plan"))["boot"]]
print("yes" if any(it.startswith("nohz_full=") for it in words) else "no")'
}
covers "$nohz_full" 3 && wanted=no || wanted=yes
is "plan asks for nohz_full= only if it is not in force" $wanted wants_nohz_full

cat >/tmp/m.toml <<'END_OF_MATRIX'
cpus = "3"
time = "2s"
[[row]]
name = "as booted"
[[column]]
name = "spin"
instrument = "spin"
END_OF_MATRIX
# Whether the row is marked as isolated, and the CPUs that the kernel's files and PID 1 showed as isolated in all runs. On
# a slow host the busy threads of the probe may not reach an idle CPU within a second; then the row is only contradicted.
row() {
    python3 -c '
import json
document = json.load(open("/tmp/experiment.json"))
runs = [run["isolation"] for run in document["cells"][0]["runs"]]
shown = [",".join({run[it].get("isolated", "missing") or "-" for run in runs}) for it in ("kernel", "init")]
mark = document["rows"][0]["isolation"]["isolation"]
print("ordinary" if mark == "contradicted" and shown == ["-", "-"] else mark, *shown)' 2>&1
}
status "the experiment measures" 0 cpushield experiment /tmp/m.toml -o /tmp/experiment.json
covers "$isolated" 3 && wanted="unrequested 3 3" || wanted="ordinary - -"
is "its row says whether the CPU is isolated" "$wanted" row

# Last, because a CPU that was in a partition is no longer isolated.
refuses_partition() { # whether the kernel makes no partition of the isolated CPUs (cgroup v2)
    local root=/sys/fs/cgroup
    [ -n "$isolated" ] && [ -e $root/cgroup.subtree_control ] || return 1
    echo +cpuset >$root/cgroup.subtree_control
    mkdir $root/probe
    echo "$isolated" >$root/probe/cpuset.cpus
    echo isolated >$root/probe/cpuset.cpus.partition
    echo "# the kernel's answer to a partition: $(cat $root/probe/cpuset.cpus.partition)"
    ! grep -qx isolated $root/probe/cpuset.cpus.partition
    local refused=$?
    rmdir $root/probe
    echo -cpuset >$root/cgroup.subtree_control
    return $refused
}
wrong=0
[ -z "$(messages)" ] || wrong=1
refuses_partition && wrong=1
is "survey --lint finds something only if the kernel did" $wrong echo $linted
if [ $wrong = 1 ]; then
    # Of a word from an unreleased patch series, the finding says that.
    while read -r line; do
        claim "the finding has the kernel's own line" sh -c 'grep -F "$0" /tmp/lint || grep "patch series" /tmp/lint' "$line"
    done < <(messages)
    finding=$(sed -n '2s/^ *//p' /tmp/lint)
    claim "boot status has the finding too" grep -F "$finding" /tmp/status
    sed 's/^/# /' /tmp/lint
fi
finish
