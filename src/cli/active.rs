//! The option `--shield` of subcommands that use the active shield.

use crate::failure::Failure;
use crate::workflow::{WorkContext, standing};

/// The active shield
#[derive(Debug, Clone, Default, clap::Args)]
pub struct ActiveArgs {
    /// Fail unless the active shield has this name
    #[arg(long, value_name = "NAME", help_heading = "The active shield")]
    pub shield: Option<String>,
}

impl ActiveArgs {
    /// Checks that the active shield, whole or incomplete, has the name given by `--shield`.
    ///
    /// # Errors
    /// It has another name, there is none, or the journal cannot be read.
    pub fn check(&self, work: &WorkContext<'_>) -> Result<(), Failure> {
        let Some(name) = &self.shield else { return Ok(()) };
        standing::check_name(&work.host, &work.store, name)
    }
}
