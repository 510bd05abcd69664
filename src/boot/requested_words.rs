//! Kernel parameters that the user wrote (`--parameter`, `boot.parameters` of a policy): checked
//! against the names of the kernel's own document and the modules of the chosen kernels. Writes
//! nothing.

use super::error::BootError;
use super::kernel_modules::{KernelModules, ModuleParameter};
use super::loaders::find_word_purpose;
use super::parameters::{
    KERNEL_NAMES, KernelParameter, ParameterSupport, names_kernel_parameter, unknown_value,
    with_keyword,
};
use super::request::UnknownWords;
use super::{line, lint};
use crate::documents::boot::{FaultyWord, UnknownReason, WantedParameter, WordFault};
use crate::policy::RequestedParameter;
use crate::registry::{nearest, nearest_spelling};
use cpushield_linux::Host;
use cpushield_linux::cpuset::CPUS_MAX;
use cpushield_linux::text::cmdline;

/// Checks the words of a request and adds them to a plan for kernels of these versions. A word that
/// the plan already has is not added.
///
/// # Errors
/// A word is malformed, contradicts another one, or is unknown.
pub(super) fn add_requested(
    host: &Host,
    requested: &[RequestedParameter],
    unknown: UnknownWords,
    versions: &[&str],
    wanted: &mut Vec<WantedParameter>,
) -> Result<(), BootError> {
    let planned = wanted.len();
    for (index, request) in requested.iter().enumerate() {
        let word = request.word.as_str();
        let earlier = requested.get(..index).unwrap_or_default();
        let found = find_fault(word, earlier, wanted.get(..planned).unwrap_or_default());
        let found = found.map(|fault| (fault, Vec::new())).or_else(|| match unknown {
            UnknownWords::Refuse => find_unknown(host, word, versions),
            UnknownWords::Accept => None,
        });
        if let Some((fault, near)) = found {
            return Err(refuse(request, fault, near));
        }
        match wanted.iter_mut().find(|it| line::has(&it.word, word)) {
            // All chosen kernels get it now.
            Some(planned) => planned.kernels.clear(),
            None => wanted.push(WantedParameter {
                name: line::name_of(word).to_owned(),
                word: word.to_owned(),
                reason: format!("requested: {}", request.place),
                ..WantedParameter::default()
            }),
        }
    }
    Ok(())
}

/// Checks that one of the chosen kernels has each of the words, as far as that is known. `support`
/// says whether one of them has a parameter.
///
/// # Errors
/// No chosen kernel has the parameter.
pub(super) fn check_support(
    requested: &[RequestedParameter],
    support: impl Fn(&KernelParameter) -> ParameterSupport,
) -> Result<(), BootError> {
    let Some((request, why)) = find_missing(requested, support).next() else { return Ok(()) };
    Err(refuse(request, WordFault::NotInKernels { why }, Vec::new()))
}

/// The refusal of a word; `near` are similar names.
pub(super) fn refuse(
    request: &RequestedParameter,
    fault: WordFault,
    near: Vec<String>,
) -> BootError {
    let RequestedParameter { place, word } = request.clone();
    BootError::FaultyWord(Box::new(FaultyWord { place, word, fault, near }))
}

/// The words that none of the chosen kernels has, each with the reason.
pub(super) fn find_missing(
    requested: &[RequestedParameter],
    support: impl Fn(&KernelParameter) -> ParameterSupport,
) -> impl Iterator<Item = (&RequestedParameter, UnknownReason)> {
    requested.iter().filter_map(move |request| {
        match support(with_keyword(line::name_of(&request.word)).next()?) {
            ParameterSupport::Missing(why) => Some((request, why)),
            _ => None,
        }
    })
}

/// What is wrong with the form of a word, or together with the other words.
fn find_fault(
    word: &str,
    earlier: &[RequestedParameter],
    planned: &[WantedParameter],
) -> Option<WordFault> {
    if !line::is_plain(word) {
        return Some(WordFault::NotPlain);
    }
    if let Some(purpose) = find_word_purpose(word) {
        return Some(WordFault::MarksEntry { purpose });
    }
    if line::name_of(word).ends_with('.') {
        return Some(WordFault::NoParameterName);
    }
    // Without a list, `nohz_full` is a word of a patch series (`find_unreleased`).
    if lint::lacks_value(word) && !cmdline::same_name(word, "nohz_full") {
        return Some(WordFault::NoValue);
    }
    if let Err(why) = line::check_list(word) {
        return Some(WordFault::NotCpuList { why });
    }
    let name = line::name_of(word);
    if let Some(parameter) = planned.iter().find(|it| line::contradicts(&it.word, word)) {
        let (planned, name) = (parameter.word.clone(), parameter.name.clone());
        return Some(WordFault::Planned { planned, name });
    }
    let twice = earlier.iter().find(|it| {
        cmdline::same_name(line::name_of(&it.word), name) && line::contradicts(&it.word, word)
    })?;
    Some(WordFault::GivenTwice { other: twice.word.clone(), place: twice.place.clone() })
}

