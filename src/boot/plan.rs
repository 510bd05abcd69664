//! `Machine` + `ShieldRequest` + the loader's menu → [`BootPlan`]: which parameters, for which
//! kernels. It refuses what is unsafe or contradicts before anything is written, and writes
//! nothing.

use super::by_hand;
use super::document::{BootKernel, BootPlan, SCHEMA, SkippedParameter, WantedParameter};
use super::error::BootError;
use super::grub::generator::{self, KernelRule};
use super::kernel_file;
use super::line;
use super::loaders::{BootLoader, FoundLoader, LoaderEntry};
use super::parameters::{KernelParameter, PARAMETERS, ParameterOffer, ParameterTarget};
use super::status;
use super::warnings::{asked_for_here, different_lists, worth_knowing};
use crate::plan::{PlanRefusal, Shield, choose, named};
use crate::policy::ShieldRequest;
use crate::survey::{IsolationKind, Machine, isolation_setup};
use crate::tunables::nearest;
use cpushield_linux::text::kernel_version::KernelVersion;
use cpushield_linux::text::{cmdline, kconfig, kernel_image};
use cpushield_linux::{CpuSet, Host};
use std::collections::BTreeMap;

/// What the user asks of the boot.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BootRequest {
    /// Which CPUs; switched parameters are in `tunables`.
    pub wish: ShieldRequest,
    /// Which kernels, a pattern of the shell; `None` leaves the choice to the tool.
    pub kernels: Option<String>,
}

/// What an installed kernel says of itself.
struct KernelBuild {
    /// `CONFIG_NO_HZ_FULL` → `y`; empty when its options are not to be had.
    options: BTreeMap<String, String>,
    /// Whether it is a PREEMPT_RT kernel; `None` when nothing says it.
    realtime: Option<bool>,
}

fn built(host: &Host, machine: &Machine, entry: &LoaderEntry) -> KernelBuild {
    let version = entry.version.as_str();
    let running = machine.kernel.release.as_deref() == Some(version);
    let mut options = config(host, version);
    if options.is_empty() && running {
        // The running kernel may say it itself (`/proc/config.gz`).
        options.clone_from(&machine.kernel.config);
    }
    let set = |option| options.get(option).is_some_and(|value: &String| value == "y");
    let said =
        (!options.is_empty()).then(|| set("CONFIG_PREEMPT_RT") || set("CONFIG_PREEMPT_RT_FULL"));
    // Arch keeps no configurations beside its kernels.
    let image = || {
        let mut places =
            vec![format!("/boot/vmlinuz-{version}"), format!("/boot/kernel-{version}")];
        let named = entry.files.iter().flat_map(|it| kernel_file::places(&entry.place, &it.kernel));
        places.extend(named);
        Some(kernel_image::is_realtime(&kernel_file::banner(host, &places)?))
    };
    let realtime = said.or_else(image).or(machine.kernel.realtime.filter(|_| running));
    KernelBuild { options, realtime }
}

fn config(host: &Host, version: &str) -> BTreeMap<String, String> {
    let places = [format!("/boot/config-{version}"), format!("/usr/lib/modules/{version}/config")];
    let text = places.iter().find_map(|place| host.read(place).ok());
    text.and_then(|text| kconfig::parse(&text).ok()).unwrap_or_default()
}

/// The kernels of a menu, and which of them get the parameters.
struct SelectedKernels<'a> {
    versions: Vec<&'a LoaderEntry>,
    built: BTreeMap<String, KernelBuild>,
    rule: KernelRule,
    arch: Option<&'a str>,
}

impl<'a> SelectedKernels<'a> {
    fn built(
        host: &Host,
        machine: &Machine,
        versions: &[&LoaderEntry],
    ) -> BTreeMap<String, KernelBuild> {
        let of = |entry: &&LoaderEntry| (entry.version.clone(), built(host, machine, entry));
        versions.iter().map(of).collect()
    }

    fn realtime(&self, entry: &LoaderEntry) -> Option<bool> {
        self.built.get(&entry.version)?.realtime
    }

    fn is_chosen(&self, index: usize, entry: &LoaderEntry) -> bool {
        match &self.rule {
            KernelRule::Realtime => self.realtime(entry) == Some(true),
            KernelRule::First => index == 0,
            KernelRule::Matching { glob } => generator::matches(glob, &entry.version),
        }
    }

