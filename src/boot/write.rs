//! Writes boot files. Every original is on the disk before the first write, and each file is
//! replaced as a whole. What the loader's program generates is checked before it is installed.
//! [`super::restore`] puts the original bytes back.

use super::earlier::EarlierApply;
use super::error::{BootError, WrittenFiles};
use super::journal::{read_journal, save_journal};
use super::loaders::{
    self, BootFilePlan, BootLoader, EarlierTexts, FileEdit, LoaderEntry, ParameterAssignment,
};
use super::parameters::{ParameterOffer, named};
use super::present_files::{PresentTexts, changed_since_plan, check_menu, read_originals};
use super::restore::{disarm_trial, restore_all, restore_earlier};
use super::running_kernel::boot_id;
pub use super::trial_unit::TrialProgram;
pub use super::write_mode::{DefaultEntry, EntryStart, ParameterTerm, WriteMode};
use super::{kexec, line, own_unit, trial_unit};
use crate::documents::boot::{
    BootJournal, BootPlan, EarlierJournal, EarlierState, FileBytes, ParameterChange,
    RemovedParameters, SCHEMA, SavedFile, TrialBoot, WrittenParameters,
};
use crate::refusal::UserError;
use cpushield_linux::processes::process::locale_variables;
use cpushield_linux::sys::clock::epoch_seconds;
use cpushield_linux::{FileAttributes, Host, Store};

/// Lets a kernel that panics in a trial reboot the machine after 30 seconds.
pub const PANIC: &str = "panic=30";

/// The words of a plan that are still to be written.
#[must_use]
pub fn words(plan: &BootPlan) -> Vec<String> {
    plan.parameters.iter().filter(|it| !it.already).map(|it| it.word.clone()).collect()
}

/// What would be written, for `--dry-run`.
///
/// # Errors
/// Nothing can be written here.
pub fn preview(
    host: &Host,
    store: &Store,
    plan: &BootPlan,
    mode: &WriteMode,
) -> Result<BootFilePlan, BootError> {
    check_applies(plan)?;
    if words(plan).is_empty() {
        return Ok(BootFilePlan::default());
    }
    let loader = find_loader(plan)?;
    let earlier = match read_journal(store)? {
        Some(journal) if journal.trial.is_some() => {
            return Err(BootError::TrialPending { words: journal.words });
        }
        Some(journal) => Some(EarlierApply::read(host, loader, journal)?),
        None => None,
    };
    plan_files(host, loader, plan, mode, earlier.as_ref())
}

/// Refuses a plan without any parameter. A plan whose parameters are all written already is fine.
fn check_applies(plan: &BootPlan) -> Result<(), BootError> {
    if !plan.parameters.is_empty() {
        return Ok(());
    }
    let mut skipped = plan.skipped.clone();
    skipped.retain(|it| {
        named(&it.name).is_some_and(|it| {
            matches!(it.offer, ParameterOffer::Always | ParameterOffer::WithoutNohzFull(_))
        })
    });
    Err(BootError::NothingApplies { skipped })
}

fn chosen_kernels(plan: &BootPlan) -> Vec<String> {
    plan.kernels.iter().filter(|it| it.chosen).map(|it| it.version.clone()).collect()
}

fn find_loader(plan: &BootPlan) -> Result<&'static dyn BootLoader, BootError> {
    plan.loader.as_deref().and_then(loaders::named).ok_or_else(|| BootError::ByHand {
        why: "cpushield does not write the boot files of this machine".to_owned(),
        instructions: plan.instructions.clone(),
    })
}

