//! Applies a plan. Some kernels refuse a partition with CPUs of `isolcpus=`, which only the attempt
//! shows. Then a plan without the partition is applied instead.

use crate::apply::{self, ApplyError, ApplyProgress};
use crate::documents::applied::AppliedPlan;
use crate::documents::machine::Machine;
use crate::documents::plan::{ActiveShields, Plan};
use crate::plan::{CpuChoice, plan_choice, plan_with_others};
use crate::policy::ShieldRequest;
use cpushield_linux::{Host, Store};

/// What a plan was made from, to make another plan if the kernel refuses a partition.
#[derive(Debug)]
pub struct PlanOrigin<'a> {
    /// The machine before the shield.
    pub machine: &'a Machine,
    /// The requested shield.
    pub request: &'a ShieldRequest,
    /// Its CPUs, if they were chosen together with those of other shields.
    pub choice: Option<&'a CpuChoice>,
}

/// Applies a plan: as a further shield, or as another version of one.
pub type ApplyFunction =
    fn(&Host, &Store, &Plan, &mut dyn FnMut(ApplyProgress<'_>)) -> Result<AppliedPlan, ApplyError>;

/// Applies the plan, or the fallback without a partition. Returns the plan that is in force.
///
/// # Errors
/// The shield cannot be applied. Nothing was changed, or every change was undone.
pub fn apply_or_fall_back(
    (host, store): (&Host, &Store),
    apply_plan: ApplyFunction,
    first: Plan,
    origin: Option<&PlanOrigin<'_>>,
    progress: &mut dyn FnMut(ApplyProgress<'_>),
) -> Result<(AppliedPlan, Plan), ApplyError> {
    let error = match apply_plan(host, store, &first, progress) {
        Ok(applied) => return Ok((applied, first)),
        Err(error) => error,
    };
    let Some((answer, origin)) = error.no_partition().zip(origin) else { return Err(error) };
    let mut machine = origin.machine.clone();
    machine.cgroup.no_partition = Some(answer.to_owned());
    // Without the list of other shields no plan can respect them.
    let Ok(mut live) = apply::active_plans(host, store) else { return Err(error) };
    let old = live.extract_if(.., |plan| plan.shield.name == first.shield.name).next();
    let live = ActiveShields::new(&live).replacing(old.as_ref());
    let fallback = match origin.choice {
        Some(choice) => plan_choice(&machine, origin.request, choice.clone(), &live),
        None => plan_with_others(&machine, origin.request, &live),
    };
    let Ok(fallback) = fallback else { return Err(error) };
    Ok((apply_plan(host, store, &fallback, progress)?, fallback))
}

#[cfg(test)]
mod tests {
    use super::super::tests::copy_recording;
    use super::*;
    use crate::change::{Change, Outcome, WrittenFile};
    use crate::documents::plan::{CpusetWarning, PlanWarning};
    use crate::plan::plan;
    use crate::survey::survey;
    use crate::tunables;
    use cpushield_linux::CpuSet;
    use cpushield_simulator::Simulated;
    use std::collections::BTreeMap;
    use std::fs;
    use std::path::{Path, PathBuf};

    fn read_files(dir: &Path, all: &mut BTreeMap<PathBuf, Vec<u8>>) {
        for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
            let path = entry.path();
            let kind = entry.file_type().unwrap();
            if kind.is_dir() {
                read_files(&path, all);
            } else if kind.is_file() {
                let text = fs::read(&path).unwrap();
                all.insert(path, text);
            }
        }
    }

    /// Applies and undoes a shield on a machine booted with `isolcpus=6-7` and this kernel. Returns
    /// whether CPU 7 became a partition, and the warnings.
    fn apply_and_undo(release: &str) -> (bool, Vec<PlanWarning>) {
        let dir = std::env::temp_dir();
        let dir = dir.join(format!("cpushield-isolcpus-{}-{release}", std::process::id()));
        let root = dir.join("root");
        copy_recording(Path::new("machines/6.12-rt-numa/root"), &root);
        fs::write(root.join("proc/sys/kernel/osrelease"), format!("{release}\n")).unwrap();
        let host = Host::recorded(&root).unwrap().simulated();
        let store = Store::new(&dir.join("state"));
        let machine = survey(&host, &tunables::reads());
        let cpus = Some(CpuSet::single(7));
        let request = ShieldRequest { cpus, ..ShieldRequest::default() };
        let first = plan(&machine, &request).unwrap();
        let (mut before, mut after) = (BTreeMap::new(), BTreeMap::new());
        read_files(&root, &mut before);
        let origin = PlanOrigin { machine: &machine, request: &request, choice: None };
        let (applied, plan) =
            apply_or_fall_back((&host, &store), apply::apply, first, Some(&origin), &mut |_| {})
                .unwrap();
        assert_eq!(applied.steps.len(), plan.steps.len());
        let partition = |step: &crate::documents::plan::Step| {
            matches!(step.change, Change::Write { what: WrittenFile::CpusetPartition, .. })
        };
        let partition = plan.steps.iter().position(partition);
        let made = partition.map(|at| applied.steps[at].done.outcome == Outcome::Changed);
        assert!(apply::undo(&host, &store, None).unwrap().is_complete());
        read_files(&root, &mut after);
        assert!(before == after, "undo did not restore the original state");
        fs::remove_dir_all(dir).unwrap();
        (made == Some(true), plan.warnings)
    }

    #[test]
    fn the_answer_of_the_kernel_decides_whether_isolcpus_allows_a_partition() {
        let refused = |warning: &PlanWarning| match warning {
            PlanWarning::Cpuset(CpusetWarning::PartitionRefused { answer, .. }) => answer
                .as_ref()
                .is_some_and(|answer| answer.contains("conflicts with housekeeping setup")),
            _ => false,
        };
        let is_doubtful = |warning: &PlanWarning| {
            matches!(warning, PlanWarning::Cpuset(CpusetWarning::PartitionDoubtful { .. }))
        };
        let (partition, warnings) = apply_and_undo("6.12.1-rt");
        assert!(!partition);
        assert!(warnings.iter().any(refused), "{warnings:?}");
        for release in ["6.1.0-rt", "6.18.0-rt"] {
            let (partition, warnings) = apply_and_undo(release);
            assert!(partition, "{release}");
            assert!(!warnings.iter().any(|it| refused(it) || is_doubtful(it)), "{warnings:?}");
        }
    }
}
