//! The settings of the kernel's tracers: files for the whole machine. The originals are on the disk
//! before the first write, so that the next run restores them if this process is killed.

use super::refusal::TracerRefusal;
use cpushield_linux::trace::tracefs::{self, Tracefs};
use cpushield_linux::{Error, Host, Store, StoreLock};
use serde::{Deserialize, Serialize};

/// The file of the state directory with the originals.
const FILE: &str = "tracer.json";
/// The lock that protects the settings.
const CLAIM: &str = "tracer";
/// The version of the file's form.
const SCHEMA: u32 = 1;

/// One setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TemporarySetting {
    /// Its file, below the root of tracefs.
    pub file: String,
    /// The original value, to be written back.
    pub was: String,
    /// The value to write.
    pub wanted: String,
    /// When it is changed and restored.
    pub when: SettingTime,
}

/// When a setting is changed and restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SettingTime {
    /// Before the tracer starts and after it has ended.
    Outside,
    /// While the tracer runs, because the tracer saves the value that it finds when it ends.
    Running,
}

#[derive(Debug, Serialize, Deserialize)]
struct OriginalSetting {
    schema: u32,
    settings: Vec<TemporarySetting>,
}

/// Changed settings, restored on drop.
#[derive(Debug)]
pub(super) struct ChangedSettings<'h> {
    host: &'h Host,
    store: Store,
    root: String,
    settings: Vec<TemporarySetting>,
    is_back: bool,
    _claim: StoreLock,
}

impl<'h> ChangedSettings<'h> {
    /// Takes the lock, and restores the settings that a killed run left. Without that, the next
    /// change would save what that run left as the originals.
    ///
    /// # Errors
    /// Another process has the lock, or the settings of a killed run cannot be restored.
    pub(super) fn claim(
        host: &'h Host,
        store: &Store,
        tracefs: &Tracefs,
    ) -> Result<ChangedSettings<'h>, TracerRefusal> {
        let claim = store.claim(CLAIM).map_err(|error| match error.is_held() {
            true => TracerRefusal::SettingsInUse { error },
            false => TracerRefusal::SettingsNotSaved { error },
        })?;
        let root = tracefs.root().to_owned();
        restore(host, store, &root).map_err(|error| TracerRefusal::SettingsLeft { error })?;
        let (store, settings) = (store.clone(), Vec::new());
        Ok(ChangedSettings { host, store, root, settings, is_back: true, _claim: claim })
    }

    /// Saves the originals, then writes the settings that differ from the wanted value.
    ///
    /// # Errors
    /// A write failed. The settings changed until then are restored on drop.
    pub(super) fn change(&mut self, settings: Vec<TemporarySetting>) -> Result<(), Error> {
        let settings = settings.into_iter();
        self.settings.extend(settings.filter(|setting| {
            setting.when == SettingTime::Running || setting.was != setting.wanted
        }));
        self.save_originals()?;
        self.write_all(SettingTime::Outside)
    }

    /// Saves the originals to the state directory.
    fn save_originals(&mut self) -> Result<(), Error> {
        let originals = OriginalSetting { schema: SCHEMA, settings: self.settings.clone() };
        self.store.replace_json(FILE, &originals)?;
        self.is_back = false;
        Ok(())
    }

    /// Writes the settings that need a running tracer. The values it set become the originals.
    ///
    /// # Errors
    /// A read or write failed.
    pub(super) fn change_in_running_tracer(&mut self) -> Result<(), Error> {
        let mut found = false;
        let settings = self.settings.iter_mut();
        for setting in settings.filter(|setting| setting.when == SettingTime::Running) {
            setting.was = self.host.read_line(&format!("{}/{}", self.root, setting.file))?;
            found = true;
        }
        if found {
            self.save_originals()?;
        }
        self.write_all(SettingTime::Running)
    }

    /// Writes the settings of this time.
    fn write_all(&self, when: SettingTime) -> Result<(), Error> {
        let mut settings = self.settings.iter().filter(|setting| setting.when == when);
        settings.try_for_each(|setting| {
            self.host.write(&format!("{}/{}", self.root, setting.file), &setting.wanted)
        })
    }

    /// Restores the settings that must be restored before the tracer ends. Returns the errors.
    pub(super) fn restore_in_running_tracer(&self) -> Vec<Error> {
        put_back(self.host, &self.root, &self.settings, SettingTime::Running)
    }

    /// Restores all other settings after the end of the tracer. Returns the errors.
    pub(super) fn restore_after_tracer(&mut self) -> Vec<Error> {
        if std::mem::replace(&mut self.is_back, true) {
            return Vec::new();
        }
        let errors = put_back(self.host, &self.root, &self.settings, SettingTime::Outside);
        if errors.is_empty() {
            // If the file stays, the next run finds the originals in place already.
            let _ = self.store.remove(FILE);
        }
        errors
    }
}

