//! `docs/tunables.md`, `docs/boot.md`, `docs/causes.md` and `docs/witnesses.md` from the catalogues
//! in the tool, and the schemas of `--json` output from the definitions of the documents.

use cpushield::boot::parameters::{PARAMETERS, ParameterOffer};
use cpushield::causes::Cause;
use cpushield::causes::topics::TOPICS;
use cpushield::change::EffectTime;
use cpushield::cli::report::DocumentBundle;
use cpushield::cli::verify::VerifyOutput;
use cpushield::compare::Comparison;
use cpushield::experiment::Experiment;
use cpushield::latency::LatencyMeasurement;
use cpushield::live::LiveFrame;
use cpushield::policy::Workload;
use cpushield::report::fix_report::FixReport;
use cpushield::tunables::{TUNABLES, Tunable, removers};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use std::io;
use std::path::Path;

const NOTE: &str = "<!-- Made by `cargo xtask docs` from the catalogue; do not edit. -->";

/// Writes all files below a directory.
pub fn write(dir: &Path) -> io::Result<()> {
    for (name, text) in files() {
        std::fs::write(dir.join(name), text)?;
    }
    Ok(())
}

/// Names and texts of the generated documents.
fn files() -> [(&'static str, String); 11] {
    [
        ("tunables.md", tunables()),
        ("boot.md", boot()),
        ("causes.md", causes()),
        ("witnesses.md", witnesses()),
        ("verify.schema.json", schema::<VerifyOutput<'_>>("cpushield verify --json")),
        ("fix.schema.json", schema::<FixReport>("cpushield verify --fix --json")),
        ("latency.schema.json", schema::<LatencyMeasurement>("cpushield latency --json")),
        ("experiment.schema.json", schema::<Experiment>("cpushield experiment --json")),
        ("compare.schema.json", schema::<Comparison>("cpushield compare --json")),
        ("report.schema.json", schema::<DocumentBundle<'_>>("cpushield report --json")),
        ("watch.schema.json", schema::<LiveFrame>("A line of cpushield watch --json")),
    ]
}

/// The schema of a document as it is written: fields that are always present are required.
fn schema<T: JsonSchema>(title: &str) -> String {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    schema.insert("title".to_owned(), title.into());
    // Links of rustdoc have no target here.
    let mut text = format!("{:#}", schema.as_value()).replace("[`", "`").replace("`]", "`");
    text.push('\n');
    text
}

fn tunables() -> String {
    let mut text = format!(
        "# Tunables\n\n{NOTE}\n\nThe settings that cpushield changes, in the order of the changes. \
         `cpushield explain NAME` shows the same page. `--on NAME` and `--off NAME` of `plan`, \
         `apply` and `try`, or the table `[shield.NAME.tunables]` of a policy file, enable or \
         disable one. `cpushield undo` undoes every change.\n\n\
         | tunable | what it does | used |\n|---|---|---|\n"
    );
    for tunable in TUNABLES {
        let name = tunable.name();
        text.push_str(&format!(
            "| [{name}](#{name}) | {} | {} |\n",
            tunable.summary(),
            done(*tunable)
        ));
    }
    for tunable in TUNABLES {
        let causes: Vec<String> =
            tunable.removes().iter().map(|cause| format!("[{cause}](causes.md#{cause})")).collect();
        let removes = if causes.is_empty() { "nothing".to_owned() } else { causes.join(", ") };
        text.push_str(&format!(
            "\n## {}\n\n{}\n\nRemoves: {removes}. Risk: {}. Used: {}.\n",
            tunable.name(),
            tunable.page(),
            tunable.risk().word(),
            done(*tunable)
        ));
    }
    text
}

/// The files that parameters are written to, for `docs/boot.md`.
const LOADERS: &str = include_str!("loaders.md");

/// What observes each class of entries, for `docs/witnesses.md`.
const WITNESSES: &str = include_str!("witnesses.md");

fn witnesses() -> String {
    let table = cpushield::verify::table_of_classes();
    format!("# Witnesses of `verify`\n\n{NOTE}\n\n{WITNESSES}\n{table}")
}

fn boot() -> String {
    let mut text = format!(
        "# Kernel parameters\n\n{NOTE}\n\nThe parameters that `cpushield boot plan` shows and \
         `boot apply` writes for the next boot. `cpushield explain NAME` shows the same page. \
         `--on NAME` and `--off NAME` enable or disable one. `cpushield boot undo` removes all of \
         them.\n\n\
         {LOADERS}\n\
         | parameter | kernel parameter | what it does | used |\n|---|---|---|---|\n"
    );
    for parameter in PARAMETERS {
        let given = match parameter.offer {
            ParameterOffer::Always => "always".to_owned(),
            ParameterOffer::ForNamedCpus => "with `--cpus`, `--count` and the like".to_owned(),
            ParameterOffer::OnRequest(why) => format!("when asked for: {why}"),
            ParameterOffer::Never(why) => format!("never: {why}"),
        };
        let (name, keyword) = (parameter.name, parameter.keyword);
        let summary = parameter.summary;
        text.push_str(&format!("| [{name}](#{name}) | `{keyword}` | {summary} | {given} |\n"));
    }
    for parameter in PARAMETERS {
        let instead = parameter.substitute.map(|it| format!(" At runtime: `{it}`."));
        text.push_str(&format!(
            "\n## {}\n\n{}\n\nRisk: {}.{}\n",
            parameter.name,
            parameter.page,
            parameter.risk.word(),
            instead.unwrap_or_default()
        ));
    }
    text
}

/// The workloads for which it is used by default.
fn done(tunable: &dyn Tunable) -> String {
    if tunable.when() == EffectTime::Boot {
        return "at boot, by the user".to_owned();
    }
    let workloads =
        [(Workload::Polling, "polling"), (Workload::Cyclic, "cyclic"), (Workload::Vm, "vm")];
    let unasked: Vec<&str> = workloads
        .iter()
        .filter(|(workload, _)| tunable.optional(*workload).is_none())
        .map(|(_, name)| *name)
        .collect();
    match unasked.len() {
        3 => "always".to_owned(),
        0 => "only when requested".to_owned(),
        _ => format!("for {} workloads", unasked.join(" and ")),
    }
}

fn causes() -> String {
    let mut text = format!(
        "# Causes of interruptions\n\n{NOTE}\n\nEverything that can run on a CPU instead of the \
         workload's own code, as `verify` counts it. `cpushield explain NAME` shows the same \
         page.\n\n\
         | cause | what it is | removed by |\n|---|---|---|\n"
    );
    let by = |cause: Cause| {
        let names: Vec<String> =
            removers(cause).iter().map(|name| format!("[{name}](tunables.md#{name})")).collect();
        if names.is_empty() { "no tunable".to_owned() } else { names.join(", ") }
    };
    for cause in Cause::ALL {
        text.push_str(&format!("| [{cause}](#{cause}) | {} | {} |\n", cause.summary(), by(*cause)));
    }
    for topic in TOPICS {
        let (name, summary) = (topic.name, topic.summary);
        text.push_str(&format!("| [{name}](#{name}) | {summary} | see its page |\n"));
    }
    for cause in Cause::ALL {
        text.push_str(&format!(
            "\n## {cause}\n\n{}\n\nRemoved by: {}.\n",
            cause.page(),
            by(*cause)
        ));
    }
    for topic in TOPICS {
        text.push_str(&format!("\n## {}\n\n{}\n", topic.name, topic.text));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_documents_are_up_to_date() {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
        for (name, text) in files() {
            let found = std::fs::read_to_string(docs.join(name)).unwrap_or_default();
            assert!(found == text, "docs/{name} is out of date: run `cargo xtask docs`");
        }
    }
}
