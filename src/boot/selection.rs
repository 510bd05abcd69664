//! Which parameters a plan has: what the request wants, and what the chosen kernels have. Pure; the
//! files of the kernels were read before.

use super::by_hand;
use super::error::BootError;
use super::kernels::SelectedKernels;
use super::line;
use super::loaders::LoaderEntry;
use super::parameters::{
    KernelParameter, PARAMETERS, ParameterOffer, ParameterSupport, ParameterTarget, named,
};
use super::request::{BootRequest, CpuOrigin};
use super::running_kernel;
use crate::documents::boot::{BootReason, ParameterSkipReason, SkippedParameter, WantedParameter};
use crate::documents::machine::Machine;
use crate::documents::plan::Shield;
use crate::survey::named_cokernel;
use crate::tunables;
use cpushield_linux::CpuSet;
use cpushield_linux::text::cmdline::managed_irq_word;
use cpushield_linux::text::kernel_version::KernelVersion;

/// The parameter with the flag `managed_irq`.
const MANAGED_IRQ_NAME: &str = "isolcpus-managed-irq";

/// The kernels that a plan is for.
pub(super) enum PlannedKernels<'a> {
    /// Chosen entries of a boot menu.
    Menu {
        /// All kernels of the menu.
        kernels: &'a SelectedKernels<'a>,
        /// The chosen entries.
        targets: &'a [&'a LoaderEntry],
    },
    /// The running kernel, where there is no menu.
    Running,
}

impl PlannedKernels<'_> {
    /// Whether one of these kernels has a parameter.
    pub(super) fn support(
        &self,
        parameter: &KernelParameter,
        machine: &Machine,
    ) -> ParameterSupport {
        match self {
            PlannedKernels::Menu { kernels, targets } => kernels.any_support(parameter, targets),
            PlannedKernels::Running => running_kernel::support(parameter, machine),
        }
    }

    /// Checks that all of these kernels can take the same words: none may get a `nohz_full=` that
    /// it does not have.
    ///
    /// # Errors
    /// One of them has `nohz_full=`, and another one does not.
    pub(super) fn check_alike(&self, request: &BootRequest) -> Result<(), BootError> {
        let PlannedKernels::Menu { kernels, targets } = self else { return Ok(()) };
        let nohz_full =
            named("nohz-full").filter(|it| request.shield.tunables.choice(it.name).unwrap_or(true));
        let Some(nohz_full) = nohz_full else { return Ok(()) };
        let (mut with, mut without) = (None, None);
        for entry in *targets {
            match kernels.support(nohz_full, entry) {
                ParameterSupport::Present => with = with.or(Some(&entry.version)),
                ParameterSupport::Missing(_) => without = without.or(Some(&entry.version)),
                ParameterSupport::Undecided => {}
            }
        }
        match (with.cloned(), without.cloned()) {
            (Some(with), Some(without)) => Err(BootError::MixedKernels { with, without }),
            _ => Ok(()),
        }
    }

    /// Checks that it is known of all these kernels whether they have the parameters, except those
    /// that the request names.
    ///
    /// # Errors
    /// One of them has a parameter, and it is unknown whether another one does.
    pub(super) fn check_decided(
        &self,
        request: &BootRequest,
        chosen: &[&'static KernelParameter],
    ) -> Result<(), BootError> {
        let PlannedKernels::Menu { kernels, targets } = self else { return Ok(()) };
        let unnamed =
            chosen.iter().filter(|it| request.shield.tunables.choice(it.name) != Some(true));
        let unnamed: Vec<_> = unnamed.collect();
        for entry in *targets {
            let is_undecided = |it: &KernelParameter| {
                matches!(kernels.support(it, entry), ParameterSupport::Undecided)
            };
            let parameters: Vec<_> =
                unnamed.iter().filter(|it| is_undecided(it)).map(|it| it.name).collect();
            let has_one = |other: &&&LoaderEntry| {
                unnamed.iter().any(|it| {
                    parameters.contains(&it.name)
                        && kernels.support(it, other) == ParameterSupport::Present
                })
            };
            if let Some(with) = targets.iter().find(has_one) {
                return Err(BootError::UndecidedKernel {
                    with: with.version.clone(),
                    undecided: entry.version.clone(),
                    parameters,
                });
            }
        }
        Ok(())
    }

    /// Whether none of these kernels has `nohz_full=`, so that `isolcpus=` takes its place where
    /// the shield can have its CPUs. Few kernels with a co-kernel have it, so such a kernel counts
    /// unless the request names it.
    fn need_isolcpus(&self, request: &BootRequest, machine: &Machine) -> bool {
        let Some(nohz_full) = named("nohz-full") else { return false };
        let requested = request.shield.tunables.choice(nohz_full.name) == Some(true);
        let needs = |support: ParameterSupport, names_cokernel: bool, release: Option<&str>| {
            let version = release.and_then(KernelVersion::from_release);
            let lacks = match support {
                ParameterSupport::Present => false,
                ParameterSupport::Missing(_) => true,
                ParameterSupport::Undecided => names_cokernel && !requested,
            };
            lacks && !machine.may_refuse_partition(version)
        };
        match self {
            PlannedKernels::Menu { kernels, targets } => {
                let needs = |entry: &&LoaderEntry| {
                    let support = kernels.support(nohz_full, entry);
                    needs(support, kernels.names_cokernel(entry), Some(entry.release()))
                };
                !targets.is_empty() && targets.iter().all(needs)
            }
            PlannedKernels::Running => {
                let release = machine.kernel.release.as_deref();
                let names_cokernel = release.and_then(named_cokernel).is_some();
                needs(running_kernel::support(nohz_full, machine), names_cokernel, release)
            }
        }
    }

    /// Whether the plan takes CPUs out of the scheduling domains.
    pub(super) fn isolate(&self, request: &BootRequest, machine: &Machine) -> bool {
        let Some(domain) = named("isolcpus-domain") else { return false };
        let wanted = match request.shield.tunables.choice(domain.name) {
            Some(wanted) => wanted,
            None => self.need_isolcpus(request, machine),
        };
        wanted && self.support(domain, machine) == ParameterSupport::Present
    }

    /// The releases of these kernels.
    pub(super) fn versions<'a>(&'a self, machine: &'a Machine) -> Vec<&'a str> {
        match self {
            PlannedKernels::Menu { targets, .. } => {
                targets.iter().map(|entry| entry.release()).collect()
            }
            PlannedKernels::Running => machine.kernel.release.as_deref().into_iter().collect(),
        }
    }

    /// Whether all of these kernels are known to have a parameter.
    fn all_have(&self, parameter: &KernelParameter, machine: &Machine) -> bool {
        let present = ParameterSupport::Present;
        match self {
            PlannedKernels::Menu { kernels, targets } => {
                targets.iter().all(|entry| kernels.support(parameter, entry) == present)
            }
            PlannedKernels::Running => self.support(parameter, machine) == present,
        }
    }

    fn entries(&self) -> &[&LoaderEntry] {
        match self {
            PlannedKernels::Menu { targets, .. } => targets,
            PlannedKernels::Running => &[],
        }
    }
}