/// Writes the parameters of a plan. They replace those of an earlier apply, and undo still restores
/// the text before the first one. A trial leaves those of an earlier apply in place until it has
/// passed.
///
/// # Errors
/// Nothing can be written, and nothing was; or a write failed and every file is as it was.
pub fn write(
    host: &Host,
    store: &Store,
    plan: &BootPlan,
    mode: &WriteMode,
) -> Result<WrittenParameters, BootError> {
    let loader = find_loader(plan)?;
    check_applies(plan)?;
    let words = words(plan);
    let _lock = store.lock()?;
    let mut earlier = match read_journal(store)? {
        Some(journal) if !journal.complete => return Err(BootError::Unfinished),
        Some(journal) if is_written(&journal, plan, mode) => {
            return summarize(host, loader, journal, (Vec::new(), None));
        }
        Some(journal) if journal.trial.is_some() => {
            return Err(BootError::TrialPending { words: journal.words });
        }
        Some(journal) if words.is_empty() => {
            return Err(BootError::Active { words: journal.words });
        }
        Some(journal) => Some(read_earlier(host, loader, journal, (mode, &words))?),
        None => None,
    };
    check_menu(host, store, loader, plan)?;
    let file_plan = plan_files(host, loader, plan, mode, earlier.as_ref())?;
    let present = PresentTexts::read(host, &file_plan)?;
    let mut files = read_originals(host, loader, &file_plan)?;
    // The loader has read the files before the originals were.
    if plan_files(host, loader, plan, mode, earlier.as_ref())? != file_plan {
        return Err(changed_since_plan("the boot menu"));
    }
    if let Some(earlier) = &mut earlier {
        earlier.read_planned(host, &file_plan)?;
        files = match mode.term {
            ParameterTerm::Trial => present.keep_earlier_entries(loader, files),
            ParameterTerm::Permanent => earlier.merge_files(files),
        };
    }
    let mut journal = begin_journal(host, loader, (plan, mode), files);
    journal.earlier = earlier.as_ref().filter(|_| mode.is_trial()).map(|earlier| {
        let journal = Box::new(earlier.journal.clone());
        EarlierJournal { state: EarlierState::Kept, journal }
    });
    if journal.words.is_empty() {
        return summarize(host, loader, journal, (Vec::new(), None));
    }
    journal.history = extend_history(&journal, &file_plan, earlier.as_ref());
    save_journal(store, &journal)?;
    let result = write_files(host, loader, &file_plan, &present, &mut journal)
        .and_then(|()| match mode.term {
            ParameterTerm::Trial => arm_trial(host, store, loader, (plan, mode), &mut journal),
            ParameterTerm::Permanent => Ok(()),
        })
        .and_then(|()| {
            let complete = finish(&journal, &file_plan);
            save_journal(store, &complete)?;
            Ok(complete)
        });
    match result {
        Ok(journal) => {
            let files = journal.files.iter().map(|saved| saved.path.clone()).collect();
            summarize(host, loader, journal, (files, earlier.as_ref()))
        }
        Err(error) => Err(take_back(host, store, loader, (&journal, earlier.as_ref()), error)),
    }
}

/// Whether the parameters of a plan are written already, with the same default entry. A trial of
/// parameters that are permanent already leaves the default as it is. A pending trial is another
/// one if it ends with another default entry or has another deadline. Parameters whose trial is
/// pending are not permanent.
fn is_written(journal: &BootJournal, plan: &BootPlan, mode: &WriteMode) -> bool {
    let same_term = match (mode.term, &journal.trial) {
        (ParameterTerm::Trial, None) => true,
        (ParameterTerm::Trial, Some(trial)) => {
            trial.keep_default == mode.keeps_default() && trial.until == mode.deadline()
        }
        (ParameterTerm::Permanent, Some(_)) => false,
        (ParameterTerm::Permanent, None) => journal.keep_default == Some(mode.keeps_default()),
    };
    journal.words == words(plan) && journal.rule == plan.rule && same_term
}

/// Restores what a failed write has written. Returns the error that `write` reports.
fn take_back(
    host: &Host,
    store: &Store,
    loader: &dyn BootLoader,
    (journal, earlier): (&BootJournal, Option<&EarlierApply>),
    error: BootError,
) -> BootError {
    if error.is_stop() {
        return error;
    }
    // A loader with the order to boot an absent entry once boots its ordinary one.
    let disarmed = match disarm_trial(host, loader, journal) {
        Err(stop) if stop.is_stop() => return stop,
        other => other,
    };
    let restored = match (&journal.earlier, earlier) {
        (Some(kept), _) => restore_earlier(host, store, journal, kept).map(drop),
        (None, Some(earlier)) => earlier.put_back(host, store, journal),
        (None, None) => restore_all(host, store, journal).map(drop),
    };
    let failures = [disarmed, restored].into_iter().filter_map(Result::err);
    let failures: Vec<String> = failures.map(|error| error.to_string()).collect();
    BootError::Failed {
        why: error.to_string(),
        written: WrittenFiles::Loader,
        undone: (!failures.is_empty()).then(|| failures.join("; ")),
        hint: hint_of(&error),
    }
}

