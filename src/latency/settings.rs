//! The settings of the kernel's tracers: files for the whole machine. What was there is on the disk
//! before the first write, so that whatever happens to this process, the next one puts it back.

use cpushield_linux::tracefs::{self, Tracefs};
use cpushield_linux::{Error, Host, Store, StoreLock};
use serde::{Deserialize, Serialize};

/// The file of the state directory that keeps what was there.
const FILE: &str = "tracer.json";
/// Who has this lock has the settings.
const CLAIM: &str = "tracer";
/// The version of the file's form.
const SCHEMA: u32 = 1;

/// One setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TemporarySetting {
    /// Its file, below the root of tracefs.
    pub file: String,
    /// What to write to have it as it was.
    pub was: String,
    /// What is written.
    pub wanted: String,
    /// It is put back while the tracer is still at work, because the tracer keeps what it finds
    /// there when it ends.
    pub at_work: bool,
}

#[derive(Debug, Serialize, Deserialize)]
struct OriginalSetting {
    schema: u32,
    settings: Vec<TemporarySetting>,
}

/// Settings that are changed until this is dropped.
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
    /// Takes the right to change settings, and puts back what a run that was killed left. `plan`
    /// says what to change once that is done.
    ///
    /// # Errors
    /// Another process has the right, or what was there cannot be kept.
    pub(super) fn claim(
        host: &'h Host,
        store: &Store,
        tracefs: &Tracefs,
    ) -> Result<ChangedSettings<'h>, Error> {
        let claim = store.claim(CLAIM)?;
        let root = tracefs.root().to_owned();
        restore(host, store, &root)?;
        let (store, settings) = (store.clone(), Vec::new());
        Ok(ChangedSettings { host, store, root, settings, is_back: true, _claim: claim })
    }

    /// Changes those that are not as wanted, the originals on the disk first.
    ///
    /// # Errors
    /// The kernel's answer, or that of the disk; what was changed until then goes back on drop.
    pub(super) fn change(&mut self, settings: Vec<TemporarySetting>) -> Result<(), Error> {
        let differs = |one: &TemporarySetting| one.at_work || one.was != one.wanted;
        self.settings.extend(settings.into_iter().filter(differs));
        self.keep()?;
        self.settings.iter().filter(|one| !one.at_work).try_for_each(|one| self.write(one))
    }

    /// What was there is on the disk from here on.
    fn keep(&mut self) -> Result<(), Error> {
        let kept = OriginalSetting { schema: SCHEMA, settings: self.settings.clone() };
        let text = serde_json::to_vec(&kept).unwrap_or_default();
        self.store.replace(FILE, &text)?;
        self.is_back = false;
        Ok(())
    }

    /// Writes those that wait for the tracer to be at work; what it made of them goes back.
    ///
    /// # Errors
    /// The kernel's answer, or that of the disk.
    pub(super) fn change_at_work(&mut self) -> Result<(), Error> {
        let mut found = false;
        for one in self.settings.iter_mut().filter(|one| one.at_work) {
            one.was = self.host.read_line(&format!("{}/{}", self.root, one.file))?;
            found = true;
        }
        if found {
            self.keep()?;
        }
        self.settings.iter().filter(|one| one.at_work).try_for_each(|one| self.write(one))
    }

    fn write(&self, one: &TemporarySetting) -> Result<(), Error> {
        self.host.write(&format!("{}/{}", self.root, one.file), &one.wanted)
    }

    /// Puts those back that must be before the tracer ends.
    pub(super) fn put_back_at_work(&self) -> Vec<String> {
        put_back(self.host, &self.root, &self.settings, true)
    }

    /// Puts everything back; the tracer has ended. Says what could not be.
    pub(super) fn put_back(&mut self) -> Vec<String> {
        if std::mem::replace(&mut self.is_back, true) {
            return Vec::new();
        }
        let wrong = put_back(self.host, &self.root, &self.settings, false);
        if wrong.is_empty() {
            // What stays is put back once more by the next run, which finds it so.
            let _ = self.store.remove(FILE);
        }
        wrong
    }
}

impl Drop for ChangedSettings<'_> {
    fn drop(&mut self) {
        // Nobody to tell; the next run tries again.
        let _ = self.put_back();
    }
}

