//! The boot documents as text. Pure.

use super::moment::moment;
use super::table::{Align, fit, fold, lay_out};
use crate::boot::{
    BootPlan, BootStatus, Enabled, FileFate, KernelRule, RemovedParameters, SettledAs, TrialBoot,
    TrialEnd, TrialState, WrittenParameters,
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
        .map(|parameter| {
            let state = match (parameter.already, parameter.booted, &parameter.instead) {
                (true, ..) => "already there".to_owned(),
                (false, _, Some(other)) => format!("booted with {other}"),
                (false, true, None) => "booted with it".to_owned(),
                (false, false, None) => "not booted with it".to_owned(),
            };
            vec![parameter.word.clone(), parameter.reason.clone(), state]
        })
        .collect();
    if rows.is_empty() {
        text.push_str("  none apply to the chosen kernels\n");
    }
    text.push_str(&fit("  ", &[Align::Left, Align::Left, Align::Left], &rows, width));
    let substitutes: Vec<String> = plan
        .parameters
        .iter()
        .filter_map(|parameter| {
            Some(format!("  {}: {}\n", parameter.name, parameter.substitute.as_deref()?))
        })
        .collect();
    if !substitutes.is_empty() {
        text.push_str("\nWithout a reboot, on the running kernel\n");
        text.push_str(&fold(&substitutes.concat(), width));
    }
    text.push_str(&boot_menu(plan, width));
    text.push_str(&skipped_and_notes(plan, width));
    for line in list_section("By hand", &plan.instructions).lines() {
        // An indented line is a line of a file and must stay in one piece.
        match line.is_empty() || line.starts_with("   ") {
            true => text.push_str(&format!("{line}\n")),
            false => text.push_str(&fold(line, width)),
        }
    }
    text
}

/// A title with the lines below it; nothing when there are no lines.
fn list_section(title: &str, lines: &[String]) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let lines: String = lines.iter().map(|line| format!("  {line}\n")).collect();
    format!("\n{title}\n{lines}")
}

fn boot_menu(plan: &BootPlan, width: usize) -> String {
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
            let fate = match kernel.chosen && !plan.parameters.is_empty() {
                true => "gets the parameters",
                false => "stays as it is",
            };
            vec![kernel.version.clone(), fate.to_owned(), kind.to_owned()]
        })
        .collect();
    text.push_str(&fit("  ", &[Align::Left, Align::Left, Align::Left], &rows, width));
    let mut notes = String::new();
    if plan.covers_later && !plan.parameters.is_empty() {
        let fate = later_kernel(plan.loader.as_deref(), &plan.rule);
        notes.push_str(&format!("  A kernel that is installed later {fate}\n"));
    }
    if let Some(next) = &plan.next {
        notes.push_str(&format!("  Next boot, as things are now: {next}\n"));
    }
    text + &fold(&notes, width)
}

/// What happens to a kernel that is installed later.
fn later_kernel(loader: Option<&str>, rule: &KernelRule) -> String {
    match rule {
        _ if loader == Some("raspberry-pi") => {
            "gets them: all kernels share one command line".to_owned()
        }
        KernelRule::Realtime => "gets them if it is a PREEMPT_RT kernel".to_owned(),
        KernelRule::First => "gets them if it is the first one of the menu".to_owned(),
        KernelRule::Matching { glob } => format!("gets them if its version matches {glob}"),
    }
}

/// The parameters that the plan leaves out, and its warnings.
fn skipped_and_notes(plan: &BootPlan, width: usize) -> String {
    let mut text = String::new();
    let (off, skipped): (Vec<_>, Vec<_>) =
        plan.skipped.iter().partition(|it| it.reason.is_on_request());
    if !skipped.is_empty() {
        text.push_str("\nNot used\n");
        let rows: Vec<Vec<String>> =
            skipped.iter().map(|it| vec![it.name.clone(), it.reason.to_string()]).collect();
        text.push_str(&fit("  ", &[Align::Left, Align::Left], &rows, width));
    }
    if !off.is_empty() {
        let names: Vec<&str> = off.iter().map(|skip| skip.name.as_str()).collect();
        let names = format!("\nOff by default (--on NAME)\n  {}\n", names.join(", "));
        text.push_str(&fold(&names, width));
    }
    let warnings: Vec<String> = plan.warnings.iter().map(ToString::to_string).collect();
    text + &fold(&list_section("Note", &warnings), width)
}

