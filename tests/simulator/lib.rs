//! Machines that tests change: a recording with changes in memory over it ([`Overlay`]), and a
//! kernel ([`Simulated`]) that answers writes like the real one, as far as apply and undo can see.
//! Files contain what was written. Cgroups are created and removed with their interface files and
//! tasks (`groups`). Affinities follow the cpusets as before 6.2, or as since then if the recording
//! has a directory `asked_cpus`. CPUs go offline and online (`cpus`). Where kernels differ in other
//! ways, the simulated one is the one that is harder to undo.

mod cpus;
mod groups;
mod kernel;
mod overlay;
mod systemd;
mod tasks;
mod topology;

pub use kernel::{InjectedFault, Simulated};
pub use overlay::{Node, Overlay};

use cpushield_linux::CpuSet;
use cpushield_linux::errno;
use cpushield_linux::error::{Error, Operation, Result};
use cpushield_linux::{Host, Listed};
use std::io;
use std::ops::Deref;

/// The CPUs that are online, in list form.
const ONLINE: &str = "/sys/devices/system/cpu/online";

/// The root of resctrl, whose groups have a share of the caches.
const RESCTRL: &str = "/sys/fs/resctrl";

/// The mask of unbound workqueues: of the requested CPUs, those left by partitions (6.8).
const UNBOUND: &str = "/sys/devices/virtual/workqueue/cpumask";

/// Files of a new tracing instance that are written before use.
const INSTANCE_FILES: &[(&str, &str)] = &[
    ("tracing_on", "1\n"),
    ("trace_clock", "[local] global counter uptime perf mono mono_raw boot tai x86-tsc\n"),
    ("tracing_cpumask", "f\n"),
    ("events/sched/sched_switch/enable", "0\n"),
];

/// A machine whose files the simulated kernel changes.
#[derive(Debug, Clone, Copy)]
struct SimulatedMachine<'a>(&'a Host);

impl Deref for SimulatedMachine<'_> {
    type Target = Host;

    fn deref(&self) -> &Host {
        self.0
    }
}

