//! The helpers for the operators of shields, for which `enable` writes units, and the check of
//! `apply` that these units are still those of the policy.

use super::WorkContext;
use super::shield_options::policy_shields;
use crate::boot::early::{self, OperatorHelper};
use crate::change::Change;
use crate::documents::boot::Enabled;
use crate::documents::plan::Plan;
use crate::quote::quote_for_shell;
use crate::run::{OPERATOR_COMMAND, OPERATOR_SHIELD, operator_socket};
use cpushield_linux::Host;
use cpushield_linux::text::mounts;

/// The helpers that the operators of shields need. On cgroup v1 they need none: they may write the
/// lists of tasks. If they are not exactly one group, every user may connect.
pub(super) fn operator_helpers(host: &Host, plans: &[Plan]) -> Vec<OperatorHelper> {
    let given = |plan: &&Plan| {
        plan.steps.iter().any(|step| matches!(step.change, Change::GiveToGroup { .. }))
    };
    let needy = plans.iter().filter(|plan| !given(plan));
    let helpers = needy.filter_map(|plan| {
        let operators = plan.operators.as_ref()?;
        let group = operators.group.as_ref().filter(|_| operators.users.is_empty());
        let shield = plan.shield.name.clone();
        Some(OperatorHelper {
            command: [OPERATOR_COMMAND, OPERATOR_SHIELD],
            socket: operator_socket(&shield),
            gid: group.map(|group| group.id),
            proc_gid: find_proc_group(host),
            shield,
        })
    });
    helpers.collect()
}

/// The group for which `/proc` hides no process (`gid=`, proc(5)); `None` if it hides none, or none
/// from the group of root.
fn find_proc_group(host: &Host) -> Option<u32> {
    let mounts = mounts::parse(&host.read("/proc/self/mountinfo").ok()?).ok()?;
    let proc = mounts.iter().rfind(|mount| mount.point == "/proc" && mount.kind == "proc")?;
    let option = |name| proc.super_options.iter().find_map(|option| option.strip_prefix(name));
    // A kernel before 5.8 shows a number (fs/proc/root.c).
    option("hidepid=").filter(|hidden| !["0", "off"].contains(hidden))?;
    option("gid=")?.parse().ok()
}

/// Warns if an enabled shield was applied and its operators have another socket than its policy
/// requests: only `enable` writes the units.
pub(super) fn warn_of_old_socket(work: &WorkContext<'_>, plan: &Plan) {
    let WorkContext { ui, host, store, .. } = work;
    let Ok(Some(enabled)) = early::installed(store) else { return };
    let shield = &plan.shield.name;
    if !applies(host, &enabled, shield) {
        return;
    }
    let helpers = operator_helpers(host, std::slice::from_ref(plan));
    if early::has_socket(host, &enabled, shield, helpers.first()) {
        return;
    }
    // The first word is `apply`.
    let words = enabled.words.iter().skip(1).map(|word| format!(" {}", quote_for_shell(word)));
    ui.warn(&format!(
        "the socket of shield {shield} does not match the operators in its policy; to rewrite it, \
         run: cpushield enable{}",
        words.collect::<String>()
    ));
}

/// Whether every boot applies this shield.
fn applies(host: &Host, enabled: &Enabled, shield: &String) -> bool {
    let in_policy =
        |file: &String| policy_shields(file, host).is_ok_and(|shields| shields.contains(shield));
    enabled.shield.as_ref() == Some(shield) || enabled.policy.as_ref().is_some_and(in_policy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_proc_that_hides_processes_has_a_group_that_sees_them() {
        let dir = std::env::temp_dir().join(format!("cpushield-hidepid-{}", std::process::id()));
        std::fs::create_dir_all(dir.join("proc/self")).unwrap();
        // /proc/self/mountinfo of 6.12.
        let line = "22 26 0:20 / /proc rw,nosuid,nodev,noexec,relatime shared:13 - proc proc rw";
        for (options, wanted) in [
            (",gid=27,hidepid=invisible", Some(27)),
            (",gid=27,hidepid=2", Some(27)),
            (",hidepid=invisible", None),
            (",gid=27", None),
            (",gid=27,hidepid=off", None),
            ("", None),
        ] {
            std::fs::write(dir.join("proc/self/mountinfo"), format!("{line}{options}\n")).unwrap();
            let host = Host::recorded(&dir).unwrap();
            assert_eq!(find_proc_group(&host), wanted, "{options}");
        }
        std::fs::remove_dir_all(dir).unwrap();
    }
}
