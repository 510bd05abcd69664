//! Runs an experiment: plans its schedule, checks what can be checked in advance, runs it across
//! reboots, and stops it.

use super::experiment_cpus::offer_candidates;
use super::experiment_machine::{LiveExperimentMachine, OriginalBoot};
use super::given_file::read_file;
use super::machine_survey::survey_machine;
use super::prepared_matrix::{PreparedMatrix, prepare_matrix};
use super::search_machine::LiveSearchMachine;
use super::undo_watchdog::EXPERIMENT_SHIELD;
use super::{WorkContext, absolute_path, active_shields, catch_stops, runs_as_root};
use crate::boot::{self, early};
use crate::documents::count_text::joined;
use crate::documents::experiment::{DryRun, Experiment, ExperimentSetup};
use crate::documents::machine::Machine;
use crate::documents::option_search::OptionSearch;
pub use crate::experiment::RebootPermission;
use crate::experiment::journal::{ExperimentJournal, ExperimentPhase, ExperimentStore};
use crate::experiment::search::SearchRequest;
use crate::experiment::{self, ExperimentEnd, Matrix, RowCpus, Schedule, make_schedule, search};
use crate::failure::{Failure, FailureKind};
use crate::json::to_json;
use crate::latency::{self, instruments, read_power};
use crate::survey::survey;
use crate::tunables;
use cpushield_linux::sys::clock::epoch_seconds;
use cpushield_linux::{
    CpuSet, Host, Store, StoreLock, UserFiles, processes::process, sys::signal, trace::tracefs,
};
use serde::Serialize;
use std::path::Path;
use std::time::Duration;

/// How long a running experiment may take to end after it is stopped.
const STOP_TIMEOUT: Duration = Duration::from_secs(60);

/// The matrix of an experiment, and its file.
#[derive(Debug, Clone)]
pub struct ExperimentFile {
    pub(super) name: String,
    pub(super) text: String,
    pub(super) matrix: Matrix,
}

/// The results of an experiment, or of a search.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum ExperimentResults {
    /// Of every row and column.
    Matrix(Box<Experiment>),
    /// Of a search.
    Search(Box<OptionSearch>),
}

impl ExperimentResults {
    /// Succeeds if a search found an answer, has not ended, or only lists differences.
    ///
    /// # Errors
    /// The search ended without an answer.
    pub fn check_found(&self) -> Result<(), Failure> {
        let ExperimentResults::Search(search) = self else { return Ok(()) };
        match &search.end {
            Some(end) if !end.is_answer() => {
                Err(Failure::new(FailureKind::DoesNotHold, end.to_string()))
            }
            _ => Ok(()),
        }
    }
}

impl ExperimentFile {
    /// Reads the file.
    ///
    /// # Errors
    /// It cannot be read, or is not a matrix.
    pub fn read(files: &UserFiles, file: &Path) -> Result<ExperimentFile, Failure> {
        let (text, name) = (read_file(files, file)?, file.display().to_string());
        Ok(ExperimentFile { matrix: Matrix::parse(&text, &name)?, name, text })
    }
}

/// Describes what an experiment would do, without doing it.
///
/// # Errors
/// This machine cannot run it.
pub fn dry_run(
    work: &WorkContext<'_>,
    file: &ExperimentFile,
    reboot: RebootPermission,
) -> Result<DryRun, Failure> {
    let host = &work.host;
    let machine = survey_machine(host, &work.store);
    let PreparedMatrix { matrix, row_cpus } =
        prepare_matrix(work, &machine, file.matrix.clone(), &file.name, reboot)?;
    let schedule = make_schedule(&matrix, reboot);
    // A recording, or an ordinary user, cannot show everything that these checks need.
    if host.is_live() && runs_as_root() {
        let setup = describe_setup(host, &machine, &row_cpus);
        let journal = ExperimentJournal::new(String::new(), String::new(), row_cpus, 0);
        let journal = ExperimentJournal { setup, ..journal };
        check_possible(&make_machine(work, &matrix, &schedule, &journal))?;
    }
    let candidates = offer_candidates(&machine, &matrix);
    Ok(experiment::describe_dry_run(&matrix, &schedule, candidates))
}

