//! `--boot` of `plan`, `apply`, `undo` and `status`: kernel parameters for the next boot.

use super::Global;
use super::wish::WishArgs;
use crate::boot::plan::{Asked, plan};
use crate::boot::{BootPlan, WordStatus, Written, early, kexec, loaders, status, write};
use crate::change::When;
use crate::failure::{Failure, Kind};
use crate::report::{boot_plan_text, boot_status_text, boot_undone_text, boot_written_text};
use crate::ui::Ui;
use cpushield_linux::{Host, Store};
use std::path::{Path, absolute};
use std::process::ExitCode;

/// What the next boot shall have
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "The next boot")]
pub struct BootArgs {
    /// Use kernel parameters for the next boot instead of a shield on the running kernel
    #[arg(long)]
    pub boot: bool,
    /// Kernels to configure, as a version glob: `*-rt-*` [default: all PREEMPT_RT kernels, or the
    /// default kernel if there are none]
    #[arg(long, value_name = "GLOB", requires = "boot")]
    pub kernels: Option<String>,
}

/// How they are written
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "The next boot")]
pub struct WriteArgs {
    /// Add the new entries after all others, so that the default entry does not change
    #[arg(long, requires = "boot")]
    pub keep_default: bool,
    /// Boot with the parameters once; keep them if they are in force and `verify` holds, otherwise
    /// boot the old entry again
    #[arg(long, requires = "boot", conflicts_with = "dry_run")]
    pub trial: bool,
    /// Start the chosen kernel immediately with kexec, without firmware and boot loader; running
    /// programs end as in a reboot
    #[arg(long, requires = "boot", conflicts_with_all = ["dry_run", "settle"])]
    pub kexec: bool,
    /// Conclude a trial boot: keep the parameters if the shield holds, otherwise remove them
    #[arg(long, requires = "boot", conflicts_with_all = ["trial", "dry_run", "kernels"])]
    pub settle: bool,
}

fn planned(
    host: &Host,
    store: &Store,
    wish: &WishArgs,
    args: &BootArgs,
) -> Result<BootPlan, Failure> {
    let machine = super::surveyed(host, store);
    let wish = wish.asked(host, &machine, When::Boot)?.wish;
    let asked = Asked { wish, kernels: args.kernels.clone() };
    let menu = loaders::find(host)?;
    Ok(plan(host, &machine, &asked, menu.as_ref())?)
}

/// Runs `plan --boot`.
///
/// # Errors
/// The wish is wrong, unsafe or impossible, or the loader's files are not understood.
pub fn show(ui: &Ui, global: &Global, wish: &WishArgs, args: &BootArgs) -> Result<(), Failure> {
    let host = global.host()?;
    let plan = planned(&host, &global.store(), wish, args)?;
    ui.show(&plan, || boot_plan_text(&plan, ui.width()))
}

/// Runs `apply --boot`.
///
/// # Errors
/// As [`show`], or nothing can be written here.
pub fn apply(
    ui: &Ui,
    global: &Global,
    wish: &WishArgs,
    args: &BootArgs,
    how: &WriteArgs,
    dry_run: bool,
) -> Result<(), Failure> {
    let host = global.host()?;
    if !host.is_live() && !dry_run {
        return Err(Failure::usage("a recorded machine has no boot")
            .hint("--dry-run prints the files that would be written"));
    }
    let store = global.store();
    if how.settle {
        return super::settle::run(ui, global, &host, &store);
    }
    let plan = planned(&host, &store, wish, args)?;
    if dry_run {
        let recipe = write::preview(&host, &plan, how.keep_default)?;
        return ui.show(&plan, || {
            if write::words(&plan).is_empty() {
                return "# nothing would be written: every parameter is there already\n".to_owned();
            }
            let mut text = "# nothing of this was done\n".to_owned();
            for edit in &recipe.edits {
                let bytes = String::from_utf8_lossy(&edit.bytes);
                text.push_str(&format!("# {} (mode {:o}):\n{bytes}", edit.path, edit.mode));
            }
            recipe.made.iter().for_each(|path| text.push_str(&format!("# then anew: {path}\n")));
            text
        });
    }
    if how.kexec {
        kexec::possible(&host, &plan)?;
    }
    ui.status("writing boot files …");
    let program = host.link("/proc/self/exe").ok().filter(|_| host.exists("/run/systemd/system"));
    let state = absolute(global.state_dir()).unwrap_or(global.state_dir()).display().to_string();
    let how = write::How {
        keep_default: how.keep_default,
        trial: how.trial,
        kexec: how.kexec,
        unit: program.map(|program| (program, state)),
    };
    let written = write::write(&host, &store, &plan, &how)?;
    ui.show(&written, || boot_written_text(&written))?;
    if how.kexec { start(ui, &host, &store, &written) } else { Ok(()) }
}

/// Starts the kernel of what was written.
fn start(ui: &Ui, host: &Host, store: &Store, written: &Written) -> Result<(), Failure> {
    let started = kexec::start(host, store, written)?;
    ui.status(&match started.now {
        true => format!("{} starts now", started.image.kernel),
        false => format!(
            "{} is loaded: it starts when your init system reboots by kexec, or with `kexec -e` \
             once everything is ended and file systems are unmounted",
            started.image.kernel
        ),
    });
    Ok(())
}

/// Lets every boot apply this wish again. Returns the file that does.
pub(super) fn keep(
    host: &Host,
    global: &Global,
    store: &Store,
    wish: &WishArgs,
) -> Result<String, Failure> {
    let whole = |path: &Path| absolute(path).unwrap_or(path.to_owned()).display().to_string();
    let policy = wish.policy.as_ref().map(|path| whole(Path::new(path)));
    let wish = WishArgs { policy, ..wish.clone() };
    let words = ["apply".to_owned()].into_iter().chain(wish.words()).collect();
    let state = whole(&global.state_dir());
    let call = early::Call { program: host.link("/proc/self/exe")?, state, words };
    let kept = early::install(host, store, &call).map_err(Failure::from);
    Ok(kept.map_err(|failure| failure.hint("the shield is up until the next boot"))?.path)
}

/// Runs `undo --boot`.
///
/// # Errors
/// A file could not be put back.
pub fn undo(ui: &Ui, global: &Global) -> Result<(), Failure> {
    let host = global.host()?;
    if !host.is_live() {
        return Err(Failure::usage("a recorded machine has no boot"));
    }
    let undone = write::undo(&host, &global.store())?;
    ui.show(&undone, || boot_undone_text(undone.as_ref()))
}

/// Where the kernel shows nothing of a word, the command line it was booted with decides.
fn is_in_force(word: &WordStatus) -> bool {
    word.written && word.booted && word.in_force != Some(false)
}

/// Runs `status --boot`. The exit code is 0 when every parameter is in force, 1 when one is not,
/// and 3 when none was written.
///
/// # Errors
/// The journal or the loader's files cannot be read.
pub fn status(ui: &Ui, global: &Global) -> Result<ExitCode, Failure> {
    let host = global.host()?;
    let status = status::status(&host, &global.store())?;
    ui.show(&status, || boot_status_text(&status))?;
    Ok(match status.words.as_slice() {
        [] => ExitCode::from(Kind::Machine.code()),
        words if words.iter().all(is_in_force) => ExitCode::SUCCESS,
        _ => ExitCode::from(Kind::DoesNotHold.code()),
    })
}
