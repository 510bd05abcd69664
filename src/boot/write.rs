//! The one place that writes boot files, and the one that takes it back. Every original is on the
//! disk before the first write; each file is replaced whole; what the loader's program makes is
//! looked at before it is put in place; and undo puts the original bytes back.

use super::document::{
    BootJournal, BootPlan, FileBytes, FileFate, RemovedParameters, SCHEMA, SavedFile,
    SkippedParameter, TrialBoot, WrittenParameters,
};
use super::error::BootError;
use super::loaders::{self, BootFilePlan, BootLoader, FileEdit, FoundLoader, ParameterAssignment};
use super::parameters::{ParameterOffer, named};
use super::{JOURNAL, kexec, line, plan, trial};
use cpushield_linux::{Host, Store};

/// Room that is asked for beside what is written: a file system that is full to the last block
/// fails in ways that cannot be told beforehand.
const SPARE: u64 = 256 << 10;

/// The words of a plan that are to be written.
#[must_use]
pub fn words(plan: &BootPlan) -> Vec<String> {
    plan.parameters.iter().filter(|it| !it.already).map(|it| it.word.clone()).collect()
}

/// What would be written, for `--dry-run`.
///
/// # Errors
/// Nothing can be written here.
pub fn preview(host: &Host, plan: &BootPlan, last: bool) -> Result<BootFilePlan, BootError> {
    check_applies(plan)?;
    let (words, kernels) = (words(plan), kernels(plan));
    if words.is_empty() {
        return Ok(BootFilePlan::default());
    }
    let order = ParameterAssignment { rule: &plan.rule, kernels: &kernels, words: &words, last };
    loader_of(plan)?.recipe(host, &order)
}

/// A plan without any parameter is nothing to write, and not the same as one whose parameters are
/// all there.
fn check_applies(plan: &BootPlan) -> Result<(), BootError> {
    if !plan.parameters.is_empty() {
        return Ok(());
    }
    let offered = |it: &&SkippedParameter| {
        named(&it.name).is_some_and(|it| it.offer == ParameterOffer::Always)
    };
    let skipped = plan.skipped.iter().filter(offered).cloned().collect();
    Err(BootError::NothingApplies { skipped })
}

fn kernels(plan: &BootPlan) -> Vec<String> {
    plan.kernels.iter().filter(|it| it.chosen).map(|it| it.version.clone()).collect()
}

fn loader_of(plan: &BootPlan) -> Result<&'static dyn BootLoader, BootError> {
    plan.loader.as_deref().and_then(loaders::named).ok_or_else(|| BootError::ByHand {
        why: "this machine's boot loader is not known".to_owned(),
        instructions: plan.instructions.clone(),
    })
}

/// How the parameters are written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WriteMode {
    /// Our entries stand behind all others, and none of them becomes the default.
    pub keep_default: bool,
    /// They boot once, as a trial.
    pub trial: bool,
    /// The running kernel starts the new entry, so the loader is not told of a trial.
    pub kexec: bool,
    /// This program and its state directory, for the unit that looks after a trial; `None` where
    /// there is no systemd.
    pub unit: Option<(String, String)>,
}

