//! Scheduling policies, limits, and the answers of irqbalance.

use crate::SimulatedMachine;
use cpushield_linux::CpuSet;
use cpushield_linux::error::{Error, Operation, Result};
use cpushield_linux::sys::memory::LOCKED_MEMORY;
use cpushield_linux::sys::sched_policy::SchedPolicy;

/// A file that only recordings have: irqbalance has not applied the last request, which is in it.
const REQUESTED_BAN: &str = "/asked_ban";

impl SimulatedMachine<'_> {
    /// Sets the policy in the `stat` of a task.
    pub(crate) fn set_policy(&self, tid: i32, policy: SchedPolicy) -> Result<()> {
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
            let text = format!("{head}) {}\n", words.join(" "));
            let written = self.files.write(&path, text.as_bytes());
            written.map_err(Error::on(Operation::SetScheduling, &path))?;
        }
        Ok(())
    }

    /// Sets the limits in the file of a process.
    pub(crate) fn set_lock_limit(&self, path: &str, limit: [Option<u64>; 2]) -> Result<()> {
        let text = self.read(path)?;
        let [soft, hard] =
            limit.map(|limit| limit.map_or("unlimited".to_owned(), |it| it.to_string()));
        let lines = text.lines().map(|line| match line.starts_with(LOCKED_MEMORY) {
            true => format!("{LOCKED_MEMORY} {soft} {hard} bytes\n"),
            false => format!("{line}\n"),
        });
        let text = lines.collect::<String>();
        self.files.write(path, text.as_bytes()).map_err(Error::on(Operation::Call, path))
    }

    /// Makes irqbalance report the CPUs that it leaves alone: at once, or at its next scan on a
    /// machine with the file `asked_ban`.
    pub(crate) fn ban(&self, socket: &str, cpus: Option<&CpuSet>) -> Result<()> {
        let mask = cpus.cloned().unwrap_or_else(|| self.irqbalance_default()).to_mask();
        let answer = format!("SLEEP 10 BANNED {mask}\n");
        let file = if self.is_file(REQUESTED_BAN) { REQUESTED_BAN } else { socket };
        self.files.write(file, answer.as_bytes()).map_err(Error::on(Operation::Call, socket))
    }

    /// Makes irqbalance scan, and apply the last request.
    pub(crate) fn scan(&self) -> Result<()> {
        let Some(answer) = self.text(REQUESTED_BAN).filter(|answer| !answer.is_empty()) else {
            return Ok(());
        };
        match self.irqbalance()? {
            Some(balancer) => self.set_text(&balancer.socket, &answer),
            None => Err(Error::absent("irqbalance")),
        }
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
