//! Starts a program in the shield: executes it directly, or as a parent that waits for it.

use super::order::StartRequirements;
use super::placement::{ShieldPlacement, check_move};
use super::spread::ThreadSpread;
use super::user::RunUser;
use super::{RunError, raise, record};
use cpushield_linux::errno::{EBUSY, EPERM};
use cpushield_linux::processes::orphans::kill_descendants;
use cpushield_linux::processes::process::{self, ProcessEnd, SignalForwarder};
use cpushield_linux::text::first_releases::RT_GROUP_SCHED;
use cpushield_linux::{AffinityGuard, CpuSet, Host, SchedPolicy, Store, TaskId, sys::memory};
use std::ffi::OsString;
use std::time::{Duration, Instant};

/// The exit status for a program that was not found, as in shells.
pub const NOT_FOUND: u8 = 127;
/// The exit status for a program that cannot be executed.
pub const NOT_EXECUTABLE: u8 = 126;

/// The CPU of LinuxCNC's real-time threads. Without it, LinuxCNC 2.10 takes the highest CPU of
/// `/sys/devices/system/cpu/isolated`, which lists no shield of this boot (find_rt_cpu_number() in
/// src/rtapi/uspace_rtapi_app.cc, commit 5c41560ebb).
const LINUXCNC_CPU: &str = "RTAPI_CPU_NUMBER";

/// How long a program may get no CPU time after the first signal that asks it to end, and after
/// later ones.
const PATIENT: Duration = Duration::from_secs(5);
const IMPATIENT: Duration = Duration::from_millis(500);

/// When to check a program's locked memory after its start.
const MEMORY_AFTER: Duration = Duration::from_secs(1);

/// A program to start.
#[derive(Debug, Clone)]
pub struct ProgramStart {
    /// The shield's cgroup and CPUs.
    pub place: ShieldPlacement,
    /// The CPUs it may run on.
    pub cpus: CpuSet,
    /// Its policy; `None` leaves it as it is.
    pub policy: Option<SchedPolicy>,
    /// Its user; `None` leaves it as it is.
    pub user: Option<RunUser>,
    /// It may lock as much memory as it wants.
    pub lock_memory: bool,
    /// The program and its arguments.
    pub command: Vec<OsString>,
}

/// What the parent does while the program runs.
#[derive(Debug, Clone)]
pub struct Supervision {
    /// The kernel threads that must be above it.
    pub order: StartRequirements,
    /// The CPUs on which it may have a real-time priority.
    pub rt_cpus: CpuSet,
    /// The CPUs to spread its threads over.
    pub spread: Option<CpuSet>,
    /// Whether to check if it has locked its memory.
    pub check_memory: bool,
}

impl Supervision {
    /// Whether a parent is needed.
    #[must_use]
    pub fn is_needed(&self) -> bool {
        self.order.policy.rt_priority() > 0 || self.spread.is_some() || self.check_memory
    }
}

/// Enters the shield and becomes the program; returns only when that fails.
#[must_use]
pub fn become_program(host: &Host, start: &ProgramStart) -> RunError {
    match enter(host, start) {
        Err(error) => error,
        Ok(()) => execute(host, start),
    }
}

/// Becomes the program of a process that is in the shield; returns only when that fails.
#[must_use]
pub fn execute(host: &Host, start: &ProgramStart) -> RunError {
    RunError::Exec {
        program: start.command.first().map(|word| word.display().to_string()).unwrap_or_default(),
        error: host.exec(&start.command, &environment(start, process::has_variable)),
    }
}

/// The variables that a program gets; `is_set` says which ones the user has set.
fn environment(start: &ProgramStart, is_set: impl Fn(&str) -> bool) -> Vec<(&'static str, String)> {
    let mut environment = vec![("CPUSHIELD_CPUS", start.cpus.to_string())];
    // LinuxCNC and Machinekit read this to find their cgroup.
    environment.extend(start.place.group_name().map(|name| ("CGNAME", name)));
    let linuxcnc_cpu = start.cpus.last().filter(|_| !is_set(LINUXCNC_CPU));
    environment.extend(linuxcnc_cpu.map(|cpu| (LINUXCNC_CPU, cpu.to_string())));
    if let Some(user) = &start.user {
        environment.extend([("USER", user.name.clone()), ("LOGNAME", user.name.clone())]);
        environment.extend(user.home.clone().map(|home| ("HOME", home)));
    }
    environment
}