impl SimulatedMachine<'_> {
    /// The text of a file of a recorded machine; `None` if it cannot be read.
    fn text(&self, path: &str) -> Option<String> {
        String::from_utf8(self.files.read(path).ok()?).ok()
    }

    /// Sets the text of a file of a recorded machine.
    fn set_text(&self, path: &str, text: &str) -> Result<()> {
        self.files.write(path, text.as_bytes()).map_err(Error::on(Operation::Write, path))
    }

    fn is_file(&self, path: &str) -> bool {
        self.files.is_dir(path) == Some(false)
    }

    fn is_dir(&self, path: &str) -> bool {
        self.files.is_dir(path) == Some(true)
    }

    /// Creates a directory with those above it.
    fn make_dirs(&self, path: &str) -> Result<()> {
        for (at, _) in path.match_indices('/').skip(1).chain([(path.len(), "")]) {
            if !self.is_dir(&path[..at]) {
                self.files.make_dir(&path[..at]).map_err(Error::on(Operation::MakeDir, path))?;
            }
        }
        Ok(())
    }

    /// Removes a directory with all that it has.
    fn remove_below(&self, path: &str) -> io::Result<()> {
        for name in self.names(path) {
            let below = format!("{path}/{name}");
            match self.is_dir(&below) {
                true => self.remove_below(&below)?,
                false => self.files.remove_file(&below)?,
            }
        }
        if self.is_dir(path) { self.files.remove_dir(path) } else { Ok(()) }
    }

    /// The names in a directory; none if it cannot be listed.
    fn names(&self, dir: &str) -> Vec<String> {
        self.files.list(dir, Listed::All).unwrap_or_default()
    }

    /// The set in a file in list form.
    fn list_in(&self, path: &str) -> Option<CpuSet> {
        self.text(path)?.trim().parse().ok()
    }

    /// Simulates a write to a file of a recorded machine.
    pub(crate) fn write(&self, path: &str, value: &str) -> Result<()> {
        if !self.is_file(path) {
            return Err(Error::os(Operation::Write, path, errno::ENOENT));
        }
        let (dir, name) = path.rsplit_once('/').unwrap_or(("", path));
        let value = value.trim();
        match name {
            "cgroup.procs" | "tasks" | "cgroup.threads" => self.simulate_move(dir, name, value),
            "cgroup.subtree_control" => self.simulate_subtree(dir, value),
            "cpuset.cpus.partition" => self.simulate_partition(dir, value),
            "cpuset.cpus" | "cpus" => self.simulate_group_cpus(dir, path, value),
            "cpuset.mems" | "mems" => self.simulate_group_mems(dir, path, value),
            "cpumask" if path == UNBOUND => self.simulate_unbound(value),
            "cpus_list" if dir.starts_with(RESCTRL) => self.simulate_resctrl(dir, path, value),
            "online" if dir.starts_with("/sys/devices/system/cpu/cpu") => {
                self.simulate_online(dir, path, value)
            }
            "smp_affinity" | "smp_affinity_list" => self.simulate_irq_affinity(dir, name, value),
            _ => {
                let now = self.text(path).unwrap_or_default();
                let text = with_choice(&now, value).unwrap_or_else(|| value.to_owned());
                self.set_text(path, &(text + "\n"))
            }
        }
    }

    /// Sets the affinity of an interrupt, which two files show.
    fn simulate_irq_affinity(&self, dir: &str, name: &str, value: &str) -> Result<()> {
        let parsed = match name {
            "smp_affinity" => CpuSet::parse_mask(value),
            _ => value.parse(),
        };
        let invalid = || Error::os(Operation::Write, &format!("{dir}/{name}"), errno::EINVAL);
        let cpus = parsed.map_err(|_| invalid())?;
        let online = self.list_in(ONLINE);
        if online.is_some_and(|online| !online.intersects(&cpus)) {
            return Err(invalid());
        }
        self.set_mask(&format!("{dir}/smp_affinity"), &cpus)?;
        let list = format!("{dir}/smp_affinity_list");
        if !self.is_file(&list) {
            return Ok(());
        }
        self.set_text(&list, &format!("{cpus}\n"))
    }

    /// Writes a mask with the width of the present one.
    fn set_mask(&self, path: &str, cpus: &CpuSet) -> Result<()> {
        match self.text(path) {
            Some(now) => self.set_text(path, &(as_wide(now.trim(), cpus) + "\n")),
            None => Ok(()),
        }
    }

    /// Creates the contents of a directory that was just created on a recorded machine.
    pub(crate) fn fill_dir(&self, path: &str) -> Result<()> {
        let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
        if parent.ends_with("/instances") {
            self.make_dirs(&format!("{path}/events/sched/sched_switch"))?;
            for (name, text) in INSTANCE_FILES {
                self.set_text(&format!("{path}/{name}"), text)?;
            }
            // Like kernels below 6.7, where the main buffer decides.
            let above = parent.rsplit_once('/').map_or("", |(above, _)| above);
            let size = self.text(&format!("{above}/buffer_size_kb"));
            self.set_text(&format!("{path}/buffer_size_kb"), size.as_deref().unwrap_or("1408\n"))?;
            return Ok(());
        }
        self.simulate_new_group(parent, path)
    }

    /// Removes the interface files of a directory before it is removed. A group with tasks or
    /// subgroups is busy.
    pub(crate) fn empty_dir(&self, path: &str) -> Result<()> {
        let failed = Error::on(Operation::Remove, path);
        let is_group = self.is_file(&format!("{path}/cgroup.procs"));
        if is_group && self.is_busy_group(path) {
            return Err(Error::os(Operation::Remove, path, errno::EBUSY));
        }
        let is_instance = path.rsplit_once('/').is_some_and(|(p, _)| p.ends_with("/instances"));
        if !is_group && !is_instance {
            return Ok(());
        }
        if is_instance {
            self.remove_below(&format!("{path}/events")).map_err(failed)?;
        }
        for name in self.files.list(path, Listed::All).map_err(failed)? {
            let file = format!("{path}/{name}");
            if self.is_file(&file) {
                self.files.remove_file(&file).map_err(failed)?;
            }
        }
        match path.rsplit_once('/') {
            Some((parent, _)) if is_group => self.refresh(parent),
            _ => Ok(()),
        }
    }
}

/// A set in mask form with as many digits as `now`, or more if they are needed.
fn as_wide(now: &str, cpus: &CpuSet) -> String {
    let digits = now.bytes().filter(u8::is_ascii_hexdigit).count();
    let plain = cpus.to_mask().replace(',', "");
    let wide = "0".repeat(digits.saturating_sub(plain.len())) + &plain;
    let mut out = String::new();
    for (i, digit) in wide.chars().enumerate() {
        if i > 0 && (wide.len() - i).is_multiple_of(8) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A choice (`always [madvise] never`) with the brackets around `word`; `None` if the text is not a
/// choice.
fn with_choice(now: &str, word: &str) -> Option<String> {
    let words: Vec<&str> = now.split_whitespace().collect();
    let bracketed = words.iter().filter(|w| w.starts_with('[') && w.ends_with(']')).count();
    if words.len() < 2 || bracketed != 1 {
        return None;
    }
    let plain = words.iter().map(|w| w.trim_matches(['[', ']']));
    let chosen = plain.map(|w| if w == word { format!("[{w}]") } else { w.to_owned() });
    Some(chosen.collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_keep_their_width() {
        for (now, cpus, shown) in [
            ("f", "0-2", "7"),
            ("ff", "0-2", "07"),
            ("ff,ffffffff", "0-2", "00,00000007"),
            ("ff,ffffffff", "33", "02,00000000"),
            ("0000000f", "", "00000000"),
            ("f", "33", "2,00000000"),
        ] {
            assert_eq!(as_wide(now, &cpus.parse().unwrap()), shown, "{now:?} {cpus}");
        }
    }
}
