//! `Machine` + `ShieldRequest` + the loader's menu → [`BootPlan`]: which parameters, for which
//! kernels. Refuses unsafe or contradictory parameters before anything is written, and writes
//! nothing itself.

use super::by_hand;
use super::cpu_choice::{choose_shield, trial_cpus};
use super::entry_changes::{find_changes, find_spared};
use super::error::BootError;
use super::foreign_words;
use super::kernels::{self, KernelBuild, SelectedKernels};
use super::line;
use super::lint::{LintTarget, find_unstarted};
use super::loaders::{self, BootLoader, FoundLoader, InstalledLoader, LoaderEntry};
use super::parameter_effect;
use super::parameters::{KernelParameter, PARAMETERS, ParameterOffer, ParameterTarget};
use super::planned_kernel::{PlannedKernel, best_support};
use super::planned_lines::{LinesToCheck, words_of};
pub use super::request::BootRequest;
use super::request::{GivenWords, UnknownWords, WordSource};
use super::requested_words::{add_requested, check_support, find_missing, refuse};
use super::selection::{ParameterSelection, select_parameters};
use super::switches::{Switch, named_switch};
use super::warnings;
use crate::documents::boot::{
    BootPlan, BootReason, BootWarning, KernelRule, RealtimeAbsence, SCHEMA, WordFault,
};
use crate::documents::{machine::Machine, plan::Shield};
use crate::glob;
use crate::plan::PlanRefusal;
use crate::policy::{RequestedParameter, is_shield_name};
use crate::registry::nearest;
use crate::survey::list_rules;
use cpushield_linux::text::cmdline;
use cpushield_linux::text::kernel_version::KernelVersion;
use cpushield_linux::{CpuSet, Host};
use std::collections::BTreeMap;

/// Plans the boot.
///
/// # Errors
/// The request is unsafe or impossible, or contradicts parameters that kernels already have.
pub fn plan(
    host: &Host,
    machine: &Machine,
    source: WordSource<'_>,
    menu: Option<&InstalledLoader>,
) -> Result<BootPlan, BootError> {
    let none = FoundLoader::default();
    // Where the user edits the menu, its kernels get the words too.
    let is_experiment = matches!(source, WordSource::Given(GivenWords { row: None, .. }));
    let listed = match menu {
        None if !is_experiment => loaders::find_menu_lst(host),
        _ => None,
    };
    let loader = menu.map(|(loader, _)| *loader);
    let menu = menu.map(|(_, found)| found).or(listed.as_ref());
    let found = menu.unwrap_or(&none);
    let mut why_kernels = Vec::new();
    let asked = match source {
        WordSource::Request(request) => {
            check_names(request)?;
            request.kernels.as_deref()
        }
        WordSource::Given(given) => Some(given.kernels.as_str()),
    };
    let kernels = SelectedKernels::new(host, machine, kernels::first_entries(found), |builds| {
        choose_rule(asked, found, builds, &mut why_kernels)
    });
    let targets = kernels.targets();
    match menu {
        Some(_) if targets.is_empty() => return Err(no_matching_kernel(asked, &kernels.entries)),
        Some(_) => {}
        None => check_running_kernel(machine, asked)?,
    }
    let planned: Vec<PlannedKernel> = match menu {
        Some(_) => targets.iter().map(|entry| kernels.planned(entry)).collect(),
        None => vec![PlannedKernel::running(machine)],
    };
    let draft = match source {
        WordSource::Request(request) => {
            draft_request(host, machine, (request, why_kernels), &planned)?
        }
        WordSource::Given(given) => draft_given(host, machine, given, &planned)?,
    };
    draft.complete(host, machine, (loader, found), &kernels)
}

