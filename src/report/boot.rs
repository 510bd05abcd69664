//! The boot documents → blocks. Pure.

use super::blocks::{
    LineKind, ReportBlock, Table, TableCell, TableHead, TextLine, TextPart, TextTone,
};
use super::every_boot::enabled_line;
use super::lint::lint_blocks;
use super::moment::moment;
use crate::boot::loaders::BootFilePlan;
use crate::documents::boot::{
    BootPlan, BootStatus, EntryChange, FileFate, ForeignWord, KernelRule, KernelWords,
    ParameterSkipReason, RemovedParameters, SettledAs, SkippedParameter, TrialBoot, TrialEnd,
    TrialState, WrittenParameters,
};
use crate::documents::plan::named;

/// The blocks of `cpushield boot plan`.
#[must_use]
pub fn boot_plan_blocks(plan: &BootPlan) -> Vec<ReportBlock> {
    let title = TextLine::new(format!("Prepare {} at boot", named(&plan.cpus)));
    let why = plan.why.iter().map(|why| TextLine::new(why).below());
    let mut blocks = vec![ReportBlock::Lines([title].into_iter().chain(why).collect())];
    blocks.extend(parameters(plan));
    let substitutes = plan.parameters.iter().filter_map(|parameter| {
        let substitute = parameter.substitute.as_deref()?;
        let word = &parameter.word;
        Some(TextLine::new(format!("{word}: the tunable {substitute} does this at runtime")))
    });
    let title = "Without a reboot, on the running kernel";
    blocks.extend(ReportBlock::section(title, substitutes));
    blocks.extend(boot_menu(plan));
    let changes = plan.entries.iter().flat_map(entry_change);
    blocks.extend(ReportBlock::section("Command lines", changes));
    let spared = plan.spared.iter().map(|entry| {
        TextLine::new(format!("{} ({}): {}", entry.title, entry.place, entry.purpose))
    });
    blocks.extend(ReportBlock::section("Entries that never get the parameters", spared));
    blocks.extend(foreign_words(&plan.foreign));
    blocks.extend(skipped_and_notes(plan));
    let instructions = plan.instructions.iter().map(|line| match line.starts_with(' ') {
        // An indented line is a line of a file and must stay in one piece.
        true => TextLine::verbatim(line),
        false => TextLine::new(line),
    });
    blocks.extend(ReportBlock::section("By hand", instructions));
    blocks
}

/// The change of the command line of an entry, as a diff.
fn entry_change(change: &EntryChange) -> Vec<TextLine> {
    let EntryChange { title, place, removed, added, kept, .. } = change;
    let what = match change.is_copied {
        true => "a copy of this entry gets the new command line",
        false => "the command line changes",
    };
    let mut lines = vec![TextLine::new(format!("{title} ({place}): {what}"))];
    let diff = [
        (TextTone::Bad, "- ", removed.join(" ")),
        (TextTone::Good, "+ ", added.join(" ")),
        (TextTone::Plain, "  ", kept.clone()),
    ];
    for (tone, mark, words) in diff.into_iter().filter(|(.., words)| !words.is_empty()) {
        let parts = vec![TextPart { text: format!("{mark}{words}"), tone }];
        lines.push(TextLine { indent: 1, kind: LineKind::Verbatim, parts });
    }
    lines
}

/// The parameters that other programs have set, and how to remove them.
fn foreign_words(words: &[ForeignWord]) -> Vec<ReportBlock> {
    let lines = words.iter().map(TextLine::new);
    ReportBlock::section("Set by other programs or by hand", lines)
}

/// The parameters, and whether they are already in force.
fn parameters(plan: &BootPlan) -> Vec<ReportBlock> {
    let rows = plan.parameters.iter().map(|parameter| {
        let state = match (parameter.already, parameter.booted, &parameter.instead) {
            (true, ..) => "already there".to_owned(),
            (false, _, Some(other)) => format!("booted with {other}"),
            (false, true, None) => match parameter.in_force {
                Some(false) => "booted with it, but not in force (`survey --lint`)".to_owned(),
                Some(true) | None => "booted with it".to_owned(),
            },
            (false, false, None) => "not booted with it".to_owned(),
        };
        let only = match parameter.kernels.as_slice() {
            [] => String::new(),
            kernels => format!("; only for {}", kernels.join(", ")),
        };
        vec![
            TableCell::code(&parameter.word),
            TableCell::new(format!("{}{only}", parameter.reason)),
            TableCell::new(state),
        ]
    });
    let table = Table::new("Kernel parameters", ["parameter", "why", "state"], rows.collect());
    match table.with_head(TableHead::Caption).into_block() {
        Some(table) => vec![table],
        None => {
            let is_off = |it: &SkippedParameter| it.reason == ParameterSkipReason::SwitchedOff;
            let none = TextLine::new(match plan.skipped.iter().any(is_off) {
                true => "none apply to the chosen kernels, or they are switched off",
                false => "none apply to the chosen kernels",
            });
            ReportBlock::section("Kernel parameters", vec![none])
        }
    }
}

