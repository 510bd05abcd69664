//! Programs of a recorded machine, which a test simulates.

use crate::host::Host;
use crate::programs::CommandOutput;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// The simulation of programs by a test. Arguments: the root of the recorded machine, the command
/// and its input. Returns `None` if there is no such program.
type FakeAnswer = dyn Fn(&Path, &[&str], &[u8]) -> Option<CommandOutput> + Send + Sync;

/// The programs of a recorded machine.
#[derive(Clone, Default)]
pub struct FakePrograms(Option<Arc<FakeAnswer>>);

impl fmt::Debug for FakePrograms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FakePrograms({})", if self.0.is_some() { "by a test" } else { "none" })
    }
}

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

    /// The output of a simulated program; `None` if there is no such program.
    pub(crate) fn simulate_program(&self, words: &[&str], input: &[u8]) -> Option<CommandOutput> {
        let answer = self.simulation.programs.0.as_ref()?;
        answer(&self.local_path("/"), words, input)
    }
}