/// Enters the shield. The steps need root, so the user is changed last.
fn enter(host: &Host, start: &ProgramStart) -> Result<(), RunError> {
    if start.lock_memory {
        memory::lift_lock_limit().map_err(|e| RunError::DangerousRequest {
            why: format!("cannot lift the limit on locked memory: {e}"),
            instead:
                "root needs CAP_SYS_RESOURCE, which containers drop; raise the limit outside, \
                      or omit --lock-memory"
                    .to_owned(),
        })?;
    }
    if let Some(group) = start.place.entry_group(host)? {
        check_move(host, &group)?;
        host.write(&format!("{group}/cgroup.procs"), &std::process::id().to_string())?;
    }
    // Number 0 is the caller, whatever its number in another PID namespace.
    host.set_affinity(0, &start.cpus)?;
    if let Some(policy) = start.policy {
        host.set_scheduling(0, policy).map_err(|error| policy_error(host, policy, error))?;
    }
    if let Some(user) = &start.user {
        process::become_user(&user.rights)
            .map_err(|e| RunError::call(&format!("become user {}", user.name), e))?;
    }
    Ok(())
}

/// Explains a refused policy.
fn policy_error(host: &Host, policy: SchedPolicy, error: cpushield_linux::Error) -> RunError {
    let mut hints = Vec::new();
    match (policy, error.errno()) {
        _ if process::effective_user() != 0 => hints.push("run cpushield as root".to_owned()),
        (SchedPolicy::Fifo { .. } | SchedPolicy::Rr { .. }, Some(EPERM)) => {
            let groups = host.read("/proc/self/cgroup").unwrap_or_default();
            hints.extend(group_hints(&groups));
        }
        (SchedPolicy::Deadline { .. }, Some(EPERM)) => hints.push(
            "SCHED_DEADLINE needs every CPU of the isolated scheduling domain: omit --cpu; \
             if other CPUs are isolated too (isolcpus=, another partition), use --fifo"
                .to_owned(),
        ),
        (SchedPolicy::Deadline { .. }, Some(EBUSY)) => hints.push(
            "the requested share of CPU time is not available: use less runtime per period, or see \
             /proc/sys/kernel/sched_rt_runtime_us, which limits the total"
                .to_owned(),
        ),
        _ => {}
    }
    RunError::Scheduling { policy, error: Box::new(error), hints }
}

/// EPERM to root means a group without real-time budget (`CONFIG_RT_GROUP_SCHED`,
/// kernel/sched/syscalls.c, 6.12). `groups` is `/proc/self/cgroup`.
fn group_hints(groups: &str) -> Vec<String> {
    match (group_of_controller(groups, "cpu"), group_of_controller(groups, "")) {
        (Some(path), _) => vec![
            format!(
                "this shell is in the group {path} of the cpu controller, which has no real-time \
                 budget (CONFIG_RT_GROUP_SCHED is set, and its cpu.rt_runtime_us is 0)"
            ),
            "give it one: echo 100000 > /sys/fs/cgroup/cpu/GROUP/cpu.rt_runtime_us, or leave the \
             group: echo $$ > /sys/fs/cgroup/cpu/cgroup.procs"
                .to_owned(),
        ],
        (None, Some(path)) => vec![
            format!(
                "with CONFIG_RT_GROUP_SCHED, only the root cgroup may contain real-time programs \
                 on cgroup v2, but this shell is in {path}"
            ),
            format!(
                "boot with rt_group_sched=0 (Linux {RT_GROUP_SCHED} and later), or run the program \
                 without --fifo: nothing competes with it in a shield"
            ),
        ],
        (None, None) => Vec::new(),
    }
}

/// The path of the group of a controller; an empty name is that of cgroup v2.
fn group_of_controller(groups: &str, wanted: &str) -> Option<String> {
    groups.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        controllers.split(',').any(|c| c == wanted).then(|| path.to_owned())
    })
}

