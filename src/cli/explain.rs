//! `cpushield explain`: the page of a tunable, a cause, an instrument or a load, and the way from
//! one to the other.

use crate::boot::parameters::{self, PARAMETERS, Parameter};
use crate::causes::Cause;
use crate::causes::known::{self, Known};
use crate::change::{Risk, When};
use crate::failure::Failure;
use crate::latency::{INSTRUMENTS, Instrument, instruments};
use crate::load::{self, KINDS, kinds};
use crate::report::table::{Align, lay_out};
use crate::tunables::{TUNABLES, Tunable, named, nearest, removers};
use crate::ui::Ui;
use serde::Serialize;
use std::borrow::Cow;

/// What a tunable does, or a cause of interruptions means
///
/// Without a name: lists all.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A tunable (`irq-affinity`), a cause (`tick`), a culprit of the kernel (`vmstat_update`),
    /// an instrument (`latency-timer`) or a load (`load-messages`)
    pub name: Option<String>,
}

const POLICY: &str = "\
/etc/cpushield/policy.toml says what is to be shielded: `[shield.NAME]` with `cpus` or `count`, the
workload, tunables forced on or off, and the limits that `verify` gates on. `plan`, `apply` and
`try` read it when no flag says which CPUs; `--policy FILE` reads another one, and flags win over
the file. docs/policy.md has every key.

The policy of a thread that `status` shows is another thing: how the kernel schedules it
(sched(7)).";

/// One page.
#[derive(Debug, Serialize)]
struct Page {
    name: Cow<'static, str>,
    kind: &'static str,
    summary: &'static str,
    text: &'static str,
    /// Causes that a tunable removes.
    #[serde(skip_serializing_if = "Option::is_none")]
    removes: Option<Vec<&'static str>>,
    /// Tunables and parameters that remove a cause.
    #[serde(skip_serializing_if = "Option::is_none")]
    removed_by: Option<Vec<&'static str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    risk: Option<Risk>,
    #[serde(skip_serializing_if = "Option::is_none")]
    when: Option<When>,
}

/// Runs it.
///
/// # Errors
/// There is no such name.
pub fn run(ui: &Ui, args: &Args) -> Result<(), Failure> {
    let Some(name) = &args.name else {
        let pages = pages();
        return ui.show(&pages, || list(&pages));
    };
    let name = led(name);
    let page = named(name)
        .map(page_of_tunable)
        .or_else(|| parameters::named(name).map(page_of_parameter))
        .or_else(|| Cause::named(name).map(page_of_cause))
        .or_else(|| known::of(name).map(page_of_culprit))
        .or_else(|| {
            name.strip_prefix("latency-").and_then(instruments::by_name).map(page_of_instrument)
        })
        .or_else(|| name.strip_prefix("load-").and_then(kinds::by_name).map(page_of_load))
        .or_else(|| (name == "policy").then(page_of_policy))
        .ok_or_else(|| unknown(name))?;
    ui.show(&page, || page.text())
}

fn pages() -> Vec<Page> {
    let tunables = TUNABLES.iter().copied().map(page_of_tunable);
    let parameters = only_at_boot().map(page_of_parameter);
    let causes = Cause::ALL.iter().copied().map(page_of_cause);
    let instruments = INSTRUMENTS.iter().copied().map(page_of_instrument);
    let loads = KINDS.iter().copied().map(page_of_load);
    tunables.chain(parameters).chain(causes).chain(instruments).chain(loads).collect()
}

fn page_of_tunable(tunable: &dyn Tunable) -> Page {
    Page {
        name: tunable.name().into(),
        kind: "tunable",
        summary: tunable.summary(),
        text: tunable.page(),
        removes: Some(tunable.removes().iter().map(|cause| cause.name()).collect()),
        removed_by: None,
        risk: Some(tunable.risk()),
        when: Some(tunable.when()),
    }
}

/// Parameters that are no tunables of the running kernel's plan too.
fn only_at_boot() -> impl Iterator<Item = &'static Parameter> {
    PARAMETERS.iter().copied().filter(|parameter| named(parameter.name).is_none())
}

fn page_of_parameter(parameter: &'static Parameter) -> Page {
    Page {
        name: parameter.name.into(),
        kind: "boot parameter",
        summary: parameter.summary,
        text: parameter.page,
        removes: Some(parameter.removes.iter().map(|cause| cause.name()).collect()),
        removed_by: None,
        risk: Some(parameter.risk),
        when: Some(When::Boot),
    }
}

/// A culprit has a line, and the tunables that are about it by name.
fn page_of_culprit(known: &'static Known) -> Page {
    let about =
        |tunable: &&&dyn Tunable| tunable.culprits().iter().any(|part| known.name.contains(part));
    Page {
        name: known.name.into(),
        kind: "culprit",
        summary: known.what,
        text: known.source,
        removes: None,
        removed_by: Some(TUNABLES.iter().filter(about).map(|tunable| tunable.name()).collect()),
        risk: None,
        when: None,
    }
}

/// The name of the page that a word of the screens leads to: a boot parameter, with its value or
/// without, what `verify` measures, or whom it names.
fn led(word: &str) -> &str {
    let (parameter, value) = word.split_once('=').unwrap_or((word, ""));
    match parameter {
        "isolcpus" if value.starts_with("managed_irq") => "irq-affinity",
        "managed_irq" => "irq-affinity",
        "isolcpus" => "cpuset",
        "nohz_full" => "nohz-full",
        "rcu_nocbs" => "rcu-nocbs",
        "gap" | "gaps" => "smi",
        // Culprits of `verify`'s table that have no page of their own.
        _ if word.starts_with("IRQ ") => "irq",
        _ if word.starts_with("kworker/") => "workqueue",
        _ if word.starts_with("SIG") => "signal",
        _ => word,
    }
}

