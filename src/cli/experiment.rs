//! `cpushield experiment`: runs a matrix of configurations and measurements.

use super::experiment_machine::{LiveExperimentMachine, NAME};
use super::paint::paint;
use super::{GlobalArgs, input, standing, undo};
use crate::boot::{self, early};
use crate::experiment::journal::{ExperimentJournal, ExperimentPhase, ExperimentStore};
use crate::experiment::{
    self, DryRun, Experiment, ExperimentEnd, ExperimentSetup, Matrix, RebootPermission, Schedule,
    make_schedule,
};
use crate::failure::{Failure, FailureKind};
use crate::latency::instruments;
use crate::plan::{Step, check_online, plan};
use crate::report::experiment as report;
use crate::report::page::terminal_blocks;
use crate::run::ShieldPlacement;
use crate::survey::{Machine, survey};
use crate::tunables;
use crate::ui::Ui;
use cpushield_linux::{CpuSet, Host, Store, StoreLock, can_write, process, signal, write_document};
use std::path::{Path, PathBuf, absolute};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Measure many configurations, across reboots, and report which is best
///
/// The file (docs/experiment.toml is an example) has rows, which are configurations, and columns,
/// which are measurements. Measurements are interleaved and repeated, and each shield is undone
/// after its measurement. After a crash or a power failure, --resume continues. At the end the
/// machine is in its original state.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("what").required(true))]
pub struct ExperimentArgs {
    /// TOML file with the rows and columns
    #[arg(value_name = "FILE", group = "what")]
    file: Option<PathBuf>,
    /// Show the order, the duration and the number of reboots, and do nothing
    #[arg(long, requires = "file")]
    dry_run: bool,
    /// Reboot the machine automatically for rows with kernel parameters; without this option, those
    /// rows are skipped
    #[arg(long, requires = "file")]
    reboot: bool,
    /// Write the results as JSON to this file at the end
    #[arg(long, short, value_name = "FILE", requires = "file")]
    output: Option<PathBuf>,
    /// Resume an interrupted run
    #[arg(long, group = "what")]
    resume: bool,
    /// Show the results of the current or the last run
    #[arg(long, group = "what")]
    status: bool,
    /// Stop the run and undo every change
    #[arg(long, group = "what")]
    stop: bool,
}

impl ExperimentArgs {
    fn reboot_permission(&self) -> RebootPermission {
        if self.reboot { RebootPermission::Granted } else { RebootPermission::Denied }
    }
}

/// How long a running experiment may take to end after it is stopped.
const STOP_TIMEOUT: Duration = Duration::from_secs(60);

/// Runs the subcommand.
///
/// # Errors
/// The matrix is wrong, this machine cannot run it, or a change cannot be undone.
pub fn run(ui: &Ui, global: &GlobalArgs, args: &ExperimentArgs) -> Result<(), Failure> {
    let host = global.host()?;
    let experiments = ExperimentStore::new(&global.state_dir());
    if args.status {
        return show_status(ui, &experiments);
    }
    if !host.is_live() && !args.dry_run {
        return Err(Failure::usage("a recorded machine does not run: nothing to measure")
            .hint("omit --root"));
    }
    if let Some(file) = &args.file {
        let text = input::read_file(file)?;
        let name = file.display().to_string();
        let matrix = Matrix::parse(&text, &name)?;
        let schedule = make_schedule(&matrix, args.reboot_permission());
        if args.dry_run {
            let dry_run = make_dry_run(ui, global, &host, &matrix, &schedule)?;
            return ui.show(&dry_run, || report::dry_run_text(&dry_run, ui.width()));
        }
        let store = global.store();
        let _lock = claim_experiment(&store, "an experiment is running")?;
        let journal = ExperimentJournal::new(name, text, CpuSet::new(), now_s());
        let journal = check_and_begin(ui, global, args, &host, &store, &matrix, journal)?;
        return run_schedule(ui, global, &host, &experiments, journal);
    }
    let store = global.store();
    if args.stop {
        return stop_experiment(ui, global, &host, &store, &experiments);
    }
    let _lock = claim_experiment(&store, "it is already running")?;
    match experiments.load()? {
        Some(journal) => run_schedule(ui, global, &host, &experiments, journal),
        None => Err(no_experiment()),
    }
}