/// Writes the parameters of a plan.
///
/// # Errors
/// Nothing can be written, and nothing was; or it failed half-way and was put back.
pub fn write(
    host: &Host,
    store: &Store,
    plan: &BootPlan,
    how: &WriteMode,
) -> Result<WrittenParameters, BootError> {
    let loader = loader_of(plan)?;
    check_applies(plan)?;
    let words = words(plan);
    let kernels = kernels(plan);
    let _lock = store.lock()?;
    match super::journal(store)? {
        Some(journal) if !journal.complete => return Err(BootError::Unfinished),
        Some(journal) if journal.words == words && journal.rule == plan.rule => {
            return written(host, loader, journal, Vec::new());
        }
        Some(journal) => return Err(BootError::Active { words: journal.words }),
        None => {}
    }
    let mut given = words.clone();
    let panics = plan.kernels.iter().any(|it| it.chosen && it.panics);
    if how.trial && !panics {
        given.push(trial::PANIC.to_owned());
    }
    let mut recipe = {
        let last = how.trial || how.keep_default;
        let order =
            ParameterAssignment { rule: &plan.rule, kernels: &kernels, words: &given, last };
        loader.recipe(host, &order)?
    };
    if let Some((program, state)) = how.unit.as_ref().filter(|_| how.trial) {
        let bytes = trial::unit(program, state).into_bytes();
        recipe.edits.push(FileEdit { path: trial::unit_path(), bytes, mode: 0o644 });
    }
    let files = originals(host, loader, &recipe)?;
    let mut journal = BootJournal {
        journal: "cpushield-boot".to_owned(),
        schema: SCHEMA,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        boot_id: host.read_line("/proc/sys/kernel/random/boot_id").ok(),
        loader: loader.name().to_owned(),
        rule: plan.rule.clone(),
        words: words.clone(),
        kernels: kernels.clone(),
        cpus: plan.cpus.clone(),
        complete: false,
        trial: None,
        loaded: None,
        files,
    };
    if journal.words.is_empty() {
        return written(host, loader, journal, Vec::new());
    }
    keep(store, &journal)?;
    let put = put(host, loader, &recipe, &mut journal).and_then(|()| {
        if how.trial { arm(host, store, loader, (plan, how), &mut journal) } else { Ok(()) }
    });
    match put {
        Ok(()) => {
            journal.complete = true;
            keep(store, &journal)?;
            let files = journal.files.iter().map(|kept| kept.path.clone()).collect();
            written(host, loader, journal, files)
        }
        Err(BootError::Killed) => Err(BootError::Killed),
        Err(error) => {
            let forgotten = trial::forget(host, loader, &journal);
            let undone = forgotten.and(take_back(host, store, &journal).map(drop)).err();
            Err(BootError::Failed {
                why: error.to_string(),
                undone: undone.map(|error| error.to_string()),
                hint: hint(&error),
            })
        }
    }
}

/// Lets the first of our entries boot once. The journal says so before it is so.
fn arm(
    host: &Host,
    store: &Store,
    loader: &dyn BootLoader,
    (plan, how): (&BootPlan, &WriteMode),
    journal: &mut BootJournal,
) -> Result<(), BootError> {
    let found = loader.find(host)?.unwrap_or_default();
    let Some(entry) = found.entries.iter().find(|it| it.ours).and_then(|it| it.id.clone()) else {
        return Err(wrong("no entry of ours is in the menu".to_owned(), None));
    };
    let unit = how.unit.is_some();
    let keep_default = how.keep_default;
    let failed = if unit { host.failed_units()? } else { Vec::new() };
    let proves = plan.proves.clone();
    let reboot = loader.reboots_with().filter(|_| !how.kexec).map(str::to_owned);
    let trial = TrialBoot { entry: entry.clone(), unit, keep_default, proves, reboot, failed };
    journal.trial = Some(trial);
    keep(store, journal)?;
    if unit {
        host.systemctl(&["enable", trial::UNIT])?;
    }
    if how.kexec { Ok(()) } else { loader.once(host, &entry) }
}

