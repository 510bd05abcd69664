//! The files about the cores, caches and nodes of a recorded machine when a CPU goes offline or
//! comes online: the CPU leaves the sets of others, and its own directories disappear
//! (topology_remove_dev() in drivers/base/topology.c, cacheinfo_cpu_pre_down() in
//! drivers/base/cacheinfo.c, 6.12).

use crate::SimulatedMachine;
use cpushield_linux::CpuSet;
use cpushield_linux::error::{Error, Operation, Result};
use std::io;

const CPU: &str = "/sys/devices/system/cpu";
const NODE: &str = "/sys/devices/system/node";

/// A directory that only recordings have: what an offline CPU has lost, below its number.
const OFFLINE: &str = "/offline_cpus";

/// The list of the files from which an offline CPU was removed.
const LEFT: &str = "left";

/// Directories of a CPU that are removed with it.
const OWN: [&str; 2] = ["topology", "cache"];

impl SimulatedMachine<'_> {
    pub(crate) fn remove_from_topology(&self, cpu: usize) -> Result<()> {
        let mut left = String::new();
        for path in self.topology_files(cpu) {
            let Some(mut cpus) = self.set_in(&path).filter(|cpus| cpus.contains(cpu)) else {
                continue;
            };
            cpus.remove(cpu);
            self.write_set(&path, &cpus)?;
            left.push_str(&format!("{path}\n"));
        }
        let stash = format!("{OFFLINE}/{cpu}");
        self.make_dirs(&stash)?;
        self.set_text(&format!("{stash}/{LEFT}"), &left)?;
        for name in OWN {
            self.rename_dir(&format!("{CPU}/cpu{cpu}/{name}"), &format!("{stash}/{name}"))?;
        }
        Ok(())
    }

    pub(crate) fn return_to_topology(&self, cpu: usize) -> Result<()> {
        let stash = format!("{OFFLINE}/{cpu}");
        let Some(left) = self.text(&format!("{stash}/{LEFT}")) else { return Ok(()) };
        for path in left.lines() {
            let path = self.place_of(path);
            let cpus = self.set_in(&path).unwrap_or_default().union(&CpuSet::single(cpu));
            self.write_set(&path, &cpus)?;
        }
        for name in OWN {
            self.rename_dir(&format!("{stash}/{name}"), &format!("{CPU}/cpu{cpu}/{name}"))?;
        }
        for dir in [stash.as_str(), OFFLINE] {
            let gone = self.files.remove_file(&format!("{dir}/{LEFT}"));
            // Other CPUs may be offline too.
            drop((gone, self.files.remove_dir(dir)));
        }
        Ok(())
    }

    /// The files of other CPUs, and of nodes, that list CPUs.
    fn topology_files(&self, cpu: usize) -> Vec<String> {
        let mut files = Vec::new();
        for name in self.names(CPU).iter().filter(|name| **name != format!("cpu{cpu}")) {
            self.add_files(&format!("{CPU}/{name}/topology"), &mut files);
            for cache in self.names(&format!("{CPU}/{name}/cache")) {
                self.add_files(&format!("{CPU}/{name}/cache/{cache}"), &mut files);
            }
        }
        for node in self.names(NODE) {
            self.add_files(&format!("{NODE}/{node}"), &mut files);
        }
        files.retain(|path| is_set(path));
        files
    }

    /// Where a file is now: with an offline CPU, or where it belongs.
    fn place_of(&self, path: &str) -> String {
        let own = path.strip_prefix(&format!("{CPU}/cpu"));
        match own.filter(|_| !self.is_file(path)) {
            Some(own) => format!("{OFFLINE}/{own}"),
            None => path.to_owned(),
        }
    }

    fn add_files(&self, dir: &str, files: &mut Vec<String>) {
        files.extend(self.names(dir).iter().map(|name| format!("{dir}/{name}")));
    }

    fn set_in(&self, path: &str) -> Option<CpuSet> {
        let text = self.text(path)?;
        match is_list(path) {
            true => text.trim().parse().ok(),
            false => CpuSet::parse_mask(&text).ok(),
        }
    }

    fn write_set(&self, path: &str, cpus: &CpuSet) -> Result<()> {
        match is_list(path) {
            true => self.set_text(path, &format!("{cpus}\n")),
            false => self.set_mask(path, cpus),
        }
    }

    fn move_below(&self, from: &str, to: &str) -> io::Result<()> {
        self.files.make_dir(to)?;
        for name in self.names(from) {
            let (from, to) = (format!("{from}/{name}"), format!("{to}/{name}"));
            if self.is_dir(&from) {
                self.move_below(&from, &to)?;
            } else {
                self.files.write(&to, &self.files.read(&from)?)?;
                self.files.remove_file(&from)?;
            }
        }
        self.files.remove_dir(from)
    }

    fn rename_dir(&self, from: &str, to: &str) -> Result<()> {
        if !self.is_dir(from) {
            return Ok(());
        }
        self.move_below(from, to).map_err(Error::on(Operation::Write, to))
    }
}

fn is_list(path: &str) -> bool {
    path.ends_with("list")
}

/// Whether a file has a set of CPUs: `core_cpus`, `thread_siblings_list`, `shared_cpu_map`.
fn is_set(path: &str) -> bool {
    let plain = path.trim_end_matches("_list");
    ["_cpus", "_siblings", "cpumap", "cpulist", "shared_cpu", "shared_cpu_map"]
        .iter()
        .any(|end| plain.ends_with(end))
}
