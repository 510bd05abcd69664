//! Examples of the files that `cpushield enable` writes, for packages. They apply the shield of the
//! policy file.

use cpushield::boot::InitSystem;
use cpushield::boot::early::{self, MARK, StartCommand, StartTarget};
use std::fs;
use std::io;
use std::path::Path;

/// The line in place of `MARK`: only `enable` writes that one, and `disable` trusts it.
const HEADER: &str = "# An example. `cpushield enable` writes such a file for your shield, and \
                      `cpushield disable` removes it.\n";

/// Writes `cpushield.service`, `cpushield.openrc` and `cpushield.sysv`, which start `program`, and
/// their counterparts for irqbalance.
pub fn write(dir: &Path, program: &str) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    let call = StartCommand {
        program: program.to_owned(),
        state: "/var/lib/cpushield".to_owned(),
        words: vec!["apply".to_owned()],
        target: StartTarget::Shield("cpushield".to_owned()),
        helpers: Vec::new(),
    };
    let kinds = [
        (InitSystem::Systemd, "service"),
        (InitSystem::Openrc, "openrc"),
        (InitSystem::Sysv, "sysv"),
    ];
    for (init, suffix) in kinds {
        for file in early::files(init, &call) {
            let name = format!("{}.{suffix}", file.service);
            fs::write(dir.join(name), file.text.replace(MARK, HEADER))?;
        }
    }
    Ok(())
}
