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
use super::loaders::{FoundLoader, InstalledLoader, LoaderEntry};
use super::menu_lst::WordsOfKernel;
use super::parameter_effect;
use super::parameters::{KernelParameter, PARAMETERS, ParameterOffer, ParameterTarget};
use super::planned_lines::LinesToCheck;
pub use super::request::BootRequest;
use super::request::{CpuOrigin, MeasuredRow, UnknownWords};
use super::requested_words::{add_requested, check_support, find_missing};
use super::running_kernel::{online_cpus, possible_cpus};
use super::selection::{ParameterSelection, PlannedKernels, select_parameters};
use super::switches::{Switch, named_switch};
use super::warnings;
use crate::documents::boot::{
    BootKernel, BootPlan, BootReason, BootWarning, EntryChange, KernelRule, RealtimeAbsence,
    SCHEMA, WantedParameter,
};
use crate::documents::{machine::Machine, plan::Shield};
use crate::glob;
use crate::plan::PlanRefusal;
use crate::policy::is_shield_name;
use crate::registry::nearest;
use cpushield_linux::{CpuSet, Host};
use std::collections::BTreeMap;

/// Plans the boot.
///
/// # Errors
/// The request is unsafe or impossible, or contradicts parameters that kernels already have.
pub fn plan(
    host: &Host,
    machine: &Machine,
    request: &BootRequest,
    menu: Option<&InstalledLoader>,
) -> Result<BootPlan, BootError> {
    check_names(request)?;
    let none = FoundLoader::default();
    let found = menu.map_or(&none, |(_, found)| found);
    let mut why_kernels = Vec::new();
    let kernels = SelectedKernels::new(host, machine, kernels::first_entries(found), |builds| {
        choose_rule(request, found, builds, &mut why_kernels)
    });
    let targets = kernels.targets();
    let planned = planned_kernels(menu, &kernels, &targets);
    planned.check_alike(request)?;
    match menu {
        Some(_) if targets.is_empty() => {
            return Err(no_matching_kernel(request, &kernels.entries));
        }
        Some(_) => {}
        None => check_running_kernel(machine, request)?,
    }
    let SelectedWords { origin, mut why, target, mut selection, mut warnings } =
        select_words(host, machine, request, &planned)?;
    why.extend(why_kernels);
    selection.compare_with_lines(&planned, machine);
    why.extend(selection.left_out_sibling(machine, origin, &target.cpus));
    let versions = planned.versions(machine);
    warnings.extend(warnings::inapplicable_requests(&request.shield, &selection.skipped));
    warnings.extend(warnings::planned_domain(machine, &selection.wanted, &versions, origin));
    let proves = trial_cpus(&target, origin);
    let ParameterTarget { cpus, rest } = target;
    let plan_words = |entry: &LoaderEntry| words_of_kernel(host, machine, request, entry);
    let draft = PlanDraft { selection, cpus, housekeeping: rest, proves, why, warnings };
    draft.complete(host, machine, menu, kernels, Some(&plan_words))
}

/// The parameters for a request and its kernels, and the CPUs that they are for.
struct SelectedWords {
    origin: CpuOrigin,
    why: Vec<BootReason>,
    target: ParameterTarget,
    selection: ParameterSelection,
    /// Accepted words that no chosen kernel has.
    warnings: Vec<BootWarning>,
}

fn select_words(
    host: &Host,
    machine: &Machine,
    request: &BootRequest,
    planned: &PlannedKernels<'_>,
) -> Result<SelectedWords, BootError> {
    let (shield, origin, why) = choose_shield(machine, request, planned)?;
    let target = parameter_target(machine, &shield);
    let mut selection = select_parameters(request, origin, (&shield, &target), planned, machine);
    planned.check_decided(request, &selection.chosen)?;
    add_requested(
        host,
        &request.shield.parameters,
        request.unknown_words,
        &planned.versions(machine),
        &mut selection.wanted,
    )?;
    let (requested, versions) = (&request.shield.parameters, planned.versions(machine));
    let support = |parameter: &KernelParameter| planned.support(parameter, machine);
    if request.unknown_words == UnknownWords::Refuse {
        check_support(requested, support)?;
    }
    let missing = find_missing(requested, support).map(|(request, why)| {
        let (version, parameter) = (versions.join(", "), request.word.clone());
        BootWarning::ParameterUnknown { version, parameter, why }
    });
    let warnings = missing.collect();
    Ok(SelectedWords { origin, why, target, selection, warnings })
}