/// Drafts a plan whose parameters are chosen.
fn draft_request(
    host: &Host,
    machine: &Machine,
    (request, why_kernels): (&BootRequest, Vec<BootReason>),
    planned: &[PlannedKernel<'_>],
) -> Result<PlanDraft, BootError> {
    let (shield, origin, mut why) = choose_shield(machine, request, planned)?;
    let target = parameter_target(machine, &shield);
    let select = |kernel| select_parameters(request, origin, (&shield, &target), kernel, machine);
    let mut selection = ParameterSelection::join(planned, planned.iter().map(select).collect());
    let (requested, versions) = (&request.shield.parameters, versions(planned));
    add_requested(host, requested, request.unknown_words, &versions, &mut selection.wanted)?;
    let support = |parameter: &KernelParameter| best_support(planned, parameter);
    if request.unknown_words == UnknownWords::Refuse {
        check_support(requested, support)?;
    }
    let missing = find_missing(requested, support).map(|(request, why)| {
        let (version, parameter) = (versions.join(", "), request.word.clone());
        BootWarning::ParameterUnknown { version, parameter, why }
    });
    let mut warnings: Vec<BootWarning> = missing.collect();
    selection.compare_with_lines(planned, machine);
    why.extend(why_kernels);
    why.extend(selection.left_out_sibling(machine, origin, &target.cpus));
    warnings.extend(warnings::inapplicable_requests(&request.shield, &selection.skipped));
    warnings.extend(warnings::planned_domain(machine, &selection.wanted, planned, origin));
    let proves = trial_cpus(&target, origin);
    let ParameterTarget { cpus, rest } = target;
    Ok(PlanDraft { selection, cpus, housekeeping: rest, proves, why, warnings })
}

/// Drafts a plan of given words, which the user or an experiment has booted or will.
fn draft_given(
    host: &Host,
    machine: &Machine,
    given: &GivenWords,
    planned: &[PlannedKernel<'_>],
) -> Result<PlanDraft, BootError> {
    let mut selection = ParameterSelection::default();
    let (words, wanted) = (&given.parameters, &mut selection.wanted);
    add_requested(host, words, given.unknown, &versions(planned), wanted)?;
    if given.unknown == UnknownWords::Refuse {
        check_support(words, |parameter| best_support(planned, parameter))?;
    }
    let mut releases = planned.iter().map(|kernel| kernel.release.unwrap_or_default());
    releases.try_for_each(|release| check_started(machine, release, words, &given.cpus))?;
    selection.compare_with_lines(planned, machine);
    let row = given.row.as_ref();
    let why = row.map(|it| BootReason::MeasuredRow { row: it.name.clone(), file: it.file.clone() });
    let incomplete = row.and_then(|it| {
        Some(BootWarning::RowIncomplete { row: it.name.clone(), why: it.missing.clone()? })
    });
    Ok(PlanDraft {
        selection,
        housekeeping: machine.topology.online.difference(&given.cpus),
        proves: given.cpus.difference(&CpuSet::single(0)),
        cpus: given.cpus.clone(),
        why: why.into_iter().collect(),
        warnings: incomplete.into_iter().collect(),
    })
}

/// Checks that a kernel of this release starts these CPUs.
fn check_started(
    machine: &Machine,
    release: &str,
    words: &[RequestedParameter],
    cpus: &CpuSet,
) -> Result<(), BootError> {
    let target = LintTarget {
        running: false,
        version: KernelVersion::from_release(release),
        list_rules: list_rules(release),
        ..LintTarget::running(machine)
    };
    for word in words {
        let found = find_unstarted(&target, &cmdline::parse(&word.word), cpus);
        if let Some((started, cpus)) = found {
            return Err(refuse(word, WordFault::CpusNotStarted { started, cpus }, Vec::new()));
        }
    }
    Ok(())
}

/// The releases of these kernels, as far as they are known.
fn versions<'a>(planned: &[PlannedKernel<'a>]) -> Vec<&'a str> {
    planned.iter().filter_map(|kernel| kernel.release).collect()
}

/// What is planned before the lines of the kernels are checked.
struct PlanDraft {
    selection: ParameterSelection,
    cpus: CpuSet,
    housekeeping: CpuSet,
    proves: CpuSet,
    why: Vec<BootReason>,
    /// Warnings in addition to those about the menu and its kernels.
    warnings: Vec<BootWarning>,
}

impl PlanDraft {
    /// Checks that the chosen kernels can take the words, and describes what they change.
    fn complete(
        self,
        host: &Host,
        machine: &Machine,
        (loader, found): (Option<&dyn BootLoader>, &FoundLoader),
        kernels: &SelectedKernels<'_>,
    ) -> Result<BootPlan, BootError> {
        let PlanDraft { selection, cpus, housekeeping, proves, why, warnings } = self;
        let ParameterSelection { wanted: mut parameters, skipped, undecided } = selection;
        parameter_effect::read_effects(host, &mut parameters);
        let (targets, arch) = (kernels.targets(), kernels.arch);
        let last = machine.topology.possible.last();
        let planned = LinesToCheck {
            host,
            parameters: &parameters,
            arch,
            possible: &machine.topology.possible,
            online: &machine.topology.online,
        };
        let faults = match targets.is_empty() {
            false if loader.is_none() => {
                // The steps replace other values.
                let without = |entry: &&LoaderEntry| {
                    let own = words_of(&parameters, &entry.version);
                    let args = line::without_contradicting(&entry.args, &own, last);
                    LoaderEntry { args, ..(*entry).clone() }
                };
                let replaced: Vec<LoaderEntry> = targets.iter().map(without).collect();
                planned.check_entries(loader, &replaced.iter().collect::<Vec<_>>())?
            }
            false => planned.check_entries(loader, &targets)?,
            true => planned.check_words(machine.kernel.release.as_deref().unwrap_or_default())?,
        };
        let without_options = kernels.without_options(&targets);
        let mut all_warnings =
            warnings::collect(found, machine, without_options, &targets, &parameters);
        all_warnings.extend(undecided);
        all_warnings.extend(warnings);
        all_warnings.extend(faults);
        let versions: Vec<&str> = targets.iter().map(|entry| entry.version.as_str()).collect();
        let instructions = match (loader, versions.as_slice()) {
            (Some(_), _) => Vec::new(),
            (None, []) => {
                let now = machine.kernel.cmdline.as_deref();
                by_hand::steps(host, now, arch, (&parameters, &all_warnings))
            }
            (None, kernels) => {
                let mut steps = loaders::menu_lst_steps(found, kernels, &parameters, last);
                steps.push(by_hand::CHECK.to_owned());
                steps
            }
        };
        let names: Vec<&str> = parameters.iter().map(|it| line::name_of(&it.word)).collect();
        Ok(BootPlan {
            schema: SCHEMA,
            loader: loader.map(|loader| loader.name().to_owned()),
            covers_later: found.covers_later,
            entries: loader.map_or_else(Vec::new, |loader| {
                find_changes(loader, found, &versions, &parameters)
            }),
            spared: find_spared(found),
            proves,
            cpus,
            housekeeping,
            why,
            skipped,
            next: found.next_boot(),
            warnings: all_warnings,
            foreign: foreign_words::find(host, &names),
            rule: kernels.rule.clone(),
            instructions,
            kernels: kernels.describe(),
            parameters,
        })
    }
}

