//! What a person is to type where this tool writes no loader's files. The running kernel stands in
//! for the entries of a menu: what it was built with and what it was given. Pure but for signs of
//! loaders, which [`loaders::manual`] looks for.

use super::document::WantedParameter;
use super::line::{self, ParameterConflict};
use super::loaders;
use super::parameters::KernelParameter;
use super::status::possible_cpus;
use crate::survey::Machine;
use cpushield_linux::Host;
use cpushield_linux::text::kernel_version::KernelVersion;

/// Why the running kernel does not know a parameter, if it does not.
pub(super) fn unknown(parameter: &KernelParameter, machine: &Machine) -> Option<String> {
    let kernel = &machine.kernel;
    let version = kernel.version.map(|(major, minor)| KernelVersion::new(major, minor));
    let by_config = parameter.unknown_to(&kernel.config, kernel.arch.as_deref(), version);
    let no_tick = parameter.keyword == "nohz_full" && machine.can_stop_tick() == Some(false);
    let by_file = || no_tick.then(|| "built without CONFIG_NO_HZ_FULL".to_owned());
    let reason = by_config.or_else(by_file)?;
    Some(format!("the running kernel does not know it: {reason}"))
}

/// What a command line has in the place of a word.
pub(super) fn instead(line: &str, word: &str) -> Option<String> {
    match line::merge(line, &[word.to_owned()], usize::MAX) {
        Err(ParameterConflict::Differs { there, .. }) => Some(there),
        _ => None,
    }
}

/// What to do with a command line that has this text now.
pub(super) fn steps(
    host: &Host,
    now: Option<&str>,
    arch: Option<&str>,
    parameters: &[WantedParameter],
) -> Vec<String> {
    let now = now.unwrap_or_default();
    let todo: Vec<&WantedParameter> = parameters.iter().filter(|it| !it.booted).collect();
    if todo.is_empty() && !parameters.is_empty() {
        return vec![
            "the running kernel was booted with all of them: nothing is to be added".into(),
        ];
    }
    let words: Vec<String> = todo.iter().map(|wanted| wanted.word.clone()).collect();
    let there: Vec<&str> = todo.iter().filter_map(|it| it.instead.as_deref()).collect();
    let mut lines: Vec<String> = conflicts(host, now, arch, &words);
    if let Some((name, steps)) = loaders::manual(host, &words) {
        if !there.is_empty() {
            lines.push(format!("take out of the kernel's command line first: {}", there.join(" ")));
        }
        lines.push(format!("this machine has {name}:"));
        lines.extend(steps);
        return lines;
    }
    if !there.is_empty() {
        lines.push(
            "replace on the kernel's command line in your boot loader's configuration:".to_owned(),
        );
        let replaced = todo.iter().filter_map(|it| Some((it.instead.as_ref()?, &it.word)));
        lines.extend(replaced.map(|(there, word)| format!("    {there}  by  {word}")));
    }
    let new: Vec<&str> =
        todo.iter().filter(|it| it.instead.is_none()).map(|it| it.word.as_str()).collect();
    if !new.is_empty() {
        lines.push(
            "add these words to the kernel's command line in your boot loader's configuration:"
                .to_owned(),
        );
        lines.push(format!("    {}", new.join(" ")));
    }
    lines.push("boot, then see: cpushield boot status".to_owned());
    lines
}

/// What stands in the way of the words beside other values of the same parameters.
fn conflicts(host: &Host, now: &str, arch: Option<&str>, words: &[String]) -> Vec<String> {
    let conflict =
        |word: &String| match line::merge(now, std::slice::from_ref(word), line::limit(arch))
            .err()?
        {
            ParameterConflict::Differs { .. } => None,
            conflict => Some(format!("first: {conflict}")),
        };
    let mut lines: Vec<String> = words.iter().filter_map(conflict).collect();
    lines.dedup();
    let release = host.read_line("/proc/sys/kernel/osrelease").unwrap_or_default();
    let version = KernelVersion::of_release(&release);
    let ignored = line::ignored_beside(now, words, &possible_cpus(host), version);
    lines.extend(ignored.map(|fault| format!("first: {}; otherwise {fault}", fault.advice())));
    lines
}
