//! The options `--load` and `--load-cpus`, and the CPUs that they select.

use super::completions::KnownWord;
use super::{GlobalArgs, input};
use crate::failure::Failure;
use crate::load::{self, KINDS, LoadRequest, parse_loads};
use cpushield_linux::{CpuSet, Host, scratch_file};
use std::str::FromStr;

/// The load on the rest of the machine
#[derive(Debug, clap::Args)]
pub struct LoadArgs {
    /// Run a load on the rest of the machine and report its throughput: messages, memory, disk,
    /// network, fork, timers, interrupts, or all of them. If installed, also stress-ng or
    /// hackbench, for example 'stress-ng:--cpu 2'. See `explain load-messages`
    #[arg(long, value_name = "KINDS", value_delimiter = ',', default_value = "none",
          value_parser = KnownWord(load_kinds), hide_possible_values = true)]
    pub load: Vec<String>,
    /// CPUs of the load: a list, `rest` (all except the measured and the shielded CPUs) or `all`
    /// (all except the shielded CPUs)
    #[arg(long, value_name = "LIST", default_value = "rest")]
    pub load_cpus: LoadCpus,
}

/// The values of `--load`.
fn load_kinds() -> Vec<&'static str> {
    ["all", "none"].into_iter().chain(KINDS.iter().map(|kind| kind.name())).collect()
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

impl FromStr for LoadCpus {
    type Err = String;

    fn from_str(text: &str) -> Result<LoadCpus, String> {
        match text {
            "rest" => Ok(LoadCpus::Rest),
            "all" => Ok(LoadCpus::All),
            list => {
                let cpus = input::cpu_list(list).map(LoadCpus::These);
                cpus.map_err(|why| format!("{why}; other values are rest and all"))
            }
        }
    }
}

impl LoadArgs {
    /// Whether a load is requested.
    #[must_use]
    pub fn any(&self) -> bool {
        self.load.iter().any(|word| word != "none")
    }

    /// Checks the names of the loads.
    ///
    /// # Errors
    /// There is no such load.
    pub fn check(&self) -> Result<(), Failure> {
        Ok(parse_loads(&self.load).map(drop)?)
    }

    /// The load to run while `measured` CPUs are measured and `shielded` CPUs are shielded.
    ///
    /// # Errors
    /// There is no such load, or no CPU for it.
    pub fn request(
        &self,
        host: &Host,
        global: &GlobalArgs,
        measured: &CpuSet,
        shielded: &CpuSet,
    ) -> Result<LoadRequest, Failure> {
        let wanted = parse_loads(&self.load)?;
        if wanted.is_empty() {
            return Ok(LoadRequest::none());
        }
        let isolated = host.read_line("/sys/devices/system/cpu/isolated").ok();
        let isolated: CpuSet = isolated.and_then(|text| text.parse().ok()).unwrap_or_default();
        let taken = shielded.union(&isolated);
        let cpus = self.load_cpus.select(&host.online_cpus()?, &taken, measured)?;
        Ok(load::LoadRequest { wanted, cpus, dir: scratch_file::directory(&global.state_dir()) })
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
                return Err(Failure::usage(format!("CPU {both} is shielded from all load"))
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
    fn a_load_avoids_the_shielded_and_the_measured_cpus() {
        let set = |text: &str| text.parse::<CpuSet>().unwrap();
        let select = |load_cpus: &str, taken: &str, measured: &str| {
            let load_cpus: LoadCpus = load_cpus.parse().unwrap();
            load_cpus.select(&set("0-3"), &set(taken), &set(measured)).map_err(|e| e.message)
        };
        assert_eq!(select("rest", "", "3"), Ok(set("0-2")));
        assert_eq!(select("rest", "2-3", "3"), Ok(set("0-1")));
        assert_eq!(select("all", "", "3"), Ok(set("0-3")));
        assert_eq!(select("all", "2-3", "3"), Ok(set("0-1")));
        assert_eq!(select("1,3", "2", "3"), Ok(set("1,3")));
        assert!(select("1-2", "2", "3").unwrap_err().contains("CPU 2 is shielded"));
        assert!(select("rest", "", "0-3").unwrap_err().contains("no CPU is left"));
        assert!("some".parse::<LoadCpus>().unwrap_err().contains("rest and all"));
    }
}
