//! `cpushield apply`: applies a saved plan, or plans a request and applies that plan.

use super::apply_with_fallback::{PlanOrigin, apply_or_fall_back};
use super::request::RequestArgs;
use super::saved_document::SavedDocument;
use super::{GlobalArgs, input};
use crate::apply::{AppliedPlan, ApplyError, ApplyProgress, check};
use crate::change::EffectTime;
use crate::failure::Failure;
use crate::plan::Plan;
use crate::policy::ShieldRequest;
use crate::report::applied_text;
use crate::survey::Machine;
use crate::ui::Ui;
use cpushield_linux::{Host, Store, sched, signal};
use std::path::{Path, PathBuf};

/// Shield CPUs: apply a plan
///
/// All original values are saved on disk before the first change. If an essential change fails, or
/// the command is stopped (Ctrl-C, kill), it restores them immediately.
#[derive(Debug, clap::Args)]
pub struct ApplyArgs {
    /// A plan saved with `cpushield plan -o FILE` (`-` is standard input)
    #[arg(
        value_name = "PLAN",
        conflicts_with_all = [
            "cpus", "count", "near", "node", "share", "half_core", "workload", "on", "off",
            "policy", "shield",
        ]
    )]
    plan: Option<PathBuf>,
    /// Print the equivalent shell commands and change nothing
    #[arg(long)]
    dry_run: bool,
    /// The shield
    #[command(flatten)]
    request: RequestArgs,
}

/// What a plan was made from.
pub(super) type PlanInputs = (Machine, ShieldRequest);

/// Runs the subcommand.
///
/// # Errors
/// The request or the plan is wrong, or the shield could not be applied and was undone.
pub fn run(ui: &Ui, global: &GlobalArgs, args: &ApplyArgs) -> Result<(), Failure> {
    let host = global.host()?;
    if !host.is_live() && !args.dry_run {
        return Err(Failure::usage("a recorded machine cannot be shielded")
            .hint("--dry-run prints the commands for it"));
    }
    let store = global.store();
    let _hurry = (!args.dry_run).then(sched::boost_priority);
    let (plan, origin) = load_or_make_plan(&host, &store, args)?;
    if args.dry_run {
        return ui.show(&plan, || shell_script(&plan));
    }
    signal::catch_stops().map_err(|e| Failure::machine(format!("cannot catch signals: {e}")))?;
    let (applied, plan) = apply_with_progress(ui, &host, &store, plan, origin.as_ref())?;
    ui.show(&applied, || applied_text(&applied, &plan))
}

/// Applies a plan with a progress bar. Returns the plan that is now in force.
///
/// # Errors
/// The shield could not be applied and was undone.
pub(super) fn apply_with_progress(
    ui: &Ui,
    host: &Host,
    store: &Store,
    plan: Plan,
    origin: Option<&PlanInputs>,
) -> Result<(AppliedPlan, Plan), Failure> {
    let bar = ui.bar();
    let origin = origin.map(|(machine, request)| PlanOrigin { machine, request });
    let applied =
        apply_or_fall_back(host, store, plan, origin.as_ref(), &mut |progress: ApplyProgress<
            '_,
        >| {
            if !progress.what.is_empty() {
                bar.show_task(&format!("shielding: {}", progress.what));
            }
        });
    bar.end();
    Ok(applied?)
}

/// Plans a request. Also returns what the plan was made from.
///
/// # Errors
/// The request is wrong, or this machine cannot have such a shield.
pub(super) fn plan_request(
    host: &Host,
    store: &Store,
    request: &RequestArgs,
) -> Result<(Plan, PlanInputs), Failure> {
    let machine = super::survey_machine(host, store);
    let request = request.resolve(host, &machine, EffectTime::Runtime)?.request;
    Ok((crate::plan::plan(&machine, &request)?, (machine, request)))
}

/// Reads the saved plan, or plans the request and also returns what that plan was made from.
fn load_or_make_plan(
    host: &Host,
    store: &Store,
    args: &ApplyArgs,
) -> Result<(Plan, Option<PlanInputs>), Failure> {
    let Some(file) = &args.plan else {
        let (plan, inputs) = plan_request(host, store, &args.request)?;
        return Ok((plan, Some(inputs)));
    };
    let stdin = Path::new("/dev/stdin");
    let (file, name) = match file.as_os_str() == "-" {
        true => (stdin, "standard input".to_owned()),
        false => (file.as_path(), file.display().to_string()),
    };
    let plan = parse_saved_plan(&input::read_file(file)?, &name)?;
    if args.dry_run {
        // `apply` runs this check itself. A dry run does not show a plan that would be refused.
        check(host, &plan).map_err(|error| {
            let stale = matches!(error, ApplyError::Stale { .. });
            let failure = Failure::from(error);
            let hint = "or name the machine that the plan is for: --root DIR";
            if stale { failure.hint(hint) } else { failure }
        })?;
    }
    Ok((plan, None))
}

/// Parses a saved plan. The error says so if the text is another cpushield document, or none.
fn parse_saved_plan(text: &str, name: &str) -> Result<Plan, Failure> {
    Plan::parse(text, name).map_err(|error| match SavedDocument::parse(text, name) {
        Ok(SavedDocument::Plan(_)) => error.into(),
        Ok(other) => Failure::usage(format!(
            "{name} is not a plan: it is output of `cpushield {}`",
            other.command()
        ))
        .hint("make a plan: cpushield plan -o FILE"),
        Err(_) if !text.trim_start().starts_with('{') => {
            Failure::usage(format!("{name} is not a cpushield plan"))
                .hint("make a plan: cpushield plan -o FILE")
        }
        Err(_) => error.into(),
    })
}

/// The equivalent commands, for `sh`.
fn shell_script(plan: &Plan) -> String {
    let mut text = format!("# shields CPU {}; dry run: nothing was changed\n", plan.shield.cpus);
    for step in plan.steps.iter().filter(|step| step.is_runtime()) {
        text.push_str(&step.change.shell());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[test]
    fn a_dry_run_refuses_a_plan_that_apply_would_refuse() {
        let machines = Path::new(env!("CARGO_MANIFEST_DIR")).join("machines");
        let recorded = |name: &str| Host::recorded(&machines.join(name).join("root")).unwrap();
        let (here, there) = (recorded("6.12-rt-4"), recorded("6.1-rt-v1"));
        let scratch = format!("cpushield-dry-run-{}", std::process::id());
        let scratch = std::env::temp_dir().join(scratch);
        std::fs::create_dir_all(&scratch).unwrap();
        let (file, store) = (scratch.join("plan.json"), Store::new(&scratch));
        let args = |line: &str| {
            let line = format!("cpushield apply --dry-run {line}");
            let cli = super::super::Cli::try_parse_from(line.split(' ')).unwrap();
            let super::super::CliCommand::Apply(args) = cli.command else { panic!("apply") };
            args
        };
        let (planned, _) = load_or_make_plan(&here, &store, &args("--cpus 3")).unwrap();
        let saved = args(file.to_str().unwrap());
        let shown = |cpus: &str, host: &Host| {
            let mut edited = planned.clone();
            edited.shield.cpus = cpus.parse().unwrap();
            std::fs::write(&file, serde_json::to_string(&edited).unwrap()).unwrap();
            load_or_make_plan(host, &store, &saved)
                .map(|(plan, _)| plan)
                .map_err(|failure| failure.to_string())
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
}