/// Runs an experiment. Returns its results; `None` if it continues after a reboot.
///
/// # Errors
/// This machine cannot run it, it was interrupted, or a change cannot be undone.
pub fn start(
    work: &WorkContext<'_>,
    file: ExperimentFile,
    reboot: RebootPermission,
    output: Option<&Path>,
) -> Result<Option<ExperimentResults>, Failure> {
    let _lock = claim_experiment(&work.store, "an experiment is running")?;
    begin_and_run(work, file, reboot, output, None)
}

/// Resumes an interrupted experiment. Returns as [`start`].
///
/// # Errors
/// There is none, or as [`start`].
pub fn resume(work: &WorkContext<'_>) -> Result<Option<ExperimentResults>, Failure> {
    let _lock = claim_experiment(&work.store, "the experiment is already running")?;
    match experiments(work).load()? {
        Some(journal) => run_schedule(work, journal),
        None => Err(no_experiment()),
    }
}

/// Reads the results of the current or the last experiment.
///
/// # Errors
/// There is none, or its journal cannot be read.
pub fn read_results(work: &WorkContext<'_>) -> Result<ExperimentResults, Failure> {
    let Some(journal) = experiments(work).load()? else { return Err(no_experiment()) };
    Ok(collect(work, &journal, &journal.parse_matrix()?))
}

/// Collects the results so far.
fn collect(
    work: &WorkContext<'_>,
    journal: &ExperimentJournal,
    matrix: &Matrix,
) -> ExperimentResults {
    let store = experiments(work);
    let Some(request) = &journal.search else {
        let experiment = experiment::collect_results(journal, matrix, &store);
        return ExperimentResults::Matrix(Box::new(experiment));
    };
    let columns = request.columns(matrix);
    let plan = search::plan_trials(request, columns, journal, &store, &mut Vec::new());
    let found = search::collect_search(request, matrix, journal, &plan);
    ExperimentResults::Search(Box::new(found))
}

pub(super) fn experiments(work: &WorkContext<'_>) -> ExperimentStore {
    ExperimentStore::new(&work.state_dir)
}

fn no_experiment() -> Failure {
    Failure::machine("there is no experiment").hint("start one: cpushield experiment FILE")
}

/// The time for the journal.
fn now_s() -> u64 {
    epoch_seconds().unwrap_or(0)
}

/// Takes the lock for experiments; `held` is the message when another process holds it.
pub(super) fn claim_experiment(store: &Store, held: &str) -> Result<StoreLock, Failure> {
    store.claim(EXPERIMENT_SHIELD).map_err(|error| match error.is_held() {
        true => Failure::machine(format!("{held}: {}", error.reason()))
            .hint("show its results: cpushield experiment --status")
            .hint("or stop it: cpushield experiment --stop"),
        false => error.into(),
    })
}

/// Begins an experiment, or a search, and runs it.
pub(super) fn begin_and_run(
    work: &WorkContext<'_>,
    file: ExperimentFile,
    reboot: RebootPermission,
    output: Option<&Path>,
    search: Option<SearchRequest>,
) -> Result<Option<ExperimentResults>, Failure> {
    let ExperimentFile { name, text, matrix } = file;
    let journal = ExperimentJournal {
        reboot,
        output: output.map(absolute_path),
        search,
        ..ExperimentJournal::new(name, text, Vec::new(), now_s())
    };
    let journal = check_and_begin(work, matrix, output, journal)?;
    run_schedule(work, journal)
}

