//! The pages of `cpushield explain`: finds the page about a tunable, a cause, an instrument, a
//! load, or any name that a table shows. Pages link to each other by name.

use super::page_text::render_body;
use crate::boot::line::name_of;
use crate::boot::names_kernel_parameter;
use crate::boot::parameters::with_keyword;
use crate::boot::switches::switches;
use crate::causes::Cause;
use crate::causes::lookup::{ExplainSubject, find_subject};
use crate::causes::topics::TOPICS;
use crate::change::EffectTime;
use crate::documents::count_text::joined;
use crate::failure::Failure;
use crate::latency::{INSTRUMENTS, instruments};
use crate::load::KINDS;
use crate::registry::{self, ExplainPage, ExplainedEntry, RegistryEntry, nearest};
use crate::report::table::{Align, fit, fold};
use crate::tunables;
use serde::Serialize;
use std::fmt::Display;

/// The page about the policy file; its man page is made from the same text.
pub const POLICY: &str = include_str!("../../docs/policy.md");
/// The example of a matrix of `experiment`, which describes every key.
const MATRIX: &str = include_str!("../../docs/experiment.toml");
/// The terms of the documentation, in a table.
const GLOSSARY: &str = include_str!("../../docs/glossary.md");
/// Columns of a page at most; wider prose is hard to read.
const COLUMNS_MAX: usize = 80;

/// The page about a name, or about a word that a table shows.
///
/// # Errors
/// There is no such name.
pub fn explain(words: &str) -> Result<ExplainPage, Failure> {
    if words.trim().is_empty() {
        return Err(Failure::usage("the name to explain is empty")
            .hint("list the pages: cpushield explain"));
    }
    let page = find_page(words).or_else(|| find_page(&words.to_lowercase()));
    let page = page.map(with_instrument_link);
    let page = page.or_else(|| find_policy_key(words)).or_else(|| find_term(words));
    let page = page.or_else(|| find_other_name(words));
    let page = page.or_else(|| tunables::of_file(words).map(ExplainedEntry::explain));
    page.ok_or_else(|| unknown_name(words))
}

/// Words of screens and of other programs, and the page or term that explains them.
const OTHER_NAMES: &[(&str, &str)] = &[
    ("matrix", "experiment"),
    ("holds", "verdict"),
    ("leaks", "verdict"),
    ("unknown", "verdict"),
    ("isolated", "cpuset"),
    ("cpuset.cpus.partition", "cpuset"),
    ("default_smp_affinity", "irq-affinity"),
    ("smp_affinity", "irq-affinity"),
    ("smp_affinity_list", "irq-affinity"),
    ("no_hz_full", "nohz-full"),
    ("rcuc", "rcuc/*"),
    ("kworker", "workqueue"),
    ("hyperthreading", "SMT sibling"),
    ("hyper-threading", "SMT sibling"),
    ("cyclictest", "latency-timer"),
];

/// The page for another name of its subject, in upper or lower case.
fn find_other_name(words: &str) -> Option<ExplainPage> {
    let other = OTHER_NAMES.iter().find(|(other, _)| other.eq_ignore_ascii_case(words.trim()));
    let (_, name) = other?;
    find_page(name).or_else(|| find_term(name))
}

/// Finds the page for a name, or for a word that a table shows.
fn find_page(words: &str) -> Option<ExplainPage> {
    let name = page_name_of(words);
    find_named_page(&switches(), name)
        .or_else(|| find_named_page(Cause::ALL, name))
        .or_else(|| (name == "policy").then(explain_policy))
        .or_else(|| (name == "experiment").then(explain_matrix))
        // Last, the plain names of instruments and loads, if nothing else has the name.
        .or_else(|| find_named_page(INSTRUMENTS, name))
        .or_else(|| find_named_page(KINDS, name))
        .or_else(|| {
            Some(match find_subject(name)? {
                ExplainSubject::Topic(topic) => topic.explain(),
                ExplainSubject::Known(known) => known.explain(),
                ExplainSubject::Sender(group) => group.explain(),
                ExplainSubject::Cause(cause) => cause.explain(),
            })
        })
}

