//! Writes boot files. Every original is on the disk before the first write, and each file is
//! replaced as a whole. What the loader's program generates is checked before it is installed.
//! [`super::restore`] puts the original bytes back.

use super::earlier::{check_menu, read_files, remove_earlier, take_back};
use super::error::{BootError, WrittenFiles};
use super::journal::{read_journal, save_journal};
use super::loaders::{
    self, BootFilePlan, BootLoader, FileEdit, LoaderEntry, ParameterAssignment, generator_of,
};
use super::parameters::{ParameterOffer, named};
use super::present_files::{PresentTexts, changed_since_plan, read_originals};
use super::restore::{disarm_trial, without_entries};
use super::running_kernel::boot_id;
pub use super::trial_unit::TrialProgram;
pub use super::write_mode::{DefaultEntry, EntryStart, ParameterTerm, WriteMode};
use super::written::summarize;
use super::{kexec, line, own_unit, trial_unit};
use crate::documents::boot::{
    BootJournal, BootPlan, EarlierJournal, FileBytes, KernelWords, ParameterChange,
    RemovedParameters, SCHEMA, SavedFile, TrialBoot, WrittenParameters,
};
use crate::refusal::UserError;
use cpushield_linux::processes::process::locale_variables;
use cpushield_linux::sys::clock::epoch_seconds;
use cpushield_linux::{FileAttributes, Host, Store};
use std::slice;

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
        earlier => earlier,
    };
    let earlier = earlier.map(|earlier| read_files(host, loader, &earlier)).transpose()?;
    let earlier = earlier.unwrap_or_default();
    let mut file_plan = plan_files(host, loader, (plan, mode), &earlier)?;
    // An apply undoes the other files of the earlier one.
    for SavedFile { path, original, left, mode: access, .. } in earlier {
        let is_planned = file_plan.paths().any(|planned| *planned == path) || original == left;
        match original.as_ref().and_then(FileBytes::get) {
            _ if mode.is_trial() || is_planned || generator_of(loader, &path).is_some() => {}
            Some(bytes) => file_plan.edits.push(FileEdit { path, bytes, mode: access }),
            None => file_plan.removed.push(path),
        }
    }
    Ok(file_plan)
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
    let earlier = match read_journal(store)? {
        Some(journal) if !journal.complete => return Err(BootError::Unfinished),
        Some(journal) if is_written(&journal, plan, mode) => {
            return summarize(
                host,
                loader,
                BootJournal { files: Vec::new(), ..journal },
                Vec::new(),
            );
        }
        Some(journal) if journal.trial.is_some() => {
            return Err(BootError::TrialPending { words: journal.words });
        }
        Some(journal) if words.is_empty() => {
            return Err(BootError::Active { words: journal.words });
        }
        Some(journal) => {
            check_replaceable(host, loader, &journal, (plan, mode))?;
            Some(journal)
        }
        None => None,
    };
    check_menu(host, store, loader, plan)?;
    let mut journal = begin_journal(host, loader, (plan, mode), earlier.clone());
    if words.is_empty() {
        return summarize(host, loader, journal, Vec::new());
    }
    if let Err(error) = write_all(host, store, loader, (plan, mode), &mut journal) {
        return Err(fail(host, store, loader, &journal, error));
    }
    // Only the default entry may differ.
    let is_same = |it: &BootJournal| it.words == journal.words && it.rule == journal.rule;
    let replaced = earlier.filter(|it| !is_same(it)).map(|it| it.words).unwrap_or_default();
    summarize(host, loader, journal, replaced)
}