/// Checks everything that can be checked in advance, then writes the first journal.
fn check_and_begin(
    work: &WorkContext<'_>,
    matrix: Matrix,
    output: Option<&Path>,
    journal: ExperimentJournal,
) -> Result<ExperimentJournal, Failure> {
    let WorkContext { ui, host, store, .. } = work;
    let (experiments, reboot) = (experiments(work), journal.reboot);
    let old = experiments.load()?;
    if let Some(old) = old.as_ref().filter(|old| old.phase == ExperimentPhase::Running) {
        let done = old.ends.len();
        return Err(Failure::machine(format!(
            "an experiment is unfinished: {} ({done} steps done)",
            old.file
        ))
        .hint("resume it: cpushield experiment --resume")
        .hint("or stop it and undo every change: cpushield experiment --stop"));
    }
    check_unshielded(host, store, &matrix, reboot)?;
    output.map_or(Ok(()), |file| host.user_files().check_writable(file))?;
    let machine = survey(host, &tunables::reads());
    let PreparedMatrix { matrix, row_cpus } =
        prepare_matrix(work, &machine, matrix, &journal.file, reboot)?;
    let journal =
        ExperimentJournal { setup: describe_setup(host, &machine, &row_cpus), row_cpus, ..journal };
    let schedule = make_schedule(&matrix, reboot);
    check_possible(&make_machine(work, &matrix, &schedule, &journal))?;
    if reboot == RebootPermission::Denied && matrix.has_boots() {
        ui.warn(
            "rows with kernel parameters or another kernel are skipped, because they need --reboot",
        );
    }
    if schedule.steps.is_empty() {
        return Err(Failure::usage("nothing is left to measure").hint("allow reboots: --reboot"));
    }
    let steps_with_files = old.and_then(|old| Some(old.ends.last_key_value()?.0 + 1));
    experiments.clear(steps_with_files.unwrap_or(0).max(schedule.steps.len()))?;
    experiments.save(&journal)?;
    Ok(journal)
}

/// Checks that the boot loader accepts each boot and that each column can be measured.
pub(super) fn check_possible(machine: &LiveExperimentMachine<'_>) -> Result<(), Failure> {
    for boot in machine.schedule.boots.iter().skip(1) {
        machine.check_boot(boot)?;
    }
    for column in &machine.matrix.columns {
        let instrument = instruments::named(&column.instrument);
        if let Some(Err(why)) =
            instrument.map(|instrument| (instrument.possible)(&machine.work.host))
        {
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
    if !runs_as_root() {
        return Err(Failure::machine("only root can shield CPUs").hint("run it as root"));
    }
    active_shields::refuse_active(host, store, "take that shield down first: cpushield undo")?;
    if reboot == RebootPermission::Denied || !matrix.has_boots() {
        return Ok(());
    }
    if boot::read_journal(store)?.is_some() {
        return Err(Failure::machine(
            "the boot loader already has kernel parameters from cpushield",
        )
        .hint("show them: cpushield boot status")
        .hint("or remove them first: cpushield boot undo"));
    }
    if let Some(enabled) = early::installed(store)? {
        let message =
            format!("a shield is applied at boot ({}), which would affect every row", enabled.path);
        return Err(Failure::machine(message).hint("disable it first: cpushield disable"));
    }
    Ok(())
}

/// Describes the hardware and the system, so that a reader can repeat the experiment.
pub(super) fn describe_setup(
    host: &Host,
    machine: &Machine,
    row_cpus: &[RowCpus],
) -> ExperimentSetup {
    let cpus: CpuSet = row_cpus.iter().flat_map(|row| row.measured.iter()).collect();
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
        realtime: machine.kernel.is_preempt_rt(),
        cmdline: machine.kernel.cmdline.clone(),
        hypervisor: machine.virt.hypervisor.clone().or(guest.then(|| "unknown".to_owned())),
        memory_kib: latency::read_memory_kib(host),
        power: read_power(host, machine, &cpus),
        settings: machine.firmware.iter().map(|finding| finding.describe()).collect(),
    }
}

/// Two DMI fields, joined; `None` when both are absent or empty.
fn read_dmi(host: &Host, names: [&str; 2]) -> Option<String> {
    let fields = names
        .into_iter()
        .filter_map(|name| host.read_line(&format!("/sys/class/dmi/id/{name}")).ok());
    let text = joined(fields, " ").trim().to_owned();
    Some(text).filter(|text| !text.is_empty())
}

fn make_machine<'a>(
    work: &'a WorkContext<'a>,
    matrix: &'a Matrix,
    schedule: &'a Schedule,
    journal: &ExperimentJournal,
) -> LiveExperimentMachine<'a> {
    LiveExperimentMachine {
        work,
        matrix,
        schedule,
        row_cpus: journal.row_cpus.clone(),
        original: OriginalBoot::of(&journal.setup),
    }
}

