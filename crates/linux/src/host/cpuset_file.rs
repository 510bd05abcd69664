//! The files of a cpuset, whose names differ by the way of mounting.

use super::Host;
use crate::error::Result;

impl Host {
    /// Reads the file `cpuset.NAME` of a group. A v1 hierarchy that is mounted with `-t cpuset`, as
    /// cset does, has it without the prefix (`cgroup_show_options()`, kernel/cgroup/cgroup-v1.c,
    /// 6.12: `noprefix`).
    ///
    /// # Errors
    /// Neither can be read.
    pub fn read_cpuset_file(&self, group: &str, name: &str) -> Result<String> {
        let line = self.read_line(&format!("{group}/cpuset.{name}"));
        line.or_else(|_| self.read_line(&format!("{group}/{name}")))
    }
}