/// What is wrong with a word by itself, and similar names. `None` when nothing is, or when only the
/// modules of a kernel can tell.
#[must_use]
pub fn find_word_fault(word: &str) -> Option<(WordFault, Vec<String>)> {
    if let Some(fault) = find_fault(word, &[], &[]) {
        return Some((fault, Vec::new()));
    }
    let is_of_module = line::name_of(word).contains('.');
    find_unlisted(word).filter(|(fault, _)| !(is_of_module && *fault == WordFault::UnknownName))
}

/// Why a name is not known to any of the kernels, and similar names; `None` when it is known.
pub(super) fn find_unknown(
    host: &Host,
    word: &str,
    versions: &[&str],
) -> Option<(WordFault, Vec<String>)> {
    let (fault, near) = find_unlisted(word)?;
    let (WordFault::UnknownName, Some((module, parameter))) =
        (&fault, line::name_of(word).split_once('.'))
    else {
        return Some((fault, near));
    };
    let mut first = None;
    for version in versions {
        let (fault, similar) = find_module_fault(host, version, module, parameter)?;
        first.get_or_insert((fault, if similar.is_empty() { near.clone() } else { similar }));
    }
    Some(first.unwrap_or((fault, near)))
}

/// Why the kernel's document does not have a word, and similar names; `None` when it does.
fn find_unlisted(word: &str) -> Option<(WordFault, Vec<String>)> {
    if let Some(found) = find_unreleased(word) {
        return Some(found);
    }
    let (name, value) = line::split(word);
    if let Some(unknown) = value.and_then(|value| unknown_value(name, value)) {
        let near = unknown.near.into_iter().map(|near| format!("{name}={near}")).collect();
        return Some((WordFault::UnknownValue { takes: unknown.takes }, near));
    }
    if names_kernel_parameter(name) || name.starts_with("sysctl.") {
        return None;
    }
    let listed: Vec<&str> = KERNEL_NAMES.lines().filter(|line| !line.starts_with('#')).collect();
    Some((WordFault::UnknownName, nearest_spelling(name, &listed)))
}

/// A flag of `isolcpus=` that no released kernel has, or `nohz_full` without a list.
fn find_unreleased(word: &str) -> Option<(WordFault, Vec<String>)> {
    let (name, value) = line::split(word);
    if cmdline::same_name(name, "nohz_full") && value.is_none() {
        let page = "nohz-full-without-list";
        return Some((WordFault::Unreleased { page }, Vec::new()));
    }
    let value = value.filter(|_| cmdline::same_name(name, "isolcpus"))?;
    let isolcpus = cmdline::isolcpus(value, Some(CPUS_MAX - 1)).ok()?;
    if isolcpus.io_queue {
        let page = "isolcpus-io-queue";
        return Some((WordFault::Unreleased { page }, Vec::new()));
    }
    let flag = isolcpus.unknown.first()?.clone();
    let near = nearest(&flag, cmdline::ISOLCPUS_FLAGS);
    Some((WordFault::UnknownFlag { flag }, near))
}

/// Why a kernel does not have a parameter of a module, and similar names; `None` when it has it.
fn find_module_fault(
    host: &Host,
    version: &str,
    module: &str,
    parameter: &str,
) -> Option<(WordFault, Vec<String>)> {
    let version = version.to_owned();
    let Some(modules) = KernelModules::read(host, &version) else {
        return Some((WordFault::ModulesUnknown { version }, Vec::new()));
    };
    match modules.find(module, parameter) {
        ModuleParameter::Present => None,
        ModuleParameter::Unreadable(why) => {
            let module = module.to_owned();
            Some((WordFault::ModuleUnreadable { module, version, why }, Vec::new()))
        }
        ModuleParameter::Absent(known) => {
            let known: Vec<&str> = known.iter().map(String::as_str).collect();
            let near = nearest(parameter, &known);
            let near = near.iter().map(|near| format!("{module}.{near}")).collect();
            let (module, parameter) = (module.to_owned(), parameter.to_owned());
            Some((WordFault::NoModuleParameter { module, parameter, version }, near))
        }
        ModuleParameter::NoModule => {
            let names = modules.names();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let near = nearest_spelling(module, &names);
            let near = near.iter().map(|near| format!("{near}.{parameter}")).collect();
            Some((WordFault::NoModule { module: module.to_owned(), version }, near))
        }
    }
}