/// The parameters of a plan, and those that it leaves out.
#[derive(Default)]
pub(super) struct ParameterSelection {
    /// The parameters as the catalogue has them.
    pub(super) chosen: Vec<&'static KernelParameter>,
    /// The same, with the words for these CPUs.
    pub(super) wanted: Vec<WantedParameter>,
    /// The others, each with the reason.
    pub(super) skipped: Vec<SkippedParameter>,
}

impl ParameterSelection {
    /// The `isolcpus=` with the flag `managed_irq` and what a contradicting one on the line of a
    /// kernel has; `None` where none contradicts.
    fn merged_isolcpus(&self, kernels: &PlannedKernels<'_>, machine: &Machine) -> Option<String> {
        self.chosen.iter().find(|it| it.name == MANAGED_IRQ_NAME)?;
        let mut words = self.wanted.iter().map(|it| it.word.as_str());
        let (word, parsed) = words.find_map(|it| Some((it, line::parsed_isolcpus(it)?)))?;
        let last = machine.topology.possible.last();
        let running = machine.kernel.cmdline.as_deref().zip(machine.kernel.release.as_deref());
        let running = running.filter(|_| matches!(kernels, PlannedKernels::Running));
        let lines = kernels.entries().iter().map(|it| (it.args.as_str(), it.release()));
        lines.chain(running).find_map(|(line, version)| {
            by_hand::present_value(line, word, last)?;
            let refuses = machine.may_refuse_partition(KernelVersion::from_release(version));
            Some(managed_irq_word(line, &parsed.cpus, last, (parsed.domain, refuses)))
        })
    }

