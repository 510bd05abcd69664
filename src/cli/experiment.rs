//! `cpushield experiment`: a matrix of configurations and measurements.

use super::experiment_machine::{LiveExperimentMachine, NAME};
use super::latency::paint;
use super::{GlobalArgs, input, standing};
use crate::boot::{self, early};
use crate::experiment::journal::{ExperimentJournal, ExperimentPhase, ExperimentStore};
use crate::experiment::{
    self, DryRun, Experiment, ExperimentEnd, ExperimentSetup, Matrix, Schedule, schedule,
};
use crate::failure::{Failure, FailureKind};
use crate::latency::instruments;
use crate::plan::{Step, in_use, plan};
use crate::report::experiment as report;
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

/// How long an experiment that is at work may take to end.
const STOPPING: Duration = Duration::from_secs(60);

/// Runs it.
///
/// # Errors
/// The matrix is wrong, the machine cannot be measured so, or something cannot be put back.
pub fn run(ui: &Ui, global: &GlobalArgs, args: &ExperimentArgs) -> Result<(), Failure> {
    let host = global.host()?;
    let notebook = ExperimentStore::new(&global.state_dir());
    if args.status {
        return status(ui, &notebook);
    }
    if !host.is_live() && !args.dry_run {
        return Err(Failure::usage("a recorded machine does not run: nothing to measure")
            .hint("leave --root out"));
    }
    if let Some(file) = &args.file {
        let text = input::read_file(file)?;
        let name = file.display().to_string();
        let matrix = Matrix::parse(&text, &name)?;
        let schedule = schedule(&matrix, args.reboot);
        if args.dry_run {
            let outlook = outlook(ui, global, &host, args, &matrix, &schedule)?;
            return ui.show(&outlook, || report::dry_run_text(&outlook, ui.width()));
        }
        let store = global.store();
        let _turn = turn(&store, "an experiment is running")?;
        let journal = ExperimentJournal::new(name, text, CpuSet::new(), now_s());
        let journal = begin(ui, global, args, &host, &store, &matrix, journal)?;
        return go(ui, global, &host, &notebook, journal);
    }
    let store = global.store();
    if args.stop {
        return stop(ui, global, &host, &store, &notebook);
    }
    let _turn = turn(&store, "it is already running")?;
    match notebook.load()? {
        Some(journal) => go(ui, global, &host, &notebook, journal),
        None => Err(none()),
    }
}

/// What an experiment would do, of which everything is checked that can be without being it.
fn outlook(
    ui: &Ui,
    global: &GlobalArgs,
    host: &Host,
    args: &ExperimentArgs,
    matrix: &Matrix,
    schedule: &Schedule,
) -> Result<DryRun, Failure> {
    let machine = super::surveyed(host, &global.store());
    let (shielded, cpus) = cpus(host, &machine, matrix)?;
    // What a recording, or an ordinary user, does not show may still be there.
    if host.is_live() && process::effective_user() == 0 {
        let journal = ExperimentJournal::new(String::new(), String::new(), cpus.clone(), 0);
        let journal = ExperimentJournal { scene: scene(host, &machine), shielded, ..journal };
        possible(&bench(ui, global, host, matrix, schedule, &journal))?;
    }
    Ok(experiment::outlook(matrix, schedule, cpus, args.reboot))
}

