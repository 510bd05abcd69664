//! Differences between two groups other than their figures, and within one group. Pure.

use super::{DifferenceScope, GivenGroup, GivenRun, PairDoubt, SetupDifference};
use crate::documents::count_text::joined;
use crate::documents::evidence::{Evidence, WatchedWorkload};
use crate::documents::latency::{LatencyMeasurement, MeasuredPower, memory_size};
use cpushield_linux::CpuSet;
use std::collections::BTreeSet;

/// A condition of a run.
struct RunTrait {
    realm: DifferenceScope,
    what: &'static str,
    value: String,
}

/// The kernel command line is compared word by word.
const CMDLINE: &str = "command line";
/// Its words that name files instead of settings.
const FILES: [&str; 2] = ["BOOT_IMAGE=", "initrd="];

impl GivenRun {
    /// The CPUs of the run.
    pub(super) fn cpus(&self) -> CpuSet {
        let measured = self.latency().into_iter().flat_map(|latency| &latency.series);
        let watched = self.evidence().into_iter().flat_map(|evidence| &evidence.cpus);
        measured.map(|series| series.cpu).chain(watched.map(|cpu| cpu.cpu)).collect()
    }

    fn traits(&self) -> Vec<RunTrait> {
        let mut traits = self.latency().map(latency_traits).unwrap_or_default();
        traits.extend(self.evidence().into_iter().flat_map(evidence_traits));
        // The name alone says nothing about the shield, so only two names are a difference.
        traits.extend(self.shield().map(|name| RunTrait {
            realm: DifferenceScope::Setting,
            what: "shield name",
            value: name.to_owned(),
        }));
        traits.push(RunTrait {
            realm: DifferenceScope::Method,
            what: "CPUs",
            value: self.cpus().to_string(),
        });
        traits
    }
}

fn latency_traits(latency: &LatencyMeasurement) -> Vec<RunTrait> {
    use DifferenceScope::{Kernel, Machine, Method, Setting};
    let (setting, isolation) = (&latency.setting, &latency.isolation);
    let power = setting.power.as_ref();
    let policies: BTreeSet<String> = latency
        .series
        .iter()
        .map(|series| format!("{} {}", series.role(), series.policy))
        .collect();
    let shield = match (&isolation.shield, isolation.held) {
        (None, _) => "none".to_owned(),
        (Some(_), Some(false)) => "did not stay active".to_owned(),
        (Some(_), Some(true)) => "active".to_owned(),
        (Some(_), None) => "by affinities only".to_owned(),
    };
    let tracing = match (latency.tracing.asked, &latency.tracing.absent) {
        (true, None) => "on",
        (true, Some(_)) => "partial",
        (false, _) => "off",
    };
    let mut loads: Vec<String> =
        latency.loads.iter().map(|load| format!("{} ({})", load.name, load.what)).collect();
    if loads.is_empty() {
        loads.push("none".to_owned());
    }
    let hypervisor = setting.hypervisor.clone().unwrap_or_else(|| "none".to_owned());
    [
        (Machine, "processor", or_unknown(setting.processor.as_ref())),
        (Machine, "CPUs online", setting.online.to_string()),
        (Machine, "memory", setting.memory_kib.map_or_else(unknown, memory_size)),
        (Machine, "hypervisor", hypervisor),
        (Kernel, "kernel", or_unknown(setting.kernel.as_ref())),
        (Kernel, "PREEMPT_RT", yes_or_no(setting.realtime)),
        (Setting, CMDLINE, settings_of(setting.cmdline.as_deref().unwrap_or("unknown"))),
        (Setting, "shield", shield),
        (Setting, "isolated at boot", list_cpus(isolation.isolated.as_ref())),
        (Setting, "nohz_full", list_cpus(isolation.nohz_full.as_ref())),
        (Setting, "kernel.timer_migration", yes_or_no(setting.timer_migration)),
        (Setting, "governor", power.map_or_else(unknown, MeasuredPower::governor_text)),
        (Setting, "turbo", yes_or_no(power.and_then(|power| power.turbo))),
        (Setting, "idle states", power.map_or_else(unknown, MeasuredPower::idle_text)),
        (Setting, "stolen time", describe_steal(setting.steal_ns, latency)),
        (Setting, "clock source", or_unknown(setting.clocksource.as_ref())),
        (Method, "policies", joined(policies, ", ")),
        (Method, "kernel trace", tracing.to_owned()),
        (Method, "loads", loads.join(", ")),
    ]
    .map(|(realm, what, value)| RunTrait { realm, what, value })
    .into()
}

fn unknown() -> String {
    "unknown".to_owned()
}

