"""What an operator may ask the helper, and what it may not: requests at the socket, as another user. Prints claims in
TAP; facts are the kernel's own. The last line of output is the number of failed claims.

    operators.py UID GID SHIELD-GROUP
"""

import json, os, resource, signal, socket, subprocess, sys, time

SOCKET = "/run/cpushield/operators-rt.sock"
# A socket of another shield, which every user may use here.
OTHER = "/run/cpushield/operators-own.sock"
uid, gid, group = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
failed = 0


def claim(text, holds, shown=""):
    global failed
    print(("ok - " if holds else "not ok - ") + text)
    if not holds:
        failed += 1
        print(f"#   {shown}")
    sys.stdout.flush()


def connect(path=SOCKET):
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(30)
    s.connect(path)
    return s


def answer(s):
    text = b""
    while not text.endswith(b"\n"):
        part = s.recv(65536)
        if not part:
            break
        text += part
    return json.loads(text) if text else {"answer": "none"}


def ask(line, path=SOCKET):
    with connect(path) as s:
        s.sendall(line if isinstance(line, bytes) else (json.dumps(line) + "\n").encode())
        return answer(s)


def own_group(pid="self"):
    return open(f"/proc/{pid}/cgroup").read().strip().splitlines()[-1].split(":")[-1]


def as_user(work, who=uid, main=gid, groups=(4444,)):
    """Runs work in a process of the user; returns what it returns."""
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(r)
        try:
            os.setgroups(list(groups))
            os.setgid(main)
            os.setuid(who)
            said = work()
        except BaseException as error:
            said = {"answer": "exception", "text": repr(error)}
        os.write(w, json.dumps(said).encode())
        os._exit(0)
    os.close(w)
    text = b""
    while part := os.read(r, 65536):
        text += part
    os.close(r)
    os.waitpid(pid, 0)
    return json.loads(text)


def refused(text, line, kind, **user):
    before = own_group()

    def work():
        said = ask(line)
        said["group"] = own_group()
        return said

    said = as_user(work, **user)
    claim(f"refused: {text}", said.get("refused") == kind and said["group"] == before, said)
    return said


def whole_visit():
    before = own_group()
    entered = ask({"do": "enter", "shield": "rt", "priority": 80, "lock_memory": True})
    inside = own_group()
    facts = {
        "entered": entered,
        "inside": inside,
        "cpus": sorted(os.sched_getaffinity(0)),
        "policy": [os.sched_getscheduler(0), os.sched_getparam(0).sched_priority],
        "memory": resource.getrlimit(resource.RLIMIT_MEMLOCK)[0],
    }
    left = ask({"do": "leave", "shield": "rt"})
    facts.update(left=left, same=own_group() == before, after=os.sched_getscheduler(0))
    return facts


facts = as_user(whole_visit)
claim("an operator enters the shield", facts.get("inside") == group, facts)
claim("it may run on all its CPUs", facts.get("cpus") == [2, 3], facts)
claim("it has the priority that it asked for", facts.get("policy") == [1, 80], facts)
claim("it may lock the memory of the policy", facts.get("memory") == 64 << 20, facts)
claim("it leaves the shield to where it was", facts.get("same") is True, facts)
claim("its priority stays behind", facts.get("after") == 0, facts)


def child_leaves():
    """A program that was started in the shield leaves it."""
    ask({"do": "enter", "shield": "rt", "priority": 10})
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        said = ask({"do": "leave", "shield": "rt"})
        said.update(group=own_group(), policy=os.sched_getscheduler(0))
        os.write(w, json.dumps(said).encode())
        os._exit(0)
    os.waitpid(pid, 0)
    return json.loads(os.read(r, 65536))


left = as_user(child_leaves)
claim("a child of such a program leaves it as an ordinary one", left.get("group") not in (None, group)
      and left.get("policy") == 0, left)


def sleeper(enter):
    """A process of this user that sleeps, in the shield if it is to enter."""
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        if enter:
            ask({"do": "enter", "shield": "rt", "priority": 10})
        os.write(w, b"1")
        time.sleep(1000)
        os._exit(0)
    os.read(r, 1)
    os.close(r)
    os.close(w)
    return pid


def end(pid):
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def moves_out_by_number():
    """A process outside of the shield moves another one of its user out of it."""
    before = own_group()
    pid = sleeper(True)
    inside = own_group(pid)
    said = ask({"do": "leave", "shield": "rt", "pid": pid})
    facts = {"said": said, "pid": pid, "inside": inside, "same": own_group(pid) == before,
             "policy": os.sched_getscheduler(pid), "cpus": sorted(os.sched_getaffinity(pid))}
    end(pid)
    return facts


facts = as_user(moves_out_by_number)
claim("an operator moves another process of its own out of the shield",
      facts.get("inside") == group and facts.get("same") is True and facts["said"].get("tid") == facts["pid"], facts)
claim("that process is an ordinary one on other CPUs",
      facts.get("policy") == 0 and facts.get("cpus") and not {2, 3} & set(facts["cpus"]), facts)


def leave_refused(text, kind, pid, **user):
    said = as_user(lambda: ask({"do": "leave", "shield": "rt", "pid": pid}), **user)
    claim(f"refused: moving out {text}", said.get("refused") == kind, said)


