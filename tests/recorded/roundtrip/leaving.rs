//! Operators move their processes out of a shield, at the socket of that shield, and give way to
//! root. No other process than one of the same user is moved.

use super::bench::{Bench, Tree, file, same};
use super::operators::{change_members, put_process, serve, serve_at};
use super::trees::{self, Task};
use cpushield::plan::Plan;
use cpushield::policy::{MemoryLimit, OperatorLimits, OperatorName, ShieldOperators};
use cpushield::run::{
    self, CpuAssignment, HelperCaller, OperatorAnswer, OperatorRefusal, OperatorRequest,
    ShieldPlacement,
};
use cpushield_linux::processes::operator_socket::OperatorConnection;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

#[test]
fn a_socket_answers_for_its_own_shield_only() {
    let sleeper = Sleeper::new();
    let bench = machine_with(&sleeper, |_, _| {});
    let before = bench.tree();
    let shield = || "cpushield".to_owned();
    let other = OperatorRefusal::OtherSocket { shield: shield(), socket_of: "mill".to_owned() };
    for request in ["enter", "leave"] {
        let named = format!("{{\"do\": \"{request}\", \"shield\": \"cpushield\"}}\n");
        let answer = serve_at(&bench, named.as_bytes(), Some("mill"));
        assert_eq!(answer, OperatorAnswer::from(other.clone()), "{request}");
        // Without a name it is the shield of the socket, although another one is active.
        let unnamed = format!("{{\"do\": \"{request}\"}}\n");
        let OperatorAnswer::Refused { refusal, .. } =
            serve_at(&bench, unnamed.as_bytes(), Some("mill"))
        else {
            panic!("refused")
        };
        assert!(matches!(refusal, OperatorRefusal::NoShield { .. }), "{refusal:?}");
    }
    assert!(bench.tree() == before);
    let leave = b"{\"do\": \"leave\", \"shield\": \"cpushield\"}\n";
    let outside = OperatorRefusal::NotInShield { shield: shield() };
    assert_eq!(serve_at(&bench, leave, Some("cpushield")), OperatorAnswer::from(outside));
}

#[test]
fn a_request_never_waits_for_the_lock() {
    let sleeper = Sleeper::new();
    let bench = machine_with(&sleeper, |_, _| {});
    add_to_shield(&bench, sleeper.pid());
    let before = bench.tree();
    let lock = bench.store().lock().unwrap();
    for request in [&b"{\"do\": \"enter\"}\n"[..], b"{\"do\": \"leave\"}\n"] {
        let pid = i32::try_from(std::process::id()).ok();
        let busy = OperatorAnswer::from(OperatorRefusal::Busy { pid });
        assert_eq!(serve(&bench, request), busy);
    }
    assert!(bench.tree() == before);
    drop(lock);
    let answer = leave(&bench, sleeper.pid());
    assert!(matches!(answer, OperatorAnswer::Left(_)), "{answer:?}");
}

/// Requests come from four threads all the time; root gets the lock each time. Each takes the lock
/// before it is refused: this process cannot enter, because it is the helper too.
#[test]
fn requests_do_not_keep_root_from_the_lock() {
    let sleeper = Sleeper::new();
    let bench = machine_with(&sleeper, |_, _| {});
    let (served, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let rounds = std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    for request in [&b"{\"do\": \"enter\"}\n"[..], b"{\"do\": \"leave\"}\n"] {
                        let answer = serve(&bench, request);
                        let busy = matches!(
                            &answer,
                            OperatorAnswer::Refused { refusal: OperatorRefusal::Busy { .. }, .. }
                        );
                        served.fetch_add(usize::from(!busy), Ordering::Relaxed);
                    }
                }
            });
        }
        let mut rounds = Vec::new();
        for _ in 0..5 {
            let start = served.load(Ordering::Relaxed);
            while served.load(Ordering::Relaxed) < start + 10 {
                std::thread::yield_now();
            }
            let before = served.load(Ordering::Relaxed);
            let got = bench.store().lock().is_ok();
            rounds.push((got, served.load(Ordering::Relaxed) - before));
        }
        stop.store(true, Ordering::Relaxed);
        rounds
    });
    // Those that had the lock or were refused for another reason.
    assert!(rounds.iter().all(|(got, others)| *got && *others < 100), "{rounds:?}");
}