impl Drop for ChangedSettings<'_> {
    fn drop(&mut self) {
        // An error cannot be reported here; the next run tries again.
        let _ = self.restore_after_tracer();
    }
}

/// What happened to a kernel tracer that a killed measurement had left.
#[derive(Debug)]
pub enum TracerRecovery {
    /// It was stopped, and its settings are as before.
    Restored,
    /// Its settings could not be restored.
    Failed {
        /// Why.
        error: Error,
    },
}

/// Restores the tracer settings that a killed run left. Returns `None` when there was nothing to
/// restore. A run that is still active is left alone.
#[must_use]
pub fn restore_tracer_settings(host: &Host, store: &Store) -> Option<TracerRecovery> {
    match recover(host, store) {
        Ok(true) => Some(TracerRecovery::Restored),
        Ok(false) => None,
        // Only root can have left settings.
        Err(error) if error.is_denied() => None,
        Err(error) => Some(TracerRecovery::Failed { error }),
    }
}

fn recover(host: &Host, store: &Store) -> Result<bool, Error> {
    if !host.is_live() || store.read(FILE)?.is_none() {
        return Ok(false);
    }
    let _claim = match store.claim(CLAIM) {
        Err(error) if error.is_held() => return Ok(false),
        answer => answer?,
    };
    restore(host, store, Tracefs::find(host)?.root())
}

/// Restores the settings of a killed run, as far as possible, and stops its tracer. Returns whether
/// there was such a run. The caller holds the lock.
///
/// # Errors
/// The first setting that cannot be restored. Its original stays in the file for the next try.
fn restore(host: &Host, store: &Store, root: &str) -> Result<bool, Error> {
    let Some(bytes) = store.read(FILE)? else { return Ok(false) };
    let originals = parse_originals(&bytes, &store.path(FILE));
    let settings = originals.as_ref().map_or(&[][..], Vec::as_slice);
    let mut errors = put_back(host, root, settings, SettingTime::Running);
    // Also where a setting is not restored: the tracer of a killed run disturbs its CPUs.
    tracefs::remove_leftovers(host, root);
    errors.extend(put_back(host, root, settings, SettingTime::Outside));
    originals?;
    match errors.into_iter().next() {
        Some(error) => Err(error),
        None => store.remove(FILE).map(|()| true),
    }
}

/// Parses the file of the state directory. Its path is for errors.
///
/// # Errors
/// It has another form, so the originals are unknown.
fn parse_originals(bytes: &[u8], path: &str) -> Result<Vec<TemporarySetting>, Error> {
    const WANTED: &str = "tracer settings of schema 1";
    let originals: OriginalSetting = serde_json::from_slice(bytes)
        .map_err(|error| Error::malformed(path, error.line(), WANTED, &error.to_string()))?;
    match originals.schema {
        SCHEMA => Ok(originals.settings),
        other => Err(Error::malformed(path, 0, WANTED, &format!("schema {other}"))),
    }
}

/// Restores the settings of this time that still have our value, last change first. Values that
/// another process changed since are left, and so are files that no longer exist. Returns the
/// kernel's errors.
fn put_back(
    host: &Host,
    root: &str,
    settings: &[TemporarySetting],
    when: SettingTime,
) -> Vec<Error> {
    let mut errors = Vec::new();
    for setting in settings.iter().rev().filter(|setting| setting.when == when) {
        let path = format!("{root}/{}", setting.file);
        let written = match host.read_line(&path) {
            Ok(now) if shows(&now, &setting.wanted) => host.write(&path, &setting.was),
            Ok(_) => Ok(()),
            Err(error) if error.is_absent() => Ok(()),
            Err(error) => Err(error),
        };
        errors.extend(written.err());
    }
    errors
}