/// Makes what a trial wrote permanent: without the words of the trial alone, and where it is the
/// default. Returns the files. After an error the journal says what is to be taken back.
pub(super) fn make_permanent(
    host: &Host,
    store: &Store,
    mut journal: BootJournal,
) -> Result<Vec<String>, BootError> {
    let keep_default = journal.trial.as_ref().is_some_and(|trial| trial.keep_default);
    let loader = loaders::named(&journal.loader).ok_or(BootError::NoTrial)?;
    // A kernel that was removed since the trial was armed needs no entry.
    let found = loader.find(host)?.unwrap_or_default();
    journal.kernels.retain(|version| found.entries.iter().any(|it| it.version == *version));
    if journal.kernels.is_empty() {
        return Err(wrong("no kernel that was to have them is in the menu any more".into(), None));
    }
    let recipe = {
        let (kernels, words) = (&journal.kernels, &journal.words);
        loader.recipe(
            host,
            &ParameterAssignment { rule: &journal.rule, kernels, words, last: keep_default },
        )?
    };
    for kept in originals(host, loader, &recipe)? {
        match journal.files.iter_mut().find(|known| known.path == kept.path) {
            Some(known) => {
                known.left = kept.left;
                // Kernels may have come or gone since; our entries are not in it. What the trial
                // left in any other file is no original.
                if loader.is_made(&kept.path) {
                    known.original = kept.original;
                }
            }
            None => journal.files.insert(0, kept),
        }
    }
    journal.complete = false;
    keep(store, &journal)?;
    put(host, loader, &recipe, &mut journal)?;
    journal.trial = None;
    journal.complete = true;
    keep(store, &journal)?;
    Ok(journal.files.iter().map(|kept| kept.path.clone()).collect())
}

fn hint(error: &BootError) -> Option<String> {
    match error {
        BootError::Wrong { hint, .. } => hint.clone(),
        _ => None,
    }
}

pub(super) fn keep(store: &Store, journal: &BootJournal) -> Result<(), BootError> {
    let text = serde_json::to_string_pretty(journal).map_err(|error| BootError::Journal {
        path: store.path(JOURNAL),
        why: error.to_string(),
    })?;
    Ok(store.replace(JOURNAL, (text + "\n").as_bytes())?)
}

/// Every file that will be written as it is now, when all of them can be.
fn originals(
    host: &Host,
    loader: &dyn BootLoader,
    recipe: &BootFilePlan,
) -> Result<Vec<SavedFile>, BootError> {
    let mut files = Vec::new();
    let edits = recipe.edits.iter().map(|edit| (&edit.path, Some(edit)));
    for (path, edit) in edits.chain(recipe.made.iter().map(|path| (path, None))) {
        let (original, access) = match host.read_bytes(path) {
            Ok(bytes) => (Some(bytes), host.access(path)?),
            Err(error) if error.is_absent() => {
                let mode = edit.map_or(0o644, |edit| edit.mode);
                (None, cpushield_linux::FileAttributes { mode, owner: None })
            }
            Err(error) => return Err(error.into()),
        };
        // What is left of an apply whose journal is lost is no original.
        let original = match (original, edit) {
            (Some(bytes), Some(_)) if loader.is_ours(path, &bytes) => None,
            (Some(_), Some(edit)) if loader.makes_anew(path) => {
                return Err(BootError::Foreign { path: edit.path.clone() });
            }
            (Some(bytes), None) => Some(loader.without_ours(&bytes)),
            (original, _) => original,
        };
        let size = original.as_ref().map_or(0, Vec::len).max(edit.map_or(0, |e| e.bytes.len()));
        room(host, path, size as u64)?;
        files.push(SavedFile {
            path: path.clone(),
            original: original.as_deref().map(FileBytes::of),
            mode: access.mode,
            owner: access.owner,
            left: edit.map(|edit| FileBytes::of(&edit.bytes)),
        });
    }
    Ok(files)
}

/// The new file lies beside the old one for a moment, and may be twice as long.
fn room(host: &Host, path: &str, size: u64) -> Result<(), BootError> {
    let dir = path.rsplit_once('/').map_or("/", |(dir, _)| dir).to_owned();
    let room = host.free_space(&dir)?;
    let wanted = 2 * size + SPARE;
    let why = match room.free {
        _ if room.read_only => "it is mounted read-only".to_owned(),
        Some(free) if free < wanted => {
            format!("{} KiB are free, {} KiB are wanted", free >> 10, wanted >> 10)
        }
        _ => return Ok(()),
    };
    Err(BootError::NoRoom { path: dir, why })
}

