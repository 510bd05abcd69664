//! Applies a saved plan, or plans a request and applies that plan.

use super::active_shields::{active_shields, known_shields, version_and_others};
use super::apply_with_fallback::{PlanOrigin, apply_or_fall_back};
pub use super::change_shield::ProgramsInTheWay;
use super::change_shield::{change_shield, end_interrupted_change, find_version, is_same_version};
use super::given_file::read_file;
use super::machine_survey::survey_machine;
use super::machine_without::{remove_shield, survey_without};
use super::operator_units::warn_of_old_socket;
use super::saved_document::SavedDocument;
use super::shield_options::{ShieldOptions, check_accounts};
use super::{WorkContext, catch_stops};
use crate::apply::{self, ApplyError, ApplyProgress, check};
use crate::boot::running_lint::nohz_full_difference;
use crate::change::EffectTime;
use crate::documents::applied::{AppliedPlan, ShieldNote};
use crate::documents::free_cpus::FreeCpus;
use crate::documents::machine::Machine;
use crate::documents::plan::{ChoiceReason, NamedShield, Plan, version_differences};
use crate::failure::Failure;
use crate::plan::{check_saved, find_free_cpus, plan_with_others};
use crate::policy::ShieldRequest;
use crate::tunables::HOUSEKEEPING_GROUP;
use cpushield_linux::{CpuSet, sys::sched};
use std::path::{Path, PathBuf};

/// What a plan was made from.
pub type PlanInputs = (Machine, ShieldRequest);

/// Where a plan comes from.
#[expect(clippy::large_enum_variant, reason = "a command has one")]
#[derive(Debug, Clone)]
pub enum PlanSource {
    /// A saved plan; `-` is standard input.
    File(PathBuf),
    /// A request, which is planned on this machine.
    Options(ShieldOptions),
}

/// The plan that [`apply_source`] would apply. It refuses the plans that applying would refuse.
///
/// # Errors
/// The request or the plan is wrong.
pub fn preview_source(work: &WorkContext<'_>, source: &PlanSource) -> Result<Plan, Failure> {
    let (plan, _) = load_plan(work, source)?;
    if matches!(source, PlanSource::File(_)) {
        check(&work.host, &plan).map_err(|error| {
            let stale = matches!(error, ApplyError::Stale { .. });
            let failure = Failure::from(error);
            let hint = "or name the machine that the plan is for: --root DIR";
            if stale { failure.hint(hint) } else { failure }
        })?;
        check_saved_plan(work, &plan)?;
    }
    Ok(plan)
}

/// Checks a saved plan: the machine, the other shields and the accounts may have changed since, and
/// the file may be a stranger's.
fn check_saved_plan(work: &WorkContext<'_>, plan: &Plan) -> Result<(), Failure> {
    apply::check_active(&work.host, &work.store, plan)?;
    let (old, live) = version_and_others(work, &plan.shield.name)?;
    let machine = survey_without(&work.host, &work.store, old.as_ref())?;
    check_saved(&machine, plan, &live)?;
    match &plan.operators {
        Some(operators) => check_accounts(&work.host, operators),
        None => Ok(()),
    }
}

/// Applies the plan: a further shield, or another version of an active one. Returns the plan that
/// is now in force.
///
/// # Errors
/// The request or the plan is wrong, or the shield could not be applied and was undone.
pub fn apply_source(
    work: &WorkContext<'_>,
    source: &PlanSource,
    programs: ProgramsInTheWay,
) -> Result<(AppliedPlan, Plan), Failure> {
    let _hurry = sched::boost_priority();
    end_interrupted_change(work)?;
    let (plan, inputs) = load_plan(work, source)?;
    if matches!(source, PlanSource::File(_)) {
        check(&work.host, &plan)?;
        check_saved_plan(work, &plan)?;
        if let Some(operators) = &plan.operators {
            work.ui.status(&format!("operators: {operators}"));
        }
        for (n, step) in plan.steps.iter().enumerate() {
            work.ui.status(&format!("step {}, {}: {}", n + 1, step.tunable, step.change.shell()));
        }
    }
    catch_stops()?;
    let origin = inputs.as_ref().map(origin_of);
    let (applied, plan) = apply_plan(work, &plan, origin.as_ref(), programs)?;
    warn_of_old_socket(work, &plan);
    Ok((applied, plan))
}

