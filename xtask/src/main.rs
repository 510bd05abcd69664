//! Chores of the project: generated documents, man pages and completions. Everything is derived
//! from the definitions in the tool itself, so that nothing is written twice.

mod docs;
mod man;

use clap::{Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;

/// Chores of the project
#[derive(Debug, Parser)]
#[command(name = "xtask")]
struct Cli {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Debug, Subcommand)]
enum Chore {
    /// Write docs/tunables.md, docs/boot.md, docs/causes.md and the schemas
    Docs {
        /// Where to
        #[arg(default_value = "docs")]
        dir: PathBuf,
    },
    /// Write the man pages, one per subcommand
    Man {
        /// Where to
        dir: PathBuf,
    },
    /// Write the completions for bash, zsh and fish
    Completions {
        /// Where to
        dir: PathBuf,
    },
}

fn main() -> ExitCode {
    let done = match Cli::parse().chore {
        Chore::Docs { dir } => docs::write(&dir),
        Chore::Man { dir } => man::pages(&dir),
        Chore::Completions { dir } => man::completions(&dir),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