fn none() -> Failure {
    Failure::machine("there is no experiment")
        .hint("start an experiment: cpushield experiment FILE")
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

/// The right to run an experiment; `else_` is what holds it.
fn turn(store: &Store, else_: &str) -> Result<StoreLock, Failure> {
    store.claim(NAME).map_err(|error| match error.is_held() {
        true => Failure::machine(format!("{else_}: {}", error.reason()))
            .hint("cpushield experiment --status shows it, --stop ends it"),
        false => error.into(),
    })
}

/// Checks everything that can be checked before, and makes the first entry of the journal.
fn begin(
    ui: &Ui,
    global: &GlobalArgs,
    args: &ExperimentArgs,
    host: &Host,
    store: &Store,
    matrix: &Matrix,
    journal: ExperimentJournal,
) -> Result<ExperimentJournal, Failure> {
    let notebook = ExperimentStore::new(&global.state_dir());
    let old = notebook.load()?;
    if let Some(old) = old.as_ref().filter(|old| old.phase == ExperimentPhase::Running) {
        let done = old.ends.len();
        return Err(Failure::machine(format!(
            "an experiment is unfinished: {} ({done} steps)",
            old.file
        ))
        .hint("resume it: cpushield experiment --resume")
        .hint("or stop it and undo every change: cpushield experiment --stop"));
    }
    free(host, store, matrix, args.reboot)?;
    let output = args.output.as_ref();
    output.map_or(Ok(()), |file| can_write(file))?;
    let whole = |path: &PathBuf| absolute(path).unwrap_or(path.clone()).display().to_string();
    let machine = survey(host, &tunables::reads());
    let (shielded, cpus) = cpus(host, &machine, matrix)?;
    let journal = ExperimentJournal {
        reboot: args.reboot,
        output: output.map(whole),
        scene: scene(host, &machine),
        shielded,
        cpus,
        ..journal
    };
    let schedule = schedule(matrix, args.reboot);
    possible(&bench(ui, global, host, matrix, &schedule, &journal))?;
    if !args.reboot && matrix.has_boots() {
        ui.warn("rows with kernel parameters are not run: they need --reboot");
    }
    if schedule.steps.is_empty() {
        return Err(Failure::usage("nothing is left to measure").hint("allow reboots: --reboot"));
    }
    let before =
        old.and_then(|old| Some(experiment::schedule(&old.matrix().ok()?, true).steps.len()));
    notebook.clear(before.unwrap_or(0).max(schedule.steps.len()))?;
    notebook.save(&journal)?;
    Ok(journal)
}

/// Whether the boot loader takes the parameters and each column can be measured.
fn possible(bench: &LiveExperimentMachine<'_>) -> Result<(), Failure> {
    for words in bench.schedule.boots.iter().skip(1) {
        bench.check_boot(words)?;
    }
    for column in &bench.matrix.columns {
        let instrument = instruments::by_name(&column.instrument);
        if let Some(Err(why)) = instrument.map(|it| it.possible(bench.host)) {
            let why = format!("`latency {}` cannot run here: {why}", column.instrument);
            return Err(Failure::machine(format!("column {:?}: {why}", column.name)));
        }
    }
    Ok(())
}

/// Nobody else has changed what an experiment would change.
fn free(host: &Host, store: &Store, matrix: &Matrix, reboot: bool) -> Result<(), Failure> {
    if process::effective_user() != 0 {
        return Err(Failure::machine("only root can shield CPUs").hint("run it as root"));
    }
    standing::refuse(host, store, "take that shield down first: cpushield undo")?;
    if !reboot || !matrix.has_boots() {
        return Ok(());
    }
    if boot::journal(store)?.is_some() {
        return Err(Failure::machine(
            "the boot loader has kernel parameters of cpushield's already",
        )
        .hint("see: cpushield boot status")
        .hint("take them back first: cpushield boot undo"));
    }
    if let Some(kept) = early::installed(store)? {
        let what = format!("each boot makes a shield ({}), in every row", kept.path);
        return Err(Failure::machine(what).hint("take it away first: cpushield disable"));
    }
    Ok(())
}

/// CPUs of the shield, and those of them that are measured.
fn cpus(host: &Host, machine: &Machine, matrix: &Matrix) -> Result<(CpuSet, CpuSet), Failure> {
    let present = machine.topology.present.union(&machine.topology.online);
    let list = |text: &String| CpuSet::parse_list(text, present.last());
    let given = matrix.cpus.as_ref().map(list).transpose();
    let given = given.map_err(|error| Failure::usage(error.to_string()))?;
    given.as_ref().map_or(Ok(()), |cpus| in_use(machine, cpus))?;
    let mut found = given.clone().map(|cpus| (cpus.clone(), cpus));
    let mut planned: Vec<(&experiment::ExperimentRow, Vec<Step>)> = Vec::new();
    // Every shield is planned, so that what cannot be made is told before anything is.
    for (n, row) in matrix.rows.iter().filter(|row| row.shield).enumerate() {
        let chosen = found.as_ref().map(|(shielded, _)| shielded.clone());
        let plan = plan(machine, &LiveExperimentMachine::wish(matrix, row, chosen)).map_err(
            |refused| {
                let failure = Failure::from(refused);
                Failure { message: format!("row {:?}: {}", row.name, failure.message), ..failure }
            },
        )?;
        if let Some((other, _)) =
            planned.iter().find(|(other, steps)| other.boot == row.boot && *steps == plan.steps)
        {
            let why = format!("rows {:?} and {:?} make the same shield here", other.name, row.name);
            return Err(Failure::usage(why)
                .hint("a tunable that is off by itself needs no `= false`: see cpushield plan"));
        }
        planned.push((row, plan.steps.clone()));
        if n == 0 {
            found = Some((plan.shield.cpus.clone(), ShieldPlacement::new(host, &plan).cpus));
        }
    }
    found.ok_or_else(|| {
        Failure::usage("it is not known which CPUs to measure: no row has a shield")
            .hint("name them in the file: cpus = \"3\"")
    })
}

/// What a reader needs to repeat it.
fn scene(host: &Host, machine: &Machine) -> ExperimentSetup {
    let dmi = |names: [&str; 2]| {
        let read = |name| host.read_line(&format!("/sys/class/dmi/id/{name}")).ok();
        let words: Vec<String> = names.into_iter().filter_map(read).collect();
        let text = words.join(" ").trim().to_owned();
        Some(text).filter(|text| !text.is_empty())
    };
    let os = host.read("/etc/os-release").unwrap_or_default();
    let pretty = os.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    let guest = machine.virt.guest == Some(true);
    ExperimentSetup {
        machine: dmi(["sys_vendor", "product_name"]),
        board: dmi(["board_vendor", "board_name"]),
        firmware: dmi(["bios_version", "bios_date"]),
        processor: machine.topology.model.clone(),
        distribution: pretty.map(|name| name.trim_matches(['"', '\'']).to_owned()),
        kernel: machine.kernel.release.clone(),
        realtime: machine.kernel.realtime,
        cmdline: machine.kernel.cmdline.clone(),
        hypervisor: machine.virt.hypervisor.clone().or(guest.then(|| "unknown".to_owned())),
        settings: machine.firmware.iter().map(|finding| finding.seen.clone()).collect(),
    }
}

fn bench<'a>(
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
        home: journal.scene.cmdline.clone(),
    }
}

