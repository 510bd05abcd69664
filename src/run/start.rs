//! Starts a program in the shield: by becoming it, or as a parent that waits for it.

use super::order::StartRequirements;
use super::placement::ShieldPlacement;
use super::spread::ThreadSpread;
use super::user::RunUser;
use super::{RunError, raise, record};
use cpushield_linux::process::{self, ProcessEnd, SignalForwarder};
use cpushield_linux::text::kernel_version::RT_GROUP_SCHED_SINCE;
use cpushield_linux::{CpuSet, Host, SchedPolicy, Store, TaskId, memory};
use std::ffi::OsString;
use std::time::{Duration, Instant};

/// Statuses of a program that could not be started, as shells give them.
pub const NOT_FOUND: u8 = 127;
/// It is there but cannot be executed.
pub const NOT_EXECUTABLE: u8 = 126;

/// How long after the start a program's locked memory is looked at.
const MEMORY_AFTER: Duration = Duration::from_secs(1);

/// A program and how it is to run.
#[derive(Debug, Clone)]
pub struct ProgramStart {
    /// The shield's place.
    pub place: ShieldPlacement,
    /// The CPUs it may run on.
    pub cpus: CpuSet,
    /// Its policy; `None` leaves it as it is.
    pub policy: Option<SchedPolicy>,
    /// Who it runs as; `None` leaves it as it is.
    pub user: Option<RunUser>,
    /// It may lock as much memory as it wants.
    pub lock_memory: bool,
    /// The program and its arguments.
    pub command: Vec<OsString>,
}

/// What a parent that waits does meanwhile.
#[derive(Debug, Clone)]
pub struct Supervision {
    /// Which kernel threads are to be above it.
    pub order: StartRequirements,
    /// Its threads are spread over these CPUs.
    pub spread: Option<CpuSet>,
    /// Whether it has locked its memory is looked at.
    pub look_at_memory: bool,
}

impl Supervision {
    /// Whether there is anything to do, so that a parent is needed at all.
    #[must_use]
    pub fn is_needed(&self) -> bool {
        self.order.policy.rt_priority() > 0 || self.spread.is_some() || self.look_at_memory
    }
}

/// Enters the shield and becomes the program; returns only when that fails.
#[must_use]
pub fn become_program(host: &Host, start: &ProgramStart) -> RunError {
    match enter(host, start) {
        Err(error) => error,
        Ok(()) => RunError::Exec {
            program: start
                .command
                .first()
                .map(|word| word.display().to_string())
                .unwrap_or_default(),
            error: process::exec(&start.command, &environment(start)),
        },
    }
}

fn environment(start: &ProgramStart) -> Vec<(&'static str, String)> {
    let mut environment = vec![("CPUSHIELD_CPUS", start.cpus.to_string())];
    // What LinuxCNC and Machinekit look at to find the cgroup they were started in.
    environment.extend(start.place.group_name().map(|name| ("CGNAME", name)));
    if let Some(user) = &start.user {
        environment.extend([("USER", user.name.clone()), ("LOGNAME", user.name.clone())]);
        environment.extend(user.home.clone().map(|home| ("HOME", home)));
    }
    environment
}

/// The steps need the rights of root, so the user comes last.
fn enter(host: &Host, start: &ProgramStart) -> Result<(), RunError> {
    if start.lock_memory {
        memory::lift_lock_limit().map_err(|e| RunError::Unsafe {
            why: format!("the limit on locked memory cannot be lifted: {e}"),
            instead: "root needs CAP_SYS_RESOURCE, which containers take away; raise the limit \
                      outside, or leave --lock-memory out"
                .to_owned(),
        })?;
    }
    if let Some(group) = &start.place.group {
        host.write(&format!("{group}/cgroup.procs"), &std::process::id().to_string())?;
    }
    // Number 0 is the caller, whatever its number in another namespace of processes.
    host.set_affinity(0, &start.cpus)?;
    if let Some(policy) = start.policy {
        host.set_scheduling(0, policy).map_err(|error| refused(host, policy, error))?;
    }
    if let Some(user) = &start.user {
        process::become_user(&user.rights)
            .map_err(|e| RunError::call(&format!("become user {}", user.name), e))?;
    }
    Ok(())
}

