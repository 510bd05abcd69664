//! Project tasks: documents that are generated from the definitions in the tool, and guests with
//! real kernels (`vm`).

mod docs;
mod exit_codes;
mod kernel_names;
mod vm;

use clap::{Parser, Subcommand};
use std::path::{Path, PathBuf};
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
    Docs,
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
        Task::Docs => written(docs::write(Path::new("docs"))),
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