/// Returns SCHED_OTHER if this process itself was started with another policy.
#[must_use]
pub fn ordinary(host: &Host) -> Option<SchedPolicy> {
    match host.scheduling(0) {
        Ok(SchedPolicy::Other { .. }) | Err(_) => None,
        Ok(_) => Some(SchedPolicy::Other { nice: 0 }),
    }
}

/// Describes how much memory a program without root privileges may lock.
#[must_use]
pub fn lock_limit(user: &RunUser) -> Option<String> {
    let bytes = memory::lock_limit()?;
    (user.rights.uid != 0).then(|| {
        let (name, kib) = (&user.name, bytes / 1024);
        format!("{name} may lock at most {kib} KiB of memory; --lock-memory lifts that limit")
    })
}

/// Starts a program, waits for it on a housekeeping CPU, and restores what was changed for it.
/// `report` gets messages for the user; `fail` shows an error in the child and returns its exit
/// status.
///
/// # Errors
/// The program cannot be started; what was changed is restored.
pub fn supervise(
    host: &Host,
    store: &Store,
    start: &ProgramStart,
    care: &Supervision,
    report: &mut dyn FnMut(String),
    fail: impl FnOnce(RunError) -> u8,
) -> Result<ProcessEnd, RunError> {
    // With a shield of affinities only, this keeps the parent off the shielded CPUs. Where the
    // kernel refuses it, the parent is confined to other CPUs already.
    let _ = host.step_aside(&start.place.housekeeping).map(AffinityGuard::stay);
    let own_pid = host.own_pid().unwrap_or(0);
    let parent = TaskId { tid: own_pid, started: host.start_time(own_pid).unwrap_or(0) };
    let ended = start_and_wait(host, store, start, care, parent, report, fail);
    let lowered = record::open(host, store)
        .and_then(|mut open| raise::lower_unneeded(host, &mut open, Some(parent)));
    match lowered {
        Ok(lowered) => {
            for note in lowered.kept.iter().chain(&lowered.drifted) {
                report(note.to_string());
            }
        }
        // Threads that are still raised are on record, and the next run or undo lowers them.
        Err(error) if ended.is_ok() => {
            report(format!("could not restore the priorities of the kernel threads: {error}"));
        }
        Err(_) => {}
    }
    ended
}

fn start_and_wait(
    host: &Host,
    store: &Store,
    start: &ProgramStart,
    care: &Supervision,
    parent: TaskId,
    report: &mut dyn FnMut(String),
    fail: impl FnOnce(RunError) -> u8,
) -> Result<ProcessEnd, RunError> {
    if care.order.policy.rt_priority() > 0 {
        raise::raise(host, &mut record::open(host, store)?, &care.order, &care.rt_cpus, parent)?;
    }
    let inbox = SignalForwarder::open().map_err(|e| RunError::call("sigprocmask", e))?;
    let pid = process::fork(&inbox, || fail(become_program(host, start)))
        .map_err(|e| RunError::call("fork", e))?;
    let started = Instant::now();
    let mut spread = care.spread.as_ref().map(ThreadSpread::new);
    let mut check_memory = care.check_memory;
    let mut asked_to_end: Option<AskedToEnd> = None;
    loop {
        if let Some(ended) = process::try_wait(pid).map_err(|e| RunError::call("waitpid", e))? {
            return Ok(ended);
        }
        if let Some(spread) = &mut spread {
            spread.place_new_threads(host, pid);
        }
        if check_memory && started.elapsed() >= MEMORY_AFTER {
            check_memory = false;
            report(memory_sentence(host, pid));
        }
        if asked_to_end.as_ref().is_some_and(|asked| asked.is_over(host, pid)) {
            asked_to_end = None;
            report("the program got no CPU time since the signal, so it is killed".to_owned());
            kill_descendants(host);
        }
        let pause = match () {
            () if asked_to_end.is_some() => Duration::from_millis(100),
            () if spread.is_some() && started.elapsed() < Duration::from_secs(2) => {
                Duration::from_millis(10)
            }
            () if spread.is_some() => Duration::from_millis(200),
            () if check_memory => MEMORY_AFTER.saturating_sub(started.elapsed()),
            () => Duration::from_secs(3600),
        };
        let received = inbox.next(pause).map_err(|e| RunError::call("sigtimedwait", e))?;
        if let Some(received) = received.filter(|received| received.by_process) {
            // The program may have ended just now; the next round finds that.
            let _ = process::kill(pid, received.signal);
        }
        if received.is_some_and(|received| received.asks_to_end()) {
            let times = asked_to_end.map_or(0, |asked| asked.times) + 1;
            asked_to_end = Some(AskedToEnd::new(host, pid, times));
        }
    }
}