/// The share of the measured time that a hypervisor took, in classes: exact times always differ.
fn describe_steal(steal_ns: Option<u64>, latency: &LatencyMeasurement) -> String {
    let cpus: BTreeSet<usize> = latency.series.iter().map(|series| series.cpu).collect();
    let cpus = u64::try_from(cpus.len()).unwrap_or(u64::MAX);
    let percent_ns = latency.span_ns.saturating_mul(cpus) / 100;
    let share = match steal_ns {
        None => "unknown",
        Some(0) => "none",
        Some(ns) if ns <= percent_ns => "up to 1 %",
        Some(_) => "more than 1 %",
    };
    share.to_owned()
}

fn or_unknown(text: Option<&String>) -> String {
    text.cloned().unwrap_or_else(|| "unknown".to_owned())
}

fn list_cpus(cpus: Option<&CpuSet>) -> String {
    match cpus {
        None => "unknown".to_owned(),
        Some(cpus) if cpus.is_empty() => "none".to_owned(),
        Some(cpus) => cpus.to_string(),
    }
}

fn yes_or_no(answer: Option<bool>) -> String {
    let word = match answer {
        None => "unknown",
        Some(true) => "yes",
        Some(false) => "no",
    };
    word.to_owned()
}

fn evidence_traits(evidence: &Evidence) -> Vec<RunTrait> {
    let guest = yes_or_no(evidence.guest);
    let watched = match evidence.workload {
        WatchedWorkload::Sampler => "the gap sampler",
        WatchedWorkload::Given => "a program",
        WatchedWorkload::Cyclic => "a cyclic program",
    };
    let watched = watched.to_owned();
    let mut traits = vec![
        (DifferenceScope::Machine, "guest", guest),
        (DifferenceScope::Method, "watched", watched),
    ];
    if let Some(machine) = &evidence.machine {
        let shield = if evidence.shield.is_some() { "active" } else { "none" };
        let cmdline = settings_of(machine.cmdline.as_deref().unwrap_or("unknown"));
        traits.extend([
            (DifferenceScope::Machine, "processor", or_unknown(machine.processor.as_ref())),
            (DifferenceScope::Machine, "CPUs online", machine.online.to_string()),
            (DifferenceScope::Kernel, "kernel", or_unknown(machine.kernel.as_ref())),
            (DifferenceScope::Setting, CMDLINE, cmdline),
            (DifferenceScope::Setting, "shield", shield.to_owned()),
        ]);
    }
    traits.into_iter().map(|(realm, what, value)| RunTrait { realm, what, value }).collect()
}

/// The command line without the files that it names.
fn settings_of(cmdline: &str) -> String {
    let words = cmdline.split_whitespace();
    let words = words.filter(|word| !FILES.iter().any(|file| word.starts_with(file)));
    joined(words, " ")
}

/// The differences between two groups, machines first.
pub(super) fn differences(base: &GivenGroup, other: &GivenGroup) -> Vec<SetupDifference> {
    let mut found = Vec::new();
    let (ours, theirs) = (collect_traits(base), collect_traits(other));
    for (realm, what, base) in &ours {
        let Some((_, _, other)) = theirs.iter().find(|(_, name, _)| name == what) else { continue };
        if base == other {
            continue;
        }
        let (base, other) = (join_values(base), join_values(other));
        let (base, other) = match *what {
            CMDLINE => (words_only_in(&base, &other), words_only_in(&other, &base)),
            _ => (base, other),
        };
        found.push(SetupDifference { realm: *realm, what: (*what).to_owned(), base, other });
    }
    found.sort_by_key(|difference| difference.realm);
    found
}

/// The traits that differ between the runs of one group.
pub(super) fn inconsistencies(group: &GivenGroup) -> Vec<PairDoubt> {
    let varied = collect_traits(group).into_iter().filter(|(_, _, values)| values.len() > 1);
    let doubts = varied.map(|(_, what, values)| PairDoubt::RunsDiffer {
        group: group.name.clone(),
        what: what.to_owned(),
        values: values.into_iter().collect(),
    });
    doubts.collect()
}

/// The values of each trait in all runs of a group.
fn collect_traits(group: &GivenGroup) -> Vec<(DifferenceScope, &'static str, BTreeSet<String>)> {
    let mut found: Vec<(DifferenceScope, &'static str, BTreeSet<String>)> = Vec::new();
    for RunTrait { realm, what, value } in group.runs.iter().flat_map(GivenRun::traits) {
        match found.iter_mut().find(|(_, known, _)| *known == what) {
            Some((_, _, values)) => {
                values.insert(value);
            }
            None => found.push((realm, what, BTreeSet::from([value]))),
        }
    }
    found
}

fn join_values(values: &BTreeSet<String>) -> String {
    joined(values, " or ")
}

/// The words of a command line that the other one lacks.
fn words_only_in(text: &str, other: &str) -> String {
    let others: BTreeSet<&str> = other.split(' ').collect();
    let words: Vec<&str> = text.split(' ').filter(|word| !others.contains(word)).collect();
    if words.is_empty() { "nothing more".to_owned() } else { words.join(" ") }
}
