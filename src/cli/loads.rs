//! The options `--load` and `--load-cpus`.

use super::completions::KnownWord;
use super::input;
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
    /// Run this shell command as a load: it starts before the measurement, is repeated, and ends
    /// after it. See `explain load-command`
    #[arg(long, value_name = "COMMAND")]
    load_command: Option<String>,
    /// CPUs of the load: a list, `rest` (all except the measured and the shielded CPUs) or `all`
    /// (all except the shielded CPUs)
    #[arg(long, value_name = "LIST", default_value = "rest", value_parser = load_cpus)]
    load_cpus: LoadCpus,
}

impl LoadArgs {
    /// The same options, as the workflows take them.
    pub fn options(&self) -> LoadOptions {
        LoadOptions::new(&self.load, self.load_command.as_deref(), self.load_cpus.clone())
    }
}

/// Parses the value of `--load-cpus`.
fn load_cpus(text: &str) -> Result<LoadCpus, String> {
    match text {
        "rest" => Ok(LoadCpus::Rest),
        "all" => Ok(LoadCpus::All),
        list => {
            let cpus = input::cpu_list(list).map(LoadCpus::These);
            cpus.map_err(|why| format!("{why}; other values are rest and all"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpus_of_a_load_are_two_words_or_a_list() {
        assert_eq!(load_cpus("rest"), Ok(LoadCpus::Rest));
        assert_eq!(load_cpus("1"), Ok(LoadCpus::These([1].into_iter().collect())));
        assert!(load_cpus("some").unwrap_err().contains("rest and all"));
    }
}