/// The note about the active shields that do not have this name; `None` without one.
fn other_shields(work: &WorkContext<'_>, name: &str) -> Option<ShieldNote> {
    let active = active_shields(work).unwrap_or_default();
    let others = active.iter().map(|plan| &plan.shield).filter(|shield| shield.name != name);
    let shields: Vec<NamedShield> = others.map(NamedShield::from).collect();
    (!shields.is_empty()).then_some(ShieldNote::OtherShields { shields })
}

/// What a plan was made from, as [`apply_plan`] takes it.
#[must_use]
pub(super) fn origin_of((machine, request): &PlanInputs) -> PlanOrigin<'_> {
    PlanOrigin { machine, request, choice: None }
}

/// Applies a plan with a progress bar, as [`apply_source`].
///
/// # Errors
/// Programs are in the way, or the shield could not be applied and was undone.
pub(super) fn apply_plan(
    work: &WorkContext<'_>,
    plan: &Plan,
    origin: Option<&PlanOrigin<'_>>,
    programs: ProgramsInTheWay,
) -> Result<(AppliedPlan, Plan), Failure> {
    let (mut applied, plan) = make_plan(work, plan, origin, programs)?;
    warn_of_nohz_full(work);
    applied.notes.extend(other_shields(work, &plan.shield.name));
    Ok((applied, plan))
}

/// The same without the warning about the tick.
///
/// # Errors
/// As [`apply_plan`].
pub(super) fn make_plan(
    work: &WorkContext<'_>,
    plan: &Plan,
    origin: Option<&PlanOrigin<'_>>,
    programs: ProgramsInTheWay,
) -> Result<(AppliedPlan, Plan), Failure> {
    let old = find_version(work, &plan.shield.name)?;
    check_no_other_state(work)?;
    let bar = work.ui.bar();
    let show = &mut |progress: ApplyProgress<'_>| {
        if !progress.what.is_empty() {
            bar.show_task(&format!("shielding: {}", progress.what));
        }
    };
    let stages = (&work.host, &work.store);
    let applied = match old {
        Some(old) => change_shield(work, (&old, plan.clone()), origin, programs, show),
        None => apply_or_fall_back(stages, apply::apply, plan.clone(), origin, show)
            .map_err(Failure::from),
    };
    bar.end();
    applied
}

/// Refuses while there are groups of a shield that this state directory does not know: their values
/// would be taken for those from before the shield.
fn check_no_other_state(work: &WorkContext<'_>) -> Result<(), Failure> {
    let plans = active_shields(work)?;
    let mut known: Vec<String> = plans.iter().flat_map(|plan| plan.shield.cgroup_names()).collect();
    known.extend((!plans.is_empty()).then(|| HOUSEKEEPING_GROUP.to_owned()));
    let mut groups = apply::shield_groups(&work.host);
    let Some((mount, group)) = groups.find(|(_, name)| !known.contains(name)) else {
        return Ok(());
    };
    let state = work.state_dir.display();
    let what = format!("{mount}/{group} belongs to a shield that {state} does not know");
    Err(Failure::machine(what)
        .hint("undo it with its own state directory: cpushield --state DIR undo")
        .hint("if that directory is gone, restart the machine: that ends every shield"))
}

/// Warns when the kernel shows other CPUs without tick than its command line requests. A shield
/// was just applied: proposed kernels change these CPUs with each partition.
pub(super) fn warn_of_nohz_full(work: &WorkContext<'_>) {
    if let Some(finding) = nohz_full_difference(&work.host) {
        work.ui.warn(&format!("{finding}; {}", finding.advice()));
    }
}

/// Plans a request. Also returns what the plan was made from.
///
/// # Errors
/// The request is wrong, or this machine cannot have such a shield.
pub fn plan_options(
    work: &WorkContext<'_>,
    options: &ShieldOptions,
) -> Result<(Plan, PlanInputs), Failure> {
    let WorkContext { host, store, .. } = work;
    let mut machine = survey_machine(host, store);
    let request = options.resolve(host, &machine, EffectTime::Runtime)?.request;
    let (old, live) = version_and_others(work, &request.name)?;
    if let Some(old) = &old {
        remove_shield(&mut machine, host, store, old)?;
    }
    let mut plan = plan_with_others(&machine, &request, &live)?;
    if let Some(old) = &old {
        explain_change(&mut plan, old);
    }
    Ok((plan, (machine, request)))
}

