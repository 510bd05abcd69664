//! Instructions for machines whose boot loader this tool does not write. The running kernel
//! replaces the menu's entries by its command line. Pure except for the
//! loaders' traces, which [`loaders::manual_steps`] looks for.

use super::line::{self, ParameterConflict};
use super::lint::LintTarget;
use super::loaders;
use super::planned_lines::{defeats, new_findings};
use super::running_kernel::{online_cpus, possible_cpus, shows_smt};
use crate::documents::boot::{BootWarning, LintFinding, WantedParameter};
use crate::survey::list_rules;
use cpushield_linux::Host;
use cpushield_linux::text::kernel_version::KernelVersion;

/// How to see whether it worked. `boot status` knows only what cpushield has written.
pub(super) const CHECK: &str = "reboot, then run `cpushield boot plan` with the same options: it reports \
                     whether the kernel was booted with the parameters";

/// The steps that add the parameters to a command line, `now`, and remove the words that a warning
/// is about.
pub(super) fn steps(
    host: &Host,
    now: Option<&str>,
    arch: Option<&str>,
    (parameters, warnings): (&[WantedParameter], &[BootWarning]),
) -> Vec<String> {
    let now = now.unwrap_or_default();
    let todo: Vec<&WantedParameter> = parameters.iter().filter(|it| !it.booted).collect();
    let replaced: Vec<&str> = todo.iter().filter_map(|it| it.instead.as_deref()).collect();
    let removed = warnings.iter().flat_map(|warning| match warning {
        BootWarning::Finding { finding: LintFinding::NoPartition { words, .. }, .. } => &words[..],
        _ => &[],
    });
    let removed: Vec<&str> =
        removed.map(String::as_str).filter(|word| !replaced.contains(word)).collect();
    if todo.is_empty() && !parameters.is_empty() && removed.is_empty() {
        return vec![
            "the running kernel was booted with all parameters: there is nothing to add".into(),
        ];
    }
    let words: Vec<String> = todo.iter().map(|wanted| wanted.word.clone()).collect();
    let mut lines: Vec<String> = conflicts(host, now, arch, &words);
    if let Some((name, steps)) = loaders::manual_steps(host, &words) {
        let old: Vec<&str> = replaced.iter().chain(&removed).copied().collect();
        if !old.is_empty() {
            lines.push(format!("first remove from the kernel command line: {}", old.join(" ")));
        }
        lines.push(format!("this machine has {name}:"));
        lines.extend(steps);
        lines.push(CHECK.to_owned());
        return lines;
    }
    if !replaced.is_empty() {
        lines.push(
            "on the kernel command line in your boot loader's configuration, replace:".to_owned(),
        );
        for wanted in &todo {
            if let Some(present) = &wanted.instead {
                lines.push(format!("    {present}  with  {}", wanted.word));
            }
        }
    }
    let new: Vec<&str> =
        todo.iter().filter(|it| it.instead.is_none()).map(|it| it.word.as_str()).collect();
    let all = [("remove these words from", removed), ("add these words to", new)];
    for (what, words) in all.into_iter().filter(|(_, words)| !words.is_empty()) {
        let place = "the kernel command line in your boot loader's configuration";
        lines.extend([format!("{what} {place}:"), format!("    {}", words.join(" "))]);
    }
    lines.push(CHECK.to_owned());
    lines
}

/// Conflicts to resolve first, except other values of the same parameters.
fn conflicts(host: &Host, now: &str, arch: Option<&str>, words: &[String]) -> Vec<String> {
    let mut lines = Vec::new();
    let (possible, online) = (possible_cpus(host), online_cpus(host));
    let last = possible.last();
    for word in words {
        match line::merge(now, std::slice::from_ref(word), line::limit(arch), last) {
            Ok(_) | Err(ParameterConflict::Differs { .. }) => {}
            Err(conflict) => lines.push(format!("first resolve this conflict: {conflict}")),
        }
    }
    lines.dedup();
    let release = host.read_line("/proc/sys/kernel/osrelease").unwrap_or_default();
    let version = KernelVersion::from_release(&release);
    let target = LintTarget {
        possible: &possible,
        online: &online,
        running: false,
        smt: shows_smt(host),
        version,
        list_rules: list_rules(&release),
        arch,
    };
    // Another value of the same parameter is replaced.
    let rest = line::without_contradicting(now, words, last);
    let ignored = new_findings(&rest, words, &target).into_iter();
    let is_new = |it: &LintFinding| match it {
        // The conflict with `nr_cpus=` above says the same.
        LintFinding::CpusNotStarted { .. } => lines.is_empty(),
        it => defeats(it),
    };
    let ignored = ignored.filter(is_new).collect::<Vec<_>>();
    lines.extend(ignored.iter().map(|it| format!("first: {}; otherwise {it}", it.advice())));
    lines
}
