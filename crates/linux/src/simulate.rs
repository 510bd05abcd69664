//! How a recorded machine answers writes: as the kernel would, as far as apply and undo can see.
//! Files keep what was written; cgroup directories come and go with their interface files; a task
//! written to `cgroup.procs` leaves the group it was in.

use crate::cpuset::CpuSet;
use crate::error::{Error, Result, Verb};
use crate::host::Host;
use std::fs;
use std::path::Path;

/// Interface files of a new v2 cgroup whose parent delegates cpuset (kernel/cgroup/cpuset.c, 6.12).
const V2_FILES: &[(&str, &str)] = &[
    ("cgroup.procs", ""),
    ("cgroup.threads", ""),
    ("cgroup.controllers", "cpuset\n"),
    ("cgroup.subtree_control", "\n"),
    ("cgroup.type", "domain\n"),
    ("cpuset.cpus", "\n"),
    ("cpuset.cpus.effective", "\n"),
    ("cpuset.cpus.exclusive", "\n"),
    ("cpuset.cpus.partition", "member\n"),
    ("cpuset.mems", "\n"),
];

/// Interface files of a new v1 cpuset (kernel/cgroup/cpuset-v1.c, 6.12).
const V1_FILES: &[(&str, &str)] = &[
    ("tasks", ""),
    ("cgroup.procs", ""),
    ("cpuset.cpus", "\n"),
    ("cpuset.mems", "\n"),
    ("cpuset.cpu_exclusive", "0\n"),
    ("cpuset.mem_exclusive", "0\n"),
    ("cpuset.sched_load_balance", "1\n"),
];

/// Files of a new tracing instance that are set up before use.
const INSTANCE_FILES: &[(&str, &str)] = &[
    ("tracing_on", "1\n"),
    ("trace_clock", "[local] global counter uptime perf mono mono_raw boot tai x86-tsc\n"),
    ("buffer_size_kb", "7 (expanded: 1408)\n"),
    ("tracing_cpumask", "f\n"),
];

impl Host {
    /// A write to a file of a recorded machine.
    pub(crate) fn simulate(&self, path: &str, value: &str) -> Result<()> {
        let fail = |e| Error::io(Verb::Write, path, e);
        let place = self.place(path);
        if !place.is_file() {
            return Err(Error::os(Verb::Write, path, libc::ENOENT));
        }
        let (dir, name) = path.rsplit_once('/').unwrap_or(("", path));
        let text = match name {
            "cgroup.procs" | "tasks" | "cgroup.threads" => {
                return self.simulate_move(dir, name, value.trim());
            }
            "cgroup.subtree_control" => {
                let now = fs::read_to_string(&place).map_err(fail)?;
                let mut words: Vec<&str> = now.split_whitespace().collect();
                for word in value.split_whitespace() {
                    let (sign, controller) = word.split_at(1);
                    words.retain(|known| *known != controller);
                    if sign == "+" {
                        words.push(controller);
                    }
                }
                words.join(" ")
            }
            "cpuset.cpus.partition" if value.trim() != "member" => {
                let cpus = fs::read_to_string(self.place(&format!("{dir}/cpuset.cpus")));
                let empty = cpus.unwrap_or_default().trim().is_empty();
                let why = if empty { " invalid (cpuset.cpus is empty)" } else { "" };
                format!("{}{why}", value.trim())
            }
            _ => match chosen(&fs::read_to_string(&place).map_err(fail)?, value.trim()) {
                Some(text) => text,
                None => value.trim_end().to_owned(),
            },
        };
        fs::write(&place, text + "\n").map_err(fail)?;
        self.simulate_twin(dir, name, value)
    }

    /// Pairs of files that show the same set in two spellings.
    fn simulate_twin(&self, dir: &str, name: &str, value: &str) -> Result<()> {
        let (twin, text) = match name {
            "smp_affinity_list" => {
                let Ok(cpus) = value.parse::<CpuSet>() else {
                    return Err(Error::os(Verb::Write, &format!("{dir}/{name}"), libc::EINVAL));
                };
                ("smp_affinity", cpus.to_mask())
            }
            "smp_affinity" => match CpuSet::parse_mask(value) {
                Ok(cpus) => ("smp_affinity_list", cpus.to_string()),
                Err(_) => {
                    return Err(Error::os(Verb::Write, &format!("{dir}/{name}"), libc::EINVAL));
                }
            },
            _ => return Ok(()),
        };
        let twin = format!("{dir}/{twin}");
        if self.place(&twin).is_file() {
            fs::write(self.place(&twin), text + "\n")
                .map_err(|e| Error::io(Verb::Write, &twin, e))?;
        }
        Ok(())
    }

