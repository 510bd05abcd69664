//! Programs of a recorded machine, which a test simulates.

use super::simulation::FakePrograms;
use crate::host::Host;
use crate::processes::command_output::CommandOutput;
use std::path::Path;
use std::sync::Arc;

impl Host {
    /// The same recorded machine with simulated programs, for tests. Without this it has none:
    /// nothing from a recording is ever run.
    #[must_use]
    pub fn with_programs(
        mut self,
        answer: impl Fn(&Path, &[&str], &[u8]) -> Option<CommandOutput> + Send + Sync + 'static,
    ) -> Host {
        self.simulation.programs = FakePrograms(Some(Arc::new(answer)));
        self
    }

    /// The same recorded machine, on which this program is the process with this number, for tests.
    #[must_use]
    pub fn as_process(mut self, pid: i32) -> Host {
        self.simulation.own_pid = Some(pid);
        self
    }

    /// The output of a simulated program; `None` if there is no such program.
    pub(crate) fn simulate_program(&self, words: &[&str], input: &[u8]) -> Option<CommandOutput> {
        let answer = self.simulation.programs.0.as_ref()?;
        answer(&self.local_path("/"), words, input)
    }
}