/// Puts the files in place.
fn put(
    host: &Host,
    loader: &dyn BootLoader,
    recipe: &BootFilePlan,
    journal: &mut BootJournal,
) -> Result<(), BootError> {
    for edit in &recipe.edits {
        let access =
            journal.files.iter().find(|kept| kept.path == edit.path).map(SavedFile::access);
        let access =
            access.map(|found| cpushield_linux::FileAttributes { mode: edit.mode, ..found });
        let Some(access) = access else { continue };
        host.replace_file(&edit.path, &edit.bytes, access)?;
    }
    for path in &recipe.gone {
        host.erase_file(path)?;
    }
    for path in &recipe.made {
        let made = loader.make(host, path)?;
        let Some(kept) = journal.files.iter_mut().find(|kept| kept.path == *path) else { continue };
        let original = kept.original.as_ref().and_then(FileBytes::get).unwrap_or_default();
        untouched(path, &original, &loader.without_ours(&made))?;
        host.replace_file(path, &made, kept.access())?;
        if host.read_bytes(path)? != made {
            return Err(wrong(format!("{path} does not hold what was written"), None));
        }
        kept.left = Some(FileBytes::of(&made));
    }
    let Some(found) = loader.find(host)? else {
        return Err(wrong("the boot menu is gone".to_owned(), None));
    };
    let has = |version: &String| with_words(&found, version, &journal.words).is_some();
    match journal.kernels.iter().find(|version| !has(version)) {
        Some(version) => {
            Err(wrong(format!("no entry with the parameters was made for {version}"), None))
        }
        None => Ok(()),
    }
}

fn wrong(why: String, hint: Option<&str>) -> BootError {
    BootError::Wrong { why, hint: hint.map(str::to_owned) }
}

/// Whether everything but our own entries is as it was.
fn untouched(path: &str, original: &[u8], others: &[u8]) -> Result<(), BootError> {
    if original == others {
        return Ok(());
    }
    let (was, is) = (String::from_utf8_lossy(original), String::from_utf8_lossy(others));
    let same = was.lines().zip(is.lines()).take_while(|(a, b)| a == b).count();
    let at = |text: &str| text.lines().nth(same).unwrap_or("(the end)").trim().to_owned();
    let why = format!(
        "{path} would change beyond our own entries\n  line {}: {}\n  would be: {}",
        same + 1,
        at(&was),
        at(&is)
    );
    let hint = "it is not what its own configuration makes now: run update-grub (or grub-mkconfig), \
                look at the menu, and try again";
    Err(wrong(why, Some(hint)))
}

/// The entry of a kernel that has all words.
pub(super) fn with_words<'a>(
    found: &'a FoundLoader,
    version: &str,
    words: &[String],
) -> Option<&'a loaders::LoaderEntry> {
    let has = |entry: &&loaders::LoaderEntry| {
        entry.version == version && words.iter().all(|word| line::has(&entry.args, word))
    };
    found.entries.iter().find(has)
}

fn written(
    host: &Host,
    loader: &dyn BootLoader,
    journal: BootJournal,
    files: Vec<String>,
) -> Result<WrittenParameters, BootError> {
    let BootJournal { words, kernels, trial, .. } = journal;
    let found = loader.find(host)?.unwrap_or_default();
    let boots = found.next.and_then(|index| found.entries.get(index));
    let has = |entry: &loaders::LoaderEntry| words.iter().all(|word| line::has(&entry.args, word));
    let entry = found.entries.iter().find(|entry| entry.ours && has(entry));
    let entry = entry.and_then(|entry| entry.id.clone());
    Ok(WrittenParameters {
        loader: loader.name().to_owned(),
        next: plan::next(&found),
        next_has: boots.is_some_and(has),
        choice: entry.as_deref().map(|entry| loader.choice(host, entry)),
        entry,
        menu: found.menu.clone(),
        words,
        kernels,
        files,
        trial,
    })
}

