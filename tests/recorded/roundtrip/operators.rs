//! Operators: on cgroup v1 the lists of tasks of the shield and of the housekeeping programs belong
//! to their group, and undo restores who may write them. The helper refuses what the policy does
//! not permit. Other users see the active shields.

use super::bench::{Bench, Scratch, Tree, file};
use super::trees::{self, Task};
use crate::not_run::not_run;
use crate::recordings;
use cpushield::apply::{self, PublicState};
use cpushield::change::Change;
use cpushield::plan::{ActiveShields, Plan, PlanRefusal, plan_with_others};
use cpushield::policy::{OperatorLimits, OperatorName, ShieldOperators, ShieldRequest, Siblings};
use cpushield::run::{
    self, HelperCaller, OPERATOR_COMMAND, OperatorAnswer, OperatorRefusal, OperatorRequest,
};
use cpushield::survey::survey;
use cpushield::tunables;
use cpushield_linux::processes::operator_socket::OperatorConnection;
use cpushield_linux::{Host, PublicDir, SchedPolicy, Store};
use cpushield_simulator::{InjectedFault, Simulated};
use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

const GROUP: u32 = 44;

fn operators(gid: u32) -> ShieldOperators {
    let group = Some(OperatorName { name: "rt".to_owned(), id: gid });
    ShieldOperators { users: Vec::new(), group, limits: OperatorLimits::default() }
}

fn bench() -> Bench {
    let root = recordings::root("6.1-rt-v1");
    Bench::of_recording(&root)
}

fn plan(bench: &Bench, name: &str, cpu: usize, gid: u32) -> Result<Plan, PlanRefusal> {
    let machine = survey(&bench.host(), &tunables::reads());
    let request = ShieldRequest {
        name: name.to_owned(),
        cpus: Some([cpu].into_iter().collect()),
        siblings: Some(Siblings::Share),
        operators: Some(operators(gid)),
        ..ShieldRequest::default()
    };
    let live = apply::active_plans(&bench.host(), &bench.store()).unwrap();
    plan_with_others(&machine, &request, &ActiveShields::new(&live))
}

fn given(plan: &Plan) -> Vec<&str> {
    let changes = plan.steps.iter().filter_map(|step| match &step.change {
        Change::GiveToGroup { path, .. } => Some(path.as_str()),
        _ => None,
    });
    changes.collect()
}

/// Group and permission bits of a file of the machine.
fn access(bench: &Bench, path: &str) -> (u32, u32) {
    let found = bench.host().access(path).unwrap();
    (found.owner.unwrap().1, found.mode & 0o777)
}

#[test]
fn only_lists_of_tasks_are_given_to_the_group() {
    let bench = bench();
    let before = bench.tree();
    let first = plan(&bench, "a", 3, GROUP).unwrap();
    let mount = "/sys/fs/cgroup/cpuset";
    let wanted =
        ["cpushield_a", "cpushield_housekeeping"].map(|name| format!("{mount}/{name}/tasks"));
    assert_eq!(given(&first), wanted);
    bench.apply(&bench.host(), &first).unwrap();
    if access(&bench, &wanted[0]).0 != GROUP {
        not_run("only root can give files away");
        return;
    }
    for path in &wanted {
        assert_eq!(access(&bench, path).0, GROUP);
        assert_eq!(access(&bench, path).1 & 0o020, 0o020);
    }
    let dir = "/sys/fs/cgroup/cpuset/cpushield_a";
    for other in bench.host().list(dir).unwrap().iter().filter(|name| *name != "tasks") {
        assert_ne!(access(&bench, &format!("{dir}/{other}")).0, GROUP, "{other}");
    }
    // Two groups cannot both leave by one file.
    assert!(matches!(plan(&bench, "b", 2, 45), Err(PlanRefusal::OtherValue { .. })));
    let second = plan(&bench, "b", 2, GROUP).unwrap();
    bench.apply(&bench.host(), &second).unwrap();
    apply::undo(&bench.host(), &bench.store(), Some("a")).unwrap();
    assert_eq!(access(&bench, &wanted[1]).0, GROUP);
    apply::undo(&bench.host(), &bench.store(), None).unwrap();
    assert!(bench.tree() == before);
}

