//! The hidden subcommand that makes this program the companion which samples gaps
//! (`verify/sampler.rs`).

use crate::verify::sampler;
use cpushield_linux::Host;

/// Serves until the maker is gone.
pub fn run() {
    sampler::serve(&Host::live());
}
