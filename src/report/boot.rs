//! The documents about booting for people. Pure.

use super::moment::moment;
use super::table::{Align, fit, fold, lay_out};
use crate::boot::early::Enabled;
use crate::boot::grub::generator::KernelRule;
use crate::boot::{
    BootPlan, BootStatus, FileFate, RemovedParameters, SettledAs, TrialBoot, TrialEnd, TrialState,
    WrittenParameters,
};
use crate::plan::named;

/// The text of `cpushield boot plan`, no wider than `width` where that is possible.
#[must_use]
pub fn boot_plan_text(plan: &BootPlan, width: usize) -> String {
    let mut text = format!("Prepare {} at boot\n", named(&plan.cpus));
    for why in &plan.why {
        text.push_str(&format!("  {why}\n"));
    }
    text = fold(&text, width) + "\nKernel parameters\n";
    let rows: Vec<Vec<String>> = plan
        .parameters
        .iter()
        .map(|it| {
            let state = match (it.already, it.booted) {
                (true, _) => "there already",
                (false, true) => "booted with it",
                (false, false) => "not booted with it",
            };
            let state = match &it.instead {
                Some(there) if !it.already => format!("booted with {there}"),
                _ => state.to_owned(),
            };
            vec![it.word.clone(), it.reason.clone(), state]
        })
        .collect();
    if rows.is_empty() {
        text.push_str("  none applies to the chosen kernels\n");
    }
    text.push_str(&fit("  ", &[Align::Left, Align::Left, Align::Left], &rows, width));
    let substitutes: Vec<String> = plan
        .parameters
        .iter()
        .filter_map(|it| Some(format!("  {}: {}\n", it.name, it.substitute.as_deref()?)))
        .collect();
    if !substitutes.is_empty() {
        text.push_str("\nWithout a boot, on the running kernel\n");
        text.push_str(&fold(&substitutes.concat(), width));
    }
    text.push_str(&menu(plan, width));
    text.push_str(&lists(plan, width));
    // What is indented is a line of a file, and stays one.
    let fold = |line: &str| {
        if line.is_empty() || line.starts_with("   ") {
            format!("{line}\n")
        } else {
            fold(line, width)
        }
    };
    text + &listed("By hand", &plan.instructions).lines().map(fold).collect::<String>()
}

fn listed(title: &str, lines: &[String]) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let lines: String = lines.iter().map(|line| format!("  {line}\n")).collect();
    format!("\n{title}\n{lines}")
}

fn menu(plan: &BootPlan, width: usize) -> String {
    let Some(loader) = &plan.loader else {
        return "\nNo boot loader that cpushield can write for was found\n".to_owned();
    };
    let mut text = format!("\nKernels of the boot menu ({loader})\n");
    let rows: Vec<Vec<String>> = plan
        .kernels
        .iter()
        .map(|kernel| {
            let kind = match kernel.realtime {
                Some(true) => "PREEMPT_RT",
                Some(false) => "",
                None => "configuration unknown",
            };
            let gets = kernel.chosen && !plan.parameters.is_empty();
            let gets = if gets { "gets the parameters" } else { "stays as it is" };
            vec![kernel.version.clone(), gets.to_owned(), kind.to_owned()]
        })
        .collect();
    text.push_str(&fit("  ", &[Align::Left, Align::Left, Align::Left], &rows, width));
    let mut ends = String::new();
    if plan.covers_later && !plan.parameters.is_empty() {
        let later = later(plan.loader.as_deref(), &plan.rule);
        ends.push_str(&format!("  A kernel that is installed later: {later}\n"));
    }
    if let Some(next) = &plan.next {
        ends.push_str(&format!("  Boots next, as it is now: {next}\n"));
    }
    text + &fold(&ends, width)
}

fn later(loader: Option<&str>, rule: &KernelRule) -> String {
    match rule {
        _ if loader == Some("raspberry-pi") => "gets them: there is one line for all".to_owned(),
        KernelRule::Realtime => "gets them when it is a PREEMPT_RT kernel".to_owned(),
        KernelRule::First => "gets them when it is the first one of the menu".to_owned(),
        KernelRule::Matching { glob } => format!("gets them when its version matches {glob}"),
    }
}

