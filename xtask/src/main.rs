//! Project tasks: generated documents, man pages, completions and units. All are derived from the
//! definitions in the tool. `vm` runs guests with real kernels.

mod docs;
mod exit_codes;
mod kernel_names;
mod man;
#[cfg(test)]
#[path = "../../tests/support/not_run.rs"]
mod not_run;
mod policy_page;
mod roff;
mod units;
mod vm;

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
    /// Write the generated pages of docs/ and the schemas
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
    /// Write examples of the unit and the init scripts of `cpushield enable`
    Units {
        /// The directory to write to
        dir: PathBuf,
        /// The program that they start
        #[arg(default_value = "/usr/bin/cpushield")]
        program: String,
    },
    /// Write the list of kernel parameters that `--parameter` knows
    KernelNames {
        /// The kernel's document kernel-parameters.txt
        document: PathBuf,
        /// Its origin: `Linux 6.12.1 (package linux-doc-6.12)`
        origin: String,
    },
    /// Run guests with real kernels
    #[command(subcommand)]
    Vm(Box<vm::VmTask>),
}

fn main() -> ExitCode {
    let result = match Cli::parse().task {
        Task::Docs { dir } => written(docs::write(&dir)),
        Task::Man { dir } => written(man::write_pages(&dir)),
        Task::Completions { dir } => written(man::write_completions(&dir)),
        Task::Units { dir, program } => written(units::write(&dir, &program)),
        Task::KernelNames { document, origin } => written(kernel_names::write(&document, &origin)),
        Task::Vm(task) => vm::run(&task),
    };
    match result {
        Ok(status) => status,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn written(result: std::io::Result<()>) -> vm::VmResult<ExitCode> {
    Ok(result.map(|()| ExitCode::SUCCESS)?)
}