/// A program that was asked to end. A busy real-time thread on its CPU may keep it from that.
struct AskedToEnd {
    at: Instant,
    times: usize,
    /// Its CPU time then.
    ticks: Option<u64>,
}

impl AskedToEnd {
    fn new(host: &Host, pid: i32, times: usize) -> AskedToEnd {
        AskedToEnd { at: Instant::now(), times, ticks: host.cpu_ticks(pid).ok() }
    }

    /// Whether the program had time enough, and got no CPU time although it wants to run.
    fn is_over(&self, host: &Host, pid: i32) -> bool {
        let patience = if self.times > 1 { IMPATIENT } else { PATIENT };
        self.at.elapsed() >= patience
            && host.task(pid, pid).is_ok_and(|task| task.state == 'R')
            && self.ticks.is_some_and(|before| host.cpu_ticks(pid).is_ok_and(|now| now == before))
    }
}

/// Describes a program's memory. `mlockall(2)` does not survive `execve(2)`, so only
/// the program itself can lock it.
fn memory_sentence(host: &Host, pid: i32) -> String {
    match host.memory_use(pid) {
        Ok(held) if held.locked_kib == 0 => format!(
            "memory: none of the program's {} KiB is locked, so a page fault that reads from disk \
             stalls it; the program can call mlockall(MCL_CURRENT | MCL_FUTURE), which \
             --lock-memory permits",
            held.resident_kib
        ),
        Ok(held) => {
            let swapped = match held.swapped_kib {
                0 => String::new(),
                kib => format!(", {kib} KiB swapped out"),
            };
            format!("memory: {} KiB locked{swapped}", held.locked_kib)
        }
        Err(error) => format!("memory: unknown ({})", error.reason()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linuxcnc_gets_the_highest_cpu_unless_the_user_has_chosen_one() {
        let place = ShieldPlacement {
            name: "cpushield".to_owned(),
            group: Some("/sys/fs/cgroup/cpushield".to_owned()),
            v2: true,
            cpus: "2-3".parse().unwrap(),
            idle: CpuSet::new(),
            housekeeping: "0-1".parse().unwrap(),
            residents: std::collections::BTreeSet::new(),
        };
        let start = ProgramStart {
            cpus: place.cpus.clone(),
            place,
            policy: None,
            user: None,
            lock_memory: false,
            command: vec!["linuxcnc".into()],
        };
        let always = [("CPUSHIELD_CPUS", "2-3"), ("CGNAME", "/cpushield")];
        let always = always.map(|(name, value)| (name, value.to_owned()));
        assert_eq!(environment(&start, |name| name == LINUXCNC_CPU), always);
        let chosen = [&always[..], &[(LINUXCNC_CPU, "3".to_owned())]].concat();
        assert_eq!(environment(&start, |_| false), chosen);
    }

    #[test]
    fn a_group_without_a_real_time_budget_is_named() {
        // A machine with cgroup v1 (6.18), and a v2 machine with systemd.
        let v1 = "3:cpuset:/\n1:cpu,cpuacct:/user.slice\n0::/\n";
        let hints = group_hints(v1);
        assert!(hints[0].contains("the group /user.slice of the cpu controller"), "{hints:?}");
        let v2 = "0::/user.slice/user-0.slice/session-1.scope\n";
        let hints = group_hints(v2);
        assert!(hints[0].contains("session-1.scope"), "{hints:?}");
        assert!(hints[1].contains("rt_group_sched=0 (Linux 6.16 and later)"), "{hints:?}");
        assert!(group_hints("").is_empty());
    }
}