fn lists(plan: &BootPlan, width: usize) -> String {
    let mut text = String::new();
    let (asked, other): (Vec<_>, Vec<_>) = plan.skipped.iter().partition(|it| it.on_request);
    if !other.is_empty() {
        text.push_str("\nNot given\n");
        let rows: Vec<Vec<String>> =
            other.iter().map(|it| vec![it.name.clone(), it.reason.clone()]).collect();
        text.push_str(&fit("  ", &[Align::Left, Align::Left], &rows, width));
    }
    if !asked.is_empty() {
        let names: Vec<&str> = asked.iter().map(|it| it.name.as_str()).collect();
        let names = format!("\nOff unless asked for (--on NAME)\n  {}\n", names.join(", "));
        text.push_str(&fold(&names, width));
    }
    text + &fold(&listed("Note", &plan.warnings), width)
}

/// The text of `cpushield boot apply`.
#[must_use]
pub fn boot_written_text(written: &WrittenParameters) -> String {
    let words = written.words.join(" ");
    if written.words.is_empty() {
        return "Nothing to write: the chosen kernels are given every parameter already\n"
            .to_owned();
    }
    let how = if written.files.is_empty() { "Written already" } else { "Written" };
    let mut text = format!("{how}: {words}\n  for {}\n", written.kernels.join(", "));
    for file in &written.files {
        text.push_str(&format!("  file: {file}\n"));
    }
    if let Some(next) = &written.next {
        let has = if written.next_has { "with them" } else { "without them" };
        text.push_str(&format!("Boots next, {has}: {next}\n"));
    }
    if let Some(choice) = written.choice.as_ref().filter(|_| !written.next_has) {
        text.push_str(&format!("  {choice}\n"));
    }
    text.push_str(&format!("  {}\n", written.menu));
    if let Some(trial) = &written.trial {
        let who = if trial.unit {
            "a unit of systemd looks after that boot"
        } else {
            "after it: cpushield boot conclude"
        };
        text.push_str(&format!(
            "A trial: {} boots once; {who}. When the parameters are in force and a \
             shield on CPU {} holds they stay, else all is taken back. A machine that hangs boots its old entry at the next reset.\n",
            trial.entry, trial.proves
        ));
        if let Some(argument) = &trial.reboot {
            text.push_str(&format!(
                "It is `reboot '{argument}'` that boots it; any other reboot takes the trial back.\n"
            ));
        }
    }
    text.push_str(match written.entry {
        Some(_) => "The entries without them stay in the menu.\n",
        None => {
            "The entries that were there have them now, none is without; --trial or --keep-default \
             makes one of its own.\n"
        }
    });
    let reboot = match written.trial.as_ref().and_then(|trial| trial.reboot.as_ref()) {
        Some(argument) => format!("reboot '{argument}'"),
        None => "reboot".to_owned(),
    };
    text.push_str(&format!(
        "Next: {reboot}, then `cpushield boot status`. `cpushield boot undo` puts every byte back.\n"
    ));
    text
}

/// The text of `cpushield boot conclude`.
#[must_use]
pub fn boot_trial_text(end: &TrialEnd) -> String {
    let what = match end.end {
        SettledAs::Permanent => "The trial holds and is permanent now",
        SettledAs::TakenBack => "The trial did not hold; every boot file is as it was",
    };
    format!("{what}: {}\n", end.why)
}

/// The text of `cpushield boot undo`.
#[must_use]
pub fn boot_undone_text(undone: Option<&RemovedParameters>) -> String {
    let Some(undone) = undone else {
        return "No boot parameters are written; nothing to undo.\n".to_owned();
    };
    let mut text = "Boot files:\n".to_owned();
    for (file, fate) in &undone.files {
        let fate = match fate {
            FileFate::Restored => "as it was",
            FileFate::AlreadySo => "was as before",
            FileFate::MadeAnew => "had changed since; made again without the parameters",
            FileFate::Drifted => "had changed since; left alone",
        };
        text.push_str(&format!("  {file}: {fate}\n"));
    }
    undone.notes.iter().for_each(|note| text.push_str(&format!("  {note}\n")));
    text.push_str("The running kernel keeps its parameters until the next boot.\n");
    text
}