/// Whether the content of a file shows the written value: as a whole, as the chosen value in
/// brackets, or as one option among others.
fn shows(now: &str, written: &str) -> bool {
    if let Some((_, chosen)) = now.split_once('[') {
        return chosen.split_once(']').is_some_and(|(chosen, _)| chosen == written);
    }
    now == written.trim() || now.split_whitespace().any(|word| word == written)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cpushield_simulator::{InjectedFault, Simulated};
    use std::fs;
    use std::path::Path;

    const OPTIONS: &str = "NO_DEFAULTS NO_OSNOISE_WORKLOAD NO_PANIC_ON_STOP";

    fn setting(file: &str, was: &str, wanted: &str, when: SettingTime) -> TemporarySetting {
        let (file, was, wanted) = (file.to_owned(), was.to_owned(), wanted.to_owned());
        TemporarySetting { file, was, wanted, when }
    }

    fn tree(name: &str) -> std::path::PathBuf {
        let dir = std::env::temp_dir().join(format!("settings-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        for (file, text) in [
            ("trace_clock", "[local] mono\n"),
            ("osnoise/cpus", "0-3\n"),
            ("osnoise/timerlat_period_us", "1000\n"),
            ("tracing_thresh", "10\n"),
            ("instances/x/current_tracer", "nop\n"),
        ] {
            let file = dir.join("sys/kernel/tracing").join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        dir
    }

    fn line(dir: &Path, file: &str) -> String {
        let text = fs::read_to_string(dir.join("sys/kernel/tracing").join(file)).unwrap();
        text.trim().to_owned()
    }

    #[test]
    fn settings_of_a_killed_run_are_restored_unless_another_process_changed_them() {
        let dir = tree("killed");
        let host = Host::recorded(&dir).unwrap().simulated();
        let store = Store::new(&dir.join("state"));
        let tracefs = Tracefs::find(&host).unwrap();
        let mut changed = ChangedSettings::claim(&host, &store, &tracefs).unwrap();
        let wanted = vec![
            setting("osnoise/cpus", "0-3", "3", SettingTime::Outside),
            setting("osnoise/timerlat_period_us", "1000", "500", SettingTime::Outside),
            setting("tracing_thresh", "10", "1", SettingTime::Running),
        ];
        changed.change(wanted).unwrap();
        changed.change_in_running_tracer().unwrap();
        assert_eq!(
            (line(&dir, "osnoise/cpus"), line(&dir, "tracing_thresh")),
            ("3".into(), "1".into())
        );
        let refused = ChangedSettings::claim(&host, &store, &tracefs).unwrap_err();
        assert!(matches!(refused, TracerRefusal::SettingsInUse { .. }), "{refused}");
        // As after a kill: only the lock is gone.
        changed.is_back = true;
        drop(changed);
        host.write("/sys/kernel/tracing/osnoise/cpus", "0-1").unwrap();
        let again = ChangedSettings::claim(&host, &store, &tracefs).unwrap();
        assert_eq!(line(&dir, "osnoise/cpus"), "0-1", "set by another process");
        assert_eq!(line(&dir, "osnoise/timerlat_period_us"), "1000");
        assert_eq!(line(&dir, "tracing_thresh"), "10");
        assert_eq!(store.read(FILE).unwrap(), None);
        drop(again);
        fs::remove_dir_all(dir).unwrap();
    }

    /// A machine on which a run was killed after it had changed these settings.
    fn after_a_kill(name: &str) -> (std::path::PathBuf, Store) {
        let dir = tree(name);
        let host = Host::recorded(&dir).unwrap().simulated();
        let store = Store::new(&dir.join("state"));
        let tracefs = Tracefs::find(&host).unwrap();
        let mut changed = ChangedSettings::claim(&host, &store, &tracefs).unwrap();
        let wanted = vec![
            setting("osnoise/cpus", "0-3", "3", SettingTime::Outside),
            setting("osnoise/timerlat_period_us", "1000", "500", SettingTime::Outside),
        ];
        changed.change(wanted).unwrap();
        changed.is_back = true;
        drop(changed);
        (dir, store)
    }

    #[test]
    fn originals_are_kept_until_every_one_of_them_is_restored() {
        let (dir, store) = after_a_kill("refused");
        let saved = store.read(FILE).unwrap();
        let root = "/sys/kernel/tracing";
        // Each of the two writes is refused once.
        for at in 0..2 {
            let host = Host::recorded(&dir).unwrap().simulated();
            let host = host.failing(InjectedFault::Refuse { at, errno: 5 });
            let refused = restore(&host, &store, root).unwrap_err().to_string();
            assert!(refused.contains("EIO"), "{refused}");
            assert_eq!(store.read(FILE).unwrap(), saved, "the originals of write {at}");
            // The other setting was restored; change it again.
            host.write(&format!("{root}/osnoise/cpus"), "3").unwrap();
            host.write(&format!("{root}/osnoise/timerlat_period_us"), "500").unwrap();
        }
        // A measurement does not start: it would save the wrong values as the originals.
        let host = Host::recorded(&dir).unwrap().simulated();
        let host = host.failing(InjectedFault::Refuse { at: 1, errno: 5 });
        let tracefs = Tracefs::find(&host).unwrap();
        let refused = ChangedSettings::claim(&host, &store, &tracefs).unwrap_err();
        assert!(matches!(refused, TracerRefusal::SettingsLeft { .. }), "{refused}");
        assert_eq!(store.read(FILE).unwrap(), saved);
        assert!(restore(&Host::recorded(&dir).unwrap().simulated(), &store, root).unwrap());
        assert_eq!(line(&dir, "osnoise/cpus"), "0-3");
        assert_eq!(line(&dir, "osnoise/timerlat_period_us"), "1000");
        assert_eq!(store.read(FILE).unwrap(), None);
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_setting_that_cannot_be_read_is_not_restored_and_a_missing_one_is_gone() {
        let (dir, store) = after_a_kill("unreadable");
        let file = dir.join("sys/kernel/tracing/osnoise/cpus");
        fs::remove_file(&file).unwrap();
        fs::create_dir(&file).unwrap();
        let host = Host::recorded(&dir).unwrap().simulated();
        assert!(restore(&host, &store, "/sys/kernel/tracing").is_err());
        assert!(store.read(FILE).unwrap().is_some());
        assert_eq!(line(&dir, "osnoise/timerlat_period_us"), "1000");
        fs::remove_dir(&file).unwrap();
        assert!(restore(&host, &store, "/sys/kernel/tracing").unwrap());
        assert_eq!(store.read(FILE).unwrap(), None);
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn originals_of_another_form_are_neither_restored_nor_removed() {
        let dir = tree("schema");
        let host = Host::recorded(&dir).unwrap().simulated();
        let store = Store::new(&dir.join("state"));
        for (text, said) in [
            (r#"{"schema": 2, "settings": []}"#, "schema 2"),
            (r#"{"schema": 1, "settings": ["#, "EOF"),
        ] {
            store.replace(FILE, text.as_bytes()).unwrap();
            let refused = restore(&host, &store, "/sys/kernel/tracing").unwrap_err().to_string();
            assert!(refused.contains(FILE) && refused.contains(said), "{refused}");
            assert_eq!(store.read(FILE).unwrap().as_deref(), Some(text.as_bytes()));
        }
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn nothing_is_written_before_its_original_is_saved() {
        let dir = tree("full");
        let host = Host::recorded(&dir).unwrap().simulated();
        let store = Store::new(&dir.join("state")).with_room_for(0);
        let tracefs = Tracefs::find(&host).unwrap();
        let mut changed = ChangedSettings::claim(&host, &store, &tracefs).unwrap();
        let wanted = vec![setting("osnoise/cpus", "0-3", "3", SettingTime::Outside)];
        assert!(changed.change(wanted).is_err());
        assert_eq!((host.writes(), line(&dir, "osnoise/cpus")), (0, "0-3".into()));
        drop(changed);
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_written_value_is_found_among_other_options() {
        assert!(shows(OPTIONS, "NO_OSNOISE_WORKLOAD"));
        assert!(!shows(OPTIONS, "OSNOISE_WORKLOAD"));
        assert!(shows("none round-robin [per-cpu]", "per-cpu"));
        assert!(!shows("none [round-robin] per-cpu", "per-cpu"));
        assert!(shows("", "\n") && shows("3", "3") && !shows("0-3", "3"));
    }
}
