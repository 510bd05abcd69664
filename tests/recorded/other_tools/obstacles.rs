//! What another tool has set up is named as the obstacle to a shield, together with the way out.

use super::with_cpusets;
use cpushield::plan::plan;
use cpushield::policy::ShieldRequest;
use cpushield::refusal::UserError;
use cpushield::report::blocks::{terminal_blocks, unpainted};
use cpushield::report::machine::blocks_with_readiness;

/// `cset shield --cpu 3 --kthread=on`: no CPU is left, and the way out is named.
#[test]
fn the_shield_of_cset_is_shown_and_named_as_the_obstacle() {
    let sets = [("user", "3", "1", "1"), ("system", "0-2", "1", "1")];
    let (_, machine) = with_cpusets("obstacle", &sets).survey();
    let shown = terminal_blocks(&blocks_with_readiness(&machine, &[]), 300, &unpainted);
    let (user, system) = ("/sys/fs/cgroup/cpuset/user", "/sys/fs/cgroup/cpuset/system");
    let verdict = format!(
        "Verdict: cannot be shielded: no CPU can be shielded: cset has made these cpusets \
         exclusive: {system}, {user}\n"
    );
    assert!(shown.starts_with(&verdict), "{shown}");
    let isolated = format!("Isolated now\n  CPU 3: in the exclusive cpuset {user} (cset)\n");
    assert!(shown.contains(&isolated), "{shown}");
    let next = "Next: save the sets as a policy: cpushield plan --from cset -o policy.toml; then \
                remove them: cset shield --reset\n";
    assert!(shown.ends_with(next), "{shown}");
    let request = ShieldRequest { cpus: Some("3".parse().unwrap()), ..ShieldRequest::default() };
    let hints = plan(&machine, &request).unwrap_err().hints();
    assert!(hints.iter().any(|hint| hint.ends_with("cset shield --reset")), "{hints:?}");
}