fn boot_menu(plan: &BootPlan) -> Vec<ReportBlock> {
    let Some(loader) = &plan.loader else {
        let none = TextLine::new("No boot loader that cpushield supports was found");
        return vec![ReportBlock::Space, ReportBlock::line(none)];
    };
    let rows = plan.kernels.iter().map(|kernel| {
        let kind = match (kernel.realtime_kind, kernel.realtime) {
            (Some(kind), _) => kind.to_string(),
            (None, Some(_)) => String::new(),
            (None, None) => "configuration unknown".to_owned(),
        };
        let gets_one = plan.parameters.iter().any(|it| it.is_for(&kernel.version));
        let fate = match kernel.chosen && gets_one {
            true => "gets the parameters",
            false => "stays as it is",
        };
        let name = match &kernel.release {
            Some(release) if *release != kernel.version => {
                format!("{} ({release})", kernel.version)
            }
            _ => kernel.version.clone(),
        };
        vec![TableCell::new(name), TableCell::new(fate), TableCell::new(kind)]
    });
    let title = format!("Kernels in the boot menu ({loader})");
    let table = Table::new(title, ["kernel", "what happens to it", "kind"], rows.collect())
        .with_head(TableHead::Caption);
    let mut notes = Vec::new();
    if plan.covers_later && !plan.parameters.is_empty() {
        let is_mixed = plan.parameters.iter().any(|it| !it.kernels.is_empty());
        let needs = plan.parameters.iter().any(|it| it.word.starts_with("nohz_full="));
        let fate = later_kernel(plan.loader.as_deref(), &plan.rule, (is_mixed, needs));
        notes.push(format!("A kernel that is installed later {fate}"));
    }
    notes
        .extend(plan.next.iter().map(|next| format!("Next boot, without further changes: {next}")));
    let notes = notes.into_iter().map(|note| TextLine::new(note).below()).collect();
    vec![ReportBlock::Table(table), ReportBlock::Lines(notes)]
}

/// What happens to a kernel that is installed later: whether not all kernels get the same, and
/// whether only those with `nohz_full=` get anything.
fn later_kernel(
    loader: Option<&str>,
    rule: &KernelRule,
    (is_mixed, needs_nohz_full): (bool, bool),
) -> String {
    let option = match (is_mixed, needs_nohz_full) {
        (true, _) => "; CONFIG_NO_HZ_FULL decides which ones",
        (false, true) => " and has CONFIG_NO_HZ_FULL",
        (false, false) => "",
    };
    match rule {
        _ if loader == Some("raspberry-pi") => {
            "gets them: all kernels share one command line".to_owned()
        }
        KernelRule::Realtime => format!("gets them if it is a real-time kernel{option}"),
        KernelRule::First => format!("gets them if it is the first one in the menu{option}"),
        KernelRule::Matching { glob } => format!("gets them if its version matches {glob}{option}"),
    }
}

/// The parameters that the plan leaves out, and its warnings.
fn skipped_and_notes(plan: &BootPlan) -> Vec<ReportBlock> {
    let (off, skipped): (Vec<_>, Vec<_>) =
        plan.skipped.iter().partition(|it| it.reason.is_on_request());
    let rows = skipped.iter().map(|it| vec![TableCell::new(&it.name), TableCell::new(&it.reason)]);
    let table = Table::new("Not used", ["parameter", "why it is not used"], rows.collect())
        .with_head(TableHead::Caption);
    let mut blocks: Vec<ReportBlock> = table.into_block().into_iter().collect();
    let names: Vec<&str> = off.iter().map(|skip| skip.name.as_str()).collect();
    let names = (!names.is_empty()).then(|| TextLine::new(names.join(", ")));
    let title = "Off by default (--on NAME)";
    blocks.extend(ReportBlock::section(title, names));
    let warnings = plan.warnings.iter().map(TextLine::new);
    blocks.extend(ReportBlock::section("Note", warnings));
    blocks
}