fn go(
    ui: &Ui,
    global: &GlobalArgs,
    host: &Host,
    notebook: &ExperimentStore,
    mut journal: ExperimentJournal,
) -> Result<(), Failure> {
    signal::catch_stops().map_err(|e| Failure::machine(format!("cannot catch signals: {e}")))?;
    let matrix = journal.matrix()?;
    let schedule = schedule(&matrix, journal.reboot);
    let mut bench = bench(ui, global, host, &matrix, &schedule, &journal);
    let later = "the results so far are saved; resume: cpushield experiment --resume";
    let ended = experiment::go(&mut bench, notebook, &mut journal, &schedule)
        .map_err(|failure| failure.hint(later).hint("or stop it: cpushield experiment --stop"))?;
    match ended {
        ExperimentEnd::Finished => {}
        ExperimentEnd::Rebooting => {
            let on = match host.exists("/run/systemd/system") {
                true => {
                    "it resumes automatically after the boot; see: cpushield experiment --status"
                }
                false => "after the boot: cpushield experiment --resume",
            };
            ui.status(on);
            return Ok(());
        }
        ExperimentEnd::Interrupted => {
            let signal = signal::stopped_by().unwrap_or(0);
            let failure = Failure::new(FailureKind::Undone, format!("stopped by signal {signal}"));
            return Err(failure.hint(later).hint("or stop it: cpushield experiment --stop"));
        }
        ExperimentEnd::Elsewhere(why) => {
            return Err(Failure::machine(format!("the machine is not as at the beginning: {why}"))
                .hint("boot its entry of the beginning, then: cpushield experiment --resume")
                .hint("or end the experiment: cpushield experiment --stop"));
        }
    }
    if journal.ended_s.is_none() {
        journal.ended_s = Some(now_s());
        notebook.save(&journal)?;
    }
    let experiment = experiment::told(&journal, &matrix, notebook);
    if let Some(file) = &journal.output {
        let text = serde_json::to_string_pretty(&experiment).unwrap_or_default();
        write_document(Path::new(file), &(text + "\n"))?;
        ui.status(&format!("wrote {file}"));
    }
    show(ui, &experiment)
}

fn show(ui: &Ui, experiment: &Experiment) -> Result<(), Failure> {
    ui.show(experiment, || report::text(experiment, ui.width(), &paint))
}

fn status(ui: &Ui, notebook: &ExperimentStore) -> Result<(), Failure> {
    let Some(journal) = notebook.load()? else { return Err(none()) };
    let matrix = journal.matrix()?;
    show(ui, &experiment::told(&journal, &matrix, notebook))
}