/// Runs the rest of the schedule and shows the results when it is finished.
fn run_schedule(
    work: &WorkContext<'_>,
    mut journal: ExperimentJournal,
) -> Result<Option<ExperimentResults>, Failure> {
    let WorkContext { ui, host, .. } = work;
    let experiments = experiments(work);
    catch_stops()?;
    let matrix = journal.parse_matrix()?;
    let resume = "the results so far are saved; resume: cpushield experiment --resume";
    let end = match journal.search.clone() {
        None => {
            let schedule = make_schedule(&matrix, journal.reboot);
            let mut machine = make_machine(work, &matrix, &schedule, &journal);
            experiment::run_remaining(&mut machine, &experiments, &mut journal, &schedule)
        }
        Some(request) => {
            let mut machine = LiveSearchMachine::new(work, &matrix, &journal, request.goal);
            let columns = request.columns(&matrix);
            search::run_search(&mut machine, &experiments, &mut journal, &request, columns)
        }
    };
    let end = end
        .map_err(|failure| failure.hint(resume).hint("or stop it: cpushield experiment --stop"))?;
    match end {
        ExperimentEnd::Finished => {}
        ExperimentEnd::Rebooting => {
            ui.status(match host.has_systemd() {
                true => {
                    "the experiment resumes automatically after the reboot; \
                         show its results: cpushield experiment --status"
                }
                false => "resume after the reboot: cpushield experiment --resume",
            });
            return Ok(None);
        }
        ExperimentEnd::Interrupted => {
            let stopped = signal::stopped_by().map(Failure::stopped);
            let failure =
                stopped.unwrap_or_else(|| Failure::new(FailureKind::Undone, "interrupted"));
            return Err(failure.hint(resume).hint("or stop it: cpushield experiment --stop"));
        }
        ExperimentEnd::Elsewhere(mismatch) => return Err(machine_changed(&mismatch.to_string())),
        ExperimentEnd::NotReturned { reboots } => {
            return Err(machine_changed(&format!(
                "it did not return to the original boot entry after {reboots} reboots"
            )));
        }
    }
    if journal.ended_s.is_none() {
        journal.ended_s = Some(now_s());
        experiments.save(&journal)?;
    }
    let results = collect(work, &journal, &matrix);
    if let Some(file) = &journal.output {
        host.user_files().write(Path::new(file), &to_json(&results)?)?;
        ui.status(&format!("wrote {file}"));
    }
    Ok(Some(results))
}

fn machine_changed(why: &str) -> Failure {
    Failure::machine(format!("the machine has changed since the experiment began: {why}"))
        .hint("boot the original boot entry, then: cpushield experiment --resume")
        .hint("or stop the experiment: cpushield experiment --stop")
}

/// Stops an experiment and undoes every change. Returns its results; `None` if its journal cannot
/// be read.
///
/// # Errors
/// There is none, or a change cannot be undone.
pub fn stop(work: &WorkContext<'_>) -> Result<Option<ExperimentResults>, Failure> {
    let WorkContext { ui, store, .. } = work;
    let experiments = experiments(work);
    let _lock = stop_running(store)?;
    catch_stops()?;
    tracefs::remove_stale_instances(&work.host);
    let mut journal = match experiments.load() {
        Ok(Some(journal)) => journal,
        Ok(None) => return Err(no_experiment()),
        Err(experiment::journal::ExperimentJournalError::Damaged { .. }) => {
            forget_journal(work, &experiments)?;
            return Ok(None);
        }
        Err(error) => return Err(error.into()),
    };
    let matrix = journal.parse_matrix()?;
    if journal.phase == ExperimentPhase::Running {
        let schedule = match &journal.search {
            None => make_schedule(&matrix, journal.reboot),
            Some(request) => {
                let (columns, known) = (request.columns(&matrix), &mut Vec::new());
                search::plan_trials(request, columns, &journal, &experiments, known).schedule
            }
        };
        let mut machine = make_machine(work, &matrix, &schedule, &journal);
        let needs_reboot = experiment::stop(&mut machine, &experiments, &mut journal, now_s())?;
        ui.status("stopped; all changes are undone");
        if needs_reboot {
            ui.warn(
                "the kernel still runs with parameters of the experiment; reboot to remove them",
            );
        }
    }
    Ok(Some(collect(work, &journal, &matrix)))
}

