//! How to repeat it: the commands that make the same documents and the same report, in a working
//! order, with the shield undone at the end.

use crate::documents::evidence::{Evidence, WatchOptions, WatchedWorkload};
use crate::documents::latency::LatencyMeasurement;
use crate::documents::load_done::requested_words;
use crate::load::COMMAND;
use crate::quote::quote_for_shell;
use crate::report::blocks::ReportBlock;
use crate::report::page::material::{
    LabelledDocument, PlanWithOutcome, ReportMaterial, WatchCommand, WatchWithVerdict,
};
use cpushield_linux::{CpuSet, SchedPolicy};

/// Stands for the command of a watched program.
const PROGRAM_ARGUMENT: &str = " -- PROGRAM";

/// The section.
pub(super) fn blocks(material: &ReportMaterial) -> Vec<ReportBlock> {
    let lines = recipe(material);
    if lines.is_empty() {
        return Vec::new();
    }
    let caption = "In a shell, as root; every document records its machine".to_owned();
    let mut blocks = vec![
        ReportBlock::Code { caption, text: lines.join("\n") },
        ReportBlock::Text(
            "Two runs never give the same figures. Repeat each measurement several times, \
             interleaved, and use `cpushield compare` to find significant differences."
                .to_owned(),
        ),
    ];
    let watched = material.observations.iter().map(|it| &it.document.evidence);
    let fixed = material.fixes.iter().filter_map(|it| it.document.rounds.first());
    if watched.chain(fixed.map(|round| &round.evidence)).any(starts_program) {
        blocks.push(ReportBlock::Text(
            "The documents do not contain the command of a watched program, because it may contain \
             secrets. Replace PROGRAM with that command."
                .to_owned(),
        ));
    }
    let experiments = !material.experiments.is_empty() || !material.searches.is_empty();
    if !material.comparisons.is_empty() || experiments {
        blocks.push(ReportBlock::Text(
            "These commands do not repeat comparisons and experiments: they need their own \
             measurements, or the matrix file of `cpushield experiment`."
                .to_owned(),
        ));
    }
    blocks
}

/// The commands in a working order: measurements without a shield, `apply`, measurements under the
/// shield, the report, `undo`.
fn recipe(material: &ReportMaterial) -> Vec<String> {
    let mut recipe = RecipeWriter::default();
    for machine in &material.machines {
        let file = recipe.save("machine", &machine.label);
        recipe.lines.push(format!("cpushield survey --json > {file}"));
    }
    let mut shields = material.shields();
    // What was measured without a shield comes first.
    shields.sort_unstable();
    let undone: Vec<String> = match material.has_several_shields() {
        false => recipe.shield(material).into_iter().collect(),
        true => {
            let parts = shields.into_iter().map(|name| material.of_shield(name));
            parts.filter_map(|part| recipe.shield(&part)).collect()
        }
    };
    if !recipe.lines.is_empty() {
        let report = recipe.report(material);
        recipe.lines.push(report);
    }
    recipe.lines.extend(undone.into_iter().rev());
    recipe.lines
}

/// Whether the settings are those of an active shield and not of a plan that was not applied.
fn was_applied(settings: Option<&LabelledDocument<PlanWithOutcome>>) -> bool {
    settings.is_some_and(|settings| !settings.document.outcomes.is_empty())
}

/// The lines so far, and the files that they write.
#[derive(Default)]
struct RecipeWriter {
    lines: Vec<String>,
    /// The label and the name of each file, in the order of the report.
    files: Vec<(String, String)>,
    /// How many shields the lines so far have applied.
    applied: usize,
}

/// A command that measures, without the redirection of its document.
struct MeasuringCommand<'a> {
    kind: &'static str,
    label: &'a str,
    command: String,
    /// Whether it starts a program, whose command is not recorded.
    program: bool,
    /// Whether it traces the kernel, which interrupts other shields.
    traces: bool,
}

impl RecipeWriter {
    /// Reserves a unique name for the file of a document: `verify-before.json`.
    fn save(&mut self, kind: &str, label: &str) -> String {
        let ending = if kind == "plan" { "plan" } else { "json" };
        let words: String = label
            .chars()
            .take(40)
            .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' })
            .collect();
        let words = words.trim_matches('-');
        let stem = match words.strip_prefix(kind) {
            _ if words.is_empty() => kind.to_owned(),
            Some(_) => words.to_owned(),
            None => format!("{kind}-{words}"),
        };
        let numbered = (2..).map(|n| format!("{stem}-{n}.{ending}"));
        let mut names = std::iter::once(format!("{stem}.{ending}")).chain(numbered);
        let name =
            names.find(|name| self.files.iter().all(|(_, known)| known != name)).unwrap_or(stem);
        self.files.push((label.to_owned(), name.clone()));
        name
    }

