//! Lists the sets of CPUs that are worth trying, by topology. Pure. Which set is best only a
//! measurement shows.

use super::choose::{CpuChoice, choose};
use super::groups::{CpuGroup, groups};
use crate::documents::machine::Machine;
use crate::documents::plan::{CandidateReason, ChoiceReason, CpuCandidate};
use crate::policy::{ShareLevel, ShieldRequest, Siblings};
use cpushield_linux::CpuSet;

/// The maximum number of candidates.
const CANDIDATES_MAX: usize = 8;

/// Lists the sets of CPUs to try, the recommended one first. `request` gives the workload and
/// whether half a core is accepted.
#[must_use]
pub fn list_candidates(machine: &Machine, request: &ShieldRequest) -> Vec<CpuCandidate> {
    let mut found: Vec<CpuCandidate> = Vec::new();
    let base = ShieldRequest { cpus: None, count: None, share: None, ..request.clone() };
    let rest = machine.topology.online.len().saturating_sub(1);
    let mut requests = vec![
        (base.clone(), CandidateReason::Recommended),
        (ShieldRequest { count: Some(1), ..base.clone() }, CandidateReason::OneCpu),
        (
            ShieldRequest { share: Some(ShareLevel::L2), ..base.clone() },
            CandidateReason::WholeLevel2,
        ),
        (
            ShieldRequest { share: Some(ShareLevel::L3), ..base.clone() },
            CandidateReason::WholeLevel3,
        ),
        (ShieldRequest { count: Some(2), ..base.clone() }, CandidateReason::TwoCpus),
    ];
    // The source of this recipe: the LinuxCNC wiki, isolcpus=1,2,3 on a quad core.
    if (3..8).contains(&rest) {
        let all = ShieldRequest { count: Some(rest), ..base.clone() };
        requests.push((all, CandidateReason::AllExceptOne));
    }
    let others = list_other_cores(machine, &base);
    requests.extend(others.into_iter().map(|core| {
        let request = ShieldRequest { cpus: Some(core), ..base.clone() };
        (request, CandidateReason::OtherCore)
    }));
    for (request, reason) in requests {
        let Ok(choice) = choose(machine, &request) else { continue };
        let candidate = make_candidate(choice, reason);
        if found.len() < CANDIDATES_MAX && !found.iter().any(|one| one.cpus == candidate.cpus) {
            found.push(candidate);
        }
    }
    found
}

/// The cores without the boot CPU, highest first.
fn list_other_cores(machine: &Machine, request: &ShieldRequest) -> Vec<CpuSet> {
    let by =
        if request.siblings == Some(Siblings::Share) { CpuGroup::Thread } else { CpuGroup::Core };
    let mut cores = groups(&machine.topology, by);
    cores.retain(|core| !machine.topology.boot_cpu().is_some_and(|boot| core.contains(boot)));
    cores.reverse();
    cores
}

fn make_candidate(choice: CpuChoice, reason: CandidateReason) -> CpuCandidate {
    let mut why = choice.why;
    // The user has not given this list.
    why.retain(|why| !matches!(why, ChoiceReason::Listed { .. }));
    CpuCandidate { cpus: choice.shield.cpus, reason, why, warnings: choice.warnings }
}

#[cfg(test)]
mod tests {
    use super::super::fake::{machine, plain};
    use super::*;

    fn candidates(machine: &Machine) -> Vec<String> {
        let all = list_candidates(machine, &ShieldRequest::default());
        all.into_iter().map(|candidate| candidate.cpus.to_string()).collect()
    }

    #[test]
    fn candidates_follow_the_topology_and_each_is_offered_once() {
        assert_eq!(candidates(&plain(2)), ["1"]);
        assert_eq!(candidates(&plain(4)), ["3", "2-3", "1-3", "2", "1"]);
        let pairs = machine(&["0", "1", "2", "3"], &["0-1", "2-3"], &["0-3"]);
        assert_eq!(candidates(&pairs), ["2-3", "3", "1-3", "2", "1"]);
        let smt = machine(&["0,4", "1,5", "2,6", "3,7"], &["0,4", "1,5", "2,6", "3,7"], &["0-7"]);
        assert_eq!(candidates(&smt), ["3,7", "2-3,6-7", "2,6", "1,5"]);
        assert_eq!(candidates(&plain(1)), Vec::<String>::new());
        assert_eq!(candidates(&plain(64)).len(), CANDIDATES_MAX);
    }

    #[test]
    fn no_candidate_claims_that_the_user_gave_it() {
        let all = list_candidates(&plain(4), &ShieldRequest::default());
        assert!(all.iter().any(|candidate| candidate.reason == CandidateReason::OtherCore));
        let mut reasons = all.iter().flat_map(|candidate| &candidate.why);
        assert!(!reasons.any(|why| matches!(why, ChoiceReason::Listed { .. })), "{all:?}");
    }
}
