//! Project tasks: generated documents, man pages and completions. All are derived from the
//! definitions in the tool.

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
    /// Write docs/tunables.md, docs/boot.md, docs/causes.md and the schemas
    Docs {
        /// The directory to write to
        #[arg(default_value = "docs")]
        dir: PathBuf,
    },
    /// Write the man pages, one per subcommand
    Man {
        /// The directory to write to
        dir: PathBuf,
    },
    /// Write the completions for bash, zsh and fish
    Completions {
        /// The directory to write to
        dir: PathBuf,
    },
}

fn main() -> ExitCode {
    let result = match Cli::parse().task {
        Task::Docs { dir } => docs::write(&dir),
        Task::Man { dir } => man::write_pages(&dir),
        Task::Completions { dir } => man::write_completions(&dir),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