    /// Adds the commands for the documents of one shield. Returns the command that undoes it.
    fn shield(&mut self, material: &ReportMaterial) -> Option<String> {
        let kept = material.settings.iter().find(|settings| !settings.document.undone);
        let plan = kept.or(material.settings.first()).map(|settings| &settings.document.plan);
        let shield = plan.map(|plan| &plan.shield);
        let (before, shielded) = measurements(material, shield.is_some());
        let others = self.applied;
        for measurement in before {
            self.measure(&measurement, others);
        }
        for tried in material.settings.iter().filter(|settings| settings.document.undone) {
            let attempt = try_command(tried, material);
            let file = self.save("try", &tried.label);
            self.lines.push(format!("{attempt} --json > {file}"));
        }
        let needed = kept.is_some() || !shielded.is_empty();
        let applied = needed && (!shielded.is_empty() || material.live || was_applied(kept));
        if let Some(plan) = plan.filter(|_| needed) {
            let label = kept.map_or("shield", |settings| settings.label.as_str());
            let file = self.save("plan", label);
            let command = plan.shield.request_command("cpushield plan");
            self.lines.push(format!("{command} -o {file}"));
            if applied {
                self.lines.push(format!("cpushield apply {file}"));
                self.applied += 1;
            }
        }
        for measurement in shielded {
            self.measure(&measurement, others);
        }
        let shield = shield.filter(|_| applied)?;
        Some(shield.command("cpushield undo"))
    }

    /// Adds a measurement while as many other shields are active.
    fn measure(&mut self, measurement: &MeasuringCommand<'_>, others: usize) {
        let file = self.save(measurement.kind, measurement.label);
        let disturb = if measurement.traces && others > 0 { " --disturb" } else { "" };
        let program = if measurement.program { PROGRAM_ARGUMENT } else { "" };
        self.lines.push(format!("{}{disturb} --json{program} > {file}", measurement.command));
    }

    /// The command that makes the report of these files.
    fn report(&self, material: &ReportMaterial) -> String {
        let mut words = vec!["cpushield report".to_owned()];
        if let Some(title) = &material.title {
            words.push(format!("--title {}", quoted(title)));
        }
        let output = material.output.as_deref().filter(|file| *file != "-");
        words.extend(output.map(|file| format!("-o {}", quoted(file))));
        if !material.live {
            words.extend(self.files.iter().map(|(label, file)| {
                let stem = file.rsplit_once('.').map_or("", |(stem, _)| stem);
                // A label ends at the first `=` and has no slash.
                let bare = label.is_empty() || label == stem || label.contains(['=', '/']);
                if bare { file.clone() } else { quoted(&format!("{label}={file}")) }
            }));
        }
        words.join(" ")
    }
}

