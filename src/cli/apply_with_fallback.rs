//! A plan is put in force. Where the kernel makes no partition of CPUs of `isolcpus=`, which only
//! asking it shows, the plan that does without takes its place.

use crate::apply::{self, AppliedPlan, ApplyError, ApplyProgress};
use crate::plan::{Plan, plan};
use crate::policy::ShieldRequest;
use crate::survey::Machine;
use cpushield_linux::{Host, Store};

/// What a plan was made of; another one can be made of it.
pub(super) struct PlanOrigin<'a> {
    /// The machine before.
    pub machine: &'a Machine,
    /// The shield that is wanted.
    pub wish: &'a ShieldRequest,
}

/// Applies a plan, and returns the one that is in force.
///
/// # Errors
/// Nothing was changed, or what was changed was undone.
pub(super) fn shield(
    host: &Host,
    store: &Store,
    made: Plan,
    origin: Option<&PlanOrigin<'_>>,
    progress: &mut dyn FnMut(ApplyProgress<'_>),
) -> Result<(AppliedPlan, Plan), ApplyError> {
    let error = match apply::apply(host, store, &made, progress) {
        Ok(applied) => return Ok((applied, made)),
        Err(error) => error,
    };
    let Some((answer, origin)) = error.no_partition().zip(origin) else { return Err(error) };
    let mut machine = origin.machine.clone();
    machine.cgroup.no_partition = Some(answer.to_owned());
    let Ok(without) = plan(&machine, origin.wish) else { return Err(error) };
    Ok((apply::apply(host, store, &without, progress)?, without))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::{Change, Outcome};
    use crate::survey::survey;
    use crate::tunables;
    use std::collections::BTreeMap;
    use std::fs;
    use std::path::{Path, PathBuf};

    fn copy(from: &Path, to: &Path) {
        fs::create_dir_all(to).unwrap();
        for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
            let (kind, to) = (entry.file_type().unwrap(), to.join(entry.file_name()));
            if kind.is_dir() {
                copy(&entry.path(), &to);
            } else if kind.is_symlink() {
                std::os::unix::fs::symlink(fs::read_link(entry.path()).unwrap(), to).unwrap();
            } else {
                // Not fs::copy: what is read-only there must be written here.
                fs::write(to, fs::read(entry.path()).unwrap()).unwrap();
            }
        }
    }

    fn bytes(dir: &Path, all: &mut BTreeMap<PathBuf, Vec<u8>>) {
        for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
            let path = entry.path();
            let kind = entry.file_type().unwrap();
            if kind.is_dir() {
                bytes(&path, all);
            } else if kind.is_file() {
                let text = fs::read(&path).unwrap();
                all.insert(path, text);
            }
        }
    }

    /// A machine that was booted with `isolcpus=6-7`, shielded and put back, with this kernel:
    /// whether CPU 7 became a partition, and the warnings.
    fn shielded(release: &str) -> (bool, String) {
        let dir = std::env::temp_dir();
        let dir = dir.join(format!("cpushield-isolcpus-{}-{release}", std::process::id()));
        let root = dir.join("root");
        copy(Path::new("machines/6.12-rt-numa/root"), &root);
        fs::write(root.join("proc/sys/kernel/osrelease"), format!("{release}\n")).unwrap();
        let host = Host::recorded(&root).unwrap();
        let store = Store::new(&dir.join("state"));
        let (machine, wish) = (survey(&host, &tunables::reads()), ShieldRequest::default());
        let made = plan(&machine, &wish).unwrap();
        let (mut before, mut after) = (BTreeMap::new(), BTreeMap::new());
        bytes(&root, &mut before);
        let origin = PlanOrigin { machine: &machine, wish: &wish };
        let (applied, plan) = shield(&host, &store, made, Some(&origin), &mut |_| {}).unwrap();
        assert_eq!(applied.steps.len(), plan.steps.len());
        let partition = |step: &crate::plan::Step| {
            matches!(&step.change,
            Change::Write { path, .. } if path.ends_with("/cpuset.cpus.partition"))
        };
        let partition = plan.steps.iter().position(partition);
        let made = partition.map(|at| applied.steps[at].done.outcome == Outcome::Changed);
        assert!(apply::undo(&host, &store).unwrap().is_complete());
        bytes(&root, &mut after);
        assert!(before == after, "not as it was");
        fs::remove_dir_all(dir).unwrap();
        (made == Some(true), plan.warnings.join("\n"))
    }

    #[test]
    fn what_the_kernel_answers_decides_about_isolcpus_and_not_what_was_thought() {
        let (partition, warnings) = shielded("6.12.1-rt");
        assert!(!partition);
        assert!(warnings.contains("conflicts with housekeeping setup"), "{warnings}");
        for release in ["6.1.0-rt", "6.18.0-rt"] {
            let (partition, warnings) = shielded(release);
            assert!(partition, "{release}");
            assert!(!warnings.contains("isolcpus"), "{release}: {warnings}");
        }
    }
}