/// The text of `cpushield boot apply`.
#[must_use]
pub fn boot_written_text(written: &WrittenParameters) -> String {
    let words = written.words.join(" ");
    if written.words.is_empty() {
        return "Nothing to write: the chosen kernels already have every parameter\n".to_owned();
    }
    let how = if written.files.is_empty() { "Already written" } else { "Written" };
    let mut text = format!("{how}: {words}\n  for {}\n", written.kernels.join(", "));
    for file in &written.files {
        text.push_str(&format!("  file: {file}\n"));
    }
    if let Some(next) = &written.next {
        let has = if written.next_has { "with them" } else { "without them" };
        text.push_str(&format!("Next boot, {has}: {next}\n"));
    }
    if let Some(choice) = written.choice.as_ref().filter(|_| !written.next_has) {
        text.push_str(&format!("  {choice}\n"));
    }
    text.push_str(&format!("  {}\n", written.menu));
    if let Some(trial) = &written.trial {
        text.push_str(&written_trial(trial));
    }
    text.push_str(match written.entry {
        Some(_) => "The entries without the parameters stay in the menu.\n",
        None => {
            "Every entry of the menu has the parameters now; --trial or --keep-default creates a \
             separate entry for them.\n"
        }
    });
    let reboot = reboot_command(written.trial.as_ref());
    text.push_str(&format!(
        "Next: {reboot}, then `cpushield boot status`. `cpushield boot undo` restores every byte.\n"
    ));
    text
}

/// `reboot`, with the argument that boots the entry of the trial where it needs one.
fn reboot_command(trial: Option<&TrialBoot>) -> String {
    match trial.and_then(|trial| trial.reboot.as_ref()) {
        Some(argument) => format!("reboot '{argument}'"),
        None => "reboot".to_owned(),
    }
}

fn written_trial(trial: &TrialBoot) -> String {
    let conclusion = match trial.unit {
        true => "a systemd unit concludes the trial after that boot",
        false => "after it, run `cpushield boot conclude`",
    };
    let mut text = format!(
        "Trial: {} boots once; {conclusion}. If the parameters are in force and a shield on CPU {} \
         holds, they stay. Otherwise the trial is undone. If that boot hangs, the next reset boots \
         the old entry.\n",
        trial.entry, trial.proves
    );
    if let Some(argument) = &trial.reboot {
        text.push_str(&format!(
            "Only `reboot '{argument}'` boots it; any other reboot undoes the trial.\n"
        ));
    }
    text
}

/// The text of `cpushield boot conclude`.
#[must_use]
pub fn boot_trial_text(end: &TrialEnd) -> String {
    let what = match end.end {
        SettledAs::Permanent => "The trial holds; the parameters are permanent now",
        SettledAs::TakenBack => "The trial did not hold; every boot file was restored",
    };
    format!("{what}: {}\n", end.why)
}

/// The text of `cpushield boot undo`.
#[must_use]
pub fn boot_undone_text(undone: Option<&RemovedParameters>) -> String {
    let Some(undone) = undone else {
        return "Nothing to undo: no boot parameters are written.\n".to_owned();
    };
    let mut text = "Boot files:\n".to_owned();
    for (file, fate) in &undone.files {
        let fate = match fate {
            FileFate::Restored => "restored",
            FileFate::AlreadySo => "already as it was before",
            FileFate::MadeAnew => "had changed since; regenerated without the parameters",
            FileFate::Drifted => "had changed since; left as it is",
        };
        text.push_str(&format!("  {file}: {fate}\n"));
    }
    undone.notes.iter().for_each(|note| text.push_str(&format!("  {note}\n")));
    text.push_str("The running kernel keeps its parameters until the next boot.\n");
    text
}