fn stop(
    ui: &Ui,
    global: &GlobalArgs,
    host: &Host,
    store: &Store,
    notebook: &ExperimentStore,
) -> Result<(), Failure> {
    let _turn = ended(store)?;
    let mut journal = match notebook.load() {
        Ok(Some(journal)) => journal,
        Ok(None) => return Err(none()),
        Err(experiment::journal::ExperimentJournalError::Damaged { .. }) => {
            return forget(ui, host, notebook);
        }
        Err(error) => return Err(error.into()),
    };
    let matrix = journal.matrix()?;
    if journal.phase == ExperimentPhase::Running {
        let schedule = schedule(&matrix, journal.reboot);
        let mut bench = bench(ui, global, host, &matrix, &schedule, &journal);
        let away = experiment::stop(&mut bench, notebook, &mut journal, now_s())?;
        ui.status("stopped; all changes are undone");
        if away {
            ui.warn(
                "the kernel still runs with parameters of the experiment: reboot, and they are gone",
            );
        }
    }
    show(ui, &experiment::told(&journal, &matrix, notebook))
}

/// A journal that cannot be read: what it does not need is put back.
fn forget(ui: &Ui, host: &Host, notebook: &ExperimentStore) -> Result<(), Failure> {
    experiment::unit::remove(host)?;
    let kept = notebook.forget()?;
    ui.status(&format!("the journal cannot be read, and is now {kept}"));
    ui.warn("a shield and kernel parameters may be left: cpushield undo; cpushield boot undo");
    Ok(())
}

/// Ends whoever is at work, and takes its place.
fn ended(store: &Store) -> Result<StoreLock, Failure> {
    let step = Duration::from_millis(100);
    let mut waited = Duration::ZERO;
    loop {
        let error = match store.claim(NAME) {
            Ok(lock) => return Ok(lock),
            Err(error) => error,
        };
        match error.holder().filter(|_| waited < STOPPING) {
            // It may be gone by now; then the next look takes the lock.
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
    use crate::ui::OutputFormat;

    /// The outlook of a matrix with these first lines on a recorded machine of 4 CPUs.
    fn outlook(head: &str) -> Result<DryRun, String> {
        outlook_with(head, "")
    }

    /// The same with further rows.
    fn outlook_with(head: &str, more: &str) -> Result<DryRun, String> {
        let rows = "[[row]]\nname = \"as it is\"\n[[row]]\nname = \"shield\"\nshield = true\n\
                    [[row]]\nname = \"shield, nohz_full\"\nshield = true\nboot = [\"nohz_full=3\"]\n";
        let column = "[[column]]\nname = \"timer\"\ninstrument = \"timer\"\n";
        let matrix = Matrix::parse(&format!("{head}\n{rows}{more}{column}"), "m.toml").unwrap();
        let ui = Ui::new(OutputFormat::Text, true);
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("machines/6.12-rt-4/root");
        let state = std::env::temp_dir().join("cpushield-no-experiment");
        let global = GlobalArgs {
            quiet: true,
            root: Some(root),
            state: Some(state),
            ..GlobalArgs::default()
        };
        let args = ExperimentArgs {
            file: None,
            dry_run: true,
            reboot: false,
            output: None,
            resume: false,
            status: false,
            stop: false,
        };
        let host = global.host().unwrap();
        let schedule = schedule(&matrix, args.reboot);
        super::outlook(&ui, &global, &host, &args, &matrix, &schedule)
            .map_err(|failure| failure.message)
    }

    #[test]
    fn a_dry_run_chooses_the_cpus_and_refuses_what_the_experiment_would() {
        assert_eq!(outlook("cpus = \"2\"").unwrap().cpus, CpuSet::one(2));
        let chosen = outlook("").unwrap();
        assert!(!chosen.cpus.is_empty() && !chosen.cpus.contains(0), "{}", chosen.cpus);
        let text = report::dry_run_text(&chosen, 120);
        assert!(text.contains("not run without --reboot: \"shield, nohz_full\"\n"), "{text}");
        let missing = outlook("cpus = \"99\"").unwrap_err();
        assert_eq!(missing, "CPU 99 is not in this machine; it has 0-3");
        // Two rows that differ in the file, and make the same shield on this machine, where
        // irqbalance does not run; with other kernel parameters they are two.
        let row = |boot: &str| {
            format!(
                "[[row]]\nname = \"again\"\nshield = true\ntunables = {{ irqbalance = false }}\n{boot}"
            )
        };
        let twice = outlook_with("", &row("")).unwrap_err();
        assert_eq!(twice, "rows \"shield\" and \"again\" make the same shield here");
        assert!(outlook_with("", &row("boot = [\"nohz_full=2\"]\n")).is_ok());
        let all = outlook("cpus = \"0-3\"").unwrap_err();
        assert!(all.starts_with("row \"shield\": all CPUs (0-3) cannot be shielded"), "{all}");
    }
}
