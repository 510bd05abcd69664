//! `/proc/PID/cgroup`, the groups of a task (cgroups(7)): `3:cpuset:/a` of version 1, `0::/a` of
//! version 2.

/// The group of a task in the hierarchy of cpusets, without a slash at its end; `None` if no line
/// has it.
#[must_use]
pub fn cpuset_group(text: &str, v2: bool) -> Option<&str> {
    text.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, group) = (fields.next()?, fields.next()?);
        let is_cpuset = match v2 {
            true => controllers.is_empty(),
            false => controllers.split(',').any(|controller| controller == "cpuset"),
        };
        is_cpuset.then(|| group.trim_end_matches('/'))
    })
}
