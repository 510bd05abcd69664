//! `/proc/<pid>/status` (proc_pid_status(5)): the user of a process.

/// The user of a process, if that is its real, effective and saved one: the first three numbers of
/// the line `Uid:` (`task_state()`, fs/proc/array.c, 6.12). The fourth is for file access only.
#[must_use]
pub fn user(status: &str) -> Option<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    let mut users = line.split_whitespace();
    let mut next = || users.next()?.parse::<u32>().ok();
    let (real, effective, saved) = (next()?, next()?, next()?);
    (real == effective && real == saved).then_some(real)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_a_user_only_if_all_three_are_that_one() {
        // 6.12: real, effective, saved and file system user.
        assert_eq!(user("Name:\ta\nUid:\t1000\t1000\t1000\t0\nGid:\t0\n"), Some(1000));
        for users in [
            "0\t1000\t1000\t1000",
            "1000\t0\t1000\t1000",
            "1000\t1000\t0\t1000",
            "1000\t1000",
            "x\t1000\t1000\t1000",
            "-1\t-1\t-1\t-1",
            "",
        ] {
            assert_eq!(user(&format!("Uid:\t{users}\n")), None, "{users}");
        }
        assert_eq!(user(""), None);
    }
}
