//! The systemd units of a trial: one concludes it after its boot. The other reboots the machine
//! when no user can reach it in time.

use super::error::BootError;
use super::own_unit::{self, MARK};
use crate::documents::boot::{TrialDeadline, TrialGoal};
use crate::quote::quote_for_unit;
use cpushield_linux::Host;

/// The unit that concludes a trial.
const CONCLUSION: &str = "cpushield-trial.service";
/// The unit that falls back.
const FALL_BACK: &str = "cpushield-trial-deadline.service";
/// All of them. The one that concludes comes last: while it exists, the next boot restores the
/// rest.
pub(super) const UNITS: [&str; 2] = [FALL_BACK, CONCLUSION];

/// What the units of a trial run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrialProgram {
    /// The path of this program.
    pub program: String,
    /// Its state directory.
    pub state_dir: String,
}

/// Whether a file is a unit of a trial.
pub(super) fn is_unit(file: &str) -> bool {
    UNITS.iter().any(|unit| own_unit::path(unit) == file)
}

/// The units of a trial, each with its content.
pub(super) fn texts(
    run: &TrialProgram,
    until: Option<TrialDeadline>,
    words: &[String],
    locale: &[String],
) -> Vec<(&'static str, String)> {
    let (program, state) = (quote_for_unit(&run.program), quote_for_unit(&run.state_dir));
    let call = format!("{program} --state {state}");
    // systemd splits the command line itself, so it finds only plain words.
    let is_plain = |word: &&String| !word.contains(['"', '\'', '\\', ' ']);
    let words: Vec<String> = words.iter().filter(is_plain).cloned().collect();
    let until = until.filter(|_| !words.is_empty());
    let fall_back = until.map(|until| (FALL_BACK, fall_back_text(&call, until, &words)));
    fall_back.into_iter().chain([(CONCLUSION, conclusion_text(&call, locale))]).collect()
}

/// The unit runs once after the trial's boot. It is `simple`, so the boot does not wait for the
/// watch to finish. It has the language of the apply: grub-mkconfig writes it into the menu
/// (`set lang=` of 00_header, GRUB 2.12), and the menu must not change elsewhere.
fn conclusion_text(call: &str, locale: &[String]) -> String {
    let locale = locale.iter().map(|it| format!("Environment={}\n", quote_for_unit(it)));
    let locale: String = locale.collect();
    format!(
        "{MARK} `cpushield boot undo` removes it.\n\
         [Unit]\n\
         Description=cpushield: keep or remove the boot parameters of this trial boot\n\
         After=multi-user.target\n\n\
         [Service]\n\
         Type=simple\n\
         {locale}\
         ExecStart={call} boot conclude\n\n\
         [Install]\n\
         WantedBy=multi-user.target\n"
    )
}

/// The unit starts as early as possible and needs no other: whatever hangs, its time passes. It
/// also survives the change to the rescue target. It runs only in a boot with the trial's words, so
/// it cannot reboot the old entry.
fn fall_back_text(call: &str, until: TrialDeadline, words: &[String]) -> String {
    let goal = match until.goal {
        TrialGoal::Login => "login",
        TrialGoal::Network => "network",
    };
    let conditions = words.iter().map(|word| condition(word)).collect::<String>();
    format!(
        "{MARK} `cpushield boot undo` removes it.\n\
         [Unit]\n\
         Description=cpushield: boot the old entry again if this trial boot cannot be reached\n\
         DefaultDependencies=no\n\
         IgnoreOnIsolate=yes\n\
         Conflicts=shutdown.target\n\
         Before=shutdown.target\n\
         {conditions}\n\
         [Service]\n\
         Type=simple\n\
         ExecStart={call} boot conclude --reboot-unless {goal} --within {}s\n\n\
         [Install]\n\
         WantedBy=sysinit.target\n",
        until.within_s
    )
}

/// The line that requires a word of the kernel command line. It has no quotes: only `%` is
/// special there.
fn condition(word: &str) -> String {
    format!("ConditionKernelCommandLine={}\n", word.replace('%', "%%"))
}

/// Removes the units.
pub(super) fn remove(host: &Host) -> Result<(), BootError> {
    UNITS.iter().try_for_each(|unit| Ok(own_unit::remove(host, unit)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_units_conclude_the_trial_with_this_program_and_state() {
        let until = TrialDeadline { goal: TrialGoal::Network, within_s: 300 };
        let words = ["nohz_full=1-3", "a=50%", "b=\"c d\""].map(str::to_owned);
        let locale = ["LANG=de_DE.UTF-8".to_owned()];
        let [program, state_dir] = ["/x", "/y"].map(str::to_owned);
        let run = TrialProgram { program, state_dir };
        let units = texts(&run, Some(until), &words, &locale);
        assert!(units[1].1.contains("\nEnvironment=\"LANG=de_DE.UTF-8\"\nExecStart="), "{units:?}");
        let [(_, fall_back), (_, conclusion)] = units.as_slice() else { panic!("{units:?}") };
        let call = "ExecStart=\"/x\" --state \"/y\" boot conclude";
        assert!(conclusion.contains(&format!("{call}\n")), "{conclusion}");
        let deadline = format!("{call} --reboot-unless network --within 300s\n");
        assert!(fall_back.contains(&deadline), "{fall_back}");
        for condition in ["nohz_full=1-3", "a=50%%"] {
            let line = format!("\nConditionKernelCommandLine={condition}\n");
            assert!(fall_back.contains(&line), "{fall_back}");
        }
        assert_eq!(texts(&run, None, &words, &[]).len(), 1);
    }
}