/// Writes the files of an apply, undoes an earlier one first, and arms a trial.
fn write_all(
    host: &Host,
    store: &Store,
    loader: &dyn BootLoader,
    (plan, mode): (&BootPlan, &WriteMode),
    journal: &mut BootJournal,
) -> Result<(), BootError> {
    if !mode.is_trial() {
        remove_earlier(host, store, loader, journal)?;
    }
    let earlier = match &journal.earlier {
        Some(earlier) if mode.is_trial() => read_files(host, loader, &earlier.journal)?,
        _ => journal.removed().to_vec(),
    };
    let make_plan = || plan_files(host, loader, (plan, mode), &earlier);
    let file_plan = write_planned(host, store, loader, journal, &make_plan)?;
    if mode.is_trial() {
        arm_trial(host, store, loader, (plan, mode), journal)?;
    }
    extend_history(journal, &file_plan);
    journal.complete = true;
    journal.earlier.take_if(|_| !mode.is_trial());
    save_journal(store, journal)
}

/// Writes the files that are planned. The journal on the disk has their originals first.
pub(super) fn write_planned(
    host: &Host,
    store: &Store,
    loader: &dyn BootLoader,
    journal: &mut BootJournal,
    make_plan: &dyn Fn() -> Result<BootFilePlan, BootError>,
) -> Result<BootFilePlan, BootError> {
    let file_plan = make_plan()?;
    let present = PresentTexts::read(host, &file_plan)?;
    let files = read_originals(host, loader, (journal, &file_plan))?;
    // The loader has read the files before the originals were.
    if make_plan()? != file_plan {
        return Err(changed_since_plan("the boot menu"));
    }
    journal.files.splice(0..0, files);
    save_journal(store, journal)?;
    write_files(host, loader, &file_plan, &present, journal)?;
    Ok(file_plan)
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
    let groups = &journal.groups;
    // A kernel that was installed since has the words of a group.
    let is_same = |planned: &KernelWords| {
        planned.kernels.iter().all(|kernel| match KernelWords::of(groups, kernel) {
            Some(own) => own == planned.words,
            None => groups.iter().any(|group| group.words == planned.words),
        })
    };
    plan.word_groups().iter().all(is_same) && journal.rule == plan.rule && same_term
}

/// Restores what a failed write has written. Returns the error that `write` reports.
fn fail(
    host: &Host,
    store: &Store,
    loader: &dyn BootLoader,
    journal: &BootJournal,
    error: BootError,
) -> BootError {
    if error.is_stop() || journal.files.is_empty() && journal.removed().is_empty() {
        return error;
    }
    // A loader with the order to boot an absent entry once boots its ordinary one.
    let disarmed = match disarm_trial(host, loader, journal) {
        Err(stop) if stop.is_stop() => return stop,
        other => other,
    };
    let failures = [disarmed, take_back(host, store, journal).map(drop)];
    let failures = failures.into_iter().filter_map(Result::err);
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
    earlier: Option<BootJournal>,
) -> BootJournal {
    let groups = plan.word_groups();
    let kernels = groups.iter().filter(|it| !it.words.is_empty());
    BootJournal {
        journal: "cpushield-boot".to_owned(),
        schema: SCHEMA,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        boot_id: boot_id(host),
        loader: loader.name().to_owned(),
        rule: plan.rule.clone(),
        words: words(plan),
        kernels: kernels.flat_map(|group| group.kernels.clone()).collect(),
        groups: groups.clone(),
        cpus: plan.cpus.clone(),
        complete: false,
        keep_default: Some(mode.keeps_default()),
        trial: None,
        loaded: None,
        history: earlier.as_ref().map(|it| it.history.clone()).unwrap_or_default(),
        earlier: earlier.map(|it| EarlierJournal { removed: Vec::new(), journal: Box::new(it) }),
        files: Vec::new(),
    }
}

/// Checks that other words can replace those of an earlier apply.
fn check_replaceable(
    host: &Host,
    loader: &dyn BootLoader,
    journal: &BootJournal,
    (plan, mode): (&BootPlan, &WriteMode),
) -> Result<(), BootError> {
    if journal.loader != loader.name() {
        return Err(BootError::Active { words: journal.words.clone() });
    }
    if mode.is_trial() && plan.trial_kernel().is_none() {
        let (words, written) = (words(plan), journal.words.clone());
        return Err(BootError::TrialOfPart { words, written });
    }
    match kexec::unload(host, journal)? {
        Some(note) => Err(BootError::wrong(note.to_string(), None)),
        None => Ok(()),
    }
}