fn page_of_policy() -> Page {
    Page {
        name: "policy".into(),
        kind: "file",
        summary: "what you want shielded, kept in a file",
        text: POLICY,
        removes: None,
        removed_by: None,
        risk: None,
        when: None,
    }
}

fn page_of_instrument(instrument: &'static dyn Instrument) -> Page {
    Page {
        // A cause may have the same name.
        name: format!("latency-{}", instrument.name()).into(),
        kind: "instrument",
        summary: instrument.summary(),
        text: instrument.page(),
        removes: None,
        removed_by: None,
        risk: None,
        when: None,
    }
}

fn page_of_load(kind: &'static dyn load::Kind) -> Page {
    Page {
        name: format!("load-{}", kind.name()).into(),
        kind: "load",
        summary: kind.summary(),
        text: kind.page(),
        removes: None,
        removed_by: None,
        risk: None,
        when: None,
    }
}

fn page_of_cause(cause: Cause) -> Page {
    let mut removed_by = removers(cause);
    if cause == Cause::Irq {
        removed_by.push("isolcpus=managed_irq (at boot)");
    }
    Page {
        name: cause.name().into(),
        kind: "cause",
        summary: cause.summary(),
        text: cause.page(),
        removes: None,
        removed_by: Some(removed_by),
        risk: None,
        when: None,
    }
}

impl Page {
    fn text(&self) -> String {
        let mut text = format!("{} ({}): {}\n\n", self.name, self.kind, self.summary);
        for paragraph in self.text.split("\n\n") {
            text.push_str(&wrapped(paragraph));
            text.push('\n');
        }
        let named = |title: &str, names: &[&str]| match names {
            [] => format!("{title}: nothing\n"),
            names => format!("{title}: {}\n", names.join(", ")),
        };
        if let Some(causes) = &self.removes {
            text.push_str(&named("removes", causes));
        }
        if let Some(tunables) = &self.removed_by {
            text.push_str(&named("removed by", tunables));
        }
        if let Some(risk) = self.risk {
            text.push_str(&format!("risk: {}\n", risk.word()));
        }
        text
    }
}

/// A paragraph in lines of at most 80 columns; lists keep their lines.
fn wrapped(paragraph: &str) -> String {
    let mut text = String::new();
    let mut column = 0;
    for line in paragraph.lines() {
        if line.starts_with("* ") && column > 0 {
            text.push('\n');
            column = 0;
        }
        for word in line.split_whitespace() {
            let width = word.chars().count();
            if column > 0 && column + 1 + width > 80 {
                text.push('\n');
                column = 0;
            }
            if column > 0 {
                text.push(' ');
                column += 1;
            }
            text.push_str(word);
            column += width;
        }
    }
    text.push('\n');
    text
}

fn list(pages: &[Page]) -> String {
    let rows = |kind: &str| {
        let of_kind = pages.iter().filter(|page| page.kind == kind);
        let rows: Vec<Vec<String>> =
            of_kind.map(|page| vec![page.name.to_string(), page.summary.to_owned()]).collect();
        lay_out("  ", &[Align::Left, Align::Left], &rows)
    };
    format!(
        "Tunables, in the order of their changes\n{}\nBoot parameters (plan --boot)\n{}\nCauses of interruptions\n{}\n\
         Instruments (latency)\n{}\nLoads (latency --load)\n{}",
        rows("tunable"),
        rows("boot parameter"),
        rows("cause"),
        rows("instrument"),
        rows("load")
    )
}

fn unknown(name: &str) -> Failure {
    let pages = pages();
    let known: Vec<&str> = pages.iter().map(|page| page.name.as_ref()).collect();
    let mut failure = Failure::usage(format!(
        "no tunable, boot parameter, cause, instrument, load or known culprit is called {name:?}"
    ));
    for near in nearest(name, &known) {
        failure = failure.hint(format!("did you mean {near}?"));
    }
    failure.hint("`cpushield explain` lists all")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_the_screens_lead_to_pages() {
        for (word, name) in [
            ("isolcpus", "cpuset"),
            ("isolcpus=3", "cpuset"),
            ("isolcpus=managed_irq,3", "irq-affinity"),
            ("managed_irq", "irq-affinity"),
            ("nohz_full", "nohz-full"),
            ("nohz_full=3", "nohz-full"),
            ("rcu_nocbs", "rcu-nocbs"),
            ("gaps", "smi"),
        ] {
            assert_eq!(led(word), name);
            let found = pages().into_iter().find(|page| page.name == name).unwrap();
            let about = word.trim_end_matches('s').split('=').next().unwrap();
            assert!(found.text.contains(about), "{word}: {}", found.text);
        }
        for (word, name) in [
            ("IRQ 24 eth0", "irq"),
            ("kworker/u8:1", "workqueue"),
            ("SIGALRM by a timer", "signal"),
        ] {
            assert_eq!(led(word), name);
        }
        let names: Vec<_> = pages().into_iter().map(|page| page.name).collect();
        assert!(names.iter().any(|name| name == "latency-timer"));
        assert!(names.iter().any(|name| name == "load-messages"));
        assert!(names.iter().all(|name| names.iter().filter(|other| *other == name).count() == 1));
        assert!(page_of_policy().text().contains("docs/policy.md"));
        assert!(page_of_cause(Cause::Irq).text().contains("irq-affinity, isolcpus=managed_irq"));
    }
}