/// The measurements without a shield, and those under one.
fn measurements(
    material: &ReportMaterial,
    shield: bool,
) -> (Vec<MeasuringCommand<'_>>, Vec<MeasuringCommand<'_>>) {
    let mut all: Vec<(bool, MeasuringCommand<'_>)> = Vec::new();
    let observations = material
        .observations
        .iter()
        .filter(|observation| observation.document.origin == WatchCommand::Verify);
    let several = observations.clone().count() > 1;
    for (nth, observation) in observations.enumerate() {
        let label = observation.label.as_str();
        // Older evidence does not record whether there was a shield, but a latency measurement with
        // the same label does. Otherwise the first document is the one without a shield.
        let evidence = &observation.document.evidence;
        let recorded = evidence.machine.as_ref().map(|_| evidence.shield.is_some());
        let same_label = material.latencies.iter().find(|latency| latency.label == label);
        let shielded = recorded
            .or(same_label.map(|latency| is_shielded(&latency.document)))
            .unwrap_or(shield && (nth > 0 || !several));
        all.push((
            shielded,
            MeasuringCommand {
                kind: "verify",
                label,
                command: verify_command(&observation.document),
                program: starts_program(evidence),
                traces: true,
            },
        ));
    }
    for document in &material.latencies {
        let measurement = MeasuringCommand {
            kind: "latency",
            label: &document.label,
            command: latency_command(&document.document),
            program: false,
            traces: document.document.tracing.asked,
        };
        all.push((is_shielded(&document.document), measurement));
    }
    for document in &material.fixes {
        let rounds = document.document.rounds.first();
        let program = rounds.is_some_and(|round| starts_program(&round.evidence));
        let command = rounds.map(|round| format!("{} --fix", watch_command(&round.evidence)));
        let command = command.unwrap_or_else(|| "cpushield verify --fix".to_owned());
        all.push((
            shield,
            MeasuringCommand {
                kind: "fix",
                label: &document.label,
                command,
                program,
                traces: true,
            },
        ));
    }
    let (shielded, before): (Vec<_>, Vec<_>) = all.into_iter().partition(|(shielded, _)| *shielded);
    let [before, shielded] = [before, shielded]
        .map(|measurements| measurements.into_iter().map(|(_, command)| command).collect());
    (before, shielded)
}

/// Whether the measurement was made under a shield.
fn is_shielded(latency: &LatencyMeasurement) -> bool {
    latency.isolation.shield.is_some()
}

/// The command that tries a shield.
fn try_command(settings: &LabelledDocument<PlanWithOutcome>, material: &ReportMaterial) -> String {
    let command = settings.document.plan.shield.request_command("cpushield try");
    let observations = material
        .observations
        .iter()
        .filter(|observation| observation.document.origin == WatchCommand::Attempt);
    let asked_ns =
        observations.map(|observation| observation.document.evidence.asked_ns).find(|ns| *ns > 0);
    let span = asked_ns.map(|ns| format!(" --for {}", exact(ns))).unwrap_or_default();
    command + &span
}

/// The command that watches the CPUs of this evidence, without limits.
fn watch_command(evidence: &Evidence) -> String {
    let cpus: CpuSet = evidence.cpus.iter().map(|cpu| cpu.cpu).collect();
    let span = exact(if evidence.asked_ns > 0 { evidence.asked_ns } else { evidence.span_ns });
    let busy = match evidence.workload {
        WatchedWorkload::Cyclic => " --workload cyclic",
        WatchedWorkload::Given if !starts_program(evidence) => " --busy",
        WatchedWorkload::Sampler | WatchedWorkload::Given => "",
    };
    let options = evidence.options.as_ref().map(option_words).unwrap_or_default();
    format!("cpushield verify --cpus {cpus} --for {span}{busy}{options}")
}

/// The options of a watch, each with a space before it.
fn option_words(options: &WatchOptions) -> String {
    let mut words = format!(" --warmup {}", exact(options.warmup_ns));
    if options.syscalls {
        words.push_str(" --syscalls");
    }
    if options.stacks {
        words.push_str(" --stacks");
    }
    if let Some(before_ns) = options.before_breach_ns {
        words.push_str(&format!(" --stop-on-breach --before {}", exact(before_ns)));
    }
    if let Some(cgroup) = &options.cgroup {
        words.push_str(&format!(" --cgroup {}", quoted(cgroup)));
    }
    words
}

/// Whether the watch started a program.
fn starts_program(evidence: &Evidence) -> bool {
    evidence.options.as_ref().is_some_and(|options| options.started_program)
}

fn verify_command(observation: &WatchWithVerdict) -> String {
    let limits = observation.verdict.iter().flat_map(|verdict| &verdict.gates);
    let limits: String = limits.map(|gate| format!(" {}", gate.limit.option())).collect();
    watch_command(&observation.evidence) + &limits
}

fn latency_command(run: &LatencyMeasurement) -> String {
    let cpus: CpuSet = run.series.iter().map(|series| series.cpu).collect();
    let mut periods: Vec<u64> = run.series.iter().map(|series| series.period_ns).collect();
    periods.sort_unstable();
    periods.dedup();
    let mut words = format!(
        "cpushield latency {} --cpus {cpus} --for {} --warmup {}",
        quoted(&run.instrument),
        exact(run.asked_ns),
        exact(run.warmup_ns)
    );
    for period in periods.iter().filter(|period| **period > 0) {
        words.push_str(&format!(" --thread {}", exact(*period)));
    }
    // The thread of the shortest period has the highest priority.
    let first = run.series.iter().min_by_key(|series| series.period_ns);
    match first.map(|series| series.policy) {
        Some(SchedPolicy::Fifo { priority }) => words.push_str(&format!(" --fifo {priority}")),
        _ if periods.iter().any(|period| *period > 0) => words.push_str(" --other"),
        _ => {}
    }
    let limits: Vec<u64> = run
        .series
        .first()
        .map_or_else(Vec::new, |series| series.over.iter().map(|over| over.limit_ns).collect());
    words.extend(limits.iter().map(|ns| format!(" --over {}", exact(*ns))));
    for word in requested_words(&run.loads) {
        // A command may contain commas, which separate loads.
        words.push_str(&match word.split_once(':') {
            Some((COMMAND, command)) => format!(" --load-command {}", quoted(command)),
            _ => format!(" --load {}", quoted(&word)),
        });
    }
    if run.tracing.asked {
        words.push_str(" --why");
    }
    words.extend(run.gates.iter().map(|gate| format!(" {}", gate.limit.option())));
    words
}

/// A time in the form that the command line accepts: `10s`, `1ms`, `1500us`.
fn exact(ns: u64) -> String {
    let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")];
    let fits = units.into_iter().find(|(size, _)| ns > 0 && ns.is_multiple_of(*size));
    fits.map_or_else(|| format!("{ns}ns"), |(size, unit)| format!("{}{unit}", ns / size))
}

/// Quotes a word for a shell, on one line.
fn quoted(word: &str) -> String {
    quote_for_shell(&word.replace(char::is_control, "_"))
}
