//! `CPU list` + [`Siblings`] → [`SplitCpus`]: which SMT siblings run programs, and which stay idle.
//! Refuses lists that contradict the mode. Pure.

use super::choice_notes::ChoiceNotes;
use super::groups::{CpuGroup, groups};
use super::refused::PlanRefusal;
use super::sibling_refusal::{SiblingHolder, SiblingRefusal};
use super::sites::cpus_prepared_at_boot;
use crate::documents::machine::Machine;
use crate::documents::plan::ActiveShields;
use crate::policy::{ShieldRequest, Siblings};
use cpushield_linux::CpuSet;

/// The CPUs of a shield.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct SplitCpus {
    /// All its CPUs.
    pub(super) cpus: CpuSet,
    /// The SMT siblings among them that stay idle.
    pub(super) idle: CpuSet,
}

/// Splits the user's list. Siblings outside of it join the shield and stay idle, unless they are
/// shared with housekeeping CPUs.
pub(super) fn split_list(
    machine: &Machine,
    request: &ShieldRequest,
    list: &CpuSet,
    live: &ActiveShields,
    notes: &mut ChoiceNotes,
) -> Result<SplitCpus, PlanRefusal> {
    let mut cores = groups(&machine.topology, CpuGroup::Core);
    cores.retain(|core| core.len() > 1 && core.intersects(list));
    let cut: CpuSet = cores.iter().filter(|core| !core.is_subset(list)).collect();
    let (halves, siblings) = (cut.intersection(list), cut.difference(list));
    let whole = list.union(&siblings);
    let split = match request.siblings {
        Some(Siblings::Share) => {
            if !siblings.is_empty() {
                notes.warn_of_half_core(&halves, &siblings);
            }
            SplitCpus { cpus: list.clone(), idle: CpuSet::new() }
        }
        Some(Siblings::Use) if !siblings.is_empty() => {
            let holder =
                find_holder(machine, live, &cores, list).map(|(.., holder)| Box::new(holder));
            let whole = Some(whole).filter(|whole| *whole != machine.topology.online);
            return Err(PlanRefusal::Siblings(SiblingRefusal::HalfCore {
                cpus: halves,
                siblings,
                whole,
                holder,
            }));
        }
        Some(Siblings::Use) => SplitCpus { cpus: list.clone(), idle: CpuSet::new() },
        None => SplitCpus { cpus: whole, idle: siblings.clone() },
        Some(Siblings::Idle | Siblings::Offline) => {
            let work = working_siblings(&cores, list, &cpus_prepared_at_boot(machine));
            SplitCpus { idle: cores.iter().collect::<CpuSet>().difference(&work), cpus: whole }
        }
    };
    if split.cpus != *list
        && let Some((cpus, siblings, holder)) = find_holder(machine, live, &cores, list)
    {
        return Err(PlanRefusal::Siblings(SiblingRefusal::Taken { cpus, siblings, holder }));
    }
    let work = split.cpus.difference(&split.idle);
    notes.explain_idle_siblings(&work, &split.idle, request.siblings);
    for core in cores.iter().filter(|core| core.is_subset(&work)) {
        notes.warn_of_busy_siblings(core);
    }
    Ok(split)
}

/// The first listed sibling of each core, of the prepared ones if there are any.
pub(super) fn working_siblings(cores: &[CpuSet], list: &CpuSet, prepared: &CpuSet) -> CpuSet {
    let working = |core: &CpuSet| {
        let listed = core.intersection(list);
        listed.intersection(prepared).first().or(listed.first())
    };
    cores.iter().filter_map(working).collect()
}

/// Finds the first core whose siblings outside of the list cannot join the shield and stay idle.
/// Returns its listed CPUs, those siblings, and what holds one of them.
fn find_holder(
    machine: &Machine,
    live: &ActiveShields,
    cores: &[CpuSet],
    list: &CpuSet,
) -> Option<(CpuSet, CpuSet, SiblingHolder)> {
    cores.iter().find_map(|core| {
        let (cpus, siblings) = (core.intersection(list), core.difference(list));
        let boot = machine.topology.boot_cpu().filter(|cpu| siblings.contains(*cpu));
        let other = live.shields.iter().find(|shield| shield.cpus.intersects(&siblings));
        let holder = match (other, boot) {
            (Some(shield), _) => SiblingHolder::Shield { name: shield.name.clone() },
            (None, Some(_)) => SiblingHolder::BootCpu,
            (None, None) => return None,
        };
        Some((cpus, siblings, holder))
    })
}

#[cfg(test)]
mod tests {
    use super::super::choose::{CpuChoice, choose};
    use super::super::choose_with_others;
    use super::super::fake::{machine, plain, set};
    use super::*;
    use crate::refusal::UserError;

    fn smt() -> Machine {
        machine(&["0,4", "1,5", "2,6", "3,7"], &["0,4", "1,5", "2,6", "3,7"], &["0-7"])
    }

    fn split(list: &str, siblings: Option<Siblings>) -> String {
        let request = ShieldRequest { cpus: Some(set(list)), siblings, ..Default::default() };
        match choose(&smt(), &request) {
            Ok(CpuChoice { shield, .. }) => format!(
                "{} idle {} offline {}",
                shield.cpus, shield.idle_siblings, shield.offline_siblings
            ),
            Err(refused) => refused.to_string(),
        }
    }