/// The words of a kernel that only a menu for the user lists; `None` when it cannot get any.
fn words_of_kernel(
    host: &Host,
    machine: &Machine,
    request: &BootRequest,
    entry: &LoaderEntry,
) -> Option<Vec<String>> {
    let kernels = SelectedKernels::new(host, machine, vec![entry], |_| KernelRule::First);
    let targets = kernels.targets();
    let planned = PlannedKernels::Menu { kernels: &kernels, targets: &targets };
    let selected = select_words(host, machine, request, &planned).ok()?;
    Some(selected.selection.wanted.into_iter().map(|wanted| wanted.word).collect())
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
        menu: Option<&InstalledLoader>,
        kernels: SelectedKernels<'_>,
        plan_words: Option<&WordsOfKernel<'_>>,
    ) -> Result<BootPlan, BootError> {
        let PlanDraft { selection, cpus, housekeeping, proves, why, warnings } = self;
        let ParameterSelection { chosen, wanted: mut parameters, skipped } = selection;
        parameter_effect::read_effects(host, &mut parameters);
        let (targets, arch) = (kernels.targets(), kernels.arch);
        let none = FoundLoader::default();
        let planned = LinesToCheck {
            host,
            parameters: &parameters,
            arch,
            possible: &machine.topology.possible,
            online: &machine.topology.online,
        };
        let faults = match menu {
            Some((loader, _)) => planned.check_entries(*loader, &targets)?,
            None => planned.check_words(machine.kernel.release.as_deref().unwrap_or_default())?,
        };
        let found = menu.map_or(&none, |(_, found)| found);
        let described = kernels.describe(&chosen);
        let kernels_of_menu = (described.as_slice(), kernels.without_options(&targets));
        let mut all_warnings =
            warnings::collect(found, machine, kernels_of_menu, &targets, &parameters);
        all_warnings.extend(warnings);
        all_warnings.extend(faults);
        let instructions = match menu {
            Some(_) => Vec::new(),
            None => {
                let now = machine.kernel.cmdline.as_deref();
                by_hand::steps(host, now, arch, (&parameters, &all_warnings), plan_words)
            }
        };
        let versions: Vec<&str> = targets.iter().map(|entry| entry.version.as_str()).collect();
        Ok(BootPlan {
            schema: SCHEMA,
            loader: menu.map(|(loader, _)| loader.name().to_owned()),
            covers_later: found.covers_later,
            entries: list_changes(menu, &versions, &parameters),
            spared: find_spared(found),
            proves,
            cpus,
            housekeeping,
            why,
            skipped,
            next: found.next_boot(),
            warnings: all_warnings,
            foreign: foreign_words::find(host, &names_of(&parameters)),
            rule: kernels.rule,
            instructions,
            kernels: described,
            parameters,
        })
    }
}

/// The chosen entries of the menu, or the running kernel without one.
fn planned_kernels<'a>(
    menu: Option<&InstalledLoader>,
    kernels: &'a SelectedKernels<'a>,
    targets: &'a [&'a LoaderEntry],
) -> PlannedKernels<'a> {
    match menu {
        Some(_) => PlannedKernels::Menu { kernels, targets },
        None => PlannedKernels::Running,
    }
}

/// What the parameters change in each entry of the menu; nothing without a menu.
fn list_changes(
    menu: Option<&InstalledLoader>,
    versions: &[&str],
    parameters: &[WantedParameter],
) -> Vec<EntryChange> {
    menu.map_or_else(Vec::new, |(loader, found)| find_changes(*loader, found, versions, parameters))
}

/// The names on the command line of planned parameters.
fn names_of(parameters: &[WantedParameter]) -> Vec<&str> {
    parameters.iter().map(|wanted| line::name_of(&wanted.word)).collect()
}