/// What a refused policy means on this machine.
fn refused(host: &Host, policy: SchedPolicy, error: cpushield_linux::Error) -> RunError {
    let mut hints = Vec::new();
    match (policy, error.errno()) {
        _ if process::effective_user() != 0 => hints.push("run it as root".to_owned()),
        (SchedPolicy::Fifo { .. } | SchedPolicy::Rr { .. }, Some(1)) => {
            let groups = host.read("/proc/self/cgroup").unwrap_or_default();
            hints.extend(group_hints(&groups));
        }
        (SchedPolicy::Deadline { .. }, Some(1)) => hints.push(
            "SCHED_DEADLINE needs every CPU of the isolated scheduling domain: leave --cpu out; \
             if other CPUs are isolated too (isolcpus=, another partition), use --fifo"
                .to_owned(),
        ),
        (SchedPolicy::Deadline { .. }, Some(16)) => hints.push(
            "the share of the CPUs it asks for is not free: ask for less runtime per period, or \
             see /proc/sys/kernel/sched_rt_runtime_us, which limits the sum of all"
                .to_owned(),
        ),
        _ => {}
    }
    RunError::Scheduling { policy, error: Box::new(error), hints }
}

/// EPERM to root means a group without real-time budget (`CONFIG_RT_GROUP_SCHED`,
/// kernel/sched/syscalls.c, 6.12). `groups` is `/proc/self/cgroup`.
fn group_hints(groups: &str) -> Vec<String> {
    let of = |wanted: &str| {
        groups.lines().find_map(|line| {
            let mut fields = line.splitn(3, ':').skip(1);
            let (controllers, path) = (fields.next()?, fields.next()?);
            controllers.split(',').any(|c| c == wanted).then(|| path.to_owned())
        })
    };
    match (of("cpu"), of("")) {
        (Some(path), _) => vec![
            format!(
                "this shell is in the group {path} of the cpu controller, which has no real-time \
                 budget (CONFIG_RT_GROUP_SCHED, its cpu.rt_runtime_us is 0)"
            ),
            "give it one: echo 100000 > /sys/fs/cgroup/cpu/GROUP/cpu.rt_runtime_us, or leave it: \
             echo $$ > /sys/fs/cgroup/cpu/cgroup.procs"
                .to_owned(),
        ],
        (None, Some(path)) => vec![
            format!(
                "with CONFIG_RT_GROUP_SCHED only the root cgroup may hold real-time programs on \
                 cgroup v2, and this is {path}"
            ),
            format!(
                "boot with rt_group_sched=0 (Linux {RT_GROUP_SCHED_SINCE} and later), or run it \
                 without --fifo: nothing competes with it in a shield"
            ),
        ],
        (None, None) => Vec::new(),
    }
}

/// SCHED_OTHER, for when this process itself was started under another policy; `None` when there is
/// nothing to change.
#[must_use]
pub fn ordinary(host: &Host) -> Option<SchedPolicy> {
    match host.scheduling(0) {
        Ok(SchedPolicy::Other { .. }) | Err(_) => None,
        Ok(_) => Some(SchedPolicy::Other { nice: 0 }),
    }
}

/// A sentence on how much memory a program may lock that gives up the rights of root.
#[must_use]
pub fn lock_limit(user: &RunUser) -> Option<String> {
    let bytes = memory::lock_limit().ok()??;
    (user.rights.uid != 0).then(|| {
        let (name, kib) = (&user.name, bytes / 1024);
        format!("{name} may lock at most {kib} KiB of memory; --lock-memory lifts that limit")
    })
}