#[test]
fn a_group_that_existed_gets_its_access_back_whatever_write_is_refused() {
    let writes = {
        let bench = bench();
        make_groups(&bench);
        let plan = plan(&bench, "a", 3, GROUP).unwrap();
        let host = bench.host();
        bench.apply(&host, &plan).unwrap();
        host.writes()
    };
    for at in (0..writes).rev().take(24) {
        let bench = bench();
        let paths = make_groups(&bench);
        let before = paths.clone().map(|path| access(&bench, &path));
        let plan = plan(&bench, "a", 3, GROUP).unwrap();
        let host = bench.host().failing(InjectedFault::Refuse { at, errno: libc_eperm() });
        let _ = bench.apply(&host, &plan);
        apply::undo(&bench.host(), &bench.store(), None).unwrap();
        assert_eq!(paths.map(|path| access(&bench, &path)), before, "write {at}");
    }
}

fn libc_eperm() -> i32 {
    1
}

/// Makes the groups of the shield before it, as a killed program may leave them.
fn make_groups(bench: &Bench) -> [String; 2] {
    let host = bench.host();
    ["cpushield_a", "cpushield_housekeeping"].map(|name| {
        let dir = format!("/sys/fs/cgroup/cpuset/{name}");
        host.make_dir(&dir).unwrap();
        format!("{dir}/tasks")
    })
}

#[test]
fn every_user_sees_the_shields_of_this_boot_and_no_other() {
    let bench = bench();
    let public = PublicDir::new(&bench.scratch.0.join("run"));
    let store = bench.store().publishing(Some(public.clone()));
    let state = |host: &Host, store: &Store| apply::read_public_state(host, store);
    assert_eq!(state(&bench.host(), &bench.store()), PublicState::Unknown);
    assert_eq!(state(&bench.host(), &store), PublicState::Active(Vec::new()));
    let plan = plan(&bench, "a", 3, GROUP).unwrap();
    apply::apply(&bench.host(), &store, &plan, &mut |_| {}).unwrap();
    let PublicState::Active(shields) = state(&bench.host(), &store) else { panic!("active") };
    let [shield] = shields.as_slice() else { panic!("{shields:?}") };
    assert_eq!((shield.shield.name.as_str(), &shield.operators), ("a", &plan.operators));
    assert_eq!(shield.group.as_deref(), Some("/sys/fs/cgroup/cpuset/cpushield_a"));
    let saved = public.read("shields.json").unwrap().unwrap();
    let text = String::from_utf8(saved.clone()).unwrap();
    // It belongs to one boot; the group of the shield is still there, so the state is unknown.
    let boot_id = plan.boot_id.clone().unwrap();
    let other = text.replace(&boot_id, "another");
    public.publish("shields.json", other.as_bytes()).unwrap();
    assert_eq!(state(&bench.host(), &store), PublicState::Unknown);
    for torn in [&b"{"[..], b"", b"[]", &saved[..saved.len() / 2]] {
        public.publish("shields.json", torn).unwrap();
        assert_eq!(state(&bench.host(), &store), PublicState::Unknown);
    }
    apply::undo(&bench.host(), &store, None).unwrap();
    assert_eq!(state(&bench.host(), &store), PublicState::Active(Vec::new()));
    // A killed apply says that something is unfinished.
    let host = bench.host().failing(InjectedFault::Stop { at: 7 });
    let plan = self::plan(&bench, "a", 3, GROUP).unwrap();
    assert!(apply::apply(&host, &store, &plan, &mut |_| {}).is_err());
    assert_eq!(state(&bench.host(), &store), PublicState::Unfinished);
}

/// The answer of the helper to a request of this process on a simulated machine; `policy` are the
/// operators of its shield. `known` is false on a machine that no longer has the process.
fn answer(policy: Option<ShieldOperators>, known: bool, request: &[u8]) -> OperatorAnswer {
    let own = i32::try_from(std::process::id()).unwrap();
    answer_to(known.then(|| Task::new(own, "asker", 0, "0-3")), policy, request)
}

