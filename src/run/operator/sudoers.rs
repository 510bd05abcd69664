//! The line for sudoers with which operators reach the helper where systemd offers no socket, or
//! why there is none. Also the check that only root can replace a file. Reads only the owners of
//! the file and of its directories.

use super::request::OPERATOR_COMMAND;
use crate::policy::{OperatorName, ShieldOperators};
use cpushield_linux::{Error, FileAttributes, Host};
use cpushield_sentence::Sentence;
use std::collections::BTreeSet;
use std::fmt;

/// Why another user than root could replace a file.
#[derive(Debug, Sentence)]
pub enum ReplaceableFile {
    /// Another user than root owns the file, or a directory of its path.
    #[print(write_other_owner(f, path, uid))]
    OtherOwner {
        /// The file or the directory.
        path: String,
        /// Its owner; `None` if it is unknown.
        uid: Option<u32>,
    },
    /// users other than root can write {path} (mode {mode:04o}).
    Writable {
        /// The file or the directory.
        path: String,
        /// Its permission bits.
        mode: u32,
    },
    /// The owner could not be read.
    #[delegate]
    Unreadable {
        /// The kernel's error.
        error: Error,
    },
}

/// Why there is no line for a program.
#[derive(Debug, Sentence)]
pub enum SudoersRefusal {
    /// Another user than root could replace the program.
    #[delegate(from)]
    Replaceable(ReplaceableFile),
    /// {path:?} has characters with a special meaning in sudoers.
    Characters {
        /// The path.
        path: String,
    },
}

fn write_other_owner(f: &mut fmt::Formatter<'_>, path: &str, uid: &Option<u32>) -> fmt::Result {
    match uid {
        Some(uid) => {
            write!(f, "{path} belongs to user {uid}, who could replace it")
        }
        None => {
            write!(f, "the owner of {path} is unknown")
        }
    }
}

/// The line that permits the helper to these operators. It permits exactly this command, which
/// takes no arguments and executes nothing.
///
/// # Errors
/// Another user than root could replace the program, and would be root with the line.
pub fn sudoers_line<'a>(
    host: &Host,
    operators: impl IntoIterator<Item = &'a ShieldOperators>,
    program: &str,
) -> Result<String, SudoersRefusal> {
    check_program(program, |path| host.access(path))?;
    let names = operators.into_iter().flat_map(|operators| {
        let group = operators.group.iter().map(|group| format!("%{}", sudoers_name(group)));
        group.chain(operators.users.iter().map(sudoers_name))
    });
    let names: BTreeSet<String> = names.collect();
    let names = names.into_iter().collect::<Vec<_>>().join(",");
    Ok(format!("{names} ALL=(root) NOPASSWD: {program} {OPERATOR_COMMAND}"))
}

/// A user or group as sudoers(5) reads it: its name, or `#` and its number. A number alone would be
/// a name there, and a word in capitals an alias.
fn sudoers_name(name: &OperatorName) -> String {
    let begins_well = name.name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    match begins_well && name.name.chars().all(is_plain) {
        true => name.name.clone(),
        false => format!("#{}", name.id),
    }
}

/// Checks that only root can replace a program, and that sudoers takes its path literally.
fn check_program(
    program: &str,
    read: impl Fn(&str) -> Result<FileAttributes, Error>,
) -> Result<(), SudoersRefusal> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    if !program.starts_with('/') || !program.chars().all(is_plain) {
        return Err(SudoersRefusal::Characters { path: program.to_owned() });
    }
    Ok(check_owners(program, read)?)
}

/// Checks that only root can replace a file with this absolute path.
///
/// # Errors
/// Why another user could, or why that is unknown.
pub fn check_root_file(host: &Host, file: &str) -> Result<(), ReplaceableFile> {
    check_owners(&host.resolve_links(file), |path| host.access(path))
}

/// Checks that only root can replace a file: it and all directories above it belong to root, and no
/// other user may write them. Write permissions of an ACL show in the bits of the group (acl(5)).
fn check_owners(
    file: &str,
    read: impl Fn(&str) -> Result<FileAttributes, Error>,
) -> Result<(), ReplaceableFile> {
    let directories = file.char_indices().filter(|(_, c)| *c == '/');
    let directories = directories.filter_map(|(end, _)| file.get(..end.max(1)));
    for path in directories.chain([file]) {
        let found = read(path).map_err(|error| ReplaceableFile::Unreadable { error })?;
        let path = path.to_owned();
        let group = match found.owner {
            Some((0, group)) => group,
            owner => {
                return Err(ReplaceableFile::OtherOwner { path, uid: owner.map(|(uid, _)| uid) });
            }
        };
        let others = if group == 0 { 0o002 } else { 0o022 };
        if found.mode & others != 0 {
            return Err(ReplaceableFile::Writable { path, mode: found.mode });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_program_that_root_alone_can_replace_gets_a_line() {
        let program = "/opt/bin/cpushield";
        for (path, owner, mode, allowed) in [
            ("/", (0, 0), 0o755, true),
            (program, (0, 0), 0o775, true),
            (program, (1000, 0), 0o755, false),
            (program, (0, 1000), 0o775, false),
            (program, (0, 0), 0o757, false),
            ("/opt/bin", (1000, 1000), 0o700, false),
            ("/opt/bin", (0, 50), 0o2775, false),
            ("/opt", (0, 0), 0o1777, false),
            ("/", (65534, 0), 0o755, false),
        ] {
            let read = |asked: &str| {
                let usual = FileAttributes { mode: 0o755, owner: Some((0, 50)) };
                let this = FileAttributes { mode, owner: Some(owner) };
                Ok(if asked == path { this } else { usual })
            };
            let answer = check_program(program, read);
            assert_eq!(answer.is_ok(), allowed, "{path} {owner:?} {mode:o}: {answer:?}");
        }
        let safe = |_: &str| Ok(FileAttributes { mode: 0o755, owner: Some((0, 0)) });
        for path in ["cpushield", "/a b/cpushield", "/a/cpushield (deleted)", "/a,b/c", "/a/*"] {
            let answer = check_program(path, safe);
            assert!(matches!(answer, Err(SudoersRefusal::Characters { .. })), "{answer:?}");
        }
    }
}
