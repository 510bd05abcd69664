//! Examples of the files that `cpushield enable` writes, for packages. They apply the shield of the
//! policy file.

use crate::boot::early::{self, MARK, StartCommand, StartTarget};
use crate::documents::boot::InitSystem::{Openrc, Systemd, Sysv};

/// The line in place of `MARK`: only `enable` writes that one, and `disable` trusts it.
const HEADER: &str = "# An example. `cpushield enable` writes such a file for your shield, and \
                      `cpushield disable` removes it.\n";

/// The names and texts of `cpushield.service`, `cpushield.openrc` and `cpushield.sysv`, which start
/// `program`, and of their counterparts for irqbalance.
pub fn example_units(program: &str) -> Vec<(String, String)> {
    let call = StartCommand {
        program: program.to_owned(),
        state: "/var/lib/cpushield".to_owned(),
        words: vec!["apply".to_owned()],
        target: StartTarget::Shield("cpushield".to_owned()),
        helpers: Vec::new(),
    };
    let kinds = [(Systemd, "service"), (Openrc, "openrc"), (Sysv, "sysv")];
    let example = |(init, suffix)| {
        early::files(init, &call)
            .map(|file| (format!("{}.{suffix}", file.service), file.text.replace(MARK, HEADER)))
    };
    kinds.into_iter().flat_map(example).collect()
}