    /// A task moves between groups of one hierarchy: out of every other list, into this one, and
    /// its `/proc/<pid>/cgroup` says so.
    fn simulate_move(&self, dir: &str, name: &str, pid: &str) -> Result<()> {
        let path = format!("{dir}/{name}");
        let fail = |e| Error::io(Verb::Write, &path, e);
        if pid.is_empty() || !pid.bytes().all(|b| b.is_ascii_digit()) {
            return Err(Error::os(Verb::Write, &path, libc::EINVAL));
        }
        let top = self.hierarchy_of(dir);
        remove_pid_below(&self.place(&top), name, pid).map_err(fail)?;
        let mut members = fs::read_to_string(self.place(&path)).map_err(fail)?;
        members.push_str(pid);
        members.push('\n');
        fs::write(self.place(&path), members).map_err(fail)?;
        self.simulate_membership(&top, dir, pid).map_err(fail)
    }

    /// The mount point of the cgroup hierarchy that holds `dir`: the highest directory with a
    /// `cgroup.procs`.
    fn hierarchy_of(&self, dir: &str) -> String {
        let mut top = dir.to_owned();
        while let Some((parent, _)) = top.rsplit_once('/') {
            if !self.place(&format!("{parent}/cgroup.procs")).is_file() {
                break;
            }
            top = parent.to_owned();
        }
        top
    }

    fn simulate_membership(&self, top: &str, dir: &str, pid: &str) -> std::io::Result<()> {
        let file = self.place(&format!("/proc/{pid}/cgroup"));
        let Ok(text) = fs::read_to_string(&file) else {
            return Ok(());
        };
        let group = dir.strip_prefix(top).filter(|g| !g.is_empty()).unwrap_or("/");
        let v2 = self.place(&format!("{top}/cgroup.controllers")).is_file();
        let mut out = String::new();
        for line in text.lines() {
            let ours = if v2 { line.starts_with("0::") } else { line.contains(":cpuset:") };
            match line.rsplit_once(':') {
                Some((head, _)) if ours => out.push_str(&format!("{head}:{group}\n")),
                _ => out.push_str(&format!("{line}\n")),
            }
        }
        fs::write(file, out)
    }

    /// What appears in a directory that was just made on a recorded machine.
    pub(crate) fn simulate_make_dir(&self, path: &str) -> Result<()> {
        let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
        let has = |name: &str| self.place(&format!("{parent}/{name}")).is_file();
        let files: &[(&str, &str)] = if has("cgroup.controllers") {
            V2_FILES
        } else if has("cpuset.cpus") {
            V1_FILES
        } else if parent.ends_with("/instances") {
            INSTANCE_FILES
        } else {
            &[]
        };
        for (name, text) in files {
            fs::write(self.place(&format!("{path}/{name}")), text)
                .map_err(|e| Error::io(Verb::MakeDir, path, e))?;
        }
        Ok(())
    }

    /// Takes the interface files out of a directory before it is removed; a group with tasks is
    /// busy.
    pub(crate) fn simulate_remove_dir(&self, path: &str) -> Result<()> {
        let fail = |e| Error::io(Verb::Remove, path, e);
        for list in ["cgroup.procs", "tasks"] {
            let members = fs::read_to_string(self.place(&format!("{path}/{list}")));
            if members.is_ok_and(|text| !text.trim().is_empty()) {
                return Err(Error::os(Verb::Remove, path, libc::EBUSY));
            }
        }
        for (name, _) in V2_FILES.iter().chain(V1_FILES).chain(INSTANCE_FILES) {
            match fs::remove_file(self.place(&format!("{path}/{name}"))) {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(fail(e)),
                _ => {}
            }
        }
        Ok(())
    }
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

fn remove_pid_below(dir: &Path, list: &str, pid: &str) -> std::io::Result<()> {
    let file = dir.join(list);
    if let Ok(text) = fs::read_to_string(&file)
        && text.lines().any(|line| line == pid)
    {
        let rest: String =
            text.lines().filter(|line| *line != pid).map(|line| format!("{line}\n")).collect();
        fs::write(&file, rest)?;
    }
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove_pid_below(&entry.path(), list, pid)?;
        }
    }
    Ok(())
}
