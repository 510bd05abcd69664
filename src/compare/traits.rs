//! What was different between two groups beside their figures, and within one. Pure.

use super::{DifferenceScope, GivenGroup, GivenRun, SetupDifference};
use crate::latency::LatencyMeasurement;
use crate::verify::{Evidence, WatchedWorkload};
use cpushield_linux::CpuSet;
use std::collections::BTreeSet;

/// Something a run was made with.
struct RunTrait {
    realm: DifferenceScope,
    what: &'static str,
    value: String,
}

/// The kernel's command line is compared word by word.
const CMDLINE: &str = "command line";
/// Words of it that name files, not settings.
const FILES: [&str; 2] = ["BOOT_IMAGE=", "initrd="];

impl GivenRun {
    /// The CPUs it was about.
    pub(super) fn cpus(&self) -> CpuSet {
        let of_latency = self.latency().into_iter().flat_map(|one| &one.series);
        let of_evidence = self.evidence().into_iter().flat_map(|one| &one.cpus);
        of_latency.map(|series| series.cpu).chain(of_evidence.map(|one| one.cpu)).collect()
    }

    fn traits(&self) -> Vec<RunTrait> {
        let mut traits = self.latency().map(of_latency).unwrap_or_default();
        traits.extend(self.evidence().into_iter().flat_map(of_evidence));
        traits.push(RunTrait {
            realm: DifferenceScope::Method,
            what: "CPUs",
            value: self.cpus().to_string(),
        });
        traits
    }
}

fn of_latency(latency: &LatencyMeasurement) -> Vec<RunTrait> {
    use DifferenceScope::{Kernel, Machine, Method, Setting};
    let (setting, isolation) = (&latency.setting, &latency.isolation);
    let text = |text: &Option<String>| text.clone().unwrap_or_else(|| "unknown".to_owned());
    let cpus = |cpus: &Option<CpuSet>| match cpus {
        None => "unknown".to_owned(),
        Some(cpus) if cpus.is_empty() => "none".to_owned(),
        Some(cpus) => cpus.to_string(),
    };
    let word = |on: Option<bool>| match on {
        None => "unknown".to_owned(),
        Some(true) => "yes".to_owned(),
        Some(false) => "no".to_owned(),
    };
    let policies: BTreeSet<String> =
        latency.series.iter().map(|one| format!("{} {}", one.role(), one.policy)).collect();
    let shield = match (&isolation.shield, isolation.held) {
        (None, _) => "none".to_owned(),
        (Some(_), Some(false)) => "did not stay in force".to_owned(),
        (Some(_), Some(true)) => "in force".to_owned(),
        (Some(_), None) => "by affinities alone".to_owned(),
    };
    let tracing = match (latency.tracing.asked, &latency.tracing.absent) {
        (true, None) => "on",
        (true, Some(_)) => "in part",
        (false, _) => "off",
    };
    let mut loads: Vec<String> =
        latency.loads.iter().map(|load| format!("{} ({})", load.name, load.what)).collect();
    if loads.is_empty() {
        loads.push("none".to_owned());
    }
    let hypervisor = setting.hypervisor.clone().unwrap_or_else(|| "none".to_owned());
    [
        (Machine, "processor", text(&setting.processor)),
        (Machine, "CPUs in use", setting.online.to_string()),
        (Machine, "hypervisor", hypervisor),
        (Kernel, "kernel", text(&setting.kernel)),
        (Kernel, "PREEMPT_RT", word(setting.realtime)),
        (Setting, CMDLINE, settings_of(setting.cmdline.as_deref().unwrap_or("unknown"))),
        (Setting, "shield", shield),
        (Setting, "isolated at boot", cpus(&isolation.isolated)),
        (Setting, "nohz_full", cpus(&isolation.nohz_full)),
        (Setting, "kernel.timer_migration", word(setting.timer_migration)),
        (Setting, "clock source", text(&setting.clocksource)),
        (Method, "policies", policies.into_iter().collect::<Vec<String>>().join(", ")),
        (Method, "the kernel's trace", tracing.to_owned()),
        (Method, "loads", loads.join(", ")),
    ]
    .map(|(realm, what, value)| RunTrait { realm, what, value })
    .into()
}

fn of_evidence(evidence: &Evidence) -> Vec<RunTrait> {
    let guest = match evidence.guest {
        None => "unknown",
        Some(true) => "yes",
        Some(false) => "no",
    };
    let watched = match evidence.workload {
        WatchedWorkload::Sampler => "the gap sampler",
        WatchedWorkload::Given => "a program",
    };
    [(DifferenceScope::Machine, "a guest", guest), (DifferenceScope::Method, "watched", watched)]
        .map(|(realm, what, value)| RunTrait { realm, what, value: value.to_owned() })
        .into()
}

/// The command line without the files that it names.
fn settings_of(cmdline: &str) -> String {
    let words = cmdline.split_whitespace();
    let words = words.filter(|word| !FILES.iter().any(|file| word.starts_with(file)));
    words.collect::<Vec<&str>>().join(" ")
}

/// Everything that was different between the two, machines first.
pub(super) fn differences(base: &GivenGroup, other: &GivenGroup) -> Vec<SetupDifference> {
    let mut found = Vec::new();
    let (ours, theirs) = (gathered(base), gathered(other));
    for (realm, what, base) in &ours {
        let Some((_, _, other)) = theirs.iter().find(|(_, name, _)| name == what) else { continue };
        if base == other {
            continue;
        }
        let (base, other) = (joined(base), joined(other));
        let (base, other) = if *what == CMDLINE { only(&base, &other) } else { (base, other) };
        found.push(SetupDifference { realm: *realm, what: (*what).to_owned(), base, other });
    }
    found.sort_by_key(|difference| difference.realm);
    found
}

/// What was not the same in all runs of one group.
pub(super) fn mixed(group: &GivenGroup) -> Vec<String> {
    let varied = gathered(group).into_iter().filter(|(_, _, values)| values.len() > 1);
    let told = |(_, what, values): (DifferenceScope, &str, BTreeSet<String>)| {
        let values: Vec<String> = values.into_iter().collect();
        format!("the runs of {} are not of one kind: {what} {}", group.name, values.join(" and "))
    };
    varied.map(told).collect()
}

/// The values of each trait in all runs of a group.
fn gathered(group: &GivenGroup) -> Vec<(DifferenceScope, &'static str, BTreeSet<String>)> {
    let mut found: Vec<(DifferenceScope, &'static str, BTreeSet<String>)> = Vec::new();
    for one in group.runs.iter().flat_map(GivenRun::traits) {
        match found.iter_mut().find(|(_, what, _)| *what == one.what) {
            Some((_, _, values)) => {
                values.insert(one.value);
            }
            None => found.push((one.realm, one.what, BTreeSet::from([one.value]))),
        }
    }
    found
}

fn joined(values: &BTreeSet<String>) -> String {
    values.iter().cloned().collect::<Vec<String>>().join(" or ")
}

/// The words that only the one has, and those that only the other has.
fn only(base: &str, other: &str) -> (String, String) {
    let words = |text: &str, without: &str| {
        let others: BTreeSet<&str> = without.split(' ').collect();
        let own: Vec<&str> = text.split(' ').filter(|word| !others.contains(word)).collect();
        if own.is_empty() { "nothing more".to_owned() } else { own.join(" ") }
    };
    (words(base, other), words(other, base))
}