/// The blocks of `cpushield boot apply`.
#[must_use]
pub fn boot_written_blocks(written: &WrittenParameters) -> Vec<ReportBlock> {
    if written.words.is_empty() {
        let nothing = "Nothing to write: the chosen kernels already have every parameter";
        return vec![ReportBlock::line(TextLine::new(nothing))];
    }
    let how = if written.files.is_empty() { "Already written" } else { "Written" };
    let mut lines = Vec::new();
    for KernelWords { kernels, words } in written.groups.iter().filter(|it| !it.words.is_empty()) {
        lines.push(TextLine::new(format!("{how}: {}", words.join(" "))));
        lines.push(TextLine::new(format!("for {}", kernels.join(", "))).below());
    }
    if !written.replaced.is_empty() {
        let how = match written.trial {
            Some(_) => "kept until the trial has passed",
            None => "instead of",
        };
        let replaced = format!("{how}: {}", written.replaced.join(" "));
        lines.push(TextLine::new(replaced).below());
    }
    let files = written.files.iter();
    lines.extend(files.map(|file| TextLine::new(format!("file: {file}")).below()));
    if let Some(next) = &written.next {
        let has = if written.next_has { "with the parameters" } else { "without the parameters" };
        lines.push(TextLine::new(format!("Next boot, {has}: {next}")));
    }
    let choice = written.choice.iter().filter(|_| !written.next_has);
    lines.extend(choice.chain([&written.menu]).map(|text| TextLine::new(text).below()));
    lines.extend(written.trial.iter().flat_map(written_trial));
    lines.push(TextLine::new(match written.entry {
        Some(_) if written.trial.is_some() => "The other menu entries stay as they are.",
        Some(_) => "The entries without the parameters stay in the menu.",
        None if !written.entries_without.is_empty() => {
            "The entries of the chosen kernels have the parameters; --trial or --keep-default \
             creates a separate entry for them."
        }
        None => {
            "Every menu entry now has the parameters; --trial or --keep-default creates a separate \
             entry for them."
        }
    }));
    lines.extend(titles("Menu entries without the parameters", &written.entries_without));
    let reboot = reboot_command(written.trial.as_ref());
    lines.push(TextLine::new(format!(
        "Next: {reboot}, then `cpushield boot status`. `cpushield boot undo` restores the original \
         files."
    )));
    vec![ReportBlock::Lines(lines)]
}

/// The titles of some entries of the menu; nothing without any.
fn titles(what: &str, titles: &[String]) -> Vec<TextLine> {
    let head = (!titles.is_empty()).then(|| TextLine::new(format!("{what}:")));
    head.into_iter().chain(titles.iter().map(|title| TextLine::new(title).below())).collect()
}

/// `reboot`, with the argument that boots the entry of the trial where it needs one.
fn reboot_command(trial: Option<&TrialBoot>) -> String {
    match trial.and_then(|trial| trial.reboot.as_ref()) {
        Some(argument) => format!("reboot '{argument}'"),
        None => "reboot".to_owned(),
    }
}

fn written_trial(trial: &TrialBoot) -> Vec<TextLine> {
    let conclusion = match trial.unit {
        true => "a systemd unit concludes the trial after that boot",
        false => "after it, run `cpushield boot conclude`",
    };
    let fall_back = match (trial.unit, trial.until) {
        (false, _) => Some(
            "This machine does not use systemd, so it does not boot the old entry by itself: if \
             it cannot be reached in that boot, reset it."
                .to_owned(),
        ),
        (true, until) => until.map(|until| {
            format!(
                "If {} does not come up within {} s of that boot, the machine boots the old entry \
                 again by itself.",
                until.goal, until.within_s
            )
        }),
    };
    let mut lines = vec![TextLine::new(format!(
        "Trial: {} boots once; {conclusion}. The parameters stay if they are in force and a shield \
         on CPU {} holds. Otherwise the trial is undone. If that boot hangs, the next reset boots \
         the old entry.",
        trial.entry, trial.proves
    ))];
    lines.extend(fall_back.map(TextLine::new));
    lines.extend(trial.reboot.iter().map(|argument| {
        TextLine::new(format!(
            "Only `reboot '{argument}'` boots this entry; any other reboot undoes the trial."
        ))
    }));
    lines
}

