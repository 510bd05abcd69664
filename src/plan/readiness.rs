//! [`Readiness`]: whether this machine can be shielded, in one sentence. Pure.

use super::plan;
use crate::documents::machine::Machine;
use crate::policy::ShieldRequest;
use crate::refusal::UserError;
use cpushield_sentence::Sentence;

/// Whether this machine can be shielded.
#[derive(Debug, Clone, PartialEq, Eq, Sentence)]
pub enum Readiness {
    /// ready: a shield needs no further boot parameters.
    Ready,
    /// ready; booting with {parameters} would remove more interruptions.
    #[with(parameters = parameters.join(" "))]
    AfterBoot {
        /// Their names: `nohz_full=`. `boot plan` chooses the CPUs, usually more than those of one
        /// shield.
        parameters: Vec<String>,
    },
    /// ready, but the timer tick remains: this kernel cannot stop it (CONFIG_NO_HZ_FULL, since
    /// 3.10).
    TickRemains,
    /// cannot be shielded: {why}.
    Cannot {
        /// Why.
        why: String,
        /// What to do about it.
        hints: Vec<String>,
    },
}

impl Readiness {
    /// Assesses the machine with a shield that cpushield chooses.
    #[must_use]
    pub fn assess(machine: &Machine) -> Readiness {
        match plan(machine, &ShieldRequest::default()) {
            Err(refused) => Readiness::Cannot { why: refused.to_string(), hints: refused.hints() },
            Ok(_) if machine.can_stop_tick() == Some(false) => Readiness::TickRemains,
            Ok(plan) if plan.boot.is_empty() => Readiness::Ready,
            Ok(plan) => {
                // Without the CPUs.
                let is_of_list = |c: char| c != '=' && !c.is_alphabetic();
                let parameters = plan
                    .boot
                    .iter()
                    .map(|advice| advice.parameter.trim_end_matches(is_of_list).to_owned());
                Readiness::AfterBoot { parameters: parameters.collect() }
            }
        }
    }

    /// What to do next.
    #[must_use]
    pub fn next_step(&self) -> Option<String> {
        let next = match self {
            Readiness::Ready | Readiness::TickRemains => {
                "`cpushield plan` shows the changes; `cpushield try` makes them for 5 seconds"
            }
            Readiness::AfterBoot { .. } => {
                "`cpushield boot plan` shows the boot parameters; `cpushield plan` plans a shield \
                 without them"
            }
            Readiness::Cannot { hints, .. } => {
                return (!hints.is_empty()).then(|| hints.join("; "));
            }
        };
        Some(next.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::fake::plain;
    use cpushield_linux::CpuSet;

    #[test]
    fn a_machine_is_ready_now_or_after_a_boot_or_never() {
        let mut machine = plain(4);
        machine.isolation.nohz_full = Some(CpuSet::new());
        let Readiness::AfterBoot { parameters } = Readiness::assess(&machine) else {
            panic!("{:?}", Readiness::assess(&machine))
        };
        assert!(parameters.contains(&"nohz_full=".to_owned()), "{parameters:?}");
        let prepared: CpuSet = "1-3".parse().unwrap();
        machine.isolation.nohz_full = Some(prepared.clone());
        machine.isolation.rcu_nocbs = prepared;
        assert_eq!(Readiness::assess(&machine), Readiness::Ready);
        let why = Readiness::assess(&plain(1)).to_string();
        assert!(why.starts_with("cannot be shielded: "), "{why}");
    }
}
