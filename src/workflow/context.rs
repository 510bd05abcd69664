//! What every workflow works on and reports to.

use crate::documents::plan::Plan;
use crate::failure::Failure;
use crate::run::{self, RunError};
use crate::ui::Ui;
use cpushield_linux::{
    AffinityGuard, CpuSet, EventLog, Host, PublicDir, Store, processes::process, sys::signal,
};
use std::path::{Path, PathBuf, absolute};

/// The default state directory, relative to the machine's root.
const STATE: &str = "var/lib/cpushield";
/// The directory for what every user may read, relative to the machine's root.
const PUBLIC: &str = "run/cpushield";

/// The machine, its journals, and the place where progress is shown.
#[derive(Debug)]
pub struct WorkContext<'a> {
    /// Shows status lines, warnings and progress.
    pub ui: &'a Ui,
    /// The machine: the active one or a recorded one.
    pub host: Host,
    /// The files in the state directory.
    pub store: Store,
    /// The state directory.
    pub state_dir: PathBuf,
    /// The active shield that the command is about; `None` for the only one.
    pub shield: Option<String>,
}

impl<'a> WorkContext<'a> {
    /// Opens the live machine, or the machine recorded in `root`.
    ///
    /// # Errors
    /// The recording cannot be read, or the directory is not a recording.
    pub fn open(
        ui: &'a Ui,
        root: Option<&Path>,
        state: Option<&Path>,
        log: Option<&EventLog>,
    ) -> Result<WorkContext<'a>, Failure> {
        let host = open_host(root, log)?;
        let state_dir = find_state_dir(root, state);
        let public = find_public_dir(root, &state_dir).map(|dir| dir.logging(log.cloned()));
        let store = Store::new(&state_dir).logging(log.cloned()).publishing(public);
        Ok(WorkContext { ui, host, store, state_dir, shield: None })
    }

    /// The plan of the active shield that the command is about; `None` when no shield is active.
    ///
    /// # Errors
    /// As [`run::active`].
    pub fn active(&self) -> Result<Option<Plan>, RunError> {
        run::active(&self.host, &self.store, self.shield.as_deref())
    }

    /// The plans of the active shields that the command may be about: the named one, or all.
    ///
    /// # Errors
    /// As [`run::all_active`], or no active shield has the name.
    pub fn chosen(&self) -> Result<Vec<Plan>, RunError> {
        match self.shield {
            Some(_) => Ok(self.active()?.into_iter().collect()),
            None => run::all_active(&self.host, &self.store),
        }
    }

    /// The plans of the active shields with some of these CPUs.
    ///
    /// # Errors
    /// As [`run::all_active`].
    pub fn active_on(&self, cpus: &CpuSet) -> Result<Vec<Plan>, RunError> {
        let mut plans = run::all_active(&self.host, &self.store)?;
        plans.retain(|plan| plan.shield.cpus.intersects(cpus));
        Ok(plans)
    }
}

/// The state directory: the given one, or the machine's own. A recorded machine has its own, so
/// the live machine's shield is never read for it.
fn find_state_dir(root: Option<&Path>, state: Option<&Path>) -> PathBuf {
    let own = || root.unwrap_or(Path::new("/")).join(STATE);
    state.map_or_else(own, Path::to_owned)
}

/// The directory for what every user may read. Only the machine's own state directory has one, so
/// shields of another one are not mistaken for those of the machine.
fn find_public_dir(root: Option<&Path>, state: &Path) -> Option<PublicDir> {
    let root = root.unwrap_or(Path::new("/"));
    (state == root.join(STATE)).then(|| PublicDir::new(&root.join(PUBLIC)))
}

fn open_host(root: Option<&Path>, log: Option<&EventLog>) -> Result<Host, Failure> {
    let Some(dir) = root else { return Ok(Host::live().logging(log.cloned())) };
    let host = match Host::recorded(dir) {
        Err(error) if error.is_absent() => {
            let message =
                format!("{} is not a directory, so it is not a recorded machine", dir.display());
            let hint = "record one: cpushield survey --record DIR";
            return Err(Failure::usage(message).hint(hint));
        }
        host => host?.logging(log.cloned()),
    };
    // The boot commands need nothing else of a recording.
    if ["/proc", "/sys", "/boot"].iter().any(|dir| host.exists(dir)) {
        return Ok(host);
    }
    let name = dir.display();
    let failure = Failure::usage(format!(
        "{name} is not a recorded machine: it has no proc, sys or boot directory"
    ));
    Err(failure.hint(if host.exists("/root/proc") {
        format!("use the directory below it: --root {}", dir.join("root").display())
    } else {
        "record one: cpushield survey --record DIR".to_owned()
    }))
}

/// Catches stop signals. A command that ends soon by itself completes its changes: neither Ctrl-C
/// nor a lost connection leaves half of them.
///
/// # Errors
/// The kernel refuses the signal handlers.
pub fn catch_stops() -> Result<(), Failure> {
    signal::catch_stops().map_err(|e| Failure::machine(format!("cannot catch signals: {e}")))
}

/// Moves this thread, and the processes that it starts, to housekeeping CPUs.
///
/// # Errors
/// The kernel refuses.
pub fn step_aside(host: &Host, housekeeping: &CpuSet) -> Result<AffinityGuard, Failure> {
    host.step_aside(housekeeping).map_err(|e| {
        Failure::machine(format!("cannot restrict this process to CPU {housekeeping}: {e}"))
    })
}

/// The path, independent of the working directory.
#[must_use]
pub fn absolute_path(path: &Path) -> String {
    absolute(path).unwrap_or(path.to_owned()).display().to_string()
}

/// Whether this process may change the machine.
#[must_use]
pub fn runs_as_root() -> bool {
    process::effective_user() == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::FailureKind;

    #[test]
    fn a_recorded_machine_has_its_own_state_directory() {
        let (root, state) = (Some(Path::new("REC")), Some(Path::new("DIR")));
        assert_eq!(find_state_dir(None, None), Path::new("/var/lib/cpushield"));
        assert_eq!(find_state_dir(root, None), Path::new("REC/var/lib/cpushield"));
        assert_eq!(find_state_dir(root, state), Path::new("DIR"));
    }

    #[test]
    fn a_directory_that_is_not_a_recording_is_refused_and_one_below_it_is_named() {
        let machines = Path::new(env!("CARGO_MANIFEST_DIR")).join("machines");
        let open = |dir: &str| open_host(Some(&machines.join(dir)), None);
        assert!(open("6.1-rt-v1/root").is_ok());
        let near = open("6.1-rt-v1").unwrap_err();
        assert!(near.hints.concat().ends_with("6.1-rt-v1/root"), "{near:?}");
        let far = open("").unwrap_err();
        assert!(far.hints.concat().contains("survey --record"), "{far:?}");
        let nowhere = open("nowhere").unwrap_err();
        assert!(nowhere.hints.concat().contains("survey --record"), "{nowhere:?}");
        assert_eq!((far.kind, nowhere.kind), (FailureKind::Usage, FailureKind::Usage));
    }
}
