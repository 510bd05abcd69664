//! The option `--shield` of subcommands that use an active shield.

use crate::failure::Failure;
use crate::workflow::{WorkContext, active_shields};

/// The active shield
#[derive(Debug, Clone, Default, clap::Args)]
pub struct ActiveArgs {
    /// Name of the active shield, if there are several
    #[arg(long, value_name = "NAME", help_heading = "The active shield")]
    pub shield: Option<String>,
}

impl ActiveArgs {
    /// Makes the command be about the active shield that `--shield` names.
    ///
    /// # Errors
    /// The name is not valid, no active shield has it, or the journal cannot be read.
    pub fn select(&self, work: &mut WorkContext<'_>) -> Result<(), Failure> {
        let Some(name) = &self.shield else { return Ok(()) };
        active_shields::check_name(&work.host, &work.store, name)?;
        work.shield = Some(name.clone());
        Ok(())
    }
}