/// Plans an experiment, and checks everything that can be checked without changing anything.
fn make_dry_run(
    ui: &Ui,
    global: &GlobalArgs,
    host: &Host,
    matrix: &Matrix,
    schedule: &Schedule,
) -> Result<DryRun, Failure> {
    let machine = super::survey_machine(host, &global.store());
    let (shielded, cpus) = choose_cpus(host, &machine, matrix)?;
    // A recording, or an ordinary user, cannot show everything that these checks need.
    if host.is_live() && process::effective_user() == 0 {
        let journal = ExperimentJournal::new(String::new(), String::new(), cpus.clone(), 0);
        let journal =
            ExperimentJournal { setup: describe_setup(host, &machine), shielded, ..journal };
        check_possible(&make_machine(ui, global, host, matrix, schedule, &journal))?;
    }
    Ok(experiment::describe_dry_run(matrix, schedule, cpus))
}

fn no_experiment() -> Failure {
    Failure::machine("there is no experiment").hint("start one: cpushield experiment FILE")
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

/// Takes the lock for experiments; `held` is the message when another process holds it.
fn claim_experiment(store: &Store, held: &str) -> Result<StoreLock, Failure> {
    store.claim(NAME).map_err(|error| match error.is_held() {
        true => Failure::machine(format!("{held}: {}", error.reason()))
            .hint("show its results: cpushield experiment --status")
            .hint("or stop it: cpushield experiment --stop"),
        false => error.into(),
    })
}

/// Checks everything that can be checked in advance, then writes the first journal.
fn check_and_begin(
    ui: &Ui,
    global: &GlobalArgs,
    args: &ExperimentArgs,
    host: &Host,
    store: &Store,
    matrix: &Matrix,
    journal: ExperimentJournal,
) -> Result<ExperimentJournal, Failure> {
    let experiments = ExperimentStore::new(&global.state_dir());
    let old = experiments.load()?;
    if let Some(old) = old.as_ref().filter(|old| old.phase == ExperimentPhase::Running) {
        let done = old.ends.len();
        return Err(Failure::machine(format!(
            "an experiment is unfinished: {} ({done} steps)",
            old.file
        ))
        .hint("resume it: cpushield experiment --resume")
        .hint("or stop it and undo every change: cpushield experiment --stop"));
    }
    check_unshielded(host, store, matrix, args.reboot_permission())?;
    let output = args.output.as_ref();
    output.map_or(Ok(()), |file| can_write(file))?;
    let machine = survey(host, &tunables::reads());
    let (shielded, cpus) = choose_cpus(host, &machine, matrix)?;
    let journal = ExperimentJournal {
        reboot: args.reboot_permission(),
        output: output.map(|file| absolute(file).unwrap_or(file.clone()).display().to_string()),
        setup: describe_setup(host, &machine),
        shielded,
        cpus,
        ..journal
    };
    let schedule = make_schedule(matrix, args.reboot_permission());
    check_possible(&make_machine(ui, global, host, matrix, &schedule, &journal))?;
    if !args.reboot && matrix.has_boots() {
        ui.warn("rows with kernel parameters are skipped, because they need --reboot");
    }
    if schedule.steps.is_empty() {
        return Err(Failure::usage("nothing is left to measure").hint("allow reboots: --reboot"));
    }
    let old_steps = old.and_then(|old| {
        Some(
            experiment::make_schedule(&old.parse_matrix().ok()?, RebootPermission::Granted)
                .steps
                .len(),
        )
    });
    experiments.clear(old_steps.unwrap_or(0).max(schedule.steps.len()))?;
    experiments.save(&journal)?;
    Ok(journal)
}

/// Checks that the boot loader accepts the parameters and that each column can be measured.
fn check_possible(machine: &LiveExperimentMachine<'_>) -> Result<(), Failure> {
    for parameters in machine.schedule.boots.iter().skip(1) {
        machine.check_boot(parameters)?;
    }
    for column in &machine.matrix.columns {
        let instrument = instruments::by_name(&column.instrument);
        if let Some(Err(why)) = instrument.map(|instrument| instrument.possible(machine.host)) {
            let why = format!("`latency {}` cannot run here: {why}", column.instrument);
            return Err(Failure::machine(format!("column {:?}: {why}", column.name)));
        }
    }
    Ok(())
}

/// Checks that no shield and no kernel parameters of cpushield are active or enabled.
fn check_unshielded(
    host: &Host,
    store: &Store,
    matrix: &Matrix,
    reboot: RebootPermission,
) -> Result<(), Failure> {
    if process::effective_user() != 0 {
        return Err(Failure::machine("only root can shield CPUs").hint("run it as root"));
    }
    standing::refuse_active(host, store, "take that shield down first: cpushield undo")?;
    if reboot == RebootPermission::Denied || !matrix.has_boots() {
        return Ok(());
    }
    if boot::journal(store)?.is_some() {
        return Err(Failure::machine(
            "the boot loader already has kernel parameters from cpushield",
        )
        .hint("show them: cpushield boot status")
        .hint("or remove them first: cpushield boot undo"));
    }
    if let Some(enabled) = early::installed(store)? {
        let message =
            format!("every boot applies a shield ({}), which would affect every row", enabled.path);
        return Err(Failure::machine(message).hint("disable it first: cpushield disable"));
    }
    Ok(())
}

/// Chooses the shielded CPUs, and those of them that are measured.
fn choose_cpus(
    host: &Host,
    machine: &Machine,
    matrix: &Matrix,
) -> Result<(CpuSet, CpuSet), Failure> {
    let present = machine.topology.present.union(&machine.topology.online);
    let given = matrix
        .cpus
        .as_ref()
        .map(|list| CpuSet::parse_list(list, present.last()))
        .transpose()
        .map_err(|error| Failure::usage(error.to_string()))?;
    given.as_ref().map_or(Ok(()), |cpus| check_online(machine, cpus))?;
    let mut chosen = given.map(|cpus| (cpus.clone(), cpus));
    let mut planned: Vec<(&experiment::ExperimentRow, Vec<Step>)> = Vec::new();
    // Every shield is planned first, so that an impossible one is reported before any change.
    for (n, row) in matrix.rows.iter().filter(|row| row.shield).enumerate() {
        let shielded = chosen.as_ref().map(|(shielded, _)| shielded.clone());
        let request = LiveExperimentMachine::request_for_row(matrix, row, shielded);
        let plan = plan(machine, &request).map_err(|refused| {
            let failure = Failure::from(refused);
            Failure { message: format!("row {:?}: {}", row.name, failure.message), ..failure }
        })?;
        if let Some((other, _)) =
            planned.iter().find(|(other, steps)| other.boot == row.boot && *steps == plan.steps)
        {
            let message =
                format!("rows {:?} and {:?} make the same shield here", other.name, row.name);
            return Err(Failure::usage(message).hint(
                "see what each row changes: cpushield plan; some tunables are off by default here",
            ));
        }
        planned.push((row, plan.steps.clone()));
        if n == 0 {
            chosen = Some((plan.shield.cpus.clone(), ShieldPlacement::new(host, &plan).cpus));
        }
    }
    chosen.ok_or_else(|| {
        Failure::usage("cannot choose the CPUs to measure: no row has a shield")
            .hint("name them in the file: cpus = \"3\"")
    })
}

/// Describes the hardware and the system, so that a reader can repeat the experiment.
fn describe_setup(host: &Host, machine: &Machine) -> ExperimentSetup {
    let os = host.read("/etc/os-release").unwrap_or_default();
    let pretty = os.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    let guest = machine.virt.guest == Some(true);
    ExperimentSetup {
        machine: read_dmi(host, ["sys_vendor", "product_name"]),
        board: read_dmi(host, ["board_vendor", "board_name"]),
        firmware: read_dmi(host, ["bios_version", "bios_date"]),
        processor: machine.topology.model.clone(),
        distribution: pretty.map(|name| name.trim_matches(['"', '\'']).to_owned()),
        kernel: machine.kernel.release.clone(),
        realtime: machine.kernel.realtime,
        cmdline: machine.kernel.cmdline.clone(),
        hypervisor: machine.virt.hypervisor.clone().or(guest.then(|| "unknown".to_owned())),
        settings: machine.firmware.iter().map(|finding| finding.seen.clone()).collect(),
    }
}

/// Two DMI fields, joined; `None` when both are absent or empty.
fn read_dmi(host: &Host, names: [&str; 2]) -> Option<String> {
    let fields: Vec<String> = names
        .into_iter()
        .filter_map(|name| host.read_line(&format!("/sys/class/dmi/id/{name}")).ok())
        .collect();
    let text = fields.join(" ").trim().to_owned();
    Some(text).filter(|text| !text.is_empty())
}

fn make_machine<'a>(
    ui: &'a Ui,
    global: &'a GlobalArgs,
    host: &'a Host,
    matrix: &'a Matrix,
    schedule: &'a Schedule,
    journal: &ExperimentJournal,
) -> LiveExperimentMachine<'a> {
    LiveExperimentMachine {
        ui,
        global,
        host,
        store: global.store(),
        matrix,
        schedule,
        shielded: journal.shielded.clone(),
        cpus: journal.cpus.clone(),
        home: journal.setup.cmdline.clone(),
    }
}