/// The rows of the tables of a document that have two columns.
fn table_rows(document: &str) -> impl Iterator<Item = (&str, &str)> {
    document
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |")?.split_once(" | "))
}

/// The description of a key of the policy file, with or without the table that it is in; an option
/// has the same name with hyphens.
fn find_policy_key(words: &str) -> Option<ExplainPage> {
    let wanted = words.trim_start_matches("--").replace('-', "_");
    let (key, meaning) = table_rows(POLICY)
        .filter_map(|(key, meaning)| Some((key.strip_prefix('`')?.strip_suffix('`')?, meaning)))
        .filter(|(_, meaning)| !meaning.contains(" | "))
        .find(|(key, _)| *key == wanted || key.rsplit('.').next() == Some(wanted.as_str()))?;
    let text = "All keys, with an example: `cpushield explain policy`.";
    Some(ExplainPage::new("policy key", key, meaning, text))
}

/// The entry of the glossary for a term, or for its first word.
fn find_term(words: &str) -> Option<ExplainPage> {
    let rows = table_rows(GLOSSARY);
    let is_it = |term: &str| {
        let begins =
            term.split_once(' ').is_some_and(|(first, _)| first.eq_ignore_ascii_case(words));
        term.eq_ignore_ascii_case(words) || begins
    };
    // The first row is the head of the table.
    let (term, meaning) = rows.skip(1).find(|(terms, _)| terms.split(", ").any(is_it))?;
    Some(ExplainPage::new("term", term, meaning, ""))
}

/// The page of the entry with this name, or the page with this name.
fn find_named_page<E: RegistryEntry + ExplainedEntry>(
    registry: &[E],
    name: &str,
) -> Option<ExplainPage> {
    registry::find(registry, name)
        .map(E::explain)
        .or_else(|| explain_all(registry).find(|page| page.name == name))
}

fn explain_all<E: ExplainedEntry>(registry: &[E]) -> impl Iterator<Item = ExplainPage> {
    registry.iter().copied().map(E::explain)
}

/// Adds a link to the instrument of the same name, if there is one.
fn with_instrument_link(mut page: ExplainPage) -> ExplainPage {
    if let Some(instrument) = instruments::named(&page.name) {
        let other = instrument.explain().name;
        let link = format!("\n\nThe instrument with this name: `cpushield explain {other}`.");
        page.text.to_mut().push_str(&link);
    }
    page
}

/// Names that shells complete.
#[must_use]
pub fn static_names() -> Vec<&'static str> {
    let mut names = [
        registry::names(&switches()),
        registry::names(Cause::ALL),
        vec!["policy", "experiment"],
        registry::names(INSTRUMENTS),
        registry::names(KINDS),
    ]
    .concat();
    let mut seen = std::collections::BTreeSet::new();
    names.retain(|name| seen.insert(*name));
    names
}

/// Every page, in the order of the list.
#[must_use]
pub fn pages() -> Vec<ExplainPage> {
    switches()
        .into_iter()
        .map(ExplainedEntry::explain)
        .chain(explain_all(Cause::ALL))
        .chain(TOPICS.iter().map(ExplainedEntry::explain))
        .chain(explain_all(INSTRUMENTS))
        .chain(explain_all(KINDS))
        .collect()
}

/// The version of the format of [`PageList`].
const SCHEMA: u32 = 1;

/// What `explain --json` prints without a name.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PageList {
    /// The version of this format.
    pub schema: u32,
    /// Every page, in the order of the list.
    pub pages: Vec<ExplainPage>,
}

/// The document of all pages.
#[must_use]
pub fn page_list() -> PageList {
    PageList { schema: SCHEMA, pages: pages() }
}