/// The blocks of `cpushield boot conclude`.
#[must_use]
pub fn boot_trial_blocks(end: &TrialEnd) -> Vec<ReportBlock> {
    let (tone, what) = match end.end {
        SettledAs::Permanent => {
            (TextTone::Good, "The trial passed; the parameters are now permanent")
        }
        SettledAs::TakenBack => (TextTone::Bad, "The trial failed; every boot file was restored"),
    };
    vec![ReportBlock::line(TextLine::remark(tone, what, &end.why))]
}

/// The blocks of `cpushield boot undo`.
#[must_use]
pub fn boot_undone_blocks(undone: Option<&RemovedParameters>) -> Vec<ReportBlock> {
    let Some(undone) = undone else {
        let nothing = TextLine::new("Nothing to undo: no boot parameters are written.");
        return vec![ReportBlock::line(nothing)];
    };
    let mut lines = vec![TextLine::new("Boot files:")];
    lines.extend(undone.files.iter().map(|(file, fate)| {
        let fate = match fate {
            FileFate::Restored => "restored",
            FileFate::AlreadySo => "already in its original state",
            FileFate::Removed => "removed; it did not exist before",
            FileFate::WordsRemoved => "had changed since; only the parameters were removed",
            FileFate::Regenerated => "had changed since; regenerated without the parameters",
            FileFate::Drifted => "had changed since; left as it is",
        };
        TextLine::new(format!("{file}: {fate}")).below()
    }));
    lines.extend(undone.notes.iter().map(|note| TextLine::new(note).below()));
    lines.push(TextLine::new("The running kernel keeps its parameters until the next boot."));
    vec![ReportBlock::Lines(lines)]
}

/// The state of a trial, and the next command.
fn trial_lines(trial: &TrialBoot, state: Option<&TrialState>) -> Vec<TextLine> {
    let entry = &trial.entry;
    let conclude = match trial.unit {
        true => "a systemd unit concludes it soon; by hand: cpushield boot conclude",
        false => "next: cpushield boot conclude",
    };
    let text = match state {
        None | Some(TrialState::Armed) => {
            format!("Trial: {entry} has not booted yet; next: {}", reboot_command(Some(trial)))
        }
        Some(TrialState::NotTaken) => format!(
            "Trial: {entry} has not booted yet: the machine has booted since, but with another \
             entry; the next boot uses the trial's entry"
        ),
        Some(TrialState::Booted) => {
            format!(
                "Trial: the machine has booted {entry}, but the trial is not concluded yet; \
                 {conclude}"
            )
        }
        Some(TrialState::FellBack { since_s }) => return failed_trial(trial, *since_s),
    };
    vec![TextLine::new(text)]
}

/// A trial whose entry did not boot, and how to restore the files.
fn failed_trial(trial: &TrialBoot, since_s: Option<u64>) -> Vec<TextLine> {
    let entry = &trial.entry;
    let fell = match since_s {
        Some(at) => format!("has run another entry since {}", moment(at)),
        None => "runs another entry".to_owned(),
    };
    let reason = match &trial.reboot {
        None => format!("{entry} was booted, but the boot failed"),
        Some(argument) => format!(
            "either {entry} was booted and the boot failed, or the reboot was not \
             `reboot '{argument}'`"
        ),
    };
    let restore = match trial.unit {
        true => "a systemd unit restores every boot file soon; by hand: cpushield boot undo",
        false => "to restore every boot file: cpushield boot undo",
    };
    let fell = format!("{reason}. The machine fell back and {fell}.");
    let messages =
        "the last messages of that boot: journalctl --boot=-1 --dmesg, or /sys/fs/pstore";
    vec![
        TextLine::remark(TextTone::Bad, "Trial failed", fell),
        TextLine::new(messages).below(),
        TextLine::new(restore).below(),
    ]
}