    #[test]
    fn a_list_is_split_by_the_mode() {
        let (idle, offline) = (Some(Siblings::Idle), Some(Siblings::Offline));
        let (all, share) = (Some(Siblings::Use), Some(Siblings::Share));
        for (list, siblings, expected) in [
            ("3", None, "3,7 idle 7 offline "),
            ("3,7", None, "3,7 idle  offline "),
            ("2,3,7", None, "2-3,6-7 idle 6 offline "),
            ("3", idle, "3,7 idle 7 offline "),
            ("7", idle, "3,7 idle 3 offline "),
            ("3,7", idle, "3,7 idle 7 offline "),
            ("3", offline, "3,7 idle 7 offline 7"),
            ("3,7", offline, "3,7 idle 7 offline 7"),
            ("3,7", all, "3,7 idle  offline "),
            (
                "3",
                all,
                "CPU 3 shares its core with CPU 7, which is not in the list; to run programs on \
                 all siblings, the shield needs whole cores",
            ),
            ("3", share, "3 idle  offline "),
            ("2,3,7", share, "2-3,7 idle  offline "),
            (
                "4",
                None,
                "CPU 4 shares its core with CPU 0, which is the boot CPU and cannot stay idle",
            ),
            (
                "1-2,4-7",
                None,
                "CPU 4 shares its core with CPU 0, which is the boot CPU and cannot stay idle",
            ),
            (
                "0-2,4-7",
                None,
                "cannot shield all CPUs (0-7, including CPU 3 as SMT siblings): interrupts and \
                 other programs need at least one",
            ),
            ("4", share, "4 idle  offline "),
            ("0,4", idle, "0,4 idle 4 offline "),
        ] {
            assert_eq!(split(list, siblings), expected, "{list} {siblings:?}");
        }
    }

    #[test]
    fn half_a_core_is_refused_with_the_right_commands() {
        let request = ShieldRequest {
            cpus: Some(set("3")),
            siblings: Some(Siblings::Use),
            ..Default::default()
        };
        let hints = choose(&smt(), &request).unwrap_err().hints();
        let expected = [
            "take the whole core: --siblings use --cpus 3,7",
            "or keep the sibling idle: --siblings idle",
            "or share the core with housekeeping CPUs: --siblings share",
        ];
        assert_eq!(hints, expected);
        // The boot CPU cannot stay idle, but it can be listed.
        let boot = ShieldRequest { cpus: Some(set("4")), ..request.clone() };
        let expected = [
            "take the whole core: --siblings use --cpus 0,4",
            "or share the core with housekeeping CPUs: --siblings share",
        ];
        assert_eq!(choose(&smt(), &boot).unwrap_err().hints(), expected);
        let request = ShieldRequest { siblings: None, ..request };
        let one_core = machine(&["0-1"], &["0-1"], &["0-1"]);
        let request = ShieldRequest { cpus: Some(set("1")), ..request };
        let refused = choose(&one_core, &request).unwrap_err();
        let holder = SiblingHolder::BootCpu;
        let (cpus, siblings) = (set("1"), set("0"));
        assert_eq!(
            refused,
            PlanRefusal::Siblings(SiblingRefusal::Taken { cpus, siblings, holder })
        );
        assert_eq!(refused.hints()[0], "choose CPUs of another core");
    }

    #[test]
    fn a_sibling_of_another_shield_does_not_join() {
        let request = |cpus, name: &str, siblings| ShieldRequest {
            cpus: Some(set(cpus)),
            name: name.to_owned(),
            siblings,
            ..Default::default()
        };
        let other = choose(&smt(), &request("7", "b", Some(Siblings::Share))).unwrap().shield;
        let live = ActiveShields { shields: vec![other], ..ActiveShields::default() };
        let refused = choose_with_others(&smt(), &request("3", "a", None), &live).unwrap_err();
        let expected = "CPU 3 shares its core with CPU 7, which is in shield b";
        assert_eq!(refused.to_string(), expected);
        let whole = request("3", "a", Some(Siblings::Use));
        let refused = choose_with_others(&smt(), &whole, &live).unwrap_err();
        let expected = ["share the core with housekeeping CPUs: --siblings share"];
        assert_eq!(refused.hints(), expected);
        let share = request("3", "a", Some(Siblings::Share));
        assert!(choose_with_others(&smt(), &share, &live).is_ok());
    }

    #[test]
    fn on_a_machine_without_smt_every_mode_gives_the_same_cpus() {
        for siblings in [Siblings::Idle, Siblings::Offline, Siblings::Use, Siblings::Share] {
            let request = ShieldRequest {
                cpus: Some(set("2-3")),
                siblings: Some(siblings),
                ..Default::default()
            };
            let CpuChoice { shield, warnings, .. } = choose(&plain(4), &request).unwrap();
            assert_eq!((shield.cpus, shield.idle_siblings), (set("2-3"), CpuSet::new()));
            assert_eq!(warnings, [], "{siblings:?}");
        }
    }
}