/// The name of the page about a boot parameter, given with or without a value. Other words are
/// returned unchanged.
fn page_name_of(word: &str) -> &str {
    let (parameter, value) = word.split_once('=').unwrap_or((word, ""));
    match parameter {
        "isolcpus" if value.starts_with("managed_irq") => "isolcpus-managed-irq",
        "isolcpus" if value.starts_with("nohz") => "isolcpus-nohz",
        "isolcpus" if value.starts_with("io_queue") => "isolcpus-io-queue",
        "managed_irq" => "isolcpus-managed-irq",
        "io_queue" => "isolcpus-io-queue",
        _ => with_keyword(parameter).next().map_or(word, |found| found.name),
    }
}

fn explain_policy() -> ExplainPage {
    let text = POLICY.trim_start_matches("# The policy file\n");
    ExplainPage::new("file", "policy", "the file that describes your shields", text)
}

fn explain_matrix() -> ExplainPage {
    let text = format!("An example with every key:\n\n```toml\n{}\n```\n", MATRIX.trim_end());
    let summary = "the file with the rows and columns of an experiment";
    ExplainPage::new("file", "experiment", summary, text)
}

impl ExplainPage {
    /// The page, for a terminal of this width.
    #[must_use]
    pub fn text(&self, width: usize) -> String {
        let width = width.min(COLUMNS_MAX);
        let head = format!("{} ({}): {}\n", self.name, self.kind, self.summary);
        let mut footer = String::new();
        if let Some(causes) = &self.removes {
            footer.push_str(&name_line("removes", causes));
        }
        if let Some(removers) = &self.removed_by {
            let removers: Vec<String> = removers.iter().copied().map(remover).collect();
            footer.push_str(&name_line("removed by", &removers));
        }
        if let Some(risk) = self.risk {
            footer.push_str(&format!("risk: {}\n", risk.word()));
        }
        let mut parts = vec![fold(&head, width), render_body(&self.text, width)];
        parts.push(fold(&footer, width));
        parts.retain(|part| !part.is_empty());
        parts.join("\n")
    }
}

fn name_line(title: &str, names: &[impl Display]) -> String {
    let names = if names.is_empty() { "nothing".to_owned() } else { joined(names, ", ") };
    format!("{title}: {names}\n")
}

/// The name of a tunable that removes a cause. One that needs a boot does not remove it now.
fn remover(name: &str) -> String {
    match tunables::named(name) {
        Some(tunable) if tunable.when == EffectTime::Boot => format!("{name} (at boot)"),
        _ => name.to_owned(),
    }
}

/// The names and summaries of all pages, by kind.
#[must_use]
pub fn list_pages(pages: &[ExplainPage], width: usize) -> String {
    let sections = [
        ("Tunables, in the order in which they are applied", "tunable"),
        ("Boot parameters (boot plan)", "boot parameter"),
        ("Causes of interruptions", "cause"),
        ("Instruments (latency)", "instrument"),
        ("Loads (latency --load)", "load"),
    ];
    let lists = sections.map(|(title, kind)| format!("{title}\n{}", list_kind(pages, kind, width)));
    format!("{}\nMore names: policy keys, glossary terms, culprits of tables", lists.join("\n"))
}

fn list_kind(pages: &[ExplainPage], kind: &str, width: usize) -> String {
    let pages = pages.iter().filter(|page| page.kind == kind);
    let rows: Vec<Vec<String>> =
        pages.map(|page| vec![page.name.to_string(), page.summary.to_owned()]).collect();
    fit("  ", &[Align::Left, Align::Left], &rows, width)
}