/// A line for the shield that every boot creates.
#[must_use]
pub fn enabled_text(enabled: &Enabled) -> String {
    format!("Enabled at every boot: cpushield {} ({})\n", enabled.words.join(" "), enabled.path)
}

/// The state of a trial, and the next command.
fn trial_text(trial: &TrialBoot, state: Option<&TrialState>) -> String {
    let entry = &trial.entry;
    let conclude = match trial.unit {
        true => "a systemd unit concludes it soon; by hand: cpushield boot conclude",
        false => "next: cpushield boot conclude",
    };
    match state {
        None | Some(TrialState::Armed) => {
            format!("Trial: {entry} has not booted yet; next: {}\n", reboot_command(Some(trial)))
        }
        Some(TrialState::NotTaken) => format!(
            "Trial: {entry} has not booted yet: the machine has booted since, but with another \
             entry; the next boot uses it\n"
        ),
        Some(TrialState::Booted) => {
            format!("Trial: this is the boot of {entry}, not concluded yet; {conclude}\n")
        }
        Some(TrialState::FellBack { since_s }) => {
            let since = since_s.map(|at| format!(" since {}", moment(at))).unwrap_or_default();
            let reason = match &trial.reboot {
                None => format!("{entry} was booted, but the boot failed"),
                Some(argument) => format!(
                    "either {entry} was booted and the boot failed, or the reboot was not \
             `reboot '{argument}'`"
                ),
            };
            format!(
                "Trial failed: {reason}. The machine fell back: another entry runs{since}.\n  the \
             last messages of that boot: journalctl --boot=-1 --dmesg, or /sys/fs/pstore\n  to \
             restore every boot file: {}\n",
                match trial.unit {
                    true => "a systemd unit does it soon; by hand: cpushield boot undo",
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
        text.push_str("cpushield has written no boot parameters.\n");
    } else {
        let mut rows =
            vec![["wanted", "written", "booted", "in force"].map(str::to_owned).to_vec()];
        rows.extend(status.words.iter().map(|word| {
            let force = match (word.in_force, &word.shows) {
                (Some(force), Some(shows)) => format!("{} ({shows})", yes_or_no(force)),
                _ => "not visible in the running kernel".to_owned(),
            };
            vec![word.word.clone(), yes_or_no(word.written), yes_or_no(word.booted), force]
        }));
        text.push_str(&lay_out("", &[Align::Left; 4], &rows));
        let kernels = status.kernels.join(", ");
        let kernels = if kernels.is_empty() { "none" } else { &kernels };
        text.push_str(&format!("Kernels whose boot entries have them: {kernels}\n"));
        if let Some(rule) = status.rule.as_ref().filter(|_| status.covers_later) {
            let fate = later_kernel(status.loader.as_deref(), rule);
            text.push_str(&format!("A kernel that is installed later {fate}\n"));
        }
    }
    if let Some(running) = &status.running {
        text.push_str(&format!("Running: {running}\n"));
    }
    match (&status.next, &status.loader) {
        (Some(next), _) => text.push_str(&format!("Next boot: {next}\n")),
        (None, None) => text.push_str("No boot loader that cpushield can write for was found.\n"),
        _ => {}
    }
    if let Some(trial) = &status.trial {
        text.push_str(&trial_text(trial, status.trial_state.as_ref()));
    }
    if let Some(end) = &status.last_trial {
        let what = match end.end {
            SettledAs::Permanent => "made permanent",
            SettledAs::TakenBack => "undone",
        };
        text.push_str(&format!("Last trial: {what}: {}\n", end.why));
    }
    text.extend(status.enabled.as_ref().map(enabled_text));
    status.differs.iter().for_each(|line| text.push_str(&format!("Warning: {line}\n")));
    for fault in &status.faults {
        text.push_str(&format!("Warning: {fault}; {}\n", fault.advice()));
    }
    text
}

fn yes_or_no(yes: bool) -> String {
    if yes { "yes" } else { "no" }.to_owned()
}
