//! [`Plan`] → a profile of tuned with the steps that tuned can make; all others are comments. The
//! plugins are those of tuned 2.20 (tuned/plugins/). Pure.

use super::comment_text;
use crate::change::Change;
use crate::documents::plan::{Plan, Step};
use crate::tunables;
use std::collections::BTreeMap;

/// What a step is in a profile.
#[derive(Debug, Clone, PartialEq, Eq)]
enum ProfileEntry {
    /// `[sysctl]`: a file of `/proc/sys`.
    Sysctl { name: String, value: String },
    /// `[sysfs]`: a file of `/sys`.
    Sysfs { path: String, value: String },
    /// `[irqbalance] banned_cpus`.
    Irqbalance,
    /// `[scheduler] isolated_cores`, which moves tasks, kernel threads and interrupts once. Every
    /// profile has it, because tuned has nothing closer to a shield.
    Scheduler,
    /// Nothing of tuned makes it.
    Nothing,
}

/// The profile for a plan. `words` are kernel parameters for the next boot.
#[must_use]
pub fn tuned_profile(plan: &Plan, words: &[String]) -> String {
    let shield = &plan.shield;
    let (name, cpus) = (&shield.name, &shield.cpus);
    let entries: Vec<(&Step, ProfileEntry)> = plan
        .steps
        .iter()
        .filter(|step| step.is_runtime())
        .map(|step| (step, profile_entry(step)))
        .collect();
    let mut text = format!(
        "# What tuned can do for shield {name} (cpushield plan --export tuned).\n\
         # Next: save it as /etc/tuned/profiles/{name}/tuned.conf (tuned before 2.23:\n\
         # /etc/tuned/{name}/tuned.conf), then: tuned-adm profile {name}\n\
         # tuned makes no partition: any task can still move itself to CPU {cpus}.\n\
         [main]\nsummary=CPU {cpus} with as few interruptions as tuned can achieve\n"
    );
    let bans = entries.iter().any(|(_, entry)| *entry == ProfileEntry::Irqbalance);
    let mut sysctl = Vec::new();
    let mut sysfs = Vec::new();
    for (_, entry) in &entries {
        match entry {
            ProfileEntry::Sysctl { name, value } => sysctl.push(format!("{name}={value}")),
            ProfileEntry::Sysfs { path, value } => sysfs.push(format!("{path}={value}")),
            ProfileEntry::Irqbalance | ProfileEntry::Scheduler | ProfileEntry::Nothing => {}
        }
    }
    let banned = bans.then(|| format!("banned_cpus={cpus}"));
    let words = (!words.is_empty()).then(|| format!("cmdline_{name}=+{}", words.join(" ")));
    for (section, lines) in [
        ("sysctl", sysctl),
        ("sysfs", sysfs),
        ("irqbalance", Vec::from_iter(banned)),
        ("scheduler", vec![format!("isolated_cores={cpus}")]),
        ("bootloader", Vec::from_iter(words)),
    ] {
        if !lines.is_empty() {
            text.push_str(&format!("\n[{section}]\n{}\n", lines.join("\n")));
        }
    }
    text + &list_left_out(plan, &entries)
}

/// The comments about what the profile does not do.
fn list_left_out(plan: &Plan, entries: &[(&Step, ProfileEntry)]) -> String {
    let mut text = String::new();
    let mut left_out: BTreeMap<&str, usize> = BTreeMap::new();
    for (step, _) in entries.iter().filter(|(_, entry)| *entry == ProfileEntry::Nothing) {
        *left_out.entry(step.tunable.as_str()).or_default() += 1;
    }
    if !left_out.is_empty() {
        text.push_str("\n# Only cpushield makes these changes:\n");
    }
    for (name, count) in left_out {
        let summary = tunables::named(name).map_or("", |tunable| tunable.summary);
        let count = if count == 1 { "1 change".to_owned() } else { format!("{count} changes") };
        text.push_str(&comment_text(&format!("#   {name} ({count}): {summary}")));
        text.push('\n');
    }
    if !plan.already.is_empty() {
        let names: Vec<&str> = plan.already.keys().map(String::as_str).collect();
        text.push_str(
            "\n# Left out, because this machine already has all or some of these settings:\n",
        );
        text.push_str(&comment_text(&format!("#   {}", names.join(", "))));
        text.push('\n');
    }
    text
}

/// What tuned can do of a step.
fn profile_entry(step: &Step) -> ProfileEntry {
    match &step.change {
        // The buffer is for `verify` only.
        Change::Write { .. } if step.tunable == "tracing-buffer" => ProfileEntry::Nothing,
        Change::Write { path, value, .. } if is_plain(path) && is_plain(value) => {
            write_entry(path, value)
        }
        Change::Affinity { .. } => ProfileEntry::Scheduler,
        Change::BanFromIrqbalance { .. } => ProfileEntry::Irqbalance,
        // No plugin of tuned makes any other kind of change.
        _ => ProfileEntry::Nothing,
    }
}

fn write_entry(path: &str, value: &str) -> ProfileEntry {
    let value = value.to_owned();
    if let Some(name) = path.strip_prefix("/proc/sys/") {
        // tuned makes a slash of each dot.
        return match name.contains('.') {
            true => ProfileEntry::Nothing,
            false => ProfileEntry::Sysctl { name: name.replace('/', "."), value },
        };
    }
    if path.starts_with("/proc/irq/") {
        return ProfileEntry::Scheduler;
    }
    // tuned writes no cgroup that it has not made.
    match path.starts_with("/sys/") && !path.starts_with("/sys/fs/cgroup/") {
        true => ProfileEntry::Sysfs { path: path.to_owned(), value },
        false => ProfileEntry::Nothing,
    }
}

/// Whether tuned reads a name or a value as it is: no pattern, variable or comment.
fn is_plain(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/_.,:+@-".contains(c);
    !text.is_empty() && text.chars().all(is_plain)
}
