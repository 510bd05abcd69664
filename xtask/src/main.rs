//! Project tasks: generated documents, man pages and completions. All of them are derived from the
//! definitions in the tool itself, so that nothing is written twice.

mod docs;
mod man;

use clap::{Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;

/// Project tasks
#[derive(Debug, Parser)]
#[command(name = "xtask")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Write docs/tunables.md, docs/boot.md, docs/causes.md, docs/witnesses.md and the schemas
    Docs {
        /// Output directory
        #[arg(default_value = "docs")]
        dir: PathBuf,
    },
    /// Write the man pages, one per subcommand
    Man {
        /// Output directory
        dir: PathBuf,
    },
    /// Write the completions for bash, zsh and fish
    Completions {
        /// Output directory
        dir: PathBuf,
    },
}

fn main() -> ExitCode {
    let done = match Cli::parse().task {
        Task::Docs { dir } => docs::write(&dir),
        Task::Man { dir } => man::pages(&dir),
        Task::Completions { dir } => man::completions(&dir),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
