//! Which parameters a plan has: what the request wants, and what the chosen kernels have. Pure; the
//! files of the kernels were read before.

use super::line;
use super::parameters::{
    KernelParameter, PARAMETERS, ParameterOffer, ParameterSupport, ParameterTarget, named,
};
use super::planned_kernel::PlannedKernel;
use super::request::{BootRequest, CpuOrigin};
use crate::documents::boot::{
    BootReason, BootWarning, ParameterSkipReason, SkippedParameter, WantedParameter,
};
use crate::documents::machine::Machine;
use crate::documents::plan::Shield;
use crate::tunables;
use cpushield_linux::CpuSet;
use cpushield_linux::text::cmdline::managed_irq_word;

/// The parameter with the flag `managed_irq`.
const MANAGED_IRQ_NAME: &str = "isolcpus-managed-irq";

/// The parameters of a plan, and those that it leaves out.
#[derive(Default)]
pub(super) struct ParameterSelection {
    /// The parameters with the words for these CPUs.
    pub(super) wanted: Vec<WantedParameter>,
    /// The others, each with the reason.
    pub(super) skipped: Vec<SkippedParameter>,
    /// Parameters that are wanted although it is unknown whether a kernel has them.
    pub(super) undecided: Vec<BootWarning>,
}

impl ParameterSelection {
    /// Joins the selections for several kernels. A word that not all of them get names its kernels,
    /// and a parameter is left out if all leave it out.
    pub(super) fn join(kernels: &[PlannedKernel<'_>], all: Vec<ParameterSelection>) -> Self {
        let mut joined = ParameterSelection::default();
        let versions = kernels.iter().map(|it| it.entry.map(|entry| entry.version.clone()));
        for (version, selection) in versions.zip(all) {
            for mut wanted in selection.wanted {
                wanted.kernels = version.iter().cloned().collect();
                match joined.wanted.iter_mut().find(|it| it.word == wanted.word) {
                    Some(known) => known.kernels.append(&mut wanted.kernels),
                    None => joined.wanted.push(wanted),
                }
            }
            joined.skipped.extend(selection.skipped);
            joined.undecided.extend(selection.undecided);
        }
        for wanted in joined.wanted.iter_mut().filter(|it| it.kernels.len() == kernels.len()) {
            wanted.kernels.clear();
        }
        let place = |name: &str| PARAMETERS.iter().position(|it| it.name == name);
        joined.wanted.sort_by_key(|it| place(&it.name));
        let mut seen: Vec<String> = joined.wanted.iter().map(|it| it.name.clone()).collect();
        joined.skipped.retain(|it| {
            let is_new = !seen.contains(&it.name);
            seen.push(it.name.clone());
            is_new
        });
        joined
    }

    /// Compares the words with the running kernel's command line and those of the chosen entries.
    pub(super) fn compare_with_lines(&mut self, kernels: &[PlannedKernel<'_>], machine: &Machine) {
        let booted = machine.kernel.cmdline.as_deref().unwrap_or_default();
        let last = machine.topology.possible.last();
        for wanted in &mut self.wanted {
            let has = |line: &str| line::has_on(line, &wanted.word, last);
            let own = kernels.iter().filter(|it| it.gets(wanted));
            wanted.already = own.clone().all(|it| it.entry.is_some_and(|it| has(&it.args)));
            wanted.booted = has(booted);
            wanted.instead = line::present_value(booted, &wanted.word, last);
        }
    }

    /// CPUs that a list of the running boot has and that cpushield did not choose, because they
    /// share a core with the boot CPU.
    pub(super) fn left_out_sibling(
        &self,
        machine: &Machine,
        origin: CpuOrigin,
        chosen: &CpuSet,
    ) -> Option<BootReason> {
        let topology = &machine.topology;
        let boot = topology.online.first().filter(|_| origin == CpuOrigin::Shieldable)?;
        let core = &topology.cpu(boot)?.siblings;
        let present = self.wanted.iter().filter_map(|it| it.instead.as_deref());
        let lists = present.filter_map(|word| match word.split_once('=')? {
            ("nohz_full" | "rcu_nocbs", list) => {
                CpuSet::parse_list(list, topology.possible.last()).ok()
            }
            _ => None,
        });
        let mut cpus = lists.fold(CpuSet::new(), |all, list| all.union(&list));
        cpus = cpus.intersection(core).difference(chosen).difference(&CpuSet::single(boot));
        (!cpus.is_empty()).then_some(BootReason::BootSibling { cpus, boot })
    }
}

/// Selects the parameters that the request wants and that the kernel has.
pub(super) fn select_parameters(
    request: &BootRequest,
    origin: CpuOrigin,
    (shield, target): (&Shield, &ParameterTarget),
    kernel: &PlannedKernel<'_>,
    machine: &Machine,
) -> ParameterSelection {
    let reaches =
        tunables::reaches_managed(machine, shield) || !machine.isolation.managed_irq.is_empty();
    let has = |it: &KernelParameter| kernel.support(it) == ParameterSupport::Present;
    let managed_irqs = reaches && named(MANAGED_IRQ_NAME).is_some_and(has);
    let isolcpus = kernel.needs_isolcpus(request, machine);
    let select = |managed_irqs| {
        let mut selection = ParameterSelection::default();
        for parameter in PARAMETERS {
            let reason = skip_by_request(parameter, request, origin, isolcpus, managed_irqs)
                .or_else(|| skip_by_kernel(parameter, request, kernel));
            if let Some(reason) = reason {
                selection.skipped.push(parameter.skip(reason));
                continue;
            }
            if let (ParameterSupport::Undecided, Some(entry)) =
                (kernel.support(parameter), kernel.entry)
            {
                selection.undecided.push(BootWarning::ParameterUndecided {
                    version: entry.version.clone(),
                    parameter: parameter.name.to_owned(),
                    backported: parameter.is_backported_to(entry.release()),
                });
            }
            let wanted = wanted_parameter(parameter, target);
            // One word has all flags: kernels from 4.15 to 5.17 take a second one only in part.
            match selection.wanted.iter_mut().find_map(|it| add_flags(it, &wanted)) {
                Some(()) => {}
                None => selection.wanted.push(wanted),
            }
        }
        selection
    };
    let mut selection = select(managed_irqs);
    let is_selected = selection.skipped.iter().all(|it| it.name != MANAGED_IRQ_NAME);
    let word = selection.wanted.iter_mut().map(|it| &mut it.word);
    let word = word.filter(|_| is_selected).find(|it| line::parsed_isolcpus(it).is_some());
    match word.and_then(|word| Some((merged_isolcpus(kernel, word, machine)?, word))) {
        None => selection,
        // The steps replace the word.
        Some((merged, word)) if kernel.entry.is_none() => {
            *word = merged;
            selection
        }
        // Unless it was requested, it is left out: the machine may need the other words.
        Some(_) => select(false),
    }
}

/// The `isolcpus=` with the flag `managed_irq` and what a contradicting one on the line of the
/// kernel has; `None` where that does not contradict.
fn merged_isolcpus(kernel: &PlannedKernel<'_>, word: &str, machine: &Machine) -> Option<String> {
    let (parsed, line) = (line::parsed_isolcpus(word)?, kernel.line?);
    let last = machine.topology.possible.last();
    line::present_value(line, word, last)?;
    let refuses = kernel.may_refuse_partition(machine);
    Some(managed_irq_word(line, &parsed.cpus, last, (parsed.domain, refuses)))
}

/// Adds the flags of another `isolcpus=` to one with the same CPUs.
fn add_flags(wanted: &mut WantedParameter, other: &WantedParameter) -> Option<()> {
    wanted.word = line::join_isolcpus(&wanted.word, &other.word)?;
    wanted.reason = format!("{}; {}", wanted.reason, other.reason);
    Some(())
}

/// Why the request leaves a parameter out; `None` when it does not.
fn skip_by_request(
    parameter: &KernelParameter,
    request: &BootRequest,
    origin: CpuOrigin,
    isolcpus: bool,
    managed_irqs: bool,
) -> Option<ParameterSkipReason> {
    let name = parameter.name;
    match (request.shield.tunables.choice(name), parameter.offer) {
        (Some(false), _) => Some(ParameterSkipReason::SwitchedOff),
        (_, ParameterOffer::Never(why)) => Some(ParameterSkipReason::Never { why }),
        (Some(true), _) | (None, ParameterOffer::Always) => None,
        (None, ParameterOffer::ForNamedCpus) => match origin {
            CpuOrigin::Requested => None,
            CpuOrigin::Shieldable | CpuOrigin::IsolatedCore => {
                Some(ParameterSkipReason::ForNamedCpus { name })
            }
        },
        (None, ParameterOffer::WithoutNohzFull(_)) if isolcpus => None,
        (None, ParameterOffer::ForManagedIrqs(_)) if managed_irqs => None,
        (
            None,
            ParameterOffer::WithoutNohzFull(why)
            | ParameterOffer::ForManagedIrqs(why)
            | ParameterOffer::OnRequest(why),
        ) => Some(ParameterSkipReason::OnRequest { why, name }),
    }
}

/// Why the kernel leaves a parameter out; `None` when it has it, or when that is not known and the
/// request names the parameter.
fn skip_by_kernel(
    parameter: &KernelParameter,
    request: &BootRequest,
    kernel: &PlannedKernel<'_>,
) -> Option<ParameterSkipReason> {
    let requested = request.shield.tunables.choice(parameter.name) == Some(true);
    match kernel.support(parameter) {
        ParameterSupport::Present => None,
        ParameterSupport::Undecided if requested => None,
        ParameterSupport::Undecided => {
            Some(ParameterSkipReason::Undecided { name: parameter.name })
        }
        ParameterSupport::Missing(why) => Some(match kernel.entry {
            Some(_) => ParameterSkipReason::UnknownToKernels { why },
            None => ParameterSkipReason::UnknownToRunning { why },
        }),
    }
}

fn wanted_parameter(parameter: &KernelParameter, target: &ParameterTarget) -> WantedParameter {
    WantedParameter {
        name: parameter.name.to_owned(),
        word: parameter.word(target),
        reason: parameter.summary.to_owned(),
        substitute: parameter.substitute.map(str::to_owned),
        ..WantedParameter::default()
    }
}