/// Runs the rest of the schedule and shows the results when it is finished.
fn run_schedule(
    ui: &Ui,
    global: &GlobalArgs,
    host: &Host,
    experiments: &ExperimentStore,
    mut journal: ExperimentJournal,
) -> Result<(), Failure> {
    undo::catch_stops()?;
    let matrix = journal.parse_matrix()?;
    let schedule = make_schedule(&matrix, journal.reboot);
    let mut machine = make_machine(ui, global, host, &matrix, &schedule, &journal);
    let resume = "the results so far are saved; resume: cpushield experiment --resume";
    let end = experiment::run_remaining(&mut machine, experiments, &mut journal, &schedule)
        .map_err(|failure| failure.hint(resume).hint("or stop it: cpushield experiment --stop"))?;
    match end {
        ExperimentEnd::Finished => {}
        ExperimentEnd::Rebooting => {
            ui.status(match host.exists("/run/systemd/system") {
                true => {
                    "the experiment resumes automatically after the reboot; \
                         show its results: cpushield experiment --status"
                }
                false => "resume after the reboot: cpushield experiment --resume",
            });
            return Ok(());
        }
        ExperimentEnd::Interrupted => {
            let signal = signal::stopped_by().unwrap_or(0);
            let failure = Failure::new(FailureKind::Undone, format!("stopped by signal {signal}"));
            return Err(failure.hint(resume).hint("or stop it: cpushield experiment --stop"));
        }
        ExperimentEnd::Elsewhere(mismatch) => return Err(machine_changed(&mismatch.to_string())),
        ExperimentEnd::NotReturned { reboots } => {
            return Err(machine_changed(&format!("it was rebooted {reboots} times to get back")));
        }
    }
    if journal.ended_s.is_none() {
        journal.ended_s = Some(now_s());
        experiments.save(&journal)?;
    }
    let experiment = experiment::collect_results(&journal, &matrix, experiments);
    if let Some(file) = &journal.output {
        let text = serde_json::to_string_pretty(&experiment).unwrap_or_default();
        write_document(Path::new(file), &(text + "\n"))?;
        ui.status(&format!("wrote {file}"));
    }
    show_results(ui, &experiment)
}