/// The same, where this process is the task.
fn answer_to(
    asker: Option<Task>,
    policy: Option<ShieldOperators>,
    request: &[u8],
) -> OperatorAnswer {
    let mut tree = trees::v2();
    let uid = fs::metadata("/proc/self").unwrap().uid();
    if let Some(task) = asker {
        put_process(&mut tree, task, uid);
    }
    let bench = Bench::of(&tree);
    let plan = Plan { operators: policy, ..trees::v2_plan() };
    bench.apply(&bench.host(), &plan).unwrap();
    let before = bench.tree();
    let answer = serve(&bench, request);
    assert!(bench.tree() == before, "a refusal changes nothing: {answer:?}");
    answer
}

/// A process of a user, in the root group.
pub fn put_process(tree: &mut Tree, task: Task, uid: u32) {
    let tid = task.tid;
    task.put(tree);
    let path = |name: &str| format!("proc/{tid}/{name}");
    let users = format!("Uid:\t{uid}\t{uid}\t{uid}\t{uid}\nNSpid:\t{tid}\n");
    let status = file([tree[&path("status")].as_ref().unwrap(), users.as_bytes()].concat());
    tree.insert(path("status"), status.clone());
    tree.insert(path(&format!("task/{tid}/status")), status);
    tree.insert(path("cgroup"), file("0::/\n"));
    change_members(tree, "sys/fs/cgroup/cgroup.procs", |members| members.insert(tid));
}

/// Changes the members of a group, which are in the kernel's order: numbers of processes wrap
/// around.
pub fn change_members(
    tree: &mut Tree,
    list: &str,
    change: impl FnOnce(&mut BTreeSet<i32>) -> bool,
) {
    let text = tree.get_mut(list).unwrap().as_mut().unwrap();
    let mut members: BTreeSet<i32> =
        String::from_utf8_lossy(text).lines().map(|line| line.parse().unwrap()).collect();
    // A process that is put twice is listed once.
    change(&mut members);
    *text = members.iter().flat_map(|tid| format!("{tid}\n").into_bytes()).collect();
}

/// The answer of the helper to a request of this process.
pub fn serve(bench: &Bench, request: &[u8]) -> OperatorAnswer {
    serve_at(bench, request, None)
}

/// The same at the socket of a shield.
pub fn serve_at(bench: &Bench, request: &[u8], socket_of: Option<&str>) -> OperatorAnswer {
    let (mut theirs, ours) = UnixStream::pair().unwrap();
    theirs.write_all(request).unwrap();
    theirs.shutdown(std::net::Shutdown::Write).unwrap();
    let connection = OperatorConnection::of_stream(ours);
    let socket_of = socket_of.map(str::to_owned);
    let caller = HelperCaller { sudo_user: None, socket_of };
    run::serve_operator(&bench.host(), &bench.store(), &connection, &caller)
}

#[test]
fn what_an_operator_may_not_do_is_refused_before_anything_is_changed() {
    let uid = fs::metadata("/proc/self").unwrap().uid();
    let user = |id| vec![OperatorName { name: "joe".to_owned(), id }];
    let limits = OperatorLimits { priority: Some(50), locked_memory: None };
    let own = ShieldOperators { users: user(uid), group: None, limits };
    let other = ShieldOperators { users: user(uid + 1), ..own.clone() };
    let enter = b"{\"do\": \"enter\"}\n";
    let refused = |answer: OperatorAnswer| match answer {
        OperatorAnswer::Refused { refusal, rule, .. } => (refusal, rule.is_some()),
        other => panic!("{other:?}"),
    };
    let shield = || "cpushield".to_owned();
    let stranger = (OperatorRefusal::NotPermitted { shield: shield(), uid }, true);
    assert_eq!(refused(answer(None, true, enter)), stranger);
    assert_eq!(refused(answer(Some(other), true, enter)), stranger);
    let ask = |request: &[u8]| refused(answer(Some(own.clone()), true, request));
    assert_eq!(refused(answer(Some(own.clone()), false, enter)).0, OperatorRefusal::Ended);
    for (priority, text) in [(51, "51"), (0, "0"), (u32::MAX, "4294967295")] {
        let request = format!("{{\"do\": \"enter\", \"priority\": {text}}}\n");
        let wanted = OperatorRefusal::Priority { shield: shield(), priority, highest: Some(50) };
        assert_eq!(ask(request.as_bytes()), (wanted, (1..=98).contains(&priority)));
    }
    let locked = (OperatorRefusal::LockedMemory { shield: shield() }, true);
    assert_eq!(ask(b"{\"do\": \"enter\", \"lock_memory\": true}\n"), locked);
    let outside = (OperatorRefusal::NotInShield { shield: shield() }, false);
    assert_eq!(ask(b"{\"do\": \"leave\"}\n"), outside);
    let unknown = ask(b"{\"do\": \"leave\", \"shield\": \"mill\"}\n").0;
    assert!(matches!(unknown, OperatorRefusal::NoShield { .. }), "{unknown:?}");
    assert_eq!(ask(b"{\"do\": \"enter\"}").0, OperatorRefusal::Incomplete);
    assert_eq!(ask(&[b'x'; 4096]).0, OperatorRefusal::TooLong);
    let malformed = ask(b"{\"do\": \"enter\", \"pid\": 1}\n").0;
    assert!(matches!(malformed, OperatorRefusal::Malformed { .. }), "{malformed:?}");
}