/// Plans exactly these words for one kernel, by default the running one: parameters that the user
/// wrote, not the ones that this tool would choose.
///
/// # Errors
/// The words cannot be written, contradict parameters that the kernel already has, or the kernel
/// is not in the menu.
pub fn for_words(
    host: &Host,
    release: Option<&str>,
    words: &[String],
    menu: Option<&InstalledLoader>,
) -> Result<BootPlan, BootError> {
    let running = host.read_line("/proc/sys/kernel/osrelease")?;
    let version = release.unwrap_or(&running).to_owned();
    let booted = host.read_line("/proc/cmdline")?;
    let none = FoundLoader::default();
    let found = menu.map_or(&none, |(_, found)| found);
    let entries = kernels::first_entries(found);
    let target = entries.iter().find(|entry| entry.release() == version).copied();
    if target.is_none() && (menu.is_some() || version != running) {
        let known = entries.iter().map(|entry| entry.release().to_owned()).collect();
        return Err(BootError::NoKernel { asked: version, known });
    }
    let (arch, possible, online) = (host.build_arch(), possible_cpus(host), online_cpus(host));
    let last = possible.last();
    let mut parameters = Vec::new();
    for word in words {
        parameters.push(WantedParameter {
            name: line::name_of(word).to_owned(),
            word: word.clone(),
            reason: "requested as a word".to_owned(),
            substitute: None,
            booted: line::has_on(&booted, word, last),
            in_force: None,
            instead: by_hand::present_value(&booted, word, last),
            already: target.is_some_and(|entry| line::has_on(&entry.args, word, last)),
        });
    }
    parameter_effect::read_effects(host, &mut parameters);
    let (arch, possible, online) = (arch.as_deref(), &possible, &online);
    let planned = LinesToCheck { host, parameters: &parameters, arch, possible, online };
    let faults = match menu {
        Some((loader, _)) => planned.check_entries(*loader, target.as_slice())?,
        None => planned.check_words(&version)?,
    };
    let name = target.map_or(version, |entry| entry.version.clone());
    let kernel = target.map(|entry| BootKernel {
        version: entry.version.clone(),
        release: entry.release.clone(),
        title: entry.title.clone(),
        realtime: None,
        realtime_kind: None,
        chosen: true,
        panics: kernels::has_panic_word(entry),
        unknown: Vec::new(),
        undecided: Vec::new(),
    });
    Ok(BootPlan {
        schema: SCHEMA,
        loader: menu.map(|(loader, _)| loader.name().to_owned()),
        covers_later: false,
        entries: list_changes(menu, &[&name], &parameters),
        spared: find_spared(found),
        cpus: CpuSet::new(),
        housekeeping: CpuSet::new(),
        proves: CpuSet::new(),
        why: Vec::new(),
        skipped: Vec::new(),
        rule: KernelRule::Matching { glob: name },
        next: found.next_boot(),
        warnings: found.warnings.iter().cloned().chain(faults).collect(),
        foreign: foreign_words::find(host, &names_of(&parameters)),
        instructions: match menu {
            Some(_) => Vec::new(),
            None => by_hand::steps(host, Some(&booted), arch, (&parameters, &[]), None),
        },
        kernels: kernel.into_iter().collect(),
        parameters,
    })
}

/// Plans the parameters of a row that an experiment has measured.
///
/// # Errors
/// The words cannot be written, contradict parameters that a kernel already has, or no kernel of
/// the menu matches.
pub fn for_row(
    host: &Host,
    machine: &Machine,
    row: &MeasuredRow,
    menu: Option<&InstalledLoader>,
) -> Result<BootPlan, BootError> {
    let none = FoundLoader::default();
    let found = menu.map_or(&none, |(_, found)| found);
    let rule = KernelRule::Matching { glob: row.kernels.clone() };
    let kernels = SelectedKernels::new(host, machine, kernels::first_entries(found), |_| rule);
    let targets = kernels.targets();
    let planned = planned_kernels(menu, &kernels, &targets);
    if targets.is_empty() && menu.is_some() {
        let known = kernels.entries.iter().map(|entry| entry.version.clone()).collect();
        return Err(BootError::NoKernel { asked: row.kernels.clone(), known });
    }
    let mut selection = ParameterSelection::default();
    // The experiment has booted the words, so that no document has to know them.
    let accept = UnknownWords::Accept;
    add_requested(
        host,
        &row.parameters,
        accept,
        &planned.versions(machine),
        &mut selection.wanted,
    )?;
    selection.compare_with_lines(&planned, machine);
    let name = &row.name;
    let incomplete = row.missing.clone();
    let incomplete = incomplete.map(|why| BootWarning::RowIncomplete { row: name.clone(), why });
    let draft = PlanDraft {
        selection,
        cpus: row.cpus.clone(),
        housekeeping: machine.topology.online.difference(&row.cpus),
        proves: row.cpus.difference(&CpuSet::single(0)),
        why: vec![BootReason::MeasuredRow { row: name.clone(), file: row.file.clone() }],
        warnings: incomplete.into_iter().collect(),
    };
    draft.complete(host, machine, menu, kernels, None)
}

fn no_matching_kernel(request: &BootRequest, entries: &[&LoaderEntry]) -> BootError {
    let known = entries.iter().map(|entry| entry.version.clone()).collect();
    let asked = request.kernels.clone().unwrap_or_else(|| "a real-time kernel".to_owned());
    BootError::NoKernel { asked, known }
}

/// Without a menu, the parameters are for the running kernel.
fn check_running_kernel(machine: &Machine, request: &BootRequest) -> Result<(), BootError> {
    match (&request.kernels, &machine.kernel.release) {
        (Some(asked), Some(running)) if !glob::matches(asked, running) => {
            Err(BootError::NotRunning { asked: asked.clone(), running: running.clone() })
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
    request: &BootRequest,
    found: &FoundLoader,
    builds: &BTreeMap<String, KernelBuild>,
    why: &mut Vec<BootReason>,
) -> KernelRule {
    if let Some(glob) = &request.kernels {
        return KernelRule::Matching { glob: glob.clone() };
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
