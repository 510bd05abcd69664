//! What the running kernel shows for a word of its command line, and whether that word is in force.

use super::running_kernel::{offloaded_cpus, possible_cpus};
use crate::documents::boot::WantedParameter;
use cpushield_linux::text::cmdline;
use cpushield_linux::{CpuSet, Host};

const ISOLATED: &str = "/sys/devices/system/cpu/isolated";
const NOHZ_FULL: &str = "/sys/devices/system/cpu/nohz_full";
const DEFAULT_AFFINITY: &str = "/proc/irq/default_smp_affinity";
const UNBOUND_CPUS: &str = "/sys/devices/virtual/workqueue/cpumask";
const SMT_CONTROL: &str = "/sys/devices/system/cpu/smt/control";
const CLOCKSOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

/// What the running kernel shows for a word.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ParameterEffect {
    /// What it shows, with a name: `nohz_full: 1-3`. `None` where it shows nothing, or where a list
    /// cannot be read.
    pub shows: Option<String>,
    /// Whether that is what the word requests; `None` where that is unknown.
    pub in_force: Option<bool>,
}

impl ParameterEffect {
    /// Reads it for a word such as `nohz_full=1-3`.
    #[must_use]
    pub fn read(host: &Host, word: &str) -> ParameterEffect {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        let effect = match name {
            "nohz_full" => read_tickless(host, value),
            "isolcpus" => read_isolated(host, value),
            "rcu_nocbs" => read_offloaded(host, value),
            // The kernel adds the boot CPU to the default affinity, which is CPU 0 except after
            // kexec (`irq_affinity_setup()`, kernel/irq/irqdesc.c, 04b5989e9209).
            "irqaffinity" => read_mask(host, (name, value), DEFAULT_AFFINITY, &CpuSet::single(0)),
            "workqueue.unbound_cpus" => {
                read_mask(host, (name, value), UNBOUND_CPUS, &CpuSet::new())
            }
            "nosmt" => read_text(host, SMT_CONTROL, "smt", |control| {
                ["off", "forceoff", "notsupported"].contains(&control)
            }),
            "clocksource" => read_text(host, CLOCKSOURCE, name, |source| source == value),
            _ => None,
        };
        effect.unwrap_or_default()
    }

    fn new(name: &str, found: &str, in_force: Option<bool>) -> ParameterEffect {
        ParameterEffect { shows: Some(format!("{name}: {found}")), in_force }
    }
}

/// Reads whether the words that the running kernel was booted with are in force.
pub(super) fn read_effects(host: &Host, parameters: &mut [WantedParameter]) {
    for wanted in parameters.iter_mut().filter(|it| it.booted) {
        wanted.in_force = ParameterEffect::read(host, &wanted.word).in_force;
    }
}

/// Whether a list, in which `N` and `all` are allowed, is what the kernel shows. A list that cannot
/// be parsed is not, as the kernel cannot parse it either. Without the possible CPUs, its `N` may
/// be any CPU.
fn compare_list(host: &Host, list: &str, is_same: impl Fn(CpuSet) -> bool) -> Option<bool> {
    let possible = possible_cpus(host);
    let wanted = CpuSet::parse_list(list, possible.last()).ok();
    wanted.map(is_same).or((!possible.is_empty()).then_some(false))
}

/// What a file of one value shows, under this name.
fn read_text(
    host: &Host,
    path: &str,
    name: &str,
    is_in_force: impl Fn(&str) -> bool,
) -> Option<ParameterEffect> {
    let text = host.read_line(path).ok()?;
    let text = text.trim();
    Some(ParameterEffect::new(name, text, Some(is_in_force(text))))
}

/// What the kernel shows for `nohz_full=`: `(null)` without a list.
fn read_tickless(host: &Host, list: &str) -> Option<ParameterEffect> {
    let text = host.read_line(NOHZ_FULL).ok()?;
    let set = text.trim().parse::<CpuSet>().ok();
    let in_force = compare_list(host, list, |wanted| set == Some(wanted));
    Some(ParameterEffect::new("nohz_full", text.trim(), in_force))
}

/// What a mask shows. It has existing CPUs only; the parameter may name more. The kernel adds
/// `added`.
fn read_mask(
    host: &Host,
    (name, list): (&str, &str),
    path: &str,
    added: &CpuSet,
) -> Option<ParameterEffect> {
    let text = host.read_line(path).ok()?;
    Some(match CpuSet::parse_mask(text.trim()) {
        Ok(set) => {
            let in_force = compare_list(host, list, |wanted| set.is_subset(&wanted.union(added)));
            ParameterEffect::new(name, &set.to_string(), in_force)
        }
        Err(_) => ParameterEffect::new(name, text.trim(), None),
    })
}

/// What the kernel shows for `isolcpus=`: `isolated` for the flag `domain`, `nohz_full` for `nohz`.
/// It does not show the CPUs of `managed_irq`. From 7.0 live partitions can add CPUs to `isolated`,
/// so CPUs in addition to those of the word are no difference there. In `nohz_full` they are one:
/// an earlier `nohz_full=` has set them, and the kernel has ignored this word.
fn read_isolated(host: &Host, value: &str) -> Option<ParameterEffect> {
    let wanted = cmdline::isolcpus(value, possible_cpus(host).last()).ok()?;
    let files = [(wanted.domain, "isolated", ISOLATED), (wanted.nohz, "nohz_full", NOHZ_FULL)];
    let (mut shows, mut is_same) = (Vec::new(), true);
    for (_, name, path) in files.into_iter().filter(|(requested, ..)| *requested) {
        let Ok(text) = host.read_line(path) else { continue };
        let Ok(cpus) = text.trim().parse::<CpuSet>() else { continue };
        is_same &= match path == NOHZ_FULL {
            true => wanted.cpus == cpus,
            false => wanted.cpus.is_subset(&cpus),
        };
        shows.push(format!("{name}: {}", text.trim()));
    }
    let shows = (!shows.is_empty()).then(|| shows.join(", "))?;
    Some(ParameterEffect { shows: Some(shows), in_force: Some(is_same) })
}

/// What the kernel shows for `rcu_nocbs=`: a thread for each of its online CPUs. With
/// `nocb_is_setup` other CPUs have one too, so more threads are no difference
/// (`rcu_spawn_cpu_nocb_kthread()`, kernel/rcu/tree_nocb.h, 6.12).
fn read_offloaded(host: &Host, value: &str) -> Option<ParameterEffect> {
    let online = host.read_line("/sys/devices/system/cpu/online").unwrap_or_default();
    let wanted = CpuSet::parse_list(value, possible_cpus(host).last()).ok()?;
    let online = online.parse::<CpuSet>().ok()?;
    let tasks = host.tasks().unwrap_or_default();
    let threads = offloaded_cpus(tasks.iter())?;
    let shows = if threads.is_empty() { "none".to_owned() } else { threads.to_string() };
    let is_same = wanted.intersection(&online).is_subset(&threads);
    Some(ParameterEffect::new("rcuo threads", &shows, Some(is_same)))
}