#[test]
fn a_process_does_not_bring_a_higher_priority_than_the_policy_permits() {
    let uid = fs::metadata("/proc/self").unwrap().uid();
    let users = vec![OperatorName { name: "joe".to_owned(), id: uid }];
    let own = i32::try_from(std::process::id()).unwrap();
    let asks_with = |policy, highest| {
        let task = Task { policy, ..Task::new(own, "asker", 0, "0-3") };
        let limits = OperatorLimits { priority: highest, locked_memory: None };
        let operators = ShieldOperators { users: users.clone(), group: None, limits };
        answer_to(Some(task), Some(operators), b"{\"do\": \"enter\"}\n")
    };
    let refused = |priority, highest| {
        let (shield, policy) = ("cpushield".to_owned(), SchedPolicy::Fifo { priority });
        OperatorAnswer::from(OperatorRefusal::OwnPolicy { shield, policy, highest })
    };
    assert_eq!(asks_with((1, 98), None), refused(98, None));
    assert_eq!(asks_with((1, 51), Some(50)), refused(51, Some(50)));
    let OperatorAnswer::Refused { text, rule, .. } = asks_with((1, 51), Some(50)) else {
        panic!("refused")
    };
    assert_eq!(
        text,
        "the process runs with SCHED_FIFO 51, but operators of shield cpushield may have a \
         priority of 1 to 50"
    );
    assert_eq!(rule.as_deref(), Some("[shield.cpushield.operators] priority = 51"));
}

/// As through sudo: standard input is one end of a pair of sockets, whose maker the kernel knows.
#[test]
fn the_helper_answers_at_its_standard_input_and_ends() {
    let scratch = Scratch::new();
    let state = scratch.0.display().to_string();
    let program = env!("CARGO_BIN_EXE_cpushield");
    let ask = |line: &str| {
        let command = ["env", "-u", "SUDO_UID", program, OPERATOR_COMMAND, "--state", &state];
        let answer = Host::live().ask_program(&command, line, Duration::from_secs(60)).unwrap();
        serde_json::from_str::<OperatorAnswer>(&answer).unwrap()
    };
    let enter = OperatorRequest::Enter {
        shield: None,
        priority: None,
        own_priority: None,
        lock_memory: false,
    };
    let OperatorAnswer::Refused { refusal, .. } = ask(&enter.line()) else { panic!("refused") };
    assert!(matches!(refusal, OperatorRefusal::NoShield { .. }), "{refusal:?}");
    let OperatorAnswer::Refused { refusal, .. } = ask("run\n") else { panic!("refused") };
    assert!(matches!(refusal, OperatorRefusal::Malformed { .. }), "{refusal:?}");
    // Without a socket there is no process to answer.
    let mut alone = Command::new(program);
    let ended = alone.arg(OPERATOR_COMMAND).stdin(Stdio::null()).output().unwrap();
    assert!(ended.status.success() && ended.stdout.is_empty());
}

