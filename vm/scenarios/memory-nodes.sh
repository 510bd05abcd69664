# A shield on one of two memory nodes: its programs get the memory of that node only, in a group and in a slice of
# systemd, from their first page on, and undo leaves no trace of it. CPUs 2 and 3 belong to node 1.
# guest, slow: 6.12-rt --numa 2 --systemd --timeout 450
# guest, slow: 6.12-rt --numa 2 --timeout 450
# guest, slow: 6.1-rt --numa 2 --cgroup v1 --timeout 450
. /host/lib.sh
needs apply undo run add remove
cat >/tmp/pages.py <<'END'
# Touches 8 MiB, and then prints on which nodes the anonymous pages of a process are, each with its number of MiB: of
# this process, or of `pages.py PID`. With `pages.py - SECONDS` it waits afterwards.
import mmap, re, sys, time
who = "self"
if len(sys.argv) == 2:
    who = sys.argv[1]
else:
    block = mmap.mmap(-1, 8 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    for page in range(0, len(block), 4096):
        block[page] = 1
nodes = {}
for line in open(f"/proc/{who}/numa_maps"):
    if "anon=" in line:
        kib = int((re.search(r"kernelpagesize_kB=(\d+)", line) or [0, 4])[1])
        for node, pages in re.findall(r" N(\d+)=(\d+)", line):
            nodes[node] = nodes.get(node, 0) + int(pages) * kib
print(" ".join(f"node {node}: {kib >> 10}" for node, kib in sorted(nodes.items()) if kib >> 10), flush=True)
if len(sys.argv) == 3:
    time.sleep(float(sys.argv[2]))
END
is "both nodes have memory" 0-1 cat /sys/devices/system/node/has_memory
is "CPUs 2 and 3 belong to node 1" 2-3 cat /sys/devices/system/node/node1/cpulist
v2=
[ -e /sys/fs/cgroup/cgroup.controllers ] && v2=1
systemd=
[ -d /run/systemd/system ] && systemd=1
group=/sys/fs/cgroup/cpushield_rt
[ $systemd ] && group=$group.slice
[ $v2 ] || group=/sys/fs/cgroup/cpuset/cpushield_rt
nodes_of() { sed -n 's/^Mems_allowed_list:[[:space:]]*//p' "/proc/$1/status"; }
# only_node NODE PAGES: whether the 8 MiB, and what the interpreter needs, are on this node only.
only_node() { [[ $2 =~ ^"node $1: "([0-9]+)$ ]] && [ "${BASH_REMATCH[1]}" -ge 8 ]; }

# Once before, because the groups and lists of the kernel appear with the first shield.
status "a shield, once before" 0 cpushield apply --shield rt --cpus 3
status "its undo" 0 cpushield undo --shield rt
taskset -c 0 python3 /tmp/pages.py - 1000 >/tmp/other.pages &
other=$!
for _ in $(seq 100); do [ -s /tmp/other.pages ] && break; sleep 0.1; done
claim "a program on CPU 0 has its pages on node 0" only_node 0 "$(cat /tmp/other.pages)"
snapshot /tmp/before

status "a shield on CPU 3" 0 cpushield apply --shield rt --cpus 3
is "its group has node 1" 1 cat $group/cpuset.mems
if [ $systemd ]; then
    is "so does its slice" AllowedMemoryNodes=1 systemctl show -p AllowedMemoryNodes cpushield_rt.slice
    systemctl daemon-reload
    is "also after systemd has read its units again" 1 cat $group/cpuset.mems
fi
is "a program that is started there may use node 1 only" 1 \
    cpushield run --shield rt -q -- sed -n 's/^Mems_allowed_list:[[:space:]]*//p' /proc/self/status
claim "its pages are on node 1" only_node 1 "$(cpushield run --shield rt -q -- python3 /tmp/pages.py 2>&1)"
if [ $systemd ]; then
    claim "so are those of a service in the slice" only_node 1 \
        "$(systemd-run -q --wait --pipe --slice=cpushield_rt.slice python3 /tmp/pages.py 2>&1)"
fi
status "the program of CPU 0 is added" 0 cpushield add --shield rt $other
is "it may use node 1 only" 1 nodes_of $other
# Pages move on v2 only. The kernel must know the former nodes of the group that the program leaves; with systemd that
# group is older than its cpuset, and cpuset_attach() (6.12) notes the nodes of one such group only.
pages=$(python3 /tmp/pages.py $other)
if [ $systemd ] && only_node 0 "$pages"; then
    skip "its pages have moved" "the kernel left them: $pages"
elif [ $v2 ]; then
    claim "its pages have moved: $pages" only_node 1 "$pages"
else
    claim "its pages are where they were: $pages" only_node 0 "$pages"
fi
status "it is removed" 0 cpushield remove --shield rt $other
is "it may use both nodes again" 0-1 nodes_of $other

status "the shield gets the whole node" 0 cpushield apply --shield rt --cpus 2-3 --whole-node
is "its group still has node 1" 1 cat $group/cpuset.mems
claim "pages are still on node 1" only_node 1 "$(cpushield run --shield rt -q -- python3 /tmp/pages.py 2>&1)"
status "a second shield on the other node" 0 cpushield apply --shield own --cpus 1
is "its group has node 0" 0 cat "${group/_rt/_own}/cpuset.mems"
claim "pages are on node 0" only_node 0 "$(cpushield run --shield own -q -- python3 /tmp/pages.py 2>&1)"
status "undo of the first" 0 cpushield undo --shield rt
claim "pages of the second are on node 0" only_node 0 "$(cpushield run --shield own -q -- python3 /tmp/pages.py 2>&1)"
status "undo of the second" 0 cpushield undo --shield own
as_before "everything is as before" /tmp/before
kill $other
finish