/// Plans every file that an apply writes or removes, without the words of an earlier one.
fn plan_files(
    host: &Host,
    loader: &dyn BootLoader,
    (plan, mode): (&BootPlan, &WriteMode),
    earlier: &[SavedFile],
) -> Result<BootFilePlan, BootError> {
    let mut groups = plan.word_groups();
    let panics = plan.kernels.iter().any(|it| it.chosen && it.panics)
        || words(plan).iter().any(|word| line::name_of(word) == "panic");
    if mode.is_trial() && !panics {
        let all = groups.iter_mut().filter(|group| !group.words.is_empty());
        all.for_each(|group| group.words.push(PANIC.to_owned()));
    }
    let (rule, groups, position) = (&plan.rule, &groups, mode.position());
    let assignment = ParameterAssignment { rule, groups, position, earlier };
    let mut file_plan = loader.plan_files(host, &assignment)?;
    let tried = plan.trial_kernel().unwrap_or_default();
    add_trial_units(&mut file_plan, mode, &tried.words);
    Ok(file_plan)
}

/// Adds this change to those until now, unless only the default entry differs.
fn extend_history(journal: &mut BootJournal, file_plan: &BootFilePlan) {
    let earlier = journal.earlier.as_ref().map(|it| &it.journal);
    if earlier.is_some_and(|it| it.words == journal.words && it.rule == journal.rule) {
        return;
    }
    journal.history.push(ParameterChange {
        at_s: epoch_seconds().unwrap_or(0),
        before: earlier.map(|it| it.words.clone()).unwrap_or_default(),
        after: journal.words.clone(),
        kernels: journal.kernels.clone(),
        files: file_plan.paths().cloned().collect(),
    });
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
    let tried = plan.trial_kernel().unwrap_or_default();
    // The entries of an earlier apply are ours too, without its new words.
    let is_tried = |it: &&LoaderEntry| {
        it.ours && tried.kernels.contains(&it.version) && it.has_words(slice::from_ref(&tried))
    };
    let Some(entry) = found.entries.iter().find(is_tried).and_then(|it| it.id.clone()) else {
        return Err(BootError::wrong("the boot menu has no entry of cpushield".to_owned(), None));
    };
    let unit = mode.program.is_some();
    let reboot = loader.reboot_argument().filter(|_| mode.start == EntryStart::BootLoader);
    journal.trial = Some(TrialBoot {
        entry: entry.clone(),
        words: tried.words,
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
        let rest = without_entries(loader, journal, (path, &generated))
            .unwrap_or_else(|| generator.without_ours(&generated));
        let Some(saved) = journal.files.iter_mut().find(|saved| saved.path == *path) else {
            continue;
        };
        let original = saved.before().unwrap_or_default();
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
        if !found.boots_with(version, &journal.groups) {
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

/// Removes everything that [`write`] wrote; `None` when there is nothing.
///
/// # Errors
/// A file cannot be restored; the journal is kept then.
pub fn undo(host: &Host, store: &Store) -> Result<Option<RemovedParameters>, BootError> {
    let _lock = store.lock()?;
    let Some(journal) = read_journal(store)? else { return Ok(None) };
    if let Some(loader) = loaders::named(&journal.loader) {
        disarm_trial(host, loader, &journal)?;
    }
    let note = kexec::unload(host, &journal)?;
    let mut undone = take_back(host, store, &journal)?;
    if let Some(earlier) = &journal.earlier {
        let above = std::mem::replace(&mut undone, take_back(host, store, &earlier.journal)?);
        let is_above = |path: &String| undone.files.iter().all(|(later, _)| later != path);
        let files: Vec<_> = above.files.into_iter().filter(|(path, _)| is_above(path)).collect();
        undone.files.splice(0..0, files);
        undone.notes.extend(above.notes);
    }
    undone.notes.extend(note);
    Ok(Some(undone))
}