/// A user that calls the helper by sudo chooses what it inherits. With the lock it must neither
/// stop nor starve.
#[test]
fn the_helper_keeps_nothing_of_its_caller_that_could_stop_it() {
    let can = |program: &str| Command::new(program).arg("--version").output().is_ok();
    if fs::metadata("/proc/self").unwrap().uid() != 0 || !can("chrt") {
        return not_run("only root can leave SCHED_IDLE, and the test needs chrt");
    }
    let (_theirs, ours) = UnixStream::pair().unwrap();
    // Hard limits would need CAP_SYS_RESOURCE, which the root of a container may lack.
    let script = "ulimit -S -f 0; ulimit -S -t 1000; ulimit -S -n 32; exec chrt -i 0 \"$0\" \"$1\"";
    let mut helper = Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_cpushield"), OPERATOR_COMMAND])
        .process_group(0)
        .stdin(Stdio::from(std::os::fd::OwnedFd::from(ours)))
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let pid = i32::try_from(helper.id()).unwrap();
    let read = |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default();
    let limit = |name: &str| {
        let limits = read("limits");
        let values = limits.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        values.split_whitespace().next().unwrap_or_default().to_owned()
    };
    let found = || {
        let status = read("status");
        let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:\t"));
        let ignored = ignored.and_then(|mask| u64::from_str_radix(mask, 16).ok());
        // SIGHUP, SIGINT, SIGQUIT, SIGTSTP, SIGTTIN and SIGTTOU (signal(7)).
        let signals: u64 = [1, 2, 3, 20, 21, 22].map(|signal| 1_u64 << (signal - 1)).iter().sum();
        (
            ignored.unwrap_or_default() & signals == signals,
            limit("Max file size"),
            limit("Max cpu time"),
            limit("Max open files").parse::<u64>().is_ok_and(|files| files >= 1024),
            Host::live().task(pid, pid).ok().map(|task| task.policy),
        )
    };
    let unlimited = || "unlimited".to_owned();
    // 0 is SCHED_OTHER.
    let wanted = (true, unlimited(), unlimited(), true, Some(0));
    // It waits 15 s for a request.
    for _ in 0..100 {
        if found() == wanted {
            break;
        }
        thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(found(), wanted);
    helper.kill().unwrap();
    helper.wait().unwrap();
}

#[test]
fn the_lines_for_sudoers_are_what_visudo_accepts() {
    let name = |name: &str, id| OperatorName { name: name.to_owned(), id };
    let operators = |users: &[(&str, u32)], group: Option<(&str, u32)>| ShieldOperators {
        users: users.iter().map(|(user, id)| name(user, *id)).collect(),
        group: group.map(|(group, id)| name(group, id)),
        limits: OperatorLimits::default(),
    };
    // A program of root. Whose the root directory of a container is, is not certain.
    let program = "/usr/bin/env";
    let line = |all: &[ShieldOperators]| run::sudoers_line(&Host::live(), all, program);
    let first = match line(&[operators(&[("joe", 1000)], Some(("rt", 44)))]) {
        Ok(line) => line,
        Err(why) => return not_run(&format!("{program} is not only root's: {why}")),
    };
    assert_eq!(first, "%rt,joe ALL=(root) NOPASSWD: /usr/bin/env __operator");
    let numbers = line(&[operators(&[("1000", 1000)], None), operators(&[], Some(("4444", 4444)))]);
    assert_eq!(
        numbers.as_deref().unwrap(),
        "#1000,%#4444 ALL=(root) NOPASSWD: /usr/bin/env __operator"
    );
    let odd = line(&[operators(&[("a b,c", 7), ("ALL", 8), ("j.o-e_2", 9)], Some(("d\\e", 10)))]);
    let text = [first, numbers.unwrap(), odd.unwrap(), String::new()].join("\n");
    let visudo = Command::new("visudo")
        .args(["-c", "-s", "-f", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut visudo) = visudo else { return not_run("visudo is not installed") };
    visudo.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let checked = visudo.wait_with_output().unwrap();
    assert!(checked.status.success(), "{text}{}", String::from_utf8_lossy(&checked.stderr));
    // A line for a program of another user is refused.
    let scratch = Scratch::new();
    let own = scratch.0.join("cpushield");
    fs::write(&own, "").unwrap();
    assert!(run::sudoers_line(&Host::live(), [], &own.display().to_string()).is_err());
}