/// Puts back what a run that was killed left in the tracers' settings, and says so; `None` when
/// there was nothing. One that is still at work is left alone.
#[must_use]
pub fn recovered(host: &Host, store: &Store) -> Option<String> {
    match recover(host, store) {
        Ok(true) => Some(
            "a killed measurement left a kernel tracer running; cpushield stopped it and restored \
             its settings"
                .to_owned(),
        ),
        Ok(false) => None,
        // Nobody but root can have left something.
        Err(error) if error.is_denied() => None,
        Err(error) => {
            Some(format!("could not restore tracer settings left by a killed measurement: {error}"))
        }
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

/// The same for who has the claim.
fn restore(host: &Host, store: &Store, root: &str) -> Result<bool, Error> {
    let Some(bytes) = store.read(FILE)? else { return Ok(false) };
    let kept = serde_json::from_slice::<OriginalSetting>(&bytes);
    // The file is put in place whole, so what is not understood is another version's.
    let settings = kept.map_or_else(|_| Vec::new(), |kept| kept.settings);
    let mut wrong = put_back(host, root, &settings, true);
    tracefs::remove_leftovers(host, root);
    wrong.extend(put_back(host, root, &settings, false));
    if wrong.is_empty() {
        store.remove(FILE)?;
    }
    Ok(true)
}

/// What is as we left it goes back, the last change first; what somebody else changed since is
/// theirs. Says what the kernel refused.
fn put_back(host: &Host, root: &str, settings: &[TemporarySetting], at_work: bool) -> Vec<String> {
    let mut wrong = Vec::new();
    for one in settings.iter().rev().filter(|one| one.at_work == at_work) {
        let path = format!("{root}/{}", one.file);
        let ours = host.read_line(&path).is_ok_and(|now| shows(&now, &one.wanted));
        if ours && let Err(error) = host.write(&path, &one.was) {
            wrong.push(error.to_string());
        }
    }
    wrong
}

/// Whether a file that shows this says what was written: all of it, the one that is chosen, or an
/// option among others.
fn shows(now: &str, written: &str) -> bool {
    if let Some((_, chosen)) = now.split_once('[') {
        return chosen.split_once(']').is_some_and(|(chosen, _)| chosen == written);
    }
    now == written.trim() || now.split_whitespace().any(|word| word == written)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    const OPTIONS: &str = "NO_DEFAULTS NO_OSNOISE_WORKLOAD NO_PANIC_ON_STOP";

    fn setting(file: &str, was: &str, wanted: &str, at_work: bool) -> TemporarySetting {
        let (file, was, wanted) = (file.to_owned(), was.to_owned(), wanted.to_owned());
        TemporarySetting { file, was, wanted, at_work }
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
    fn what_a_killed_run_changed_goes_back_and_what_others_changed_since_does_not() {
        let dir = tree("killed");
        let host = Host::recorded(&dir).unwrap();
        let store = Store::new(&dir.join("state"));
        let tracefs = Tracefs::find(&host).unwrap();
        let mut changed = ChangedSettings::claim(&host, &store, &tracefs).unwrap();
        let wanted = vec![
            setting("osnoise/cpus", "0-3", "3", false),
            setting("osnoise/timerlat_period_us", "1000", "500", false),
            setting("tracing_thresh", "10", "1", true),
        ];
        changed.change(wanted).unwrap();
        changed.change_at_work().unwrap();
        assert_eq!(
            (line(&dir, "osnoise/cpus"), line(&dir, "tracing_thresh")),
            ("3".into(), "1".into())
        );
        assert!(ChangedSettings::claim(&host, &store, &tracefs).unwrap_err().is_held());
        // As when it is killed: the lock is gone, and nothing else.
        changed.is_back = true;
        drop(changed);
        host.write("/sys/kernel/tracing/osnoise/cpus", "0-1").unwrap();
        let again = ChangedSettings::claim(&host, &store, &tracefs).unwrap();
        assert_eq!(line(&dir, "osnoise/cpus"), "0-1", "somebody else's");
        assert_eq!(line(&dir, "osnoise/timerlat_period_us"), "1000");
        assert_eq!(line(&dir, "tracing_thresh"), "10");
        assert_eq!(store.read(FILE).unwrap(), None);
        drop(again);
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn nothing_is_written_before_its_original_is_kept() {
        let dir = tree("full");
        let host = Host::recorded(&dir).unwrap();
        let store = Store::new(&dir.join("state")).with_room_for(0);
        let tracefs = Tracefs::find(&host).unwrap();
        let mut changed = ChangedSettings::claim(&host, &store, &tracefs).unwrap();
        let wanted = vec![setting("osnoise/cpus", "0-3", "3", false)];
        assert!(changed.change(wanted).is_err());
        assert_eq!((host.writes(), line(&dir, "osnoise/cpus")), (0, "0-3".into()));
        drop(changed);
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn an_option_is_known_among_the_others() {
        assert!(shows(OPTIONS, "NO_OSNOISE_WORKLOAD"));
        assert!(!shows(OPTIONS, "OSNOISE_WORKLOAD"));
        assert!(shows("none round-robin [per-cpu]", "per-cpu"));
        assert!(!shows("none [round-robin] per-cpu", "per-cpu"));
        assert!(shows("", "\n") && shows("3", "3") && !shows("0-3", "3"));
    }
}