/// Waits for a program that it starts, on a housekeeping CPU, and puts back what was changed for
/// its time. `told` gets sentences for people; `fail` shows an error in the child and says with
/// which status it ends.
///
/// # Errors
/// It cannot be started; what was changed is put back.
pub fn attend(
    host: &Host,
    store: &Store,
    start: &ProgramStart,
    care: &Supervision,
    told: &mut dyn FnMut(String),
    fail: impl FnOnce(RunError) -> u8,
) -> Result<ProcessEnd, RunError> {
    // On a machine where affinity alone shields, this keeps the parent off the shielded CPUs; where
    // it is refused, the parent is confined to others anyway.
    let _ = host.set_affinity(0, &start.place.housekeeping);
    let own = i32::try_from(std::process::id()).unwrap_or(0);
    let who = TaskId { tid: own, started: host.start_time(own).unwrap_or(0) };
    let ended = start_and_wait(host, store, start, care, who, told, fail);
    let settled =
        record::open(host, store).and_then(|mut open| raise::settle(host, &mut open, Some(who)));
    match settled {
        Ok(settled) => {
            for kept in &settled.kept {
                told(format!("still raised: {kept}"));
            }
            for drifted in &settled.drifted {
                told(format!("left as it is, because another process changed it: {drifted}"));
            }
        }
        // What is still raised is on record, and the next run or undo puts it back.
        Err(error) if ended.is_ok() => told(format!("could not restore everything: {error}")),
        Err(_) => {}
    }
    ended
}

fn start_and_wait(
    host: &Host,
    store: &Store,
    start: &ProgramStart,
    care: &Supervision,
    who: TaskId,
    told: &mut dyn FnMut(String),
    fail: impl FnOnce(RunError) -> u8,
) -> Result<ProcessEnd, RunError> {
    if care.order.policy.rt_priority() > 0 {
        raise::raise(host, &mut record::open(host, store)?, &care.order, &start.cpus, who)?;
    }
    let inbox = SignalForwarder::open().map_err(|e| RunError::call("sigprocmask", e))?;
    let pid = process::fork(&inbox, || fail(become_program(host, start)))
        .map_err(|e| RunError::call("fork", e))?;
    let begun = Instant::now();
    let mut spread = care.spread.as_ref().map(ThreadSpread::over);
    let mut look_at_memory = care.look_at_memory;
    loop {
        if let Some(ended) = process::try_wait(pid).map_err(|e| RunError::call("waitpid", e))? {
            return Ok(ended);
        }
        if let Some(spread) = &mut spread {
            spread.round(host, pid);
        }
        if look_at_memory && begun.elapsed() >= MEMORY_AFTER {
            look_at_memory = false;
            told(memory_sentence(host, pid));
        }
        let pause = match () {
            () if spread.is_some() && begun.elapsed() < Duration::from_secs(2) => {
                Duration::from_millis(10)
            }
            () if spread.is_some() => Duration::from_millis(200),
            () if look_at_memory => MEMORY_AFTER.saturating_sub(begun.elapsed()),
            () => Duration::from_secs(3600),
        };
        let came = inbox.next(pause).map_err(|e| RunError::call("sigtimedwait", e))?;
        if let Some(came) = came.filter(|came| came.by_process) {
            // It may have ended just now: then its end is what comes next.
            let _ = process::kill(pid, came.signal);
        }
    }
}

/// What is to be told about a program's memory. `mlockall(2)` does not outlive `execve(2)`, so only
/// the program itself can lock it.
fn memory_sentence(host: &Host, pid: i32) -> String {
    match host.memory_use(pid) {
        Ok(held) if held.locked_kib == 0 => format!(
            "memory: none of {} KiB is locked, so a page that must come from the disk stops the \
             program; it can call mlockall(MCL_CURRENT | MCL_FUTURE), which --lock-memory allows",
            held.resident_kib
        ),
        Ok(held) => {
            let swapped = match held.swapped_kib {
                0 => String::new(),
                kib => format!(", {kib} KiB are swapped out"),
            };
            format!("memory: {} KiB are locked{swapped}", held.locked_kib)
        }
        Err(error) => format!("memory: not known ({})", error.reason()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_without_a_budget_is_named() {
        // This machine's form (cgroup v1, 6.18), and that of a v2 machine with systemd.
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