/// Says in a plan what it changes about the active shield of its name.
pub(super) fn explain_change(plan: &mut Plan, old: &Plan) {
    let (shield, cpus) = (old.shield.name.clone(), old.shield.cpus.clone());
    if is_same_version(old, plan) {
        plan.why.push(ChoiceReason::SameVersion { shield, cpus });
        return;
    }
    plan.why.push(ChoiceReason::NewVersion { shield, cpus });
    plan.why.extend(version_differences(old, plan).into_iter().map(ChoiceReason::Settings));
}

/// Finds the CPUs that are in no shield.
///
/// # Errors
/// The journal is malformed.
pub fn find_free(work: &WorkContext<'_>) -> Result<FreeCpus, Failure> {
    let WorkContext { host, store, .. } = work;
    let machine = survey_machine(host, store);
    let shields = match known_shields(host, store) {
        Ok(shields) => Some(shields.into_iter().map(|it| (it.name, it.cpus)).collect()),
        Err(error) if error.is_denied() => None,
        Err(error) => return Err(error.into()),
    };
    let shields: Option<Vec<(String, CpuSet)>> = shields;
    Ok(find_free_cpus(&machine, shields.as_deref()))
}

/// Reads the saved plan, or plans the request and also returns what that plan was made from.
fn load_plan(
    work: &WorkContext<'_>,
    source: &PlanSource,
) -> Result<(Plan, Option<PlanInputs>), Failure> {
    let file = match source {
        PlanSource::File(file) => file,
        PlanSource::Options(options) => {
            let (plan, inputs) = plan_options(work, options)?;
            return Ok((plan, Some(inputs)));
        }
    };
    let stdin = Path::new("/dev/stdin");
    let (file, name) = match file.as_os_str() == "-" {
        true => (stdin, "standard input".to_owned()),
        false => (file.as_path(), file.display().to_string()),
    };
    let text =
        read_file(&work.host.user_files(), file).map_err(|failure| {
            match CpuSet::parse_list(&name, None) {
                Ok(cpus) => {
                    failure.hint(format!("to shield CPU {cpus}: cpushield apply --cpus {cpus}"))
                }
                Err(_) => failure,
            }
        })?;
    Ok((parse_saved_plan(&text, &name)?, None))
}

/// What only the document of `plan --all` has.
#[derive(serde::Deserialize)]
struct SeveralPlans {
    #[serde(rename = "plans")]
    _plans: Vec<serde::de::IgnoredAny>,
}