/// The blocks of `cpushield boot status`.
#[must_use]
pub fn boot_status_blocks(status: &BootStatus) -> Vec<ReportBlock> {
    let mut lines = Vec::new();
    if status.words.is_empty() {
        lines.push(TextLine::new(
            "cpushield has written no boot parameters. To see which ones it would write: \
             cpushield boot plan",
        ));
    } else {
        let kernels = status.kernels.join(", ");
        let kernels = if kernels.is_empty() { "none" } else { &kernels };
        lines.push(TextLine::new(format!(
            "Kernels whose boot entries have the parameters: {kernels}"
        )));
        let groups = status.groups.iter().filter(|_| status.groups.len() > 1);
        lines.extend(groups.map(|group| {
            let (kernels, words) = (group.kernels.join(", "), group.words.join(" "));
            TextLine::new(format!("{kernels}: {words}")).below()
        }));
        lines.extend(titles("Menu entries with the parameters", &status.entries_with));
        lines.extend(titles("Menu entries without the parameters", &status.entries_without));
        if let Some(rule) = status.rule.as_ref().filter(|_| status.covers_later) {
            let mut words = status.words.iter();
            let has_nohz_full = words.any(|it| it.word.starts_with("nohz_full="));
            let needs = (status.groups.len() > 1, has_nohz_full);
            let fate = later_kernel(status.loader.as_deref(), rule, needs);
            lines.push(TextLine::new(format!("A kernel that is installed later {fate}")));
        }
    }
    lines.extend(status.running.iter().map(|name| TextLine::new(format!("Running: {name}"))));
    match (&status.next, &status.loader) {
        (Some(next), _) => lines.push(TextLine::new(format!("Next boot: {next}"))),
        (None, None) => {
            lines.push(TextLine::new("No boot loader that cpushield supports was found."));
        }
        _ => {}
    }
    if let Some(trial) = &status.trial {
        lines.extend(trial_lines(trial, status.trial_state.as_ref()));
    }
    if let Some(end) = &status.last_trial {
        let what = match end.end {
            SettledAs::Permanent => "made permanent",
            SettledAs::TakenBack => "undone",
        };
        lines.push(TextLine::new(format!("Last trial: {what}: {}", end.why)));
    }
    lines.extend(status.enabled.as_ref().map(enabled_line));
    let differs = status.differs.iter().map(ToString::to_string);
    lines.extend(differs.map(|text| TextLine::remark(TextTone::Doubt, "Warning", text)));
    let words = boot_words(status).into_block();
    let blocks = words.into_iter().chain([ReportBlock::Lines(lines)]).chain(history(status));
    let foreign = foreign_words(&status.foreign);
    blocks.chain(foreign).chain(lint_blocks(&status.findings)).collect()
}

/// The changes of the parameters since the boot files had their original text.
fn history(status: &BootStatus) -> Vec<ReportBlock> {
    let lines = status.history.iter().flat_map(|change| {
        let before = match change.before.is_empty() {
            true => "no parameters".to_owned(),
            false => change.before.join(" "),
        };
        let (at, after) = (moment(change.at_s), change.after.join(" "));
        [
            TextLine::new(format!("{at}: {before} → {after}")),
            TextLine::new(format!("for {}", change.kernels.join(", "))).below(),
            TextLine::new(format!("files: {}", change.files.join(", "))).below(),
        ]
    });
    ReportBlock::section(
        "Changes (`boot undo` restores the files from before the first change)",
        lines,
    )
}

/// The parameters that cpushield has written, and whether they are in force.
fn boot_words(status: &BootStatus) -> Table {
    let rows = status.words.iter().map(|word| {
        let force = match (word.in_force, &word.shows) {
            (Some(true), Some(shows)) => TableCell::toned(TextTone::Good, format!("yes ({shows})")),
            (Some(false), Some(shows)) => TableCell::toned(TextTone::Bad, format!("no ({shows})")),
            _ => TableCell::toned(TextTone::Doubt, "not visible in the running kernel"),
        };
        let [written, booted] = [word.written, word.booted].map(Some).map(TableCell::yes_or_no);
        vec![TableCell::code(&word.word), written, booted, force]
    });
    Table::new("Boot parameters", ["wanted", "written", "booted", "in force"], rows.collect())
        .with_head(TableHead::Names)
}

/// The blocks of `cpushield boot apply --dry-run`: the files to write. `None`: there are none.
#[must_use]
pub fn boot_recipe_blocks(recipe: Option<&BootFilePlan>) -> Vec<ReportBlock> {
    let Some(recipe) = recipe else {
        let nothing = "# nothing to write: every parameter is already present";
        return vec![ReportBlock::line(TextLine::new(nothing))];
    };
    let mut lines = vec!["# dry run: nothing was changed".to_owned()];
    for edit in &recipe.edits {
        lines.push(format!("# {} (mode {:o}):", edit.path, edit.mode));
        lines.extend(String::from_utf8_lossy(&edit.bytes).lines().map(str::to_owned));
    }
    lines.extend(recipe.removed.iter().map(|path| format!("# removed: {path}")));
    lines
        .extend(recipe.generated.iter().map(|path| format!("# would then be regenerated: {path}")));
    vec![ReportBlock::Lines(lines.into_iter().map(TextLine::verbatim).collect())]
}