fn machine_changed(why: &str) -> Failure {
    Failure::machine(format!("the machine has changed since the experiment began: {why}"))
        .hint("boot the original boot entry, then: cpushield experiment --resume")
        .hint("or stop the experiment: cpushield experiment --stop")
}

fn show_results(ui: &Ui, experiment: &Experiment) -> Result<(), Failure> {
    ui.show(experiment, || terminal_blocks(&report::blocks(experiment), ui.width(), &paint))
}

fn show_status(ui: &Ui, experiments: &ExperimentStore) -> Result<(), Failure> {
    let Some(journal) = experiments.load()? else { return Err(no_experiment()) };
    let matrix = journal.parse_matrix()?;
    show_results(ui, &experiment::collect_results(&journal, &matrix, experiments))
}

fn stop_experiment(
    ui: &Ui,
    global: &GlobalArgs,
    host: &Host,
    store: &Store,
    experiments: &ExperimentStore,
) -> Result<(), Failure> {
    let _lock = stop_running(store)?;
    undo::catch_stops()?;
    let mut journal = match experiments.load() {
        Ok(Some(journal)) => journal,
        Ok(None) => return Err(no_experiment()),
        Err(experiment::journal::ExperimentJournalError::Damaged { .. }) => {
            return forget_journal(ui, host, experiments);
        }
        Err(error) => return Err(error.into()),
    };
    let matrix = journal.parse_matrix()?;
    if journal.phase == ExperimentPhase::Running {
        let schedule = make_schedule(&matrix, journal.reboot);
        let mut machine = make_machine(ui, global, host, &matrix, &schedule, &journal);
        let needs_reboot = experiment::stop(&mut machine, experiments, &mut journal, now_s())?;
        ui.status("stopped; all changes are undone");
        if needs_reboot {
            ui.warn(
                "the kernel still runs with parameters of the experiment; reboot to remove them",
            );
        }
    }
    show_results(ui, &experiment::collect_results(&journal, &matrix, experiments))
}

