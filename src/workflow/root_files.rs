//! The files that root runs or reads at later boots: this program and the policy. A user that could
//! replace one of them could become root.

use super::WorkContext;
use crate::failure::Failure;
use crate::run::check_root_file;

/// Directories that a unit with `ProtectHome=yes` does not see (systemd.exec(5)).
const HOMES: &[&str] = &["/home/", "/root/", "/run/user/"];
/// Where root installs this program.
const INSTALL: &str = "install cpushield as root where only root can write, such as /usr/local/bin";

/// A file that root uses at later boots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RootFile<'a> {
    /// This program.
    Program(&'a str),
    /// A policy.
    Policy(&'a str),
}

impl RootFile<'_> {
    fn path(&self) -> &str {
        let (RootFile::Program(path) | RootFile::Policy(path)) = self;
        path
    }

    fn hint(&self) -> String {
        match self {
            RootFile::Program(_) => INSTALL.to_owned(),
            RootFile::Policy(_) => {
                "move the policy to a directory that root owns: /etc/cpushield/policy.toml"
                    .to_owned()
            }
        }
    }
}

/// Warns if another user than root could replace a file. `boots` says which boots use it.
pub(super) fn warn_of_other_users(work: &WorkContext<'_>, file: RootFile<'_>, boots: &str) {
    if let Err(why) = check_root_file(&work.host, file.path()) {
        let verb = match file {
            RootFile::Program(_) => "runs",
            RootFile::Policy(_) => "applies",
        };
        let (path, hint) = (file.path(), file.hint());
        work.ui.warn(&format!("root {verb} {path} at {boots}, but {why}; to avoid that, {hint}"));
    }
}

/// Checks that only root can replace the files of a shield with operators: another user could
/// become root with them, or an operator.
///
/// # Errors
/// Another user could replace one.
pub(super) fn check_for_operators(
    work: &WorkContext<'_>,
    files: &[RootFile<'_>],
) -> Result<(), Failure> {
    files.iter().try_for_each(|file| {
        check_root_file(&work.host, file.path()).map_err(|why| {
            let what = match file {
                RootFile::Program(_) => "program",
                RootFile::Policy(_) => "policy",
            };
            let message = format!("operators need a {what} that only root can replace: {why}");
            Failure::machine(message).hint(file.hint())
        })
    })
}

/// Checks that the unit of the helper for operators sees this program.
///
/// # Errors
/// It is below a home directory.
pub(super) fn check_visible(program: &str) -> Result<(), Failure> {
    match HOMES.iter().any(|home| program.starts_with(home)) {
        true => {
            let why = "the helper for operators runs in a systemd unit without access to home \
                       directories";
            Err(Failure::machine(format!("{why}, so it cannot run {program}")).hint(INSTALL))
        }
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ui::{OutputFormat, StatusLines, Ui};
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    #[test]
    fn operators_need_files_that_only_root_can_replace() {
        let dir = std::env::temp_dir().join(format!("cpushield-root-files-{}", std::process::id()));
        // A recorded machine has `proc`.
        for name in ["opt", "proc"] {
            fs::create_dir_all(dir.join(name)).unwrap();
        }
        let set = |path: &str, mode| {
            fs::set_permissions(dir.join(path), Permissions::from_mode(mode)).unwrap();
        };
        fs::write(dir.join("opt/policy.toml"), "").unwrap();
        let ui = Ui::new(OutputFormat::Text, StatusLines::Suppressed);
        let work = WorkContext::open(&ui, Some(&dir), Some(&dir), None).unwrap();
        let file = RootFile::Policy("/opt/policy.toml");
        let check = || check_for_operators(&work, &[file]).map_err(|failure| failure.message);
        let refused = |path: &str, mode: &str| {
            let start = "operators need a policy that only root can replace: users other than root";
            Err(format!("{start} can write {path} (mode {mode})"))
        };
        for path in ["", "opt"] {
            set(path, 0o755);
        }
        if fs::metadata(&dir).unwrap().uid() == 0 {
            set("opt/policy.toml", 0o644);
            assert_eq!(check(), Ok(()));
            set("opt/policy.toml", 0o666);
            assert_eq!(check(), refused("/opt/policy.toml", "0666"));
            set("opt/policy.toml", 0o644);
            set("opt", 0o777);
            assert_eq!(check(), refused("/opt", "0777"));
        } else {
            assert!(check().unwrap_err().contains("could replace it"));
        }
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn the_helper_cannot_run_a_program_of_a_home_directory() {
        for home in ["/home/joe/.cargo/bin/cpushield", "/root/cpushield", "/run/user/0/cpushield"] {
            assert!(check_visible(home).is_err(), "{home}");
        }
        check_visible("/usr/local/bin/cpushield").unwrap();
    }
}