rooted = subprocess.Popen(["sleep", "1000"])
subprocess.run(["cpushield", "add", "--quiet", "--shield", "rt", str(rooted.pid)], check=True, stdout=subprocess.DEVNULL)
leave_refused("a process of root that is in the shield", "other-user", rooted.pid)
claim("it is still in the shield", own_group(rooted.pid) == group, own_group(rooted.pid))
subprocess.run(["cpushield", "remove", "--quiet", "--shield", "rt", str(rooted.pid)], check=True, stdout=subprocess.DEVNULL)
rooted.kill()
rooted.wait()
leave_refused("a process that has ended", "no-process", rooted.pid)


def others():
    """A process in the shield, for an operator that is another user, and one outside of it."""
    inside, outside = sleeper(True), sleeper(False)
    said = {"in": inside, "out": outside}
    os.write(said_by, (json.dumps(said) + "\n").encode())
    os.read(ended, 1)
    end(inside)
    end(outside)
    return said


heard, said_by = os.pipe()
ended, ends = os.pipe()
holder = os.fork()
if holder == 0:
    as_user(others)
    os._exit(0)
pids = json.loads(os.read(heard, 4096))
leave_refused("a process of another operator", "other-user", pids["in"], who=1001, main=1001, groups=(4444,))
claim("that one is still in the shield", own_group(pids["in"]) == group, own_group(pids["in"]))
leave_refused("its own process that is not in the shield", "not-in-shield", pids["out"])
os.write(ends, b"1")
os.waitpid(holder, 0)
leave_refused("a kernel thread", "kernel-thread", 2)
for pid in 0, 1, -1, 4194305, 1 << 40:
    leave_refused(f"process {pid}", "malformed", pid)

refused("a request that names a process", {"do": "enter", "shield": "rt", "pid": 1}, "malformed")
refused("an unknown verb", {"do": "exec", "command": "id"}, "malformed")
for priority in 81, 99, 0:
    refused(f"priority {priority}", {"do": "enter", "shield": "rt", "priority": priority}, "priority")
refused("priority -1", {"do": "enter", "shield": "rt", "priority": -1}, "malformed")
refused("a name that is a path", {"do": "enter", "shield": "../rt"}, "malformed")
refused("an unknown shield", {"do": "enter", "shield": "mill"}, "other-socket")
refused("a shield of another socket", {"do": "enter", "shield": "own"}, "other-socket")
said = as_user(lambda: ask({"do": "enter", "shield": "rt"}, OTHER))
claim("refused: the shield at the socket of another one", said.get("refused") == "other-socket", said)
said = as_user(lambda: ask({"do": "enter"}, OTHER))
claim("refused: a shield without operators", said.get("refused") == "not-permitted", said)
claim("with the rule that would permit it", said.get("rule") == '[shield.own.operators] users = ["1000"]', said)
said = refused("too high a priority", {"do": "enter", "shield": "rt", "priority": 90}, "priority")
claim("with the rule too", said.get("rule") == "[shield.rt.operators] priority = 90", said)
refused("leaving from outside", {"do": "leave", "shield": "rt"}, "not-in-shield")
refused("an empty line", b"\n", "malformed")
refused("an oversized request", b"x" * 100000 + b"\n", "too-long")
refused("bytes that are no text", bytes(range(128, 256)) + b"\n", "malformed")
refused("deep nesting", b"[" * 500 + b"\n", "malformed")


def half():
    with connect() as s:
        s.sendall(b'{"do": "enter", "shield": "rt"')
        s.shutdown(socket.SHUT_WR)
        said = answer(s)
    said["group"] = own_group()
    return said


said = as_user(half)
claim("refused: half a request", said.get("refused") == "incomplete", said)


def dead():
    """A process connects and ends; another one sends the request on its connection."""
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(30)
    pid = os.fork()
    if pid == 0:
        s.connect(SOCKET)
        os._exit(0)
    os.waitpid(pid, 0)
    s.sendall(b'{"do": "enter", "shield": "rt"}\n')
    said = answer(s)
    said["group"] = own_group()
    return said


said = as_user(dead)
claim("refused: a process that has ended", said.get("refused") == "ended" and said["group"] != group, said)


def borrowed():
    """One process connects, another one sends: the first one is moved."""
    s = connect()
    pid = os.fork()
    if pid == 0:
        s.sendall(b'{"do": "enter", "shield": "rt"}\n')
        said = answer(s)
        os._exit(1 if own_group() == group else 0)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return {"sender": status, "group": own_group()}


said = as_user(borrowed)
claim("the process that connected is moved, not the one that sends", said == {"sender": 0, "group": group}, said)

said = as_user(lambda: ask({"do": "enter", "shield": "rt"}), who=1001, main=1001, groups=())
claim("refused: a user outside of the group cannot connect", "Permission" in said.get("text", ""), said)


def flood():
    """Connections that send nothing."""
    held = []
    for _ in range(200):
        try:
            held.append(connect())
        except OSError:
            pass
    time.sleep(1)
    count = len(held)
    for s in held:
        s.close()
    return {"held": count}


said = as_user(flood)
claim("200 connections were tried", said.get("held", 0) > 0, said)
facts = {}
for _ in range(20):
    facts = as_user(whole_visit)
    if facts.get("inside") == group:
        break
    time.sleep(2)
claim("after them the next request is answered", facts.get("inside") == group, facts)
print(failed)
