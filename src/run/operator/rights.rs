//! The priority and the limit on locked memory that a process gets with its place in a shield.

use super::asker::HeldProcess;
use crate::policy::MemoryLimit;
use crate::run::order::{StartRequirements, order};
use crate::run::{RunError, lock_limits, raise, record};
use cpushield_linux::{CpuSet, Host, RaisedLockLimit, SchedPolicy, Store};

/// What a process gets, and what it had before.
pub(super) struct ProcessRights<'a> {
    host: &'a Host,
    store: &'a Store,
    process: &'a HeldProcess,
    /// The shield.
    shield: &'a str,
    /// The policy before, and the one that it was given.
    policy: Option<(SchedPolicy, SchedPolicy)>,
    /// It is on record as one that needs the kernel's threads above it.
    has_need: bool,
    /// Whether the record of its limit was changed.
    recorded_limit: LimitRecord,
    /// The raised limit.
    lock_limit: Option<RaisedLockLimit>,
}

/// The record of the limit on locked memory.
#[derive(Clone, Copy)]
enum LimitRecord {
    Unchanged,
    /// It was changed; before that, it had this limit, or none.
    Changed {
        earlier: Option<RaisedLockLimit>,
    },
}

impl<'a> ProcessRights<'a> {
    /// Those of a process in a shield that was given nothing yet.
    pub fn new(
        host: &'a Host,
        store: &'a Store,
        process: &'a HeldProcess,
        shield: &'a str,
    ) -> ProcessRights<'a> {
        let (policy, has_need, lock_limit) = (None, false, None);
        let recorded_limit = LimitRecord::Unchanged;
        ProcessRights { host, store, process, shield, policy, has_need, recorded_limit, lock_limit }
    }

    /// Lets the process lock memory while it is in the shield.
    ///
    /// # Errors
    /// It has ended, the record cannot be written, or the kernel refuses.
    pub fn raise_lock_limit(&mut self, limit: MemoryLimit) -> Result<(), RunError> {
        let bytes = match limit {
            MemoryLimit::Unlimited => None,
            MemoryLimit::Bytes(bytes) => Some(bytes),
        };
        let pid = self.process.pid();
        let raised = self.host.raised_lock_limit(pid, bytes)?;
        let known = record::read(self.host, self.store)?;
        let earlier = lock_limits::find(&known, self.process.task);
        // Before the limit is raised: after a failure, the record must not name a limit that the
        // process does not have, or an earlier raise would never be taken back.
        self.recorded_limit = LimitRecord::Changed { earlier };
        self.record_lock_limit(Some(raised.after(earlier)))?;
        self.check_lives()?;
        // Only if the kernel permits it: another process may have the number and such a limit.
        self.lock_limit = Some(self.host.raise_lock_limit(pid, raised)?);
        Ok(())
    }

    /// Writes the limit of the process into the record.
    fn record_lock_limit(&self, limit: Option<RaisedLockLimit>) -> Result<(), RunError> {
        let mut open = record::open(self.host, self.store)?;
        open.forget_ended(self.host);
        lock_limits::put_on_record(&mut open, self.process.task, self.shield, limit)
    }

    /// Raises the kernel threads of these CPUs above a priority. The process has, or gets, that
    /// priority.
    ///
    /// # Errors
    /// A kernel thread cannot be raised above it.
    pub fn raise_kernel_threads(
        &mut self,
        priority: u32,
        cpus: &CpuSet,
    ) -> Result<StartRequirements, RunError> {
        let order = order(SchedPolicy::Fifo { priority }, cpus, &raise::threads(self.host, cpus)?);
        let mut open = record::open(self.host, self.store)?;
        self.has_need = true;
        raise::raise(self.host, &mut open, &order, cpus, self.process.task)?;
        Ok(order)
    }

    /// Gives the process a priority on these CPUs.
    ///
    /// # Errors
    /// It has ended, a kernel thread cannot be raised above it, or the kernel refuses.
    pub fn give_priority(
        &mut self,
        priority: u32,
        cpus: &CpuSet,
    ) -> Result<StartRequirements, RunError> {
        let (host, pid) = (self.host, self.process.pid());
        let order = self.raise_kernel_threads(priority, cpus)?;
        let mut open = record::open(host, self.store)?;
        for added in open.record.added.iter_mut().filter(|added| added.pid == pid) {
            added.granted = true;
        }
        open.save()?;
        let before = host.scheduling(pid)?;
        // As late as possible: only from here on another process could get the priority.
        self.check_lives()?;
        self.policy = Some((before, order.policy));
        host.set_scheduling(pid, order.policy)?;
        Ok(order)
    }

    /// Checks that the number still belongs to the process.
    fn check_lives(&self) -> Result<(), RunError> {
        let tid = self.process.pid();
        let ended = RunError::Task { tid, why: "has ended".to_owned(), hint: None };
        self.process.lives(self.host).then_some(()).ok_or(ended)
    }

    /// Takes everything from the process that has the number now, which may be another one. What
    /// cannot be restored stays on record.
    pub fn take_back(&self) {
        let (host, task) = (self.host, self.process.task);
        if let Some((before, given)) = self.policy
            && host.scheduling(task.tid).is_ok_and(|now| now == given)
        {
            // The policy that another process had before is not known.
            let is_same = host.is_same_task(task);
            let policy = if is_same { before } else { SchedPolicy::Other { nice: 0 } };
            drop(host.set_scheduling(task.tid, policy));
        }
        if let Some(raised) = self.lock_limit {
            drop(host.restore_lock_limit(task.tid, raised));
        }
        if let LimitRecord::Changed { earlier } = self.recorded_limit {
            drop(self.record_lock_limit(earlier));
        }
        if self.has_need {
            let lowered = record::open(host, self.store)
                .and_then(|mut open| raise::lower_unneeded(host, &mut open, Some(task)));
            drop(lowered);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cpushield_linux::ProcessHandle;
    use cpushield_simulator::{InjectedFault, Simulated};
    use std::fs;
    use std::path::PathBuf;

    /// A recorded machine with this process and a kernel thread of CPU 3.
    struct Recorded {
        dir: PathBuf,
        pid: i32,
    }

    const RCU: i32 = 2;
    const LIMITS: &str = "Limit                     Soft Limit           Hard Limit           Units     \n\
         Max locked memory 65536 65536 bytes\n";

    impl Recorded {
        fn new(name: &str) -> Recorded {
            let pid = i32::try_from(std::process::id()).unwrap();
            let dir = std::env::temp_dir().join(format!("cpushield-rights-{pid}-{name}"));
            let machine = Recorded { dir, pid };
            machine.put(RCU, "rcuc/3", 0x0420_8040, 20);
            machine.put(pid, "asker", 0, 70);
            fs::write(machine.proc(&format!("{pid}/limits")), LIMITS).unwrap();
            fs::create_dir_all(machine.dir.join("root/proc/sys/kernel/random")).unwrap();
            machine
        }

        fn proc(&self, path: &str) -> PathBuf {
            self.dir.join("root/proc").join(path)
        }

        /// A task that was started at this time.
        fn put(&self, tid: i32, comm: &str, flags: u32, started: u64) {
            fs::create_dir_all(self.proc(&format!("{tid}/task/{tid}"))).unwrap();
            let stat = format!(
                "{tid} ({comm}) S 1 0 0 0 -1 {flags} 0 0 0 0 0 0 0 0 20 0 1 0 {started} 0 0 \
                 18446744073709551615 0 0 0 0 0 0 0 0 0 0 0 0 17 3 0 0 0 0 0 0 0 0 0 0 0 0 0\n"
            );
            for file in [format!("{tid}/stat"), format!("{tid}/task/{tid}/stat")] {
                fs::write(self.proc(&file), &stat).unwrap();
            }
            let status = "Cpus_allowed:\t8\nCpus_allowed_list:\t3\n";
            fs::write(self.proc(&format!("{tid}/status")), status).unwrap();
        }

        fn host(&self) -> Host {
            Host::recorded(&self.dir.join("root")).unwrap().simulated()
        }

        /// The policies of the process and of the kernel thread, and the limit.
        fn state(&self) -> (SchedPolicy, SchedPolicy, String) {
            let host = self.host();
            let policies = [self.pid, RCU].map(|tid| host.scheduling(tid).unwrap());
            let limits = host.read(&format!("/proc/{}/limits", self.pid)).unwrap();
            (policies[0], policies[1], limits)
        }
    }

    impl Drop for Recorded {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.dir);
        }
    }

    /// Gives this process everything, with an operation in between and before it is taken back.
    fn give_and_take(name: &str, between: fn(&Recorded), after: fn(&Recorded)) -> Recorded {
        let machine = Recorded::new(name);
        let (host, store) = (machine.host(), Store::new(&machine.dir.join("state")));
        let handle = ProcessHandle::open(machine.pid).unwrap();
        let process = HeldProcess::new(&host, handle).unwrap();
        let mut rights = ProcessRights::new(&host, &store, &process, "rt");
        rights.raise_lock_limit(MemoryLimit::Unlimited).unwrap();
        between(&machine);
        let given = rights.give_priority(50, &CpuSet::single(3));
        assert_eq!(given.is_ok(), process.lives(&host));
        after(&machine);
        rights.take_back();
        machine
    }

    fn fifo(priority: u32) -> SchedPolicy {
        SchedPolicy::Fifo { priority }
    }

    fn ordinary() -> SchedPolicy {
        SchedPolicy::Other { nice: 0 }
    }

    #[test]
    fn a_process_has_its_rights_of_before_after_they_were_taken_back() {
        let machine = give_and_take(
            "same",
            |_| {},
            |machine| {
                let (own, rcu, limits) = machine.state();
                assert_eq!((own, rcu), (fifo(50), fifo(51)));
                assert!(limits.contains("Max locked memory unlimited unlimited bytes"), "{limits}");
            },
        );
        assert_eq!(machine.state(), (ordinary(), ordinary(), LIMITS.to_owned()));
    }

    #[test]
    fn a_refused_raise_leaves_the_limit_and_the_record_of_an_earlier_one() {
        let machine = Recorded::new("refused");
        let store = Store::new(&machine.dir.join("state"));
        let (host, handle) = (machine.host(), ProcessHandle::open(machine.pid).unwrap());
        let process = HeldProcess::new(&host, handle).unwrap();
        let mut earlier = ProcessRights::new(&host, &store, &process, "rt");
        earlier.raise_lock_limit(MemoryLimit::Bytes(1 << 20)).unwrap();
        let state = || (machine.state(), record::read(&host, &store).unwrap().lock_limits);
        let before = state();
        assert_eq!(before.1.len(), 1);
        let refusing = machine.host().failing(InjectedFault::Refuse { at: 0, errno: 1 });
        let mut rights = ProcessRights::new(&refusing, &store, &process, "rt");
        assert!(rights.raise_lock_limit(MemoryLimit::Unlimited).is_err());
        rights.take_back();
        assert_eq!(state(), before);
        // The process that leaves gets the limit of before the first raise.
        earlier.take_back();
        assert_eq!(machine.state().2, LIMITS);
    }

    #[test]
    fn another_process_with_the_number_keeps_nothing_that_was_given() {
        // It got the number after the limit was raised, and never gets the priority.
        let reused: fn(&Recorded) = |machine| machine.put(machine.pid, "other", 0, 71);
        let refused = give_and_take("before", reused, |machine| {
            assert_eq!(machine.state().0, ordinary());
        });
        assert_eq!(refused.state(), (ordinary(), ordinary(), LIMITS.to_owned()));
        // It got the number at the last moment, and the priority with it.
        let late = give_and_take(
            "late",
            |_| {},
            |machine| {
                machine.put(machine.pid, "other", 0, 71);
                machine.host().set_scheduling(machine.pid, fifo(50)).unwrap();
            },
        );
        assert_eq!(late.state(), (ordinary(), ordinary(), LIMITS.to_owned()));
        // It has a policy of its own, which was not given.
        let late = give_and_take(
            "own",
            |_| {},
            |machine| {
                machine.put(machine.pid, "other", 0, 71);
                machine.host().set_scheduling(machine.pid, fifo(7)).unwrap();
            },
        );
        assert_eq!(late.state().0, fifo(7));
    }
}
