//! The user that a program runs as: `U[:G]`, by name or number, from `/etc/passwd` and
//! `/etc/group`. Other user databases (LDAP) are not used, because a static binary cannot load
//! their modules; numbers always work.

use super::RunError;
use cpushield_linux::Host;
use cpushield_linux::processes::process::Credentials;

/// The user that a program runs as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunUser {
    /// Name of the user; the number when it has no line in `/etc/passwd`.
    pub name: String,
    /// Home directory, where `/etc/passwd` names one.
    pub home: Option<String>,
    /// Numbers for the kernel.
    pub rights: Credentials,
}

const PASSWD: &str = "/etc/passwd";
const GROUP: &str = "/etc/group";

/// Looks up a name with or without a group, or a number with a group (`1000:1000`), on this
/// machine. A number without a group needs an entry, which has its group.
///
/// # Errors
/// The name is unknown, or a number has no entry and no group was given.
pub fn look_up(host: &Host, asked: &str) -> Result<RunUser, RunError> {
    parse(asked, &host.read(PASSWD)?, &host.read(GROUP)?)
}

/// Looks up a user by name or number on this machine; returns its number. A number needs no entry.
///
/// # Errors
/// The name is unknown.
pub fn look_up_user(host: &Host, asked: &str) -> Result<u32, RunError> {
    number_of(("user", PASSWD), asked, &host.read(PASSWD)?)
}

/// Looks up a group by name or number on this machine; returns its number.
///
/// # Errors
/// The name is unknown.
pub fn look_up_group(host: &Host, asked: &str) -> Result<u32, RunError> {
    number_of(("group", GROUP), asked, &host.read(GROUP)?)
}

/// The number of a user or group in the text of its file.
fn number_of(
    (what, file): (&'static str, &'static str),
    asked: &str,
    text: &str,
) -> Result<u32, RunError> {
    let found = text.lines().map(fields).find(|line| is_entry(line, asked));
    let number = number(found.map(|line| line[2])).or(number(Some(asked)));
    number.ok_or_else(|| unknown(what, asked, file))
}

/// The same, from the text of both files.
///
/// # Errors
/// As [`look_up`].
pub fn parse(asked: &str, passwd: &str, group: &str) -> Result<RunUser, RunError> {
    let (user, wanted_group) = match asked.split_once(':') {
        Some((user, group)) => (user, Some(group)),
        None => (asked, None),
    };
    let line = passwd.lines().map(fields).find(|line| is_entry(line, user));
    let uid = number(line.as_ref().map(|line| line[2])).or(number(Some(user)));
    let uid = uid.ok_or_else(|| unknown("user", user, PASSWD))?;
    let gid = match wanted_group {
        Some(name) => number_of(("group", GROUP), name, group)?,
        None => number(line.as_ref().map(|line| line[3]))
            .ok_or_else(|| unknown("user", user, PASSWD))?,
    };
    let name = line.as_ref().map_or(user, |line| line[0]).to_owned();
    let home = line.map(|line| line[5].to_owned()).filter(|home| !home.is_empty());
    let groups = group.lines().map(fields).filter(|line| line[3].split(',').any(|m| m == name));
    let mut groups: Vec<u32> = groups.filter_map(|line| number(Some(line[2]))).collect();
    groups.push(gid);
    groups.sort_unstable();
    groups.dedup();
    Ok(RunUser { name, home, rights: Credentials { uid, gid, groups } })
}

/// The first six fields of a line; those that are missing are empty.
fn fields(line: &str) -> [&str; 6] {
    let mut fields = [""; 6];
    for (field, text) in fields.iter_mut().zip(line.split(':')) {
        *field = text;
    }
    fields
}

/// Whether the line is that of `wanted`, by its name or its number (field 3 of both files).
fn is_entry(line: &[&str; 6], wanted: &str) -> bool {
    !wanted.is_empty() && (line[0] == wanted || (line[2] == wanted && !line[0].is_empty()))
}

fn number(text: Option<&str>) -> Option<u32> {
    let text = text?;
    // u32::MAX means "leave as it is" to setresuid(2).
    let number = text.parse().ok().filter(|n| *n != u32::MAX)?;
    text.bytes().all(|b| b.is_ascii_digit()).then_some(number)
}

fn unknown(what: &'static str, name: &str, file: &'static str) -> RunError {
    RunError::Unknown { what, name: name.to_owned(), file }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PASSWD: &str = "root:x:0:0:root:/root:/bin/bash\n\
        cnc:x:1000:1000:,,,:/home/cnc:/bin/bash\n\
        odd:x:nine:9:::\n";
    const GROUP: &str = "root:x:0:\naudio:x:29:cnc,other\ncnc:x:1000:\nrt:x:44:root\n";

    fn user(asked: &str) -> Result<RunUser, RunError> {
        parse(asked, PASSWD, GROUP)
    }

    #[test]
    fn users_are_found_by_name_and_number_with_their_groups() {
        let cnc = user("cnc").unwrap();
        assert_eq!((cnc.rights.uid, cnc.rights.gid), (1000, 1000));
        assert_eq!(cnc.rights.groups, [29, 1000]);
        assert_eq!(cnc.home.as_deref(), Some("/home/cnc"));
        assert_eq!(user("1000").unwrap(), cnc);
        assert_eq!(user("cnc:rt").unwrap().rights.groups, [29, 44]);
        let unprivileged = user("65534:65534").unwrap();
        assert_eq!((unprivileged.rights.uid, unprivileged.home), (65534, None));
    }

    #[test]
    fn unknown_users_and_groups_are_refused_by_name() {
        for (asked, said) in [
            ("ghost", "no user \"ghost\" in /etc/passwd"),
            ("cnc:ghost", "no group \"ghost\" in /etc/group"),
            ("odd", "no user \"odd\" in /etc/passwd"),
            ("", "no user \"\" in /etc/passwd"),
            ("65534", "no user \"65534\" in /etc/passwd"),
            ("4294967295:0", "no user \"4294967295\" in /etc/passwd"),
            ("+1:0", "no user \"+1\" in /etc/passwd"),
        ] {
            assert_eq!(user(asked).unwrap_err().to_string(), said, "{asked}");
        }
    }

    #[test]
    fn the_number_of_a_user_needs_neither_an_entry_nor_a_group() {
        let users = ("user", "/etc/passwd");
        let number = |asked| number_of(users, asked, PASSWD).map_err(|error| error.to_string());
        assert_eq!(number("cnc"), Ok(1000));
        assert_eq!(number("1000"), Ok(1000));
        assert_eq!(number("1500000"), Ok(1_500_000));
        for wrong in ["ghost", "cnc:rt", "1000:1000", "cnc,root", "%rt", "4294967295", "", "odd"] {
            let refused = format!("no user {wrong:?} in /etc/passwd");
            assert_eq!(number(wrong), Err(refused));
        }
    }

    proptest! {
        #[test]
        fn any_text_is_answered(asked in ".{0,12}", passwd in ".{0,80}", group in ".{0,80}") {
            let _ = parse(&asked, &passwd, &group);
        }
    }
}