fn unknown_name(name: &str) -> Failure {
    let pages = pages();
    let known: Vec<&str> = pages.iter().map(|page| page.name.as_ref()).collect();
    let mut failure = Failure::usage(format!("there is no page about {name:?}"));
    if names_kernel_parameter(name_of(name)) {
        return failure
            .hint("it is a kernel parameter: see kernel-parameters.txt of your kernel")
            .hint(format!(
                "write it into the boot entries: cpushield boot apply --parameter {name}"
            ))
            .hint("list the pages: cpushield explain");
    }
    let is_function = |name: &str| {
        let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        begins && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    if name.contains('_') && is_function(name) {
        failure = failure.hint(format!(
            "if it is a kernel function, also name its cause: cpushield explain workqueue {name}"
        ));
    }
    for near in nearest(name, &known) {
        failure = failure.hint(format!("did you mean {near}?"));
    }
    failure.hint("list the pages: cpushield explain")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_term_of_the_glossary_is_explained_where_no_page_has_its_name() {
        for (words, name, kind) in [
            ("SMI", "smi", "cause"),
            ("housekeeping", "housekeeping CPU", "term"),
            ("Partition", "partition", "term"),
            ("SMT", "SMT sibling", "term"),
            ("NUMA node", "memory node, NUMA node", "term"),
        ] {
            let page = explain(words).unwrap();
            assert_eq!((page.name.as_ref(), page.kind), (name, kind), "{words}");
        }
        assert!(explain("term").is_err());
    }

    #[test]
    fn other_names_sysctls_and_files_lead_to_their_page() {
        for (words, name) in OTHER_NAMES {
            assert_eq!(explain(words).unwrap().name, *name, "{words}");
        }
        for (words, name) in [
            ("Holds", "verdict"),
            ("NO_HZ_FULL", "nohz-full"),
            ("vm.stat_interval", "vm-stat-interval"),
            ("stat_interval", "vm-stat-interval"),
            ("kernel.sched_rt_runtime_us", "rt-throttling"),
            ("sched_rt_runtime_us", "rt-throttling"),
            ("/proc/sys/kernel/sched_rt_runtime_us", "rt-throttling"),
            ("vm/dirty_writeback_centisecs", "writeback-interval"),
            ("/sys/devices/system/cpu/cpu3/cpufreq/scaling_governor", "cpu-governor"),
            ("rps_cpus", "rps"),
        ] {
            assert_eq!(explain(words).unwrap().name, name, "{words}");
        }
        for words in ["online", "kernel.nonsense"] {
            assert!(explain(words).is_err(), "{words}");
        }
    }

    #[test]
    fn a_kernel_parameter_without_a_page_is_named_as_one() {
        for name in ["nohlt", "crashkernel=256M"] {
            let failure = explain(name).unwrap_err().to_string();
            let hint = format!("--parameter {name}");
            assert!(failure.contains(&hint) && !failure.contains("did you mean"), "{failure}");
        }
    }

    #[test]
    fn only_what_may_be_a_function_gets_the_hint_about_functions() {
        let hinted = |name| unknown_name(name).to_string().contains("kernel function");
        assert!(hinted("my_function2"));
        for name in ["kernel.my_setting", "/proc/my_file", "my_file.txt", "2_x", "a_b c"] {
            assert!(!hinted(name), "{name}");
        }
    }

    #[test]
    fn what_needs_a_boot_to_remove_a_cause_says_so() {
        let tick = Cause::Tick.explain().text(80);
        assert!(tick.contains("nohz-full (at boot)"), "{tick}");
        assert!(tick.contains("fair-server,") || tick.contains("fair-server\n"), "{tick}");
    }

    #[test]
    fn a_key_of_a_policy_is_explained_with_and_without_its_table() {
        for (words, key) in [
            ("two_witnesses", "limits.two_witnesses"),
            ("limits.max_gap", "limits.max_gap"),
            ("--whole-node", "whole_node"),
            ("linuxcnc", "limits.linuxcnc"),
        ] {
            let page = explain(words).unwrap();
            assert_eq!((page.name.as_ref(), page.kind), (key, "policy key"), "{words}");
        }
    }

    #[test]
    fn names_from_the_screens_have_pages() {
        for (word, name) in [
            ("isolcpus", "isolcpus-domain"),
            ("isolcpus=3", "isolcpus-domain"),
            ("isolcpus=nohz,3", "isolcpus-nohz"),
            ("isolcpus=managed_irq,3", "isolcpus-managed-irq"),
            ("isolcpus=io_queue,3", "isolcpus-io-queue"),
            ("managed_irq", "isolcpus-managed-irq"),
            ("io_queue", "isolcpus-io-queue"),
            ("nohz_full", "nohz-full"),
            ("nohz_full=3", "nohz-full"),
            ("rcu_nocbs", "rcu-nocbs"),
            ("skew_tick=1", "skew-tick"),
        ] {
            assert_eq!(page_name_of(word), name);
            let found = pages().into_iter().find(|page| page.name == name).unwrap();
            let about = word.trim_end_matches('s').split('=').next().unwrap();
            assert!(found.text.contains(about), "{word}: {}", found.text);
        }
        for (words, name) in [
            ("gaps", "smi"),
            ("IRQ 24 eth0", "irq"),
            ("tick tick_nohz_handler", "tick"),
            ("load (9972)", "user-task"),
            ("refresh_vm_stats", "refresh_vm_stats"),
            ("do_flush_tlb_all", "kernel-tlb-flush"),
            ("bpf_prog_load", "bpf_prog_load"),
        ] {
            assert_eq!(find_page(words).map(|page| page.name), Some(name.into()), "{words}");
        }
        assert!(find_page("nonsense").is_none() && find_page("linuxcnc").is_none());
        let names: Vec<_> = pages().into_iter().map(|page| page.name).collect();
        assert!(names.iter().any(|name| name == "latency-timer"));
        assert!(names.iter().any(|name| name == "load-messages"));
        assert!(names.iter().all(|name| names.iter().filter(|other| *other == name).count() == 1));
        let irq = Cause::Irq.explain().text(80);
        assert!(irq.contains("irq-affinity, isolcpus=managed_irq"), "{irq}");
    }

    #[test]
    fn the_page_about_a_matrix_is_an_example_that_parses() {
        let page = explain("matrix").unwrap();
        assert_eq!((page.kind, page.name.as_ref()), ("file", "experiment"));
        let text = page.text(80);
        let (_, example) = text.split_once("every key:\n").unwrap();
        let matrix = crate::experiment::Matrix::parse(example, "example").unwrap();
        assert!(matrix.rows.len() > 2 && matrix.columns.len() > 1, "{matrix:?}");
    }

    #[test]
    fn the_page_about_policies_has_every_key_and_its_example_parses() {
        let text = explain_policy().text(80);
        let (intro, example) = text.split_once("\n    # The lathe").unwrap();
        assert!(intro.contains("/etc/cpushield/policy.toml"), "{text}");
        let (example, keys) = example.split_once("\n  key ").unwrap();
        let policy =
            crate::workflow::shield_options::read_policy(&format!("#{example}"), "policy.toml")
                .unwrap();
        assert_eq!(policy.shield.keys().collect::<Vec<_>>(), ["guest", "lathe"]);
        for key in [
            "cpus",
            "count",
            "share",
            "near",
            "node",
            "whole_node",
            "siblings",
            "balance",
            "evict",
            "workload",
            "limits",
        ] {
            assert!(keys.lines().any(|line| line.starts_with(&format!("  `{key}` "))), "{text}");
        }
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }

    #[test]
    fn every_page_names_its_sources() {
        let culprits = crate::causes::known::KNOWN.iter().map(ExplainedEntry::explain);
        let senders = crate::causes::purpose::FUNCTION_GROUPS.iter().map(ExplainedEntry::explain);
        let sourced = ["tunable", "boot parameter", "cause", "culprit", "sender", "instrument"];
        let pages = pages().into_iter().chain(culprits).chain(senders);
        let bare =
            pages.filter(|page| sourced.contains(&page.kind) && !page.text.contains("Source"));
        assert_eq!(bare.map(|page| page.name).collect::<Vec<_>>(), Vec::<String>::new());
    }

    #[test]
    fn every_page_and_the_list_fit_the_terminal() {
        for width in [60, 80] {
            let texts = pages().into_iter().map(|page| page.text(width));
            for text in texts.chain([list_pages(&pages(), width)]) {
                // A word that is longer than the width is alone on its line.
                let fits =
                    |line: &&str| line.chars().count() <= width || !line.trim().contains(' ');
                let wide = text.lines().find(|line| !fits(line));
                assert_eq!(wide, None, "at {width}");
            }
        }
    }
}