/// Adds the units of a trial to the files that are written.
fn add_trial_units(file_plan: &mut BootFilePlan, mode: &WriteMode, words: &[String]) {
    let Some(program) = mode.program.as_ref().filter(|_| mode.is_trial()) else { return };
    let locale = locale_variables();
    for (unit, text) in trial_unit::texts(program, mode.until, words, &locale) {
        let (path, bytes) = (own_unit::path(unit), text.into_bytes());
        file_plan.edits.push(FileEdit { path, bytes, mode: 0o644 });
    }
}

/// The journal before the first write.
fn begin_journal(
    host: &Host,
    loader: &dyn BootLoader,
    (plan, mode): (&BootPlan, &WriteMode),
    files: Vec<SavedFile>,
) -> BootJournal {
    BootJournal {
        journal: "cpushield-boot".to_owned(),
        schema: SCHEMA,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        boot_id: boot_id(host),
        loader: loader.name().to_owned(),
        rule: plan.rule.clone(),
        words: words(plan),
        kernels: chosen_kernels(plan),
        cpus: plan.cpus.clone(),
        complete: false,
        keep_default: Some(mode.keeps_default()),
        trial: None,
        loaded: None,
        history: Vec::new(),
        earlier: None,
        files,
    }
}

/// Reads what an earlier apply wrote, if other words can replace its words.
fn read_earlier(
    host: &Host,
    loader: &dyn BootLoader,
    journal: BootJournal,
    (mode, words): (&WriteMode, &[String]),
) -> Result<EarlierApply, BootError> {
    if journal.loader != loader.name() {
        return Err(BootError::Active { words: journal.words });
    }
    // Only the words tell a trial's boot from another one.
    if mode.is_trial() && words.iter().all(|word| journal.words.contains(word)) {
        return Err(BootError::TrialOfPart { words: words.to_vec(), written: journal.words });
    }
    if let Some(note) = kexec::unload(host, &journal)? {
        return Err(BootError::wrong(note.to_string(), None));
    }
    EarlierApply::read(host, loader, journal)
}

/// Plans every file that an apply writes or removes.
fn plan_files(
    host: &Host,
    loader: &dyn BootLoader,
    plan: &BootPlan,
    mode: &WriteMode,
    earlier: Option<&EarlierApply>,
) -> Result<BootFilePlan, BootError> {
    let (kernels, requested) = (chosen_kernels(plan), words(plan));
    let mut words = requested.clone();
    let panics = plan.kernels.iter().any(|it| it.chosen && it.panics)
        || words.iter().any(|word| line::name_of(word) == "panic");
    if mode.is_trial() && !panics {
        words.push(PANIC.to_owned());
    }
    let none = EarlierTexts::new();
    let mut file_plan = loader.plan_files(
        host,
        &ParameterAssignment {
            rule: &plan.rule,
            kernels: &kernels,
            words: &words,
            position: mode.position(earlier),
            earlier: earlier.map_or(&none, |earlier| &earlier.texts),
        },
    )?;
    if let Some(earlier) = earlier.filter(|_| !mode.is_trial()) {
        earlier.add_leftovers(loader, &mut file_plan);
    }
    add_trial_units(&mut file_plan, mode, &requested);
    Ok(file_plan)
}