/// The shield that every boot makes.
#[must_use]
pub fn enabled_text(enabled: &Enabled) -> String {
    format!("Enabled at every boot: cpushield {} ({})\n", enabled.words.join(" "), enabled.path)
}

/// How far a trial is, and what to do.
fn trial_text(trial: &TrialBoot, state: Option<&TrialState>) -> String {
    let entry = &trial.entry;
    let settle = match trial.unit {
        true => "a unit of systemd concludes it soon; by hand: cpushield boot conclude",
        false => "next: cpushield boot conclude",
    };
    match state {
        None | Some(TrialState::Armed) => {
            let reboot = trial.reboot.as_ref().map(|argument| format!("reboot '{argument}'"));
            let reboot = reboot.unwrap_or_else(|| "reboot".to_owned());
            format!("Trial: {entry} has not booted yet; next: {reboot}\n")
        }
        Some(TrialState::NotTaken) => format!(
            "Trial: {entry} has not booted yet: the machine was booted since, but with another \
             entry; the next boot takes it\n"
        ),
        Some(TrialState::Booted) => {
            format!("Trial: this is the boot of {entry}, not concluded yet; {settle}\n")
        }
        Some(TrialState::FellBack { since_s }) => {
            let since = since_s.map(|at| format!(" since {}", moment(at))).unwrap_or_default();
            let began = match &trial.reboot {
                None => format!("{entry} was booted and the boot did not end well"),
                Some(argument) => format!(
                    "either {entry} was booted and the boot did not end well, or the reboot was \
                     not `reboot '{argument}'`"
                ),
            };
            format!(
                "Trial failed: {began}. The machine fell back: another entry runs{since}.\n  what \
                 that boot said last: journalctl --boot=-1 --dmesg, or /sys/fs/pstore\n  to put \
                 every boot file back: {}\n",
                match trial.unit {
                    true => "a unit of systemd does it soon; by hand: cpushield boot undo",
                    false => "cpushield boot undo",
                }
            )
        }
    }
}

/// The text of `cpushield boot status`.
#[must_use]
pub fn boot_status_text(status: &BootStatus) -> String {
    let mut text = String::new();
    if status.words.is_empty() {
        text.push_str("No boot parameters were written by cpushield.\n");
    } else {
        let yes = |yes: bool| if yes { "yes" } else { "no" }.to_owned();
        let mut rows =
            vec![["wanted", "written", "booted", "in force"].map(str::to_owned).to_vec()];
        rows.extend(status.words.iter().map(|word| {
            let force = match (word.in_force, &word.shows) {
                (Some(force), Some(shows)) => format!("{} ({shows})", yes(force)),
                _ => "the kernel does not show it".to_owned(),
            };
            vec![word.word.clone(), yes(word.written), yes(word.booted), force]
        }));
        text.push_str(&lay_out("", &[Align::Left; 4], &rows));
        let kernels = status.kernels.join(", ");
        let kernels = if kernels.is_empty() { "none" } else { &kernels };
        text.push_str(&format!("Kernels whose entries have them: {kernels}\n"));
        if let Some(rule) = status.rule.as_ref().filter(|_| status.covers_later) {
            let later = later(status.loader.as_deref(), rule);
            text.push_str(&format!("A kernel that is installed later: {later}\n"));
        }
    }
    if let Some(running) = &status.running {
        text.push_str(&format!("Running: {running}\n"));
    }
    match (&status.next, &status.loader) {
        (Some(next), _) => text.push_str(&format!("Boots next: {next}\n")),
        (None, None) => text.push_str("No boot loader that cpushield can write for was found.\n"),
        _ => {}
    }
    if let Some(trial) = &status.trial {
        text.push_str(&trial_text(trial, status.trial_state.as_ref()));
    }
    if let Some(end) = &status.last_trial {
        let what = match end.end {
            SettledAs::Permanent => "made permanent",
            SettledAs::TakenBack => "taken back",
        };
        text.push_str(&format!("Last trial: {what}: {}\n", end.why));
    }
    text.extend(status.enabled.as_ref().map(enabled_text));
    status.differs.iter().for_each(|line| text.push_str(&format!("Mind: {line}\n")));
    for fault in &status.faults {
        text.push_str(&format!("Mind: {fault}; {}\n", fault.advice()));
    }
    text
}