/// Moves an unreadable journal away and undoes what does not need it.
fn forget_journal(ui: &Ui, host: &Host, experiments: &ExperimentStore) -> Result<(), Failure> {
    experiment::unit::remove(host)?;
    let moved_to = experiments.archive_journal()?;
    ui.status(&format!("the journal cannot be read; it was moved to {moved_to}"));
    ui.warn(
        "a shield and kernel parameters may remain; remove them: cpushield undo; \
         cpushield boot undo",
    );
    Ok(())
}

/// Stops a running experiment and takes its lock.
fn stop_running(store: &Store) -> Result<StoreLock, Failure> {
    let step = Duration::from_millis(100);
    let mut waited = Duration::ZERO;
    loop {
        let error = match store.claim(NAME) {
            Ok(lock) => return Ok(lock),
            Err(error) => error,
        };
        match error.holder().filter(|_| waited < STOP_TIMEOUT) {
            // It may have ended already; then the next attempt takes the lock.
            Some(pid) => drop(process::kill(pid, 15)),
            None => return Err(error.into()),
        }
        std::thread::sleep(step);
        waited += step;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ui::{OutputFormat, StatusLines};

    /// The dry run of a matrix with these first lines on a recorded machine with 4 CPUs.
    fn dry_run(head: &str) -> Result<DryRun, String> {
        dry_run_with(head, "")
    }

    /// The dry run with additional rows.
    fn dry_run_with(head: &str, more: &str) -> Result<DryRun, String> {
        let rows = "[[row]]\nname = \"as it is\"\n[[row]]\nname = \"shield\"\nshield = true\n\
                    [[row]]\nname = \"shield, nohz_full\"\nshield = true\nboot = [\"nohz_full=3\"]\n";
        let column = "[[column]]\nname = \"timer\"\ninstrument = \"timer\"\n";
        let matrix = Matrix::parse(&format!("{head}\n{rows}{more}{column}"), "m.toml").unwrap();
        let ui = Ui::new(OutputFormat::Text, StatusLines::Suppressed);
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("machines/6.12-rt-4/root");
        let state = std::env::temp_dir().join("cpushield-no-experiment");
        let global = GlobalArgs {
            quiet: true,
            root: Some(root),
            state: Some(state),
            ..GlobalArgs::default()
        };
        let host = global.host().unwrap();
        let schedule = make_schedule(&matrix, RebootPermission::Denied);
        make_dry_run(&ui, &global, &host, &matrix, &schedule).map_err(|failure| failure.message)
    }

    #[test]
    fn a_dry_run_chooses_the_cpus_and_refuses_what_the_experiment_would() {
        assert_eq!(dry_run("cpus = \"2\"").unwrap().cpus, CpuSet::single(2));
        let chosen = dry_run("").unwrap();
        assert!(!chosen.cpus.is_empty() && !chosen.cpus.contains(0), "{}", chosen.cpus);
        let text = report::dry_run_text(&chosen, 120);
        assert!(text.contains("not run without --reboot: \"shield, nohz_full\"\n"), "{text}");
        let missing = dry_run("cpus = \"99\"").unwrap_err();
        assert_eq!(missing, "this machine has no CPU 99; it has CPU 0-3");
        // irqbalance does not run on this machine, so these two rows make the same shield. With
        // different kernel parameters they differ.
        let row = |boot: &str| {
            format!(
                "[[row]]\nname = \"again\"\nshield = true\ntunables = {{ irqbalance = false }}\n{boot}"
            )
        };
        let twice = dry_run_with("", &row("")).unwrap_err();
        assert_eq!(twice, "rows \"shield\" and \"again\" make the same shield here");
        assert!(dry_run_with("", &row("boot = [\"nohz_full=2\"]\n")).is_ok());
        let all = dry_run("cpus = \"0-3\"").unwrap_err();
        assert!(all.starts_with("row \"shield\": cannot shield all CPUs (0-3)"), "{all}");
    }
}
