//! The load that runs during a measurement, and the CPUs that it runs on.

use super::WorkContext;
use super::active_shields::{cpus_of, known_shields};
use super::cpu_names::read_cpu_list;
use crate::cpu_selection::mask_hint;
use crate::failure::Failure;
use crate::input::KnownWord;
use crate::load::{COMMAND, KINDS, LoadRequest, NONE, parse_loads};
use crate::registry::names;
use cpushield_linux::{CpuSet, files::scratch_file};
use std::str::FromStr;

/// The form of a list of CPUs, as a hint.
const LIST_HINT: &str = "a list looks like 3 or 2-3";

/// The load on the rest of the machine
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub struct LoadOptions {
    /// Run a load on the rest of the machine and report its throughput: messages, memory, disk,
    /// network, fork, timers, interrupts, or all of them. If installed, also stress-ng or
    /// hackbench, for example 'stress-ng:--cpu 2'. See `explain load-messages`
    #[arg(id = "load", long, value_name = "KINDS", value_delimiter = ',', default_value = "none",
          value_parser = KnownWord(load_names), hide_possible_values = true)]
    pub kinds: Vec<String>,
    /// Run this shell command as a load: it starts before the measurement, runs again whenever it
    /// succeeds, and is stopped after the measurement. See `explain load-command`
    #[arg(id = "load_command", long = "load-command", value_name = "COMMAND")]
    pub command: Option<String>,
    /// CPUs for the load: a list, `rest` (all except the measured and the shielded CPUs) or `all`
    /// (all except the shielded CPUs)
    #[arg(id = "load_cpus", long = "load-cpus", value_name = "LIST", default_value = "rest")]
    pub cpus: LoadCpus,
}

/// The CPUs of a load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoadCpus {
    /// Every CPU except the measured and the shielded ones.
    Rest,
    /// Every CPU except the shielded ones.
    All,
    /// The CPUs of a list.
    These(CpuSet),
}

/// The names of all loads, `all` and `none`.
#[must_use]
pub fn load_names() -> Vec<&'static str> {
    ["all", "none"].into_iter().chain(names(KINDS)).collect()
}

impl LoadOptions {
    /// These loads on all CPUs except the shielded ones.
    #[must_use]
    pub fn everywhere(kinds: Vec<String>) -> LoadOptions {
        LoadOptions { kinds, command: None, cpus: LoadCpus::All }
    }

    /// The named loads, and a command of the user's own.
    fn words(&self) -> Vec<String> {
        let named = self.kinds.iter().filter(|name| *name != NONE || self.command.is_none());
        let command = self.command.iter().map(|command| format!("{COMMAND}:{command}"));
        named.cloned().chain(command).collect()
    }

    /// Whether a load is requested.
    #[must_use]
    pub fn any(&self) -> bool {
        self.words().iter().any(|word| word != NONE)
    }

    /// Checks the names of the loads.
    ///
    /// # Errors
    /// There is no such load.
    pub fn check(&self) -> Result<(), Failure> {
        Ok(parse_loads(&self.words()).map(drop)?)
    }

    /// The load to run while `measured` CPUs are measured. It spares the CPUs of all active shields
    /// with their idle siblings, the isolated CPUs, and `shielded`, which a shield will have.
    ///
    /// # Errors
    /// There is no such load, or no CPU for it.
    pub fn request(
        &self,
        work: &WorkContext<'_>,
        measured: &CpuSet,
        shielded: &CpuSet,
    ) -> Result<LoadRequest, Failure> {
        let wanted = parse_loads(&self.words())?;
        if wanted.is_empty() {
            return Ok(LoadRequest::none());
        }
        let host = &work.host;
        // A shield that cannot be read is one of another user; its partition refuses the load.
        let shields = known_shields(host, &work.store).unwrap_or_default();
        let taken = shielded.union(&read_cpu_list(host, "isolated")).union(&cpus_of(&shields));
        let cpus = self.cpus.select(&host.online_cpus()?, &taken, measured)?;
        Ok(LoadRequest { wanted, cpus, dir: scratch_file::directory(&work.state_dir) })
    }
}

impl FromStr for LoadCpus {
    type Err = String;

    fn from_str(text: &str) -> Result<LoadCpus, String> {
        match text {
            "rest" => Ok(LoadCpus::Rest),
            "all" => Ok(LoadCpus::All),
            list => parse_cpus(list)
                .map(LoadCpus::These)
                .map_err(|why| format!("{why}; other valid values are rest and all")),
        }
    }
}

/// Parses a list of CPUs, which must name one.
fn parse_cpus(text: &str) -> Result<CpuSet, String> {
    match text.parse::<CpuSet>() {
        Ok(cpus) if cpus.is_empty() => Err(format!("it names no CPU; {LIST_HINT}")),
        Ok(cpus) => Ok(cpus),
        Err(error) => {
            let hint = mask_hint(text).unwrap_or_else(|| LIST_HINT.to_owned());
            Err(format!("{error}; {hint}"))
        }
    }
}

impl LoadCpus {
    /// Selects CPUs from the online ones. `taken` CPUs are shielded or isolated.
    fn select(
        &self,
        online: &CpuSet,
        taken: &CpuSet,
        measured: &CpuSet,
    ) -> Result<CpuSet, Failure> {
        let free = online.difference(taken);
        let cpus = match self {
            LoadCpus::Rest => free.difference(measured),
            LoadCpus::All => free,
            LoadCpus::These(cpus) if cpus.intersects(taken) => {
                let both = cpus.intersection(taken);
                return Err(Failure::usage(format!("CPU {both} is shielded, so it gets no load"))
                    .hint("remove it from --load-cpus")
                    .hint("or take the shield down: cpushield undo"));
            }
            LoadCpus::These(cpus) => cpus.clone(),
        };
        if cpus.is_empty() {
            return Err(Failure::usage("no CPU is left for the load")
                .hint("measure fewer CPUs")
                .hint("or run the load on the measured CPUs too: --load-cpus all"));
        }
        Ok(cpus)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpus_of_a_load_are_two_words_or_a_list() {
        assert_eq!("rest".parse(), Ok(LoadCpus::Rest));
        assert_eq!("1".parse(), Ok(LoadCpus::These([1].into_iter().collect())));
        assert!("some".parse::<LoadCpus>().unwrap_err().contains("rest and all"));
    }

    #[test]
    fn a_load_avoids_the_shielded_and_the_measured_cpus() {
        let set = |text: &str| text.parse::<CpuSet>().unwrap();
        let select = |load_cpus: LoadCpus, taken: &str, measured: &str| {
            load_cpus.select(&set("0-3"), &set(taken), &set(measured)).map_err(|e| e.message)
        };
        assert_eq!(select(LoadCpus::Rest, "", "3"), Ok(set("0-2")));
        assert_eq!(select(LoadCpus::Rest, "2-3", "3"), Ok(set("0-1")));
        assert_eq!(select(LoadCpus::All, "", "3"), Ok(set("0-3")));
        assert_eq!(select(LoadCpus::All, "2-3", "3"), Ok(set("0-1")));
        assert_eq!(select(LoadCpus::These(set("1,3")), "2", "3"), Ok(set("1,3")));
        assert!(
            select(LoadCpus::These(set("1-2")), "2", "3")
                .unwrap_err()
                .contains("CPU 2 is shielded")
        );
        assert!(select(LoadCpus::Rest, "", "0-3").unwrap_err().contains("no CPU is left"));
    }
}