    /// Compares the words with the running kernel's command line and those of the chosen entries.
    pub(super) fn compare_with_lines(&mut self, kernels: &PlannedKernels<'_>, machine: &Machine) {
        for wanted in &mut self.wanted {
            compare_with_lines(wanted, machine, kernels.entries());
        }
    }
}

impl ParameterSelection {
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

/// Selects the parameters that the request wants and that the kernels have.
pub(super) fn select_parameters(
    request: &BootRequest,
    origin: CpuOrigin,
    (shield, target): (&Shield, &ParameterTarget),
    kernels: &PlannedKernels<'_>,
    machine: &Machine,
) -> ParameterSelection {
    let wanted =
        tunables::reaches_managed(machine, shield) || !machine.isolation.managed_irq.is_empty();
    let wanted = wanted && named(MANAGED_IRQ_NAME).is_some_and(|it| kernels.all_have(it, machine));
    let isolcpus = kernels.need_isolcpus(request, machine);
    let select = |managed_irqs| {
        let mut selection = ParameterSelection::default();
        for parameter in PARAMETERS {
            let reason = skip_by_request(parameter, request, origin, isolcpus, managed_irqs)
                .or_else(|| skip_by_kernels(parameter, request, kernels, machine));
            match reason {
                Some(reason) => selection.skipped.push(parameter.skip(reason)),
                None => {
                    selection.chosen.push(*parameter);
                    let wanted = wanted_parameter(parameter, target);
                    // One word has all flags: kernels from 4.15 to 5.17 take a second one only in
                    // part.
                    match selection.wanted.iter_mut().find_map(|it| add_flags(it, &wanted)) {
                        Some(()) => {}
                        None => selection.wanted.push(wanted),
                    }
                }
            }
        }
        selection
    };
    let mut selection = select(wanted);
    let Some(merged) = selection.merged_isolcpus(kernels, machine) else { return selection };
    match kernels {
        PlannedKernels::Running => {
            // The steps replace the word.
            let mut words = selection.wanted.iter_mut().map(|it| &mut it.word);
            let word = words.find(|it| line::name_of(it) == "isolcpus");
            word.into_iter().for_each(|it| it.clone_from(&merged));
            selection
        }
        // Unless it was requested, it is left out: the machine may need the other words.
        PlannedKernels::Menu { .. } => select(false),
    }
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

/// Why the kernels leave a parameter out; `None` when one of them has it, or when that is not known
/// and the request names the parameter.
fn skip_by_kernels(
    parameter: &KernelParameter,
    request: &BootRequest,
    kernels: &PlannedKernels<'_>,
    machine: &Machine,
) -> Option<ParameterSkipReason> {
    let requested = request.shield.tunables.choice(parameter.name) == Some(true);
    match kernels.support(parameter, machine) {
        ParameterSupport::Present => None,
        ParameterSupport::Undecided if requested => None,
        ParameterSupport::Undecided => {
            Some(ParameterSkipReason::Undecided { name: parameter.name })
        }
        ParameterSupport::Missing(why) => Some(match kernels {
            PlannedKernels::Menu { .. } => ParameterSkipReason::UnknownToKernels { why },
            PlannedKernels::Running => ParameterSkipReason::UnknownToRunning { why },
        }),
    }
}

fn wanted_parameter(parameter: &KernelParameter, target: &ParameterTarget) -> WantedParameter {
    WantedParameter {
        name: parameter.name.to_owned(),
        word: parameter.word(target),
        reason: parameter.summary.to_owned(),
        substitute: parameter.substitute.map(str::to_owned),
        booted: false,
        in_force: None,
        instead: None,
        already: false,
    }
}

/// Compares a word with the running kernel's command line and with those of the chosen entries.
fn compare_with_lines(wanted: &mut WantedParameter, machine: &Machine, targets: &[&LoaderEntry]) {
    let (word, booted) = (&wanted.word, machine.kernel.cmdline.as_deref().unwrap_or_default());
    let last = machine.topology.possible.last();
    wanted.booted = line::has_on(booted, word, last);
    wanted.instead = by_hand::present_value(booted, word, last);
    let has_word = |entry: &&LoaderEntry| line::has_on(&entry.args, word, last);
    wanted.already = !targets.is_empty() && targets.iter().all(has_word);
}