/// A user that is no operator and sends nothing must not keep the helper waiting: a socket has few
/// connections.
#[test]
fn a_user_that_is_no_operator_is_refused_before_it_sends_a_request() {
    let bench = Bench::of(&trees::v2());
    bench.apply(&bench.host(), &trees::v2_plan()).unwrap();
    let (shield, uid) = ("cpushield".to_owned(), fs::metadata("/proc/self").unwrap().uid());
    let (_theirs, ours) = UnixStream::pair().unwrap();
    let connection = OperatorConnection::of_stream(ours);
    let caller = HelperCaller { sudo_user: None, socket_of: Some(shield.clone()) };
    let answer = run::serve_operator(&bench.host(), &bench.store(), &connection, &caller);
    assert_eq!(answer, OperatorAnswer::from(OperatorRefusal::NotPermitted { shield, uid }));
}

/// A process that sleeps, until it is dropped.
pub struct Sleeper(Child);

impl Sleeper {
    pub fn new() -> Sleeper {
        Sleeper(Command::new("sleep").arg("1000").spawn().unwrap())
    }

    pub fn pid(&self) -> i32 {
        i32::try_from(self.0.id()).unwrap()
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A machine with a shield, its operator (the user of this process), this process and `sleeper` of
/// this user. `change` makes it another one.
fn machine_with(sleeper: &Sleeper, change: impl Fn(&mut Tree, i32)) -> Bench {
    machine_that_permits(OperatorLimits::default(), sleeper, change)
}

/// The same, with what the policy permits to operators.
pub fn machine_that_permits(
    limits: OperatorLimits,
    sleeper: &Sleeper,
    change: impl Fn(&mut Tree, i32),
) -> Bench {
    let own = i32::try_from(std::process::id()).unwrap();
    let uid = fs::metadata("/proc/self").unwrap().uid();
    let mut tree = trees::v2();
    put_process(&mut tree, Task::new(own, "asker", 0, "0-3"), uid);
    put_process(&mut tree, Task::new(sleeper.pid(), "sleep", 0, "0-3"), uid);
    change(&mut tree, sleeper.pid());
    let bench = Bench::of(&tree);
    let user = OperatorName { name: "joe".to_owned(), id: uid };
    let operators = Some(ShieldOperators { users: vec![user], group: None, limits });
    bench.apply(&bench.host(), &Plan { operators, ..trees::v2_plan() }).unwrap();
    bench
}

fn leave(bench: &Bench, pid: i32) -> OperatorAnswer {
    let request = OperatorRequest::Leave { shield: None, pid: Some(pid) };
    serve(bench, request.line().as_bytes())
}

pub fn add_to_shield(bench: &Bench, pid: i32) {
    let plan = run::shield(&bench.host(), &bench.store(), None).unwrap();
    let place = ShieldPlacement::new(&bench.host(), &plan);
    run::add(&bench.host(), &bench.store(), &place, pid, CpuAssignment::All).unwrap();
}

#[test]
fn an_operator_moves_its_own_process_out_of_the_shield_to_where_it_was() {
    let sleeper = Sleeper::new();
    let bench = machine_with(&sleeper, |_, _| {});
    let before = bench.tree();
    add_to_shield(&bench, sleeper.pid());
    assert!(bench.tree() != before);
    let OperatorAnswer::Left(moved) = leave(&bench, sleeper.pid()) else { panic!("it left") };
    assert_eq!((moved.tid, moved.comm.as_str(), moved.threads), (sleeper.pid(), "sleep", 1));
    same(&before, &bench.tree(), "after leaving");
    // The process that asks has not moved, and is still not in the shield.
    let OperatorAnswer::Refused { refusal, .. } = serve(&bench, b"{\"do\": \"leave\"}\n") else {
        panic!("refused")
    };
    let shield = "cpushield".to_owned();
    assert_eq!(refusal, OperatorRefusal::NotInShield { shield });
}

#[test]
fn a_raised_limit_on_locked_memory_lasts_as_long_as_the_place_in_the_shield() {
    let sleeper = Sleeper::new();
    let own = std::process::id();
    let limits = format!("proc/{own}/limits");
    let permitted = OperatorLimits { priority: None, locked_memory: Some(MemoryLimit::Unlimited) };
    let bench = machine_that_permits(permitted, &sleeper, |tree, _| {
        let text = "Max locked memory 65536 131072 bytes\n";
        tree.insert(limits.clone(), file(text));
    });
    let before = bench.tree();
    // The second request must not take the raised limit for the original one.
    for _ in 0..2 {
        let answer = serve(&bench, b"{\"do\": \"enter\", \"lock_memory\": true}\n");
        assert!(matches!(answer, OperatorAnswer::Entered(_)), "{answer:?}");
        let line = bench.host().read_line(&format!("/{limits}")).unwrap();
        assert_eq!(line, "Max locked memory unlimited unlimited bytes");
    }
    let answer = serve(&bench, b"{\"do\": \"leave\"}\n");
    assert!(matches!(answer, OperatorAnswer::Left(_)), "{answer:?}");
    same(&before, &bench.tree(), "after leaving");
}

#[test]
fn a_process_with_the_number_of_an_ended_one_does_not_get_its_place() {
    let sleeper = Sleeper::new();
    let pid = sleeper.pid();
    let group = |bench: &Bench| bench.host().read_line(&format!("/proc/{pid}/cgroup")).unwrap();
    let bench = machine_with(&sleeper, |_, _| {});
    bench.host().write("/sys/fs/cgroup/mine/cgroup.procs", &pid.to_string()).unwrap();
    add_to_shield(&bench, pid);
    for path in ["stat".to_owned(), format!("task/{pid}/stat")] {
        let started = format!(" {} 0 0 18446744073709551615", pid * 10);
        let other = " 77 0 0 18446744073709551615";
        bench.replace(&format!("/proc/{pid}/{path}"), &started, other);
    }
    assert!(matches!(leave(&bench, pid), OperatorAnswer::Left(_)));
    assert_eq!(group(&bench), "0::/");
}

/// Replaces a line of a file of a tree.
fn rewrite(tree: &mut Tree, path: &str, from: &str, to: &str) {
    let old = String::from_utf8_lossy(tree[path].as_ref().unwrap()).into_owned();
    assert!(old.contains(from), "{path}: {old}");
    tree.insert(path.to_owned(), file(old.replace(from, to)));
}

/// What is wrong, the change of the machine that makes it so, and the refusal for a process and its
/// user.
type RefusedCase = (&'static str, Box<dyn Fn(&mut Tree, i32)>, fn(i32, u32) -> OperatorRefusal);

#[test]
fn no_other_process_than_one_of_the_same_user_is_moved_out() {
    let uid = fs::metadata("/proc/self").unwrap().uid();
    let user = |other: usize| {
        let mut users = [uid; 4];
        users[other] = uid + 1;
        let users = users.map(|user| user.to_string());
        (format!("Uid:\t{uid}\t{uid}\t{uid}\t{uid}\n"), format!("Uid:\t{}\n", users.join("\t")))
    };
    let mut cases: Vec<RefusedCase> = Vec::new();
    for which in 0..3 {
        let (from, to) = user(which);
        let change = move |tree: &mut Tree, pid: i32| {
            rewrite(tree, &format!("proc/{pid}/status"), &from, &to);
        };
        let refusal = |pid, uid| OperatorRefusal::OtherUser { pid, uid };
        cases.push(("another user", Box::new(change), refusal));
    }
    let (from, to) = user(0);
    let thread = move |tree: &mut Tree, pid: i32| {
        rewrite(tree, &format!("proc/{pid}/task/{pid}/status"), &from, &to);
    };
    let other_user = |pid, uid| OperatorRefusal::OtherUser { pid, uid };
    cases.push(("a thread of another user", Box::new(thread), other_user));
    let thread = |tree: &mut Tree, pid: i32| {
        rewrite(tree, &format!("proc/{pid}/status"), &format!("Tgid:\t{pid}\n"), "Tgid:\t100\n");
    };
    cases.push(("a thread", Box::new(thread), |pid, _| OperatorRefusal::Thread { pid }));
    let kthread = |tree: &mut Tree, pid: i32| {
        for path in ["stat".to_owned(), format!("task/{pid}/stat")] {
            rewrite(tree, &format!("proc/{pid}/{path}"), " -1 0 ", " -1 2129984 ");
        }
    };
    cases.push(("a kernel thread", Box::new(kthread), |pid, _| OperatorRefusal::KernelThread {
        pid,
    }));
    let own = std::process::id();
    let namespace = move |tree: &mut Tree, _: i32| {
        let line = format!("NSpid:\t{own}\n");
        rewrite(tree, &format!("proc/{own}/status"), &line, &format!("NSpid:\t{own}\t1\n"));
    };
    cases.push(("numbers of another namespace", Box::new(namespace), |_, _| {
        OperatorRefusal::OtherNumbers
    }));
    let nothing = |_: &mut Tree, _: i32| {};
    let outside = |_, _| OperatorRefusal::NotInShield { shield: "cpushield".to_owned() };
    cases.push(("a process outside", Box::new(nothing), outside));
    for (text, change, refusal) in cases {
        let sleeper = Sleeper::new();
        let bench = machine_with(&sleeper, change);
        if text != "a process outside" {
            let list = "/sys/fs/cgroup/cpushield/cgroup.threads";
            bench.put(list, &format!("{}\n", sleeper.pid()));
        }
        let before = bench.tree();
        let answer = leave(&bench, sleeper.pid());
        let OperatorAnswer::Refused { refusal: found, rule, .. } = answer else { panic!("{text}") };
        assert_eq!((found, rule), (refusal(sleeper.pid(), uid), None), "{text}");
        assert!(bench.tree() == before, "{text}");
    }
}

#[test]
fn a_process_that_has_ended_or_belongs_to_a_service_is_not_moved_out() {
    let refusal = |answer| match answer {
        OperatorAnswer::Refused { refusal, .. } => refusal,
        other => panic!("{other:?}"),
    };
    // Its files are still there, as those of another process with its number.
    let sleeper = Sleeper::new();
    let (bench, pid) = (machine_with(&sleeper, |_, _| {}), sleeper.pid());
    add_to_shield(&bench, pid);
    drop(sleeper);
    let before = bench.tree();
    assert_eq!(refusal(leave(&bench, pid)), OperatorRefusal::NoProcess { pid });
    assert_eq!(refusal(leave(&bench, 4_194_304)), OperatorRefusal::NoProcess { pid: 4_194_304 });
    assert!(bench.tree() == before);
    let sleeper = Sleeper::new();
    let (bench, pid) = (machine_with(&sleeper, |_, _| {}), sleeper.pid());
    let host = bench.host();
    host.make_dir("/sys/fs/cgroup/cpushield/mill.service").unwrap();
    host.write("/sys/fs/cgroup/cpushield/mill.service/cgroup.procs", &pid.to_string()).unwrap();
    let before = bench.tree();
    let unit = "mill.service".to_owned();
    assert_eq!(refusal(leave(&bench, pid)), OperatorRefusal::InUnit { unit });
    assert!(bench.tree() == before);
}

/// A process in a group of a machine.
fn place(tree: &mut Tree, task: Task, uid: u32, group: &str) {
    let tid = task.tid;
    put_process(tree, task, uid);
    let dir = Path::new("sys/fs/cgroup").join(group);
    let list = format!("{}/cgroup.procs", dir.display());
    for dir in dir.ancestors().filter(|dir| dir.starts_with("sys/fs/cgroup")) {
        for name in ["cgroup.procs", "cgroup.controllers", "cgroup.subtree_control"] {
            tree.entry(format!("{}/{name}", dir.display())).or_insert_with(|| file(""));
        }
    }
    change_members(tree, "sys/fs/cgroup/cgroup.procs", |members| members.remove(&tid));
    change_members(tree, &list, |members| members.insert(tid));
    tree.insert(format!("proc/{tid}/cgroup"), file(format!("0::/{group}\n")));
}

/// The group of a process that was started in the shield and has no parent, after it has left. The
/// process that asks is in this group, and so are others of its user in others.
fn group_after_leaving(
    sleeper: &Sleeper,
    asker: &str,
    others: &[&str],
    systemd: bool,
) -> Result<String, OperatorRefusal> {
    let uid = fs::metadata("/proc/self").unwrap().uid();
    let own = i32::try_from(std::process::id()).unwrap();
    let bench = machine_with(sleeper, |tree, _| {
        if systemd {
            tree.insert("run/systemd/system".into(), None);
        }
        if !asker.is_empty() && asker != "cpushield" {
            place(tree, Task::new(own, "asker", 0, "0-3"), uid, asker);
        }
        for (n, group) in others.iter().enumerate() {
            let tid = 4_000_000 + i32::try_from(n).unwrap();
            place(tree, Task::new(tid, "other", 0, "0-3"), uid, group);
        }
    });
    let shield = "/sys/fs/cgroup/cpushield/cgroup.procs";
    bench.host().write(shield, &sleeper.pid().to_string()).unwrap();
    if asker == "cpushield" {
        bench.host().write(shield, &own.to_string()).unwrap();
    }
    let before = bench.tree();
    match leave(&bench, sleeper.pid()) {
        OperatorAnswer::Left(_) => {
            Ok(bench.host().read_line(&format!("/proc/{}/cgroup", sleeper.pid())).unwrap())
        }
        OperatorAnswer::Refused { refusal, .. } => {
            same(&before, &bench.tree(), &refusal.to_string());
            match refusal {
                OperatorRefusal::NoDestination { pid } if pid == sleeper.pid() => {
                    Err(OperatorRefusal::NoDestination { pid: 0 })
                }
                refusal => Err(refusal),
            }
        }
        answer => panic!("{answer:?}"),
    }
}

/// A name, the groups, a flag, and the destination.
type DestinationCase<'a> = (&'a str, &'a [&'a str], bool, Result<String, OperatorRefusal>);

#[test]
fn a_process_without_parents_leaves_to_a_group_with_the_limits_of_its_user() {
    let uid = fs::metadata("/proc/self").unwrap().uid();
    let session = &format!("user.slice/user-{uid}.slice/session-7.scope");
    let manager = &format!("user.slice/user-{uid}.slice/user@{uid}.service/init.scope");
    let other_user = &format!("user.slice/user-{}.slice/session-8.scope", uid + 1);
    let service = "system.slice/mill.service";
    let group = |group: &str| Ok(format!("0::/{group}"));
    let refused = Err(OperatorRefusal::NoDestination { pid: 0 });
    let cases: &[DestinationCase<'_>] = &[
        // The process that asks comes first, wherever it is.
        (session, &[manager], true, group(session)),
        (service, &[session], true, group(service)),
        // It is in the shield itself.
        ("cpushield", &[service, manager, session], true, group(session)),
        ("cpushield", &[service, manager], true, group(manager)),
        ("cpushield", &[service, other_user], true, refused.clone()),
        // With systemd no process of a user belongs to the root group.
        ("", &[session], true, group(session)),
        ("", &[], true, refused.clone()),
        ("", &[], false, group("")),
        ("cpushield", &[], false, refused),
        ("cpushield", &["mine"], false, group("mine")),
    ];
    let sleeper = Sleeper::new();
    for (asker, others, systemd, wanted) in cases {
        let found = group_after_leaving(&sleeper, asker, others, *systemd);
        assert_eq!(found, *wanted, "{asker:?} {others:?} {systemd}");
    }
}

/// A user can remove a group of its own, and so can systemd when a session ends.
#[test]
fn a_process_whose_group_is_gone_does_not_leave_to_the_root_group() {
    let uid = fs::metadata("/proc/self").unwrap().uid();
    let own = i32::try_from(std::process::id()).unwrap();
    let scope = format!("user.slice/user-{uid}.slice/run-1.scope");
    let session = format!("user.slice/user-{uid}.slice/session-7.scope");
    for asker in [Some(&session), None] {
        let sleeper = Sleeper::new();
        let bench = machine_with(&sleeper, |tree, pid| {
            tree.insert("run/systemd/system".into(), None);
            place(tree, Task::new(pid, "sleep", 0, "0-3"), uid, &scope);
            if let Some(group) = asker {
                place(tree, Task::new(own, "asker", 0, "0-3"), uid, group);
            }
        });
        add_to_shield(&bench, sleeper.pid());
        bench.remove(&format!("/sys/fs/cgroup/{scope}"));
        let before = bench.tree();
        let answer = leave(&bench, sleeper.pid());
        if let Some(group) = asker {
            assert!(matches!(answer, OperatorAnswer::Left(_)), "{answer:?}");
            let now = bench.host().read_line(&format!("/proc/{}/cgroup", sleeper.pid())).unwrap();
            assert_eq!(now, format!("0::/{group}"));
        } else {
            let refusal = OperatorRefusal::NoDestination { pid: sleeper.pid() };
            assert_eq!(answer, OperatorAnswer::from(refusal));
            same(&before, &bench.tree(), "after the refusal");
        }
    }
}