    fn targets(&self) -> Vec<&'a LoaderEntry> {
        let chosen = |(index, entry): &(usize, &&LoaderEntry)| self.is_chosen(*index, entry);
        self.versions.iter().enumerate().filter(chosen).map(|(_, entry)| *entry).collect()
    }

    /// Why a kernel does not know a parameter, if it does not.
    fn unknown(&self, parameter: &KernelParameter, entry: &LoaderEntry) -> Option<String> {
        let version = KernelVersion::of_release(&entry.version);
        parameter.unknown_to(&self.built.get(&entry.version)?.options, self.arch, version)
    }

    /// The same where none of the chosen kernels knows it.
    fn unknown_to_all(
        &self,
        parameter: &KernelParameter,
        targets: &[&LoaderEntry],
    ) -> Option<String> {
        let reasons: Vec<String> =
            targets.iter().filter_map(|entry| self.unknown(parameter, entry)).collect();
        (reasons.len() == targets.len()).then(|| reasons.first().cloned()).flatten()
    }

    fn shown(&self, parameters: &[&KernelParameter]) -> Vec<BootKernel> {
        let unknown = |entry: &LoaderEntry| -> Vec<SkippedParameter> {
            let skipped =
                |it: &&KernelParameter| Some(skipped(it, self.unknown(it, entry)?, false));
            parameters.iter().filter_map(skipped).collect()
        };
        let kernel = |(index, entry): (usize, &&LoaderEntry)| BootKernel {
            version: entry.version.clone(),
            title: entry.title.clone(),
            realtime: self.realtime(entry),
            chosen: self.is_chosen(index, entry),
            panics: cmdline::values(&cmdline::parse(&entry.args), "panic").next().is_some(),
            unknown: unknown(entry),
        };
        self.versions.iter().enumerate().map(kernel).collect()
    }
}

