//! Scheduling policies, and the answers of irqbalance.

use crate::cpuset::CpuSet;
use crate::error::{Error, Operation, Result};
use crate::host::Host;
use crate::sched_policy::SchedPolicy;
use std::fs;

impl Host {
    /// Sets the policy in the `stat` of a task.
    pub(crate) fn simulate_scheduling(&self, tid: i32, policy: SchedPolicy) -> Result<()> {
        for path in [format!("/proc/{tid}/task/{tid}/stat"), format!("/proc/{tid}/stat")] {
            let Ok(text) = self.read(&path) else { continue };
            let Some((head, tail)) = text.rsplit_once(')') else { continue };
            let mut words: Vec<String> = tail.split_whitespace().map(str::to_owned).collect();
            // Fields of proc_pid_stat(5) from 3 on: 19 nice, 40 rt_priority, 41 policy.
            if words.len() > 38 {
                let (number, nice) = number_and_nice(policy);
                words[16] = nice.to_string();
                words[37] = policy.rt_priority().to_string();
                words[38] = number.to_string();
            }
            fs::write(self.local_path(&path), format!("{head}) {}\n", words.join(" ")))
                .map_err(|e| Error::io(Operation::SetScheduling, &path, e))?;
        }
        Ok(())
    }

    /// Makes irqbalance report the CPUs that it leaves alone.
    pub(crate) fn simulate_ban(&self, socket: &str, cpus: Option<&CpuSet>) -> Result<()> {
        let mask = cpus.cloned().unwrap_or_else(|| self.irqbalance_default()).to_mask();
        fs::write(self.local_path(socket), format!("SLEEP 10 BANNED {mask}\n"))
            .map_err(Error::on(Operation::Call, socket))
    }
}

fn number_and_nice(policy: SchedPolicy) -> (u32, i32) {
    match policy {
        SchedPolicy::Other { nice } => (0, nice),
        SchedPolicy::Fifo { .. } => (1, 0),
        SchedPolicy::Rr { .. } => (2, 0),
        SchedPolicy::Batch { nice } => (3, nice),
        SchedPolicy::Idle => (5, 0),
        SchedPolicy::Deadline { .. } => (6, 0),
        SchedPolicy::Unknown { number } => (number, 0),
    }
}
