//! [`CpusetWarning`]: what the cpuset of a shield does not keep away. Pure.

use crate::documents::machine::Machine;
use cpushield_linux::CpuSet;
use cpushield_sentence::Sentence;
use serde::{Deserialize, Serialize};

/// What the cpuset of a shield does not keep away.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Sentence)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "warning", rename_all = "kebab-case")]
pub enum CpusetWarning {
    /// the shield is open, because the tunable cpuset is off: {access} onto CPU {cpus}, and
    /// programs already there stay.
    #[with(access = if *scheduled { "the scheduler may put any program" } else { "any program can move itself" })]
    ShieldOpen {
        /// The shielded CPUs.
        cpus: CpuSet,
        /// Whether the scheduler balances load over them.
        scheduled: bool,
    },
    /// this machine has no cpusets: programs are moved off the shield once, but any program can
    /// move itself back.
    NoCpusets,
    /// isolcpus= removed CPU {cpus} from scheduling at boot, and this kernel cannot make it a
    /// partition ({why}): any program can move itself onto the shield. To close the shield,
    /// {advice}.
    #[with(why = answer.as_deref().unwrap_or("no reason given"), advice = boot.advice(cpus))]
    PartitionRefused {
        /// The CPUs.
        cpus: CpuSet,
        /// The answer of the kernel; `None` if it gave none.
        answer: Option<String>,
        /// What would close the shield.
        boot: BootLine,
    },
    /// isolcpus= removed CPU {cpus} from scheduling at boot; kernels from 6.7 to 6.17.2 cannot make
    /// such a CPU a partition. If this kernel refuses, apply starts again without a partition, and
    /// any program can move itself onto the shield. To close the shield, {advice}.
    #[with(advice = boot.advice(cpus))]
    PartitionDoubtful {
        /// The CPUs.
        cpus: CpuSet,
        /// What would close the shield.
        boot: BootLine,
    },
    /// the cpuset {path} has only CPUs of the shield ({cpus}); its tasks stay there.
    CpusetKeepsCpus {
        /// Its directory.
        path: String,
        /// Its CPUs.
        cpus: CpuSet,
    },
    /// the shield is balanced: the scheduler moves its programs among CPU {cpus}, so the SCHED
    /// softirq, migration threads and reschedule IPIs stay; without --balance each program keeps
    /// its CPU.
    Balanced {
        /// The shielded CPUs.
        cpus: CpuSet,
    },
    /// without a cpuset, --balance changes nothing.
    BalanceWithoutCpuset,
    /// programs with threads pinned to CPU {cpus}, and others pinned elsewhere, cannot join the
    /// shield as a whole, so those threads lose CPU {cpus}: {programs}.
    #[with(programs = programs.join(", "))]
    ThreadsElsewhere {
        /// `name (number)` of each.
        programs: Vec<String>,
        /// The shielded CPUs.
        cpus: CpuSet,
    },
    /// {count} thread(s) are pinned to CPU {cpus} alone; cpushield leaves them there, in case they
    /// are your workload.
    ThreadsPinned {
        /// Their number.
        count: usize,
        /// The shielded CPUs.
        cpus: CpuSet,
    },
}

/// What a kernel command line needs instead of `isolcpus=`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BootLine {
    /// Whether `nohz_full=` can replace it and is not there yet.
    pub wants_nohz_full: bool,
    /// Whether LinuxCNC is installed, which otherwise puts its threads on a CPU of `isolcpus=`
    /// (`rtapi_app`, src/rtapi/uspace_rtapi_app.cc).
    pub linuxcnc: bool,
}

impl BootLine {
    /// What these CPUs of `isolcpus=` need on this machine.
    #[must_use]
    pub fn new(machine: &Machine, cpus: &CpuSet) -> BootLine {
        let nohz_full = machine.isolation.nohz_full.as_ref();
        let wants_nohz_full = machine.can_stop_tick() != Some(false)
            && !nohz_full.is_some_and(|nohz_full| cpus.is_subset(nohz_full));
        BootLine { wants_nohz_full, linuxcnc: machine.linuxcnc }
    }

    /// What to do about `isolcpus=` with these CPUs.
    pub(crate) fn advice(self, cpus: &CpuSet) -> String {
        let mut advice =
            "remove isolcpus= (or only its flag domain) from the boot loader's configuration"
                .to_owned();
        if self.wants_nohz_full {
            advice +=
                &format!(", and boot with nohz_full= instead: cpushield boot plan --cpus {cpus}");
        }
        if let Some(last) = cpus.last().filter(|_| self.linuxcnc) {
            advice += &format!(
                "; then start LinuxCNC with RTAPI_CPU_NUMBER={last}, because it looks for isolcpus="
            );
        }
        advice
    }
}