/// Plans the boot.
///
/// # Errors
/// The wish is unsafe or impossible, or contradicts what kernels are given already.
pub fn plan(
    host: &Host,
    machine: &Machine,
    asked: &BootRequest,
    menu: Option<&(&'static dyn BootLoader, FoundLoader)>,
) -> Result<BootPlan, BootError> {
    check_names(asked)?;
    let (shield, named_cpus, mut why) = shield(machine, &asked.wish)?;
    let site = site(machine, &shield);
    let none = FoundLoader::default();
    let found = menu.map_or(&none, |(_, found)| found);
    let versions = versions(found);
    let built = SelectedKernels::built(host, machine, &versions);
    let rule = rule(asked, found, &built, &mut why)?;
    let arch = machine.kernel.arch.as_deref();
    let kernels = SelectedKernels { versions, built, rule, arch };
    let targets = kernels.targets();
    if targets.is_empty() && menu.is_some() {
        return Err(no_kernel(asked, &kernels.versions));
    }
    let (mut given, mut parameters, mut skipped) = (Vec::new(), Vec::new(), Vec::new());
    for parameter in PARAMETERS {
        let by_all = || match menu {
            Some(_) => kernels.unknown_to_all(parameter, &targets),
            None => by_hand::unknown(parameter, machine),
        };
        let by_all = || by_all().map(|reason| self::skipped(parameter, reason, false));
        match unwanted(parameter, asked, named_cpus).or_else(by_all) {
            Some(it) => skipped.push(it),
            None => {
                given.push(*parameter);
                parameters.push(wanted(parameter, &site, machine, &targets));
            }
        }
    }
    if let Some((loader, _)) = menu {
        check_lines(host, *loader, &targets, &parameters, arch)?;
    }
    let shown = kernels.shown(&given);
    let mut warnings =
        worth_knowing(found, machine, &shown, different_lists(&targets, &parameters));
    warnings.extend(asked_for_here(machine, &shield, &parameters));
    let instructions = match menu {
        Some(_) => Vec::new(),
        None => by_hand::steps(host, machine.kernel.cmdline.as_deref(), arch, &parameters),
    };
    Ok(BootPlan {
        schema: SCHEMA,
        loader: menu.map(|(loader, _)| loader.name().to_owned()),
        covers_later: menu.is_some_and(|(loader, _)| loader.covers_later(host)),
        proves: proves(&site, named_cpus),
        cpus: site.cpus,
        housekeeping: site.rest,
        why,
        skipped,
        next: next(found),
        warnings,
        rule: kernels.rule,
        instructions,
        kernels: shown,
        parameters,
    })
}

/// A plan of these words and no others for the running kernel: what a person wrote, not what this
/// tool would choose.
///
/// # Errors
/// The words cannot be written, contradict what the kernel is given already, or the running kernel
/// is in no menu.
pub fn of_words(
    host: &Host,
    words: &[String],
    menu: Option<&(&'static dyn BootLoader, FoundLoader)>,
) -> Result<BootPlan, BootError> {
    let version = host.read_line("/proc/sys/kernel/osrelease")?;
    let booted = host.read_line("/proc/cmdline")?;
    let none = FoundLoader::default();
    let found = menu.map_or(&none, |(_, found)| found);
    let versions = versions(found);
    let target = versions.iter().find(|entry| entry.version == version).copied();
    let targets: Vec<&LoaderEntry> = target.into_iter().collect();
    if targets.is_empty() && menu.is_some() {
        let known = versions.iter().map(|entry| entry.version.clone()).collect();
        return Err(BootError::NoKernel { asked: version, known });
    }
    let wanted = |word: &String| WantedParameter {
        name: word.split('=').next().unwrap_or_default().to_owned(),
        word: word.clone(),
        reason: "asked for by its word".to_owned(),
        substitute: None,
        booted: line::has(&booted, word),
        instead: by_hand::instead(&booted, word),
        already: targets.iter().any(|entry| line::has(&entry.args, word)),
    };
    let parameters: Vec<WantedParameter> = words.iter().map(wanted).collect();
    if let Some((loader, _)) = menu {
        check_lines(host, *loader, &targets, &parameters, host.build_arch().as_deref())?;
    }
    let kernel = |entry: &&LoaderEntry| BootKernel {
        version: entry.version.clone(),
        title: entry.title.clone(),
        realtime: None,
        chosen: true,
        panics: cmdline::values(&cmdline::parse(&entry.args), "panic").next().is_some(),
        unknown: Vec::new(),
    };
    Ok(BootPlan {
        schema: SCHEMA,
        loader: menu.map(|(loader, _)| loader.name().to_owned()),
        covers_later: false,
        cpus: CpuSet::new(),
        housekeeping: CpuSet::new(),
        proves: CpuSet::new(),
        why: Vec::new(),
        skipped: Vec::new(),
        rule: KernelRule::Matching { glob: version },
        next: next(found),
        warnings: found.warnings.clone(),
        instructions: match menu {
            Some(_) => Vec::new(),
            None => {
                let arch = host.build_arch();
                by_hand::steps(host, Some(&booted), arch.as_deref(), &parameters)
            }
        },
        kernels: targets.iter().map(kernel).collect(),
        parameters,
    })
}

/// CPUs that were named shall hold. Of a prepared boot one is enough: a shield on all of them at
/// once would leave nearly none to whatever starts.
fn proves(site: &ParameterTarget, named_cpus: bool) -> CpuSet {
    if named_cpus { site.cpus.clone() } else { site.cpus.last().into_iter().collect() }
}

fn no_kernel(asked: &BootRequest, versions: &[&LoaderEntry]) -> BootError {
    let known = versions.iter().map(|entry| entry.version.clone()).collect();
    let asked = asked.kernels.clone().unwrap_or_else(|| "a PREEMPT_RT kernel".to_owned());
    BootError::NoKernel { asked, known }
}

/// Which entry boots next, and why.
pub(super) fn next(found: &FoundLoader) -> Option<String> {
    let entry = found.entries.get(found.next?)?;
    Some(format!("{} ({})", entry.title, found.why))
}

/// One entry of each kernel, that of the loader's own configuration: the first one.
fn versions(found: &FoundLoader) -> Vec<&LoaderEntry> {
    let mut seen: Vec<&LoaderEntry> = Vec::new();
    for entry in found.entries.iter().filter(|entry| !entry.ours) {
        if seen.iter().all(|known| known.version != entry.version) {
            seen.push(entry);
        }
    }
    seen
}

fn check_names(asked: &BootRequest) -> Result<(), BootError> {
    for (name, on) in &asked.wish.tunables {
        match super::parameters::named(name) {
            Some(KernelParameter { offer: ParameterOffer::Never(why), .. }) if *on => {
                return Err(BootError::Never { name: name.clone(), why });
            }
            Some(_) => {}
            // A policy switches tunables of the running kernel too.
            None if crate::tunables::named(name).is_some() => {}
            None => {
                let known: Vec<&str> = PARAMETERS.iter().map(|p| p.name).collect();
                let near = nearest(name, &known);
                return Err(BootError::NoSuchParameter { name: name.clone(), near });
            }
        }
    }
    match &asked.kernels {
        Some(glob) if !generator::plain_glob(glob) => {
            Err(BootError::NotPlain { what: "--kernels".to_owned(), text: glob.clone() })
        }
        _ => Ok(()),
    }
}

/// The CPUs: those of the wish, or every one that could ever be shielded.
fn shield(
    machine: &Machine,
    wish: &ShieldRequest,
) -> Result<(Shield, bool, Vec<String>), BootError> {
    let named_cpus =
        wish.cpus.is_some() || wish.count.is_some() || wish.near.is_some() || wish.node.is_some();
    let (shield, why) = if named_cpus {
        let choice = choose(machine, wish)?;
        (choice.shield, choice.why)
    } else {
        let shield = shieldable(machine, wish)?;
        let why = format!(
            "{} can be shielded at any time after this boot; the boot CPU's core, and a core of \
             each memory node, stay as they are",
            named(&shield.cpus)
        );
        (shield, vec![why])
    };
    if shield.cpus.contains(0) {
        return Err(BootError::BootCpu { cpus: shield.cpus });
    }
    Ok((shield, named_cpus, why))
}

fn site(machine: &Machine, shield: &Shield) -> ParameterTarget {
    let all = machine.topology.possible.union(&machine.topology.online);
    ParameterTarget { cpus: shield.cpus.clone(), rest: all.minus(&shield.cpus) }
}

fn shieldable(machine: &Machine, wish: &ShieldRequest) -> Result<Shield, PlanRefusal> {
    let most = |count| ShieldRequest { count: Some(count), share: None, ..wish.clone() };
    let online = machine.topology.online.len();
    match choose(machine, &most(online)) {
        Err(PlanRefusal::TooMany { possible, .. }) if possible > 0 => {
            choose(machine, &most(possible)).map(|choice| choice.shield)
        }
        answer => answer.map(|choice| choice.shield),
    }
}

/// Which kernels: those asked for; else RT kernels when there are any; else the one that boots.
fn rule(
    asked: &BootRequest,
    found: &FoundLoader,
    configs: &BTreeMap<String, KernelBuild>,
    why: &mut Vec<String>,
) -> Result<KernelRule, BootError> {
    if let Some(glob) = &asked.kernels {
        return Ok(KernelRule::Matching { glob: glob.clone() });
    }
    if configs.values().any(|it| it.realtime == Some(true)) {
        why.push("PREEMPT_RT kernels get the parameters, all others stay as they are".to_owned());
        return Ok(KernelRule::Realtime);
    }
    let none = if configs.values().all(|it| it.realtime == Some(false)) {
        "there is no PREEMPT_RT kernel"
    } else {
        "no kernel is known to be a PREEMPT_RT one"
    };
    let boots = found.next.and_then(|index| found.entries.get(index));
    let first = found.entries.iter().find(|entry| !entry.ours);
    Ok(match (boots, first) {
        (_, None) => {
            why.push("could not list the installed kernels".to_owned());
            KernelRule::First
        }
        (Some(boots), Some(first)) if boots.version != first.version => {
            why.push(format!(
                "{none}: {}, which boots by default, gets the parameters; {}, the first one of the \
                 menu, does not",
                boots.version, first.version
            ));
            KernelRule::Matching { glob: boots.version.clone() }
        }
        _ => {
            why.push(format!("{none}: the first one of the menu gets the parameters"));
            KernelRule::First
        }
    })
}

/// Why a parameter is not wanted, if it is not.
fn unwanted(
    parameter: &KernelParameter,
    asked: &BootRequest,
    named_cpus: bool,
) -> Option<SkippedParameter> {
    let name = parameter.name;
    let no = |reason: &str| Some(skipped(parameter, reason.to_owned(), false));
    let unasked = |reason: &str| Some(skipped(parameter, format!("{reason} (--on {name})"), true));
    match (asked.wish.tunables.get(name), parameter.offer) {
        (Some(false), _) => no("switched off by the wish"),
        (_, ParameterOffer::Never(why)) => no(why),
        (Some(true), _) | (None, ParameterOffer::Always) => None,
        (None, ParameterOffer::ForNamedCpus) if named_cpus => None,
        (None, ParameterOffer::ForNamedCpus) => {
            unasked("only with CPUs of your own choice, --cpus LIST")
        }
        (None, ParameterOffer::Asked(why)) => unasked(why),
    }
}

fn skipped(parameter: &KernelParameter, reason: String, on_request: bool) -> SkippedParameter {
    SkippedParameter { name: parameter.name.to_owned(), reason, on_request }
}

fn wanted(
    parameter: &KernelParameter,
    site: &ParameterTarget,
    machine: &Machine,
    targets: &[&LoaderEntry],
) -> WantedParameter {
    let word = parameter.word(site);
    let line = machine.kernel.cmdline.as_deref().unwrap_or_default();
    let (booted, instead) = (line::has(line, &word), by_hand::instead(line, &word));
    let already = !targets.is_empty() && targets.iter().all(|entry| line::has(&entry.args, &word));
    WantedParameter {
        name: parameter.name.to_owned(),
        reason: parameter.summary.to_owned(),
        substitute: parameter.substitute.map(str::to_owned),
        word,
        booted,
        instead,
        already,
    }
}

/// A kernel that has one list for `nohz_full=` and `isolcpus=` must not be given two: it would take
/// ours, which comes first, and drop the isolation that the user asked for.
fn check_lists(
    host: &Host,
    loader: &dyn BootLoader,
    entry: &LoaderEntry,
    words: &[String],
) -> Result<(), BootError> {
    let Some(version) = KernelVersion::of_release(&entry.version) else { return Ok(()) };
    let possible = status::possible_cpus(host);
    match line::ignored_beside(&entry.args, words, &possible, Some(version)) {
        None => Ok(()),
        Some(fault) => Err(BootError::ListsDiffer {
            version: entry.version.clone(),
            place: loader.source(host, "isolcpus").unwrap_or_else(|| entry.place.clone()),
            isolcpus: isolation_setup(&entry.args, &possible, Some(version))
                .cpus(IsolationKind::Domain),
            fault: Box::new(fault),
        }),
    }
}

/// Every chosen kernel must be able to take the words beside what it is given already.
fn check_lines(
    host: &Host,
    loader: &dyn BootLoader,
    targets: &[&LoaderEntry],
    parameters: &[WantedParameter],
    arch: Option<&str>,
) -> Result<(), BootError> {
    let words: Vec<String> = parameters.iter().map(|wanted| wanted.word.clone()).collect();
    if let Some(word) = words.iter().find(|word| !line::plain(word)) {
        return Err(BootError::NotPlain { what: "the parameter".to_owned(), text: word.clone() });
    }
    for entry in targets {
        // GRUB puts `BOOT_IMAGE=` and the kernel's file in front.
        let text = format!("BOOT_IMAGE=/boot/vmlinuz-{} {}", entry.version, entry.args);
        if let Err(conflict) = line::merge(&text, &words, line::limit(arch)) {
            let keyword = match &conflict {
                line::ParameterConflict::Differs { there, .. }
                | line::ParameterConflict::Mismatch { there, .. } => {
                    there.split('=').next().unwrap_or("").to_owned()
                }
                _ => String::new(),
            };
            let place = loader.source(host, &keyword).filter(|_| !keyword.is_empty());
            return Err(BootError::Conflict {
                version: entry.version.clone(),
                place: place.unwrap_or_else(|| entry.place.clone()),
                why: conflict.to_string(),
            });
        }
        check_lists(host, loader, entry, &words)?;
    }
    Ok(())
}
