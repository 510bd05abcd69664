//! The internal subcommand that runs the gap sampler of `verify` (`verify/sampler.rs`).

use crate::verify::sampler;
use cpushield_linux::Host;

/// Runs until the process that started it has ended.
pub fn run() {
    sampler::serve(&Host::live());
}