/// Takes everything back that [`write`] wrote; `None` when there is nothing.
///
/// # Errors
/// A file cannot be put back; the journal is kept then.
pub fn undo(host: &Host, store: &Store) -> Result<Option<RemovedParameters>, BootError> {
    let _lock = store.lock()?;
    let Some(journal) = super::journal(store)? else { return Ok(None) };
    if let Some(loader) = loaders::named(&journal.loader) {
        trial::forget(host, loader, &journal)?;
    }
    let note = kexec::forget(host, &journal)?;
    let mut undone = take_back(host, store, &journal)?;
    undone.notes.extend(note);
    Ok(Some(undone))
}

pub(super) fn take_back(
    host: &Host,
    store: &Store,
    journal: &BootJournal,
) -> Result<RemovedParameters, BootError> {
    let loader = loaders::named(&journal.loader).ok_or_else(|| BootError::Journal {
        path: store.path(JOURNAL),
        why: format!("this version knows no boot loader {:?}", journal.loader),
    })?;
    let mut undone = RemovedParameters::default();
    let unit = trial::unit_path();
    let (unit, files): (Vec<_>, Vec<_>) = journal.files.iter().partition(|it| it.path == unit);
    for kept in files {
        let fate = put_back(host, loader, kept, &journal.words, &mut undone.notes)?;
        undone.files.push((kept.path.clone(), fate));
    }
    let known: Vec<&str> = journal.files.iter().map(|kept| kept.path.as_str()).collect();
    for (path, bytes) in loader.later(host, &known, &journal.words) {
        host.replace_file(&path, &bytes, host.access(&path)?)?;
        undone.files.push((path, FileFate::MadeAnew));
    }
    // Last: until then the next boot takes back what a kill has left.
    for kept in unit {
        trial::disable(host);
        let fate = put_back(host, loader, kept, &journal.words, &mut undone.notes)?;
        undone.files.push((kept.path.clone(), fate));
    }
    store.remove(JOURNAL)?;
    Ok(undone)
}

fn put_back(
    host: &Host,
    loader: &dyn BootLoader,
    kept: &SavedFile,
    words: &[String],
    notes: &mut Vec<String>,
) -> Result<FileFate, BootError> {
    let path = kept.path.as_str();
    let now = match host.read_bytes(path) {
        Ok(bytes) => Some(bytes),
        Err(error) if error.is_absent() => None,
        Err(error) => return Err(error.into()),
    };
    let original = kept.original.as_ref().and_then(FileBytes::get);
    let dir = path.rsplit_once('/').map_or("/", |(dir, _)| dir);
    if now.is_none() && original.is_some() && !host.exists(dir) {
        return Err(wrong(
            format!("{dir} does not exist, so {path} cannot be restored"),
            Some("is its file system mounted? then: cpushield boot undo"),
        ));
    }
    if now == original {
        return Ok(FileFate::AlreadySo);
    }
    let left = kept.left.as_ref().and_then(FileBytes::get);
    let made = loader.is_made(path);
    let only_ours =
        now == left || made && now.as_ref().map(|now| loader.without_ours(now)) == original;
    match original {
        Some(original) if only_ours => {
            host.replace_file(path, &original, kept.access())?;
            return Ok(FileFate::Restored);
        }
        // A file of ours goes, whatever became of it.
        None if !made => {
            if !only_ours {
                notes.push(format!("{path} had been changed since it was written; it is removed"));
            }
            host.erase_file(path)?;
            return Ok(FileFate::Restored);
        }
        _ if made => {}
        // What others wrote since stays; our words go.
        _ => {
            let stripped = now.as_ref().and_then(|now| loader.stripped(now, words));
            let Some(stripped) = stripped else { return Ok(FileFate::Drifted) };
            host.replace_file(path, &stripped, host.access(path)?)?;
            return Ok(FileFate::MadeAnew);
        }
    }
    // Another hand made the file anew since, for a new kernel for instance.
    let anew = loader.make(host, path)?;
    if loader.without_ours(&anew) != anew {
        return Err(wrong(format!("{path} would still hold entries of ours"), None));
    }
    let access = host.access(path).unwrap_or_else(|_| kept.access());
    host.replace_file(path, &anew, access)?;
    Ok(FileFate::MadeAnew)
}