/// The changes until now, and this one.
fn extend_history(
    journal: &BootJournal,
    file_plan: &BootFilePlan,
    earlier: Option<&EarlierApply>,
) -> Vec<ParameterChange> {
    let mut history = earlier.map(|it| it.journal.history.clone()).unwrap_or_default();
    if earlier.is_some_and(|earlier| earlier.is_moved_by(journal)) {
        return history;
    }
    let edits = file_plan.edits.iter().map(|edit| &edit.path);
    history.push(ParameterChange {
        at_s: epoch_seconds().unwrap_or(0),
        before: earlier.map(|it| it.journal.words.clone()).unwrap_or_default(),
        after: journal.words.clone(),
        kernels: journal.kernels.clone(),
        files: edits.chain(&file_plan.removed).chain(&file_plan.generated).cloned().collect(),
    });
    history
}

/// The journal of a complete apply: files that only an earlier apply had written are as they were.
pub(super) fn finish(journal: &BootJournal, file_plan: &BootFilePlan) -> BootJournal {
    let mut journal = BootJournal { complete: true, ..journal.clone() };
    for saved in &mut journal.files {
        saved.replaced = None;
    }
    journal.files.retain(|saved| {
        let is_edited = file_plan.edits.iter().any(|edit| edit.path == saved.path);
        let has_words = saved.original != saved.left;
        is_edited && has_words || file_plan.generated.contains(&saved.path)
    });
    journal
}

/// Makes the first of our entries boot once. The journal records this first.
fn arm_trial(
    host: &Host,
    store: &Store,
    loader: &dyn BootLoader,
    (plan, mode): (&BootPlan, &WriteMode),
    journal: &mut BootJournal,
) -> Result<(), BootError> {
    let found = loader.find(host)?.unwrap_or_default();
    // The entries of an earlier apply are ours too.
    let is_new = |it: &&LoaderEntry| it.ours && it.has_words(&journal.words);
    let Some(entry) = found.entries.iter().find(is_new).and_then(|it| it.id.clone()) else {
        return Err(BootError::wrong("the boot menu has no entry of cpushield".to_owned(), None));
    };
    let unit = mode.program.is_some();
    let reboot = loader.reboot_argument().filter(|_| mode.start == EntryStart::BootLoader);
    journal.trial = Some(TrialBoot {
        entry: entry.clone(),
        unit,
        keep_default: mode.keeps_default(),
        proves: plan.proves.clone(),
        reboot: reboot.map(str::to_owned),
        until: mode.deadline(),
        failed: if unit { host.failed_units()? } else { Vec::new() },
    });
    save_journal(store, journal)?;
    for unit in trial_unit::UNITS.into_iter().filter(|_| unit) {
        if journal.files.iter().any(|saved| saved.path == own_unit::path(unit)) {
            host.systemctl(&["enable", unit])?;
        }
    }
    match mode.start {
        EntryStart::BootLoader => loader.boot_once(host, &entry),
        EntryStart::Kexec => Ok(()),
    }
}

fn hint_of(error: &BootError) -> Option<String> {
    match error {
        BootError::Wrong { hint, .. } => hint.clone(),
        _ => None,
    }
}

/// Writes the files, lets the loader generate its own, and checks the resulting menu.
pub(super) fn write_files(
    host: &Host,
    loader: &dyn BootLoader,
    file_plan: &BootFilePlan,
    present: &PresentTexts,
    journal: &mut BootJournal,
) -> Result<(), BootError> {
    for edit in &file_plan.edits {
        let Some(saved) = journal.files.iter().find(|saved| saved.path == edit.path) else {
            continue;
        };
        let attributes = FileAttributes { mode: edit.mode, ..saved.access() };
        present.check(host, &edit.path)?;
        host.replace_file(&edit.path, &edit.bytes, attributes)?;
    }
    for path in &file_plan.removed {
        present.check(host, path)?;
        host.erase_file(path)?;
    }
    for path in &file_plan.generated {
        let Some(generator) = loader.generator() else {
            return Err(BootError::wrong(format!("no program generates {path}"), None));
        };
        let generated = generator.generate(host)?;
        let rest = match journal.earlier.as_ref().map(|earlier| earlier.state) {
            Some(EarlierState::Kept) => loader.without_trial(&generated),
            Some(EarlierState::Replaced) | None => generator.without_ours(&generated),
        };
        let Some(saved) = journal.files.iter_mut().find(|saved| saved.path == *path) else {
            continue;
        };
        let original = saved.original.as_ref().and_then(FileBytes::get).unwrap_or_default();
        check_other_entries(path, &original, &rest)?;
        present.check(host, path)?;
        saved.left = Some(FileBytes::new(&generated));
        host.replace_file(path, &generated, saved.access())?;
        if host.read_bytes(path)? != generated {
            return Err(BootError::wrong(format!("{path} does not read back as written"), None));
        }
    }
    let Some(found) = loader.find(host)? else {
        return Err(BootError::wrong("the boot menu no longer exists".to_owned(), None));
    };
    for version in &journal.kernels {
        if found.entry_with(version, &journal.words).is_none() {
            let why = format!("no menu entry boots kernel {version} with the parameters");
            return Err(BootError::wrong(why, None));
        }
    }
    Ok(())
}

