//! The options `--load` and `--load-cpus`.

use super::completions::KnownWord;
use crate::workflow::load_options::{LoadCpus, LoadOptions, load_names};

/// The load on the rest of the machine
#[derive(Debug, clap::Args)]
pub struct LoadArgs {
    /// Run a load on the rest of the machine and report its throughput: messages, memory, disk,
    /// network, fork, timers, interrupts, or all of them. If installed, also stress-ng or
    /// hackbench, for example 'stress-ng:--cpu 2'. See `explain load-messages`
    #[arg(long, value_name = "KINDS", value_delimiter = ',', default_value = "none",
          value_parser = KnownWord(load_names), hide_possible_values = true)]
    load: Vec<String>,
    /// Run this shell command as a load: it starts before the measurement, runs again whenever it
    /// succeeds, and is stopped after the measurement. See `explain load-command`
    #[arg(long, value_name = "COMMAND")]
    load_command: Option<String>,
    /// CPUs for the load: a list, `rest` (all except the measured and the shielded CPUs) or `all`
    /// (all except the shielded CPUs)
    #[arg(long, value_name = "LIST", default_value = "rest")]
    load_cpus: LoadCpus,
}

impl LoadArgs {
    /// The same options, as the workflows take them.
    pub fn options(&self) -> LoadOptions {
        LoadOptions::new(&self.load, self.load_command.as_deref(), self.load_cpus.clone())
    }
}
