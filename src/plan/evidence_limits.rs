//! Finds what `verify` cannot prove about a planned shield. Pure: it knows only the survey.
//! A fact that the survey does not have limits nothing.

use crate::documents::evidence::AbsenceReason;
use crate::documents::machine::Machine;
use crate::documents::plan::{EvidenceLimit, Shield};

/// Finds the limits for the CPUs of a shield that run programs.
pub(super) fn find_evidence_limits(machine: &Machine, shield: &Shield) -> Vec<EvidenceLimit> {
    if machine.tracing.supported == Some(false) {
        return vec![EvidenceLimit::no_trace(AbsenceReason::NoTraceInstances)];
    }
    let working = shield.cpus.difference(&shield.idle_siblings);
    let not_tracked = match &machine.isolation.nohz_full {
        Some(nohz_full) => working.difference(nohz_full),
        None if machine.can_stop_tick() == Some(false) => working,
        None => return Vec::new(),
    };
    let limit = (!not_tracked.is_empty()).then(|| EvidenceLimit::not_tracked(not_tracked));
    limit.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::fake::{plain, set};
    use crate::plan::plan;
    use crate::policy::ShieldRequest;

    #[test]
    fn a_plan_says_what_cannot_be_proven_on_its_machine() {
        let limits = |nohz_full: Option<&str>, supported, option: Option<&str>| {
            let mut machine = plain(4);
            machine.isolation.nohz_full = nohz_full.map(set);
            machine.tracing.supported = supported;
            let config = option.map(|value| ("CONFIG_NO_HZ_FULL".to_owned(), value.to_owned()));
            machine.kernel.config = config.into_iter().collect();
            let request = ShieldRequest { cpus: Some(set("2-3")), ..ShieldRequest::default() };
            plan(&machine, &request).unwrap().unproven
        };
        let not_tracked = |cpus: &str| vec![EvidenceLimit::not_tracked(set(cpus))];
        assert_eq!(limits(Some("2-3"), Some(true), None), []);
        assert_eq!(limits(Some("3"), Some(true), None), not_tracked("2"));
        assert_eq!(limits(Some(""), None, None), not_tracked("2-3"));
        assert_eq!(limits(None, Some(true), Some("n")), not_tracked("2-3"));
        assert_eq!(limits(None, Some(true), Some("y")), [], "the list was not read");
        let no_trace = [EvidenceLimit::no_trace(AbsenceReason::NoTraceInstances)];
        assert_eq!(limits(Some("2-3"), Some(false), None), no_trace);
    }
}