/// Checks that everything except our own entries is unchanged.
fn check_other_entries(path: &str, original: &[u8], others: &[u8]) -> Result<(), BootError> {
    if original == others {
        return Ok(());
    }
    let (was, is) = (String::from_utf8_lossy(original), String::from_utf8_lossy(others));
    let same = was.lines().zip(is.lines()).take_while(|(a, b)| a == b).count();
    let why = format!(
        "{path} would also change outside cpushield's entries\n  line {}: {}\n  would be: {}",
        same + 1,
        was.lines().nth(same).unwrap_or("(the end)").trim(),
        is.lines().nth(same).unwrap_or("(the end)").trim()
    );
    let hint = "the file differs from what its configuration generates now: run update-grub (or \
                grub-mkconfig), check the menu, and try again";
    Err(BootError::wrong(why, Some(hint)))
}

fn summarize(
    host: &Host,
    loader: &dyn BootLoader,
    journal: BootJournal,
    (files, earlier): (Vec<String>, Option<&EarlierApply>),
) -> Result<WrittenParameters, BootError> {
    let replaced = earlier.filter(|earlier| !earlier.is_moved_by(&journal));
    let BootJournal { words, kernels, trial, .. } = journal;
    let found = loader.find(host)?.unwrap_or_default();
    let ours = found.entries.iter().find(|entry| entry.ours && entry.has_words(&words));
    let entry = ours.and_then(|entry| entry.id.clone());
    Ok(WrittenParameters {
        schema: SCHEMA,
        loader: loader.name().to_owned(),
        next: found.next_boot(),
        next_has: found.next_entry().is_some_and(|entry| entry.has_words(&words)),
        choice: entry.as_deref().map(|entry| loader.boot_instructions(host, entry)),
        entry,
        menu: found.menu.clone(),
        entries_without: found.titles_by_words(&words).1,
        replaced: replaced.map(|earlier| earlier.journal.words.clone()).unwrap_or_default(),
        words,
        kernels,
        files,
        trial,
    })
}

/// Removes everything that [`write`] wrote; `None` when there is nothing.
///
/// # Errors
/// A file cannot be restored; the journal is kept then.
pub fn undo(host: &Host, store: &Store) -> Result<Option<RemovedParameters>, BootError> {
    let _lock = store.lock()?;
    let Some(mut journal) = read_journal(store)? else { return Ok(None) };
    if let Some(loader) = loaders::named(&journal.loader) {
        disarm_trial(host, loader, &journal)?;
    }
    let mut notes: Vec<_> = kexec::unload(host, &journal)?.into_iter().collect();
    let mut files = Vec::new();
    if let Some(earlier) = journal.earlier.take_if(|it| it.state == EarlierState::Kept) {
        let trial = restore_earlier(host, store, &journal, &earlier)?;
        journal = *earlier.journal;
        notes.extend(trial.notes);
        files = trial.files;
    }
    let mut undone = restore_all(host, store, &journal)?;
    files.retain(|(path, _)| undone.files.iter().all(|(later, _)| later != path));
    undone.files.splice(0..0, files);
    undone.notes.extend(notes);
    Ok(Some(undone))
}