/// Parses a saved plan. The error says so if the text is another cpushield document, or none.
fn parse_saved_plan(text: &str, name: &str) -> Result<Plan, Failure> {
    Plan::parse(text, name).map_err(|error| match SavedDocument::parse(text, name) {
        Ok(SavedDocument::Plan(_)) => error.into(),
        Ok(other) => other.is_not(name, "a plan").hint("make a plan: cpushield plan -o FILE"),
        Err(_) if serde_json::from_str::<SeveralPlans>(text).is_ok() => {
            Failure::usage(format!("{name} contains the plans of several shields"))
                .hint("apply all shields of the policy: cpushield apply --all")
                .hint("or save the plan of one: cpushield plan --shield NAME -o FILE")
        }
        Err(_) if !text.trim_start().starts_with('{') => {
            Failure::usage(format!("{name} is not a cpushield plan"))
                .hint("make a plan: cpushield plan -o FILE")
        }
        Err(_) => error.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::copy_recording;
    use super::*;
    use crate::ui::{OutputFormat, StatusLines, Ui};
    use cpushield_simulator::Simulated;

    #[test]
    fn a_dry_run_refuses_a_plan_that_apply_would_refuse() {
        let machines = Path::new(env!("CARGO_MANIFEST_DIR")).join("machines");
        let scratch = format!("cpushield-dry-run-{}", std::process::id());
        let scratch = std::env::temp_dir().join(scratch);
        std::fs::create_dir_all(&scratch).unwrap();
        let ui = Ui::new(OutputFormat::Text, StatusLines::Suppressed);
        let recorded = |name: &str| {
            let root = machines.join(name).join("root");
            WorkContext::open(&ui, Some(&root), Some(&scratch), None).unwrap()
        };
        let (here, there) = (recorded("6.12-rt-4"), recorded("6.1-rt-v1"));
        let options = ShieldOptions::of_list(&CpuSet::single(3));
        let planned = preview_source(&here, &PlanSource::Options(options)).unwrap();
        let file = scratch.join("plan.json");
        let saved = PlanSource::File(file.clone());
        let shown = |cpus: &str, work: &WorkContext<'_>| {
            let mut edited = planned.clone();
            edited.shield.cpus = cpus.parse().unwrap();
            // The steps for CPU 3 are none of another shield.
            edited.steps.retain(|_| cpus == "3");
            std::fs::write(&file, serde_json::to_string(&edited).unwrap()).unwrap();
            preview_source(work, &saved).map_err(|failure| failure.to_string())
        };
        assert_eq!(shown("3", &here), Ok(planned.clone()));
        let elsewhere = shown("3", &there).unwrap_err();
        assert!(elsewhere.contains("another machine"), "{elsewhere}");
        assert!(elsewhere.contains("--root DIR"), "{elsewhere}");
        let missing = shown("77", &here).unwrap_err();
        assert!(
            missing.starts_with("the plan shields CPU 77, which is not online (online: 0-3)"),
            "{missing}"
        );
        std::fs::remove_dir_all(&scratch).unwrap();
    }

    #[test]
    fn a_saved_plan_spares_cpus_that_another_program_has_made_exclusive_since() {
        let scratch = format!("cpushield-saved-plan-{}", std::process::id());
        let scratch = std::env::temp_dir().join(scratch);
        let root = scratch.join("root");
        let machines = Path::new(env!("CARGO_MANIFEST_DIR")).join("machines");
        copy_recording(&machines.join("6.12-rt-4/root"), &root);
        let ui = Ui::new(OutputFormat::Text, StatusLines::Suppressed);
        let state = scratch.join("state");
        let mut work = WorkContext::open(&ui, Some(&root), Some(&state), None).unwrap();
        work.host = work.host.simulated();
        let save = |name: &str, options: ShieldOptions| {
            let written = ShieldOptions::of_list(&"2-3".parse().unwrap()).written;
            let options = ShieldOptions { written, ..options };
            let plan = preview_source(&work, &PlanSource::Options(options)).unwrap();
            let file = scratch.join(name);
            std::fs::write(&file, serde_json::to_string(&plan).unwrap()).unwrap();
            PlanSource::File(file)
        };
        let saved = save("plan.json", ShieldOptions::default());
        let off = vec!["cpuset".to_owned()];
        let without = save("without.json", ShieldOptions { off, ..ShieldOptions::default() });
        std::fs::write(root.join("sys/fs/cgroup/cgroup.subtree_control"), "cpuset\n").unwrap();
        let robot = root.join("sys/fs/cgroup/robot");
        std::fs::create_dir_all(&robot).unwrap();
        for (file, text) in
            [("cpuset.cpus", "2-3"), ("cpuset.cpus.effective", "2-3"), ("cgroup.procs", "")]
        {
            std::fs::write(robot.join(file), format!("{text}\n")).unwrap();
        }
        let set = |partition: &str| {
            std::fs::write(robot.join("cpuset.cpus.partition"), partition.to_owned() + "\n")
                .unwrap();
        };
        set("member");
        preview_source(&work, &saved).unwrap();
        set("isolated");
        let refused = "CPU 2-3 belongs exclusively to /sys/fs/cgroup/robot, a cpuset of another \
                       program; a shield would break that cpuset";
        let preview = preview_source(&work, &saved).unwrap_err();
        assert_eq!(preview.message, refused);
        let applied = apply_source(&work, &saved, ProgramsInTheWay::Refuse).unwrap_err();
        assert_eq!((applied.message.as_str(), work.host.writes()), (refused, 0));
        // Without cpusets, the partition stays valid.
        preview_source(&work, &without).unwrap();
        // An active shield is no other program.
        set("member");
        apply_source(&work, &saved, ProgramsInTheWay::Refuse).unwrap();
        preview_source(&work, &saved).unwrap();
        let PlanSource::File(file) = &without else { unreachable!() };
        let text = std::fs::read_to_string(file).unwrap();
        let mut other: Plan = serde_json::from_str(&text).unwrap();
        other.shield.name = "other".to_owned();
        std::fs::write(file, serde_json::to_string(&other).unwrap()).unwrap();
        let overlap = preview_source(&work, &without).unwrap_err();
        assert_eq!(overlap.message, "CPU 2-3 is already in shield cpushield");
        std::fs::remove_dir_all(&scratch).unwrap();
    }
}
