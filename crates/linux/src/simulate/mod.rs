//! How a recorded machine answers writes: as the kernel would, as far as apply and undo can see.
//! Files keep what was written; cgroups come and go with their interface files and their tasks
//! (`groups`), affinities follow the cpusets as they did before 6.2, or as since then where a
//! directory `asked_cpus` is, CPUs go offline and online (`cpus`). Where kernels differ else it is
//! the one that is harder to undo.

mod cpus;
mod groups;

use crate::cpuset::CpuSet;
use crate::error::{Error, Operation, Result};
use crate::host::Host;
use std::fs;

/// Files of a new tracing instance that are set up before use.
const INSTANCE_FILES: &[(&str, &str)] = &[
    ("tracing_on", "1\n"),
    ("trace_clock", "[local] global counter uptime perf mono mono_raw boot tai x86-tsc\n"),
    ("tracing_cpumask", "f\n"),
    ("events/sched/sched_switch/enable", "0\n"),
];

impl Host {
    /// The text of a file of a recorded machine, if it is there.
    fn text(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.place(path)).ok()
    }

    /// Makes a file of a recorded machine say something.
    fn say(&self, path: &str, text: &str) -> Result<()> {
        fs::write(self.place(path), text).map_err(|e| Error::io(Operation::Write, path, e))
    }

    /// The set that a file in list form shows.
    fn list_in(&self, path: &str) -> Option<CpuSet> {
        self.text(path)?.trim().parse().ok()
    }

    /// A write to a file of a recorded machine.
    pub(crate) fn simulate(&self, path: &str, value: &str) -> Result<()> {
        if !self.place(path).is_file() {
            return Err(Error::os(Operation::Write, path, libc::ENOENT));
        }
        let (dir, name) = path.rsplit_once('/').unwrap_or(("", path));
        let value = value.trim();
        match name {
            "cgroup.procs" | "tasks" | "cgroup.threads" => self.simulate_move(dir, name, value),
            "cgroup.subtree_control" => self.simulate_subtree(dir, value),
            "cpuset.cpus.partition" => self.simulate_partition(dir, value),
            "cpuset.cpus" | "cpus" => self.simulate_group_cpus(dir, path, value),
            "cpumask" if path == groups::UNBOUND => self.simulate_unbound(value),
            "cpus_list" if dir.starts_with(cpus::RESCTRL) => {
                self.simulate_resctrl(dir, path, value)
            }
            "online" if dir.starts_with("/sys/devices/system/cpu/cpu") => {
                self.simulate_online(dir, path, value)
            }
            "smp_affinity" | "smp_affinity_list" => self.simulate_twins(dir, name, value),
            _ => {
                let now = self.text(path).unwrap_or_default();
                let text = chosen(&now, value).unwrap_or_else(|| value.to_owned());
                self.say(path, &(text + "\n"))
            }
        }
    }

    /// The two files that show the mask of an interrupt.
    fn simulate_twins(&self, dir: &str, name: &str, value: &str) -> Result<()> {
        let parsed = match name {
            "smp_affinity" => CpuSet::parse_mask(value),
            _ => value.parse(),
        };
        let wrong = || Error::os(Operation::Write, &format!("{dir}/{name}"), libc::EINVAL);
        let cpus = parsed.map_err(|_| wrong())?;
        let online = self.list_in(cpus::ONLINE);
        if online.is_some_and(|online| !online.intersects(&cpus)) {
            return Err(wrong());
        }
        self.show_mask(&format!("{dir}/smp_affinity"), &cpus)?;
        let list = format!("{dir}/smp_affinity_list");
        if self.place(&list).is_file() { self.say(&list, &format!("{cpus}\n")) } else { Ok(()) }
    }

    /// Writes a mask as wide as the one that is there.
    fn show_mask(&self, path: &str, cpus: &CpuSet) -> Result<()> {
        match self.text(path) {
            Some(now) => self.say(path, &(as_wide(now.trim(), cpus) + "\n")),
            None => Ok(()),
        }
    }

    /// What appears in a directory that was just made on a recorded machine.
    pub(crate) fn simulate_make_dir(&self, path: &str) -> Result<()> {
        let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
        if parent.ends_with("/instances") {
            let events = self.place(&format!("{path}/events/sched/sched_switch"));
            fs::create_dir_all(events).map_err(|e| Error::io(Operation::MakeDir, path, e))?;
            for (name, text) in INSTANCE_FILES {
                self.say(&format!("{path}/{name}"), text)?;
            }
            // As below 6.7, where the main buffer decides.
            let above = parent.rsplit_once('/').map_or("", |(above, _)| above);
            let size = self.text(&format!("{above}/buffer_size_kb"));
            self.say(&format!("{path}/buffer_size_kb"), size.as_deref().unwrap_or("1408\n"))?;
            return Ok(());
        }
        self.simulate_new_group(parent, path)
    }

    /// Takes the interface files out of a directory before it is removed; a group with tasks or
    /// with groups in it is busy.
    pub(crate) fn simulate_remove_dir(&self, path: &str) -> Result<()> {
        let fail = |e| Error::io(Operation::Remove, path, e);
        let is_group = self.place(&format!("{path}/cgroup.procs")).is_file();
        if is_group && self.is_busy_group(path) {
            return Err(Error::os(Operation::Remove, path, libc::EBUSY));
        }
        let is_instance = path.rsplit_once('/').is_some_and(|(p, _)| p.ends_with("/instances"));
        if !is_group && !is_instance {
            return Ok(());
        }
        let events = self.place(&format!("{path}/events"));
        if is_instance && events.is_dir() {
            fs::remove_dir_all(events).map_err(fail)?;
        }
        for entry in fs::read_dir(self.place(path)).map_err(fail)? {
            let entry = entry.map_err(fail)?;
            if entry.file_type().map_err(fail)?.is_file() {
                fs::remove_file(entry.path()).map_err(fail)?;
            }
        }
        match path.rsplit_once('/') {
            Some((parent, _)) if is_group => self.refresh(parent),
            _ => Ok(()),
        }
    }
}

/// A set in mask form with as many digits as `now` has, or more where they are needed.
fn as_wide(now: &str, cpus: &CpuSet) -> String {
    let digits = |mask: &str| mask.bytes().filter(u8::is_ascii_hexdigit).count();
    let mask = cpus.to_mask();
    let plain = mask.replace(',', "");
    let wide = "0".repeat(digits(now).saturating_sub(plain.len())) + &plain;
    let mut out = String::new();
    for (i, digit) in wide.chars().enumerate() {
        if i > 0 && (wide.len() - i).is_multiple_of(8) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A choice (`always [madvise] never`) with another word in brackets; `None` when the text is none.
fn chosen(now: &str, word: &str) -> Option<String> {
    let words: Vec<&str> = now.split_whitespace().collect();
    let bracketed = |w: &&str| w.starts_with('[') && w.ends_with(']');
    if words.len() < 2 || words.iter().filter(|w| bracketed(w)).count() != 1 {
        return None;
    }
    let plain = words.iter().map(|w| w.trim_matches(['[', ']']));
    let again = plain.map(|w| if w == word { format!("[{w}]") } else { w.to_owned() });
    Some(again.collect::<Vec<_>>().join(" "))
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
