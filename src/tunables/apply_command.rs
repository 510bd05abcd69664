//! [`apply_command`]: the command that applies a shield once more, with one tunable in addition.
//! It names the CPUs and the options of the shield, so that it moves nothing. Pure.

use crate::documents::plan::Shield;
use crate::policy::Workload;
use crate::survey::Machine;
use cpushield_linux::CpuSet;

/// The command that applies this shield again; `tunable` is enabled in addition.
pub(super) fn apply_command(machine: &Machine, shield: &Shield, tunable: Option<&str>) -> String {
    let work = shield.cpus.difference(&shield.idle_siblings);
    let mut words = vec!["cpushield apply".to_owned()];
    if !shield.has_default_name() {
        words.push(format!("--shield {}", shield.name));
    }
    words.push(format!("--cpus {work}"));
    if !shield.offline_siblings.is_empty() {
        words.push("--siblings offline".to_owned());
    } else if has_half_core(machine, shield) {
        words.push("--siblings share".to_owned());
    }
    if takes_whole_node(machine, &shield.cpus) {
        words.push("--whole-node".to_owned());
    }
    if shield.balanced {
        words.push("--balance".to_owned());
    }
    if shield.workload != Workload::default() {
        words.push(format!("--workload {}", shield.workload));
    }
    let mut shield = shield.clone();
    shield.tunables.extend(tunable.map(|name| (name.to_owned(), true)));
    words.extend(shield.tunable_options());
    words.join(" ")
}

/// Whether the sibling of a shielded CPU is a housekeeping CPU.
fn has_half_core(machine: &Machine, shield: &Shield) -> bool {
    let cpus = machine.topology.cpus.iter().filter(|cpu| shield.cpus.contains(cpu.cpu));
    cpus.map(|cpu| &cpu.siblings).any(|core| core.intersects(&shield.housekeeping))
}

fn takes_whole_node(machine: &Machine, cpus: &CpuSet) -> bool {
    let topology = &machine.topology;
    let online = topology.nodes.iter().map(|node| node.cpus.intersection(&topology.online));
    online.filter(|node| !node.is_empty()).any(|node| node.is_subset(cpus))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::fake::{machine, plain, set};
    use crate::plan::plan;
    use crate::policy::{ShieldRequest, Siblings};
    use std::collections::BTreeMap;

    fn switched<const N: usize>(tunables: [(&str, bool); N]) -> BTreeMap<String, bool> {
        tunables.into_iter().map(|(name, enabled)| (name.to_owned(), enabled)).collect()
    }

    #[test]
    fn the_command_makes_the_same_shield_again() {
        let smt = machine(&["0,4", "1,5", "2,6", "3,7"], &[], &["0-7"]);
        let nodes = machine(&["0", "1", "2", "3"], &[], &["0-1", "2-3"]);
        let count = |n| ShieldRequest { count: Some(n), ..ShieldRequest::default() };
        let on = Some("ksm");
        for (machine, request, tunable, expected) in [
            (&plain(4), count(1), None, "cpushield apply --cpus 3"),
            (&smt, count(1), on, "cpushield apply --cpus 3 --on ksm"),
            (
                &smt,
                ShieldRequest { siblings: Some(Siblings::Share), ..count(1) },
                on,
                "cpushield apply --cpus 7 --siblings share --on ksm",
            ),
            (
                &nodes,
                ShieldRequest { whole_node: true, count: None, ..count(1) },
                None,
                "cpushield apply --cpus 2-3 --whole-node",
            ),
            (
                &plain(4),
                ShieldRequest {
                    name: "rt".to_owned(),
                    workload: Workload::Cyclic,
                    balance: true,
                    ..count(2)
                },
                on,
                "cpushield apply --shield rt --cpus 2-3 --balance --workload cyclic --on ksm",
            ),
            (
                &plain(4),
                ShieldRequest { tunables: switched([("thp", false), ("ksm", false)]), ..count(1) },
                on,
                "cpushield apply --cpus 3 --on ksm --off thp",
            ),
            (
                &plain(4),
                ShieldRequest {
                    tunables: switched([("thp", false), ("rt-throttling", true)]),
                    ..count(1)
                },
                None,
                "cpushield apply --cpus 3 --on rt-throttling --off thp",
            ),
        ] {
            let shield = plan(machine, &request).unwrap().shield;
            assert_eq!(apply_command(machine, &shield, tunable), expected);
            let again = ShieldRequest {
                cpus: Some(set(&shield.cpus.difference(&shield.idle_siblings).to_string())),
                count: None,
                ..request
            };
            assert_eq!(plan(machine, &again).unwrap().shield, shield, "{expected}");
        }
    }
}