/// Moves an unreadable journal away and undoes what does not need it.
fn forget_journal(work: &WorkContext<'_>, experiments: &ExperimentStore) -> Result<(), Failure> {
    let WorkContext { ui, host, .. } = work;
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
    let mut stopped = None;
    loop {
        let error = match store.claim(EXPERIMENT_SHIELD) {
            Ok(lock) => return Ok(lock),
            Err(error) => error,
        };
        match error.holder().filter(|_| waited < STOP_TIMEOUT) {
            Some(pid) if stopped == Some(pid) => {}
            Some(pid) => {
                // It may have ended already; then the next attempt takes the lock.
                drop(process::terminate(pid));
                stopped = Some(pid);
            }
            None => return Err(error.into()),
        }
        std::thread::sleep(step);
        waited += step;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::blocks::{terminal_blocks, unpainted};
    use crate::report::experiment as report;
    use crate::ui::{OutputFormat, StatusLines, Ui};
    use std::path::PathBuf;
    use std::process::Command;

    /// The dry run of a matrix on a recorded machine.
    fn dry_run_on(machine: &str, text: &str) -> Result<DryRun, String> {
        dry_run_in(&recorded(machine), text)
    }

    fn recorded(machine: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("machines").join(machine).join("root")
    }

    fn dry_run_in(root: &Path, text: &str) -> Result<DryRun, String> {
        dry_run_with_permission(root, text, RebootPermission::Denied)
    }

    fn dry_run_with_permission(
        root: &Path,
        text: &str,
        reboot: RebootPermission,
    ) -> Result<DryRun, String> {
        let matrix = Matrix::parse(text, "m.toml").unwrap();
        let file = ExperimentFile { name: "m.toml".to_owned(), text: text.to_owned(), matrix };
        let ui = Ui::new(OutputFormat::Text, StatusLines::Suppressed);
        let state = std::env::temp_dir().join("cpushield-no-experiment");
        let work = WorkContext::open(&ui, Some(root), Some(&state), None).unwrap();
        dry_run(&work, &file, reboot).map_err(|failure| {
            [failure.message].into_iter().chain(failure.hints).collect::<Vec<_>>().join("\n")
        })
    }

    /// The dry run of a matrix with these first lines and additional rows on a machine with 4 CPUs.
    fn dry_run_with(head: &str, more: &str) -> Result<DryRun, String> {
        let rows = "[[row]]\nname = \"as it is\"\n[[row]]\nname = \"shield\"\nshield = true\n\
                    [[row]]\nname = \"shield, nohz_full\"\nshield = true\nboot = [\"nohz_full=3\"]\n";
        dry_run_on("6.12-rt-4", &format!("{head}\n{rows}{more}{COLUMN}"))
    }

    const COLUMN: &str = "[[column]]\nname = \"timer\"\ninstrument = \"timer\"\n";

    fn show(dry_run: &DryRun) -> String {
        terminal_blocks(&report::dry_run_blocks(dry_run), 120, &unpainted)
    }

    #[test]
    fn a_dry_run_chooses_the_cpus_and_refuses_what_the_experiment_would() {
        assert_eq!(dry_run_with("cpus = \"2\"", "").unwrap().cpus, CpuSet::single(2));
        let chosen = dry_run_with("", "").unwrap();
        assert!(!chosen.cpus.is_empty() && !chosen.cpus.contains(0), "{}", chosen.cpus);
        let text = show(&chosen);
        assert!(text.contains("not run without --reboot: \"shield, nohz_full\"\n"), "{text}");
        let missing = dry_run_with("cpus = \"99\"", "").unwrap_err();
        assert_eq!(missing, "m.toml:1: this machine has no CPU 99; it has CPU 0-3");
        let all = dry_run_with("cpus = \"0-3\"", "").unwrap_err();
        let said = "m.toml:4: row \"shield\": cannot shield all CPUs (0-3)";
        assert!(all.starts_with(said), "{all}");
    }

    #[test]
    fn rows_that_plan_the_same_are_an_error_with_both_rows_and_lines() {
        // irqbalance does not run on this machine, so these two rows make the same shield. With
        // different kernel parameters they differ.
        let row = |boot: &str| {
            format!(
                "[[row]]\nname = \"again\"\nshield = true\ntunables = {{ irqbalance = false }}\n{boot}"
            )
        };
        let twice = dry_run_with("", &row("")).unwrap_err();
        let said = "m.toml:11: row \"again\" has the same plan on this machine as row \"shield\" \
                    on line 4\n";
        assert!(twice.starts_with(said), "{twice}");
        assert!(dry_run_with("", &row("boot = [\"nohz_full=2\"]\n")).is_ok());
        let bare = |cpus: &str| format!("[[row]]\nname = \"bare\"\ncpus = \"{cpus}\"\n");
        let last = dry_run_with("cpus = \"3\"", &bare("N")).unwrap_err();
        assert!(last.starts_with("m.toml:11: row \"bare\" has the same plan"), "{last}");
        assert!(dry_run_with("cpus = \"3\"", &bare("2")).is_ok());
        // The list of the placeholder counts, and not the placeholder.
        let parameter = "[[row]]\nname = \"p\"\nshield = true\nboot = [\"nohz_full={cpus}\"]\n";
        let same = dry_run_with("cpus = \"3\"", parameter).unwrap_err();
        assert!(same.contains("row \"p\" has the same plan on this machine as row"), "{same}");
    }

    #[test]
    fn rows_have_cpus_of_their_own() {
        let rows = ["1", "N", "2-3"].map(|cpus| {
            format!(
                "[[row]]\nname = \"on {cpus}\"\nshield = true\ncpus = \"{cpus}\"\n\
                 boot = [\"nohz_full={{cpus}}\"]\n"
            )
        });
        let text = format!("{}{COLUMN}", rows.concat());
        let found = dry_run_on("6.12-rt-4", &text).unwrap();
        let cpus: Vec<String> = found.rows.iter().map(|row| row.cpus.to_string()).collect();
        assert_eq!(cpus, ["1", "3", "2-3"]);
        assert_eq!((found.cpus.to_string().as_str(), found.candidates.len()), ("1-3", 0));
        assert!(show(&found).contains("2  on N (CPU 3)\n"), "{}", show(&found));
        let wrong = text.replace("\"2-3\"\n", "\"7\"\n");
        let wrong = dry_run_on("6.12-rt-4", &wrong).unwrap_err();
        assert_eq!(wrong, "m.toml:14: this machine has no CPU 7; it has CPU 0-3");
    }

    #[test]
    fn a_row_without_cpus_is_named_when_the_shields_have_their_own() {
        let shield = |cpus: &str| {
            format!("[[row]]\nname = \"on {cpus}\"\nshield = true\ncpus = \"{cpus}\"\n")
        };
        let shields = ["1", "3", "2-3"].map(shield).concat();
        let base = |cpus: &str| format!("[[row]]\nname = \"a\"\n{cpus}{shields}{COLUMN}");
        let refused = dry_run_on("6.12-rt-4", &base("")).unwrap_err();
        let said = "m.toml:1: row \"a\": this row has neither a shield nor `cpus`, so it does not \
                    say which CPUs to measure\n\
                    measure this row on the CPUs of another row: cpus = \"1\"\n\
                    or set cpus at the top of the file, for all rows without their own\n\
                    or write a row without a shield for each of these sets of CPUs; their union is \
                    CPU 1-3";
        assert_eq!(refused, said);
        assert!(dry_run_on("6.12-rt-4", &base("cpus = \"1\"\n")).is_ok());
    }

    #[test]
    fn a_dry_run_refuses_words_that_the_kernel_would_ignore_and_kernels_not_in_the_menu() {
        let row = |keys: &str| format!("[[row]]\nname = \"odd\"\nshield = true\n{keys}\n");
        let words = ["isolcpus=9", "rcu_nocbs=9", "isolcpus=0-3", "nohz=off\", \"nohz_full=3"];
        for words in words {
            let refused = dry_run_with("cpus = \"3\"", &row(&format!("boot = [\"{words}\"]")));
            let refused = refused.expect_err(words);
            assert!(refused.starts_with("m.toml:11: row \"odd\": "), "{refused}");
            assert!(words.split("\", \"").any(|word| refused.contains(word)), "{refused}");
        }
        let good = "boot = [\"isolcpus=3\", \"rcu_nocbs=3\", \"nohz_full=2-3\"]";
        assert!(dry_run_with("cpus = \"3\"", &row(good)).is_ok());
        // A recording has no boot menu, so it does not say which kernels are installed.
        assert!(dry_run_with("cpus = \"3\"", &row("kernel = \"5.4.0\"")).is_ok());
        let scratch = std::env::temp_dir().join(format!("cpushield-menu-{}", std::process::id()));
        let conf = "LABEL one\n  LINUX /boot/vmlinuz-5.10.0\n  APPEND root=/dev/sda1 quiet\n";
        let copied = Command::new("cp").arg("-r").arg(recorded("6.12-rt-4")).arg(&scratch).status();
        assert!(copied.unwrap().success());
        std::fs::create_dir_all(scratch.join("boot/extlinux")).unwrap();
        std::fs::write(scratch.join("boot/extlinux/extlinux.conf"), conf).unwrap();
        let kernel = |release: &str| {
            let row = row(&format!("kernel = \"{release}\""));
            dry_run_in(&scratch, &format!("cpus = \"3\"\n{row}{COLUMN}"))
        };
        let (known, unknown) = (kernel("5.10.0"), kernel("5.4.0"));
        std::fs::remove_dir_all(&scratch).unwrap();
        known.unwrap();
        let refused = unknown.unwrap_err();
        assert!(refused.starts_with("m.toml:2: row \"odd\": no kernel"), "{refused}");
    }

    #[test]
    fn candidates_are_offered_where_no_cpus_are_named() {
        let chosen = dry_run_with("", "").unwrap();
        let offered: Vec<String> =
            chosen.candidates.iter().map(|candidate| candidate.cpus.to_string()).collect();
        assert!(offered.len() > 2 && offered.contains(&chosen.cpus.to_string()), "{offered:?}");
        assert!(show(&chosen).contains("CPUs worth trying"), "{}", show(&chosen));
        let bare = format!("[[row]]\nname = \"bare\"\n{COLUMN}");
        let refused = dry_run_on("6.12-rt-4", &bare).unwrap_err();
        assert!(refused.starts_with("m.toml:1: cannot choose the CPUs to measure"), "{refused}");
        for cpus in offered {
            assert!(refused.contains(&format!("cpus = \"{cpus}\"")), "{refused}");
        }
    }

    #[test]
    fn a_word_that_the_kernel_lacks_is_an_error_only_if_the_row_boots() {
        let (root, text) = (recorded("6.18-hybrid"), include_str!("../../docs/experiment.toml"));
        let run = |reboot| dry_run_with_permission(&root, text, reboot);
        let shown = show(&run(RebootPermission::Denied).unwrap());
        assert!(shown.contains("not run without --reboot: \"isolcpus\""), "{shown}");
        let refused = run(RebootPermission::Granted).unwrap_err();
        assert!(refused.contains("row \"shield, nohz_full\""), "{refused}");
        assert!(refused.contains("is not a parameter of the chosen kernels"), "{refused}");
    }

    #[test]
    fn the_rows_of_the_shipped_example_differ_on_every_recorded_machine() {
        let machines = Path::new(env!("CARGO_MANIFEST_DIR")).join("machines");
        let mut planned = 0;
        for entry in std::fs::read_dir(machines).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if name.ends_with(".md") {
                continue;
            }
            match dry_run_on(&name, include_str!("../../docs/experiment.toml")) {
                Ok(_) => planned += 1,
                Err(why) => assert!(!why.contains("plans the same"), "{name}: {why}"),
            }
        }
        assert!(planned >= 4, "{planned}");
    }
}