fn no_matching_kernel(asked: Option<&str>, entries: &[&LoaderEntry]) -> BootError {
    let known = entries.iter().map(|entry| entry.release().to_owned()).collect();
    let asked = asked.unwrap_or("a real-time kernel").to_owned();
    BootError::NoKernel { asked, known }
}

/// Without a menu, the parameters are for the running kernel.
fn check_running_kernel(machine: &Machine, asked: Option<&str>) -> Result<(), BootError> {
    match (asked, &machine.kernel.release) {
        (Some(asked), Some(running)) if !glob::matches(asked, running) => {
            Err(BootError::NotRunning { asked: asked.to_owned(), running: running.clone() })
        }
        _ => Ok(()),
    }
}

fn check_names(request: &BootRequest) -> Result<(), BootError> {
    let name = &request.shield.name;
    if !is_shield_name(name) {
        return Err(PlanRefusal::BadName { name: name.clone() }.into());
    }
    for (name, setting) in request.shield.tunables.iter() {
        // A policy switches tunables of the running kernel too.
        match named_switch(name).map(Switch::parameter) {
            Some(Some(KernelParameter { offer: ParameterOffer::Never(why), .. }))
                if setting.is_on() =>
            {
                return Err(BootError::Never { name: name.clone(), why });
            }
            Some(_) => {}
            None => {
                let known: Vec<&str> = PARAMETERS.iter().map(|p| p.name).collect();
                let near = nearest(name, &known);
                return Err(BootError::NoSuchParameter { name: name.clone(), near });
            }
        }
    }
    match &request.kernels {
        Some(pattern) if !glob::is_plain(pattern) => {
            Err(BootError::NotPlain { what: "--kernels".to_owned(), text: pattern.clone() })
        }
        _ => Ok(()),
    }
}

fn parameter_target(machine: &Machine, shield: &Shield) -> ParameterTarget {
    let all = machine.topology.possible.union(&machine.topology.online);
    ParameterTarget { cpus: shield.cpus.clone(), rest: all.difference(&shield.cpus) }
}

/// Chooses the kernels: the requested ones; else the real-time kernels when there are any; else
/// the one that boots.
fn choose_rule(
    asked: Option<&str>,
    found: &FoundLoader,
    builds: &BTreeMap<String, KernelBuild>,
    why: &mut Vec<BootReason>,
) -> KernelRule {
    if let Some(glob) = asked {
        return KernelRule::Matching { glob: glob.to_owned() };
    }
    if builds.values().any(|build| build.is_realtime() == Some(true)) {
        why.push(BootReason::RealtimeKernels);
        return KernelRule::Realtime;
    }
    let realtime = if builds.values().all(|build| build.is_realtime() == Some(false)) {
        RealtimeAbsence::None
    } else {
        RealtimeAbsence::Unknown
    };
    let default = found.next_entry().filter(|entry| entry.purpose.is_none());
    let first = found.entries.iter().find(|entry| !entry.ours && entry.purpose.is_none());
    match (default, first) {
        (_, None) => {
            why.push(BootReason::KernelsUnlisted);
            KernelRule::First
        }
        (Some(default), Some(first)) if default.version != first.version => {
            why.push(BootReason::DefaultKernel {
                realtime,
                version: default.version.clone(),
                first: first.version.clone(),
            });
            KernelRule::Matching { glob: default.version.clone() }
        }
        _ => {
            why.push(BootReason::FirstKernel { realtime });
            KernelRule::First
        }
    }
}
