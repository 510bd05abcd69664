//! The active profile of tuned with all that it includes, as tuned merges it (`Loader` and `Merger`
//! in tuned/profiles/, 2.20).

use super::kernel_line::to_word;
use super::tuned_values::ProfileVariables;
use super::{
    Machine, OtherTool, SettingPlace, SettingTarget, SetupError, ToolSetting, ToolSetup,
    ToolShield, UnknownValue,
};
use cpushield_linux::error::present;
use cpushield_linux::text::cmdline;
use cpushield_linux::text::tuned_profile::{self, ProfileFile};
use cpushield_linux::{CpuSet, Host};

const ACTIVE: &str = "/etc/tuned/active_profile";
/// What the plugin `bootloader` writes (tuned/plugins/plugin_bootloader.py).
const BOOT_WORDS: &str = "/etc/tuned/bootcmdline";
const MAIN: &str = "/etc/tuned/tuned-main.conf";
/// The folders of profiles, the first one that has a profile wins. Releases differ in whether they
/// have `profiles`.
const DIRS: [&str; 4] =
    ["/etc/tuned/profiles", "/etc/tuned", "/usr/lib/tuned/profiles", "/usr/lib/tuned"];
/// Options that each section may have, and that set nothing (`Unit` in tuned/profiles/unit.py, and
/// the priority of an instance).
const OF_UNITS: &[&str] = &[
    "type",
    "enabled",
    "replace",
    "drop",
    "devices",
    "devices_udev_regex",
    "cpuinfo_regex",
    "uname_regex",
    "script_pre",
    "script_post",
    "priority",
];
/// The options that name the isolated CPUs, in the order in which they decide.
const CPU_OPTIONS: [(&str, &str); 3] = [
    ("variables", "isolated_cores"),
    ("scheduler", "isolated_cores"),
    ("irqbalance", "banned_cpus"),
];
/// The parameters in the kernel's words of a profile that name isolated CPUs.
const CPU_WORDS: [&str; 2] = ["isolcpus", "nohz_full"];

/// An option of the merged profile.
#[derive(Debug, Clone)]
struct MergedOption {
    section: String,
    name: String,
    value: String,
    place: SettingPlace,
}

/// Reads the active profile.
pub(super) fn read_tuned(host: &Host, machine: &Machine) -> Result<ToolSetup, SetupError> {
    let names = present(host.read_regular(ACTIVE))?.ok_or_else(|| {
        let why = "no profile is active, or tuned is not installed";
        nothing(why.to_owned(), vec![ACTIVE.to_owned()])
    })?;
    let names = names.split_whitespace().collect::<Vec<_>>().join(" ");
    if names.is_empty() {
        return Err(nothing("no profile is active".to_owned(), vec![ACTIVE.to_owned()]));
    }
    let mut reader = ProfileReader::new(host);
    for name in names.split(' ') {
        reader.load(name, &SettingPlace::file(ACTIVE))?;
    }
    let (options, files) = (reader.options, reader.files);
    let (variables, variable_places) = read_variables(host, machine, &options)?;
    let settings = collect_settings(&options, &variables);
    let shield = match find_shield(&options, &variables, &variable_places, &settings) {
        // tuned may have written what only it can compute.
        Err(error @ SetupError::UnknownCpus { .. }) => match read_boot_words(host) {
            None => return Err(error),
            written => written,
        },
        found => found?,
    };
    let Some(shield) = shield else {
        let why = format!("the active profile {names} names no isolated CPUs");
        let place = |it: &SettingPlace| it.file.clone();
        let mut looked_in = files;
        looked_in.extend(variable_places.iter().map(|(_, it)| place(it)));
        looked_in.dedup();
        return Err(nothing(why, looked_in));
    };
    let runs = machine.tasks.iter().any(|it| it.task.comm == "tuned" && !it.task.kthread);
    let mut remarks = vec![match runs {
        true => "tuned is running".to_owned(),
        false => "tuned is not running".to_owned(),
    }];
    remarks.push(format!("profile: {names} ({ACTIVE}), read from {}", files.join(", ")));
    let (tool, name) = (OtherTool::Tuned, Some(names));
    Ok(ToolSetup { tool, name, shields: vec![shield], settings, remarks })
}

fn nothing(why: String, looked_in: Vec<String>) -> SetupError {
    SetupError::NothingFound { tool: OtherTool::Tuned, why, looked_in }
}

/// Loads profiles and merges them: those that a profile includes come before it.
struct ProfileReader<'a> {
    host: &'a Host,
    dirs: Vec<String>,
    files: Vec<String>,
    options: Vec<MergedOption>,
}

impl<'a> ProfileReader<'a> {
    fn new(host: &'a Host) -> ProfileReader<'a> {
        ProfileReader { host, dirs: profile_dirs(host), files: Vec::new(), options: Vec::new() }
    }

    /// Loads a profile. A minus before its name allows that there is none.
    fn load(&mut self, name: &str, place: &SettingPlace) -> Result<(), SetupError> {
        let (name, may_miss) = match name.strip_prefix('-') {
            Some(name) => (name, true),
            None => (name, false),
        };
        // tuned takes the last part too, so that a name stays in the folder.
        let name = name.rsplit('/').next().unwrap_or(name);
        let paths = self.dirs.iter().map(|dir| format!("{dir}/{name}/tuned.conf"));
        let paths: Vec<String> = paths.collect();
        let known = |path: &&String| self.host.exists(path) && !self.files.contains(path);
        let is_name = !name.is_empty() && name != "." && name != "..";
        let Some(path) = paths.iter().find(known).filter(|_| is_name).cloned() else {
            let loaded = paths.iter().any(|path| self.files.contains(path));
            if may_miss || loaded {
                return Ok(());
            }
            let why = format!("{place} names the profile {name}, which does not exist");
            return Err(nothing(why, paths));
        };
        self.files.push(path.clone());
        let text = self.host.read_regular(&path)?;
        let parsed = tuned_profile::parse(&text, ProfileFile::Profile);
        let parsed = parsed.map_err(|error| error.at(&path))?;
        let folder = path.trim_end_matches("/tuned.conf");
        let mut own = Vec::new();
        for option in parsed {
            let value = option.value.unwrap_or_default().replace("${i:PROFILE_DIR}", folder);
            let place = SettingPlace::line(&path, option.line);
            own.push(MergedOption { section: option.section, name: option.name, value, place });
        }
        let include = own.iter().rev().find(|it| it.section == "main" && it.name == "include");
        if let Some(include) = include.cloned() {
            for name in include.value.split([',', ';']).map(str::trim).filter(|it| !it.is_empty()) {
                self.load(name, &include.place)?;
            }
        }
        self.merge(own);
        Ok(())
    }

    fn merge(&mut self, own: Vec<MergedOption>) {
        let is_set = |value: &str| ["1", "true", "True"].contains(&value);
        let replaced = own.iter().filter(|it| it.name == "replace" && is_set(&it.value));
        let replaced: Vec<String> = replaced.map(|it| it.section.clone()).collect();
        self.options.retain(|it| !replaced.contains(&it.section));
        for new in own {
            if new.name == "drop" {
                let dropped: Vec<&str> = new.value.split([',', ';']).map(str::trim).collect();
                self.options
                    .retain(|it| it.section != new.section || !dropped.contains(&it.name.as_str()));
                continue;
            }
            let same = |it: &&mut MergedOption| it.section == new.section && it.name == new.name;
            match self.options.iter_mut().find(same) {
                Some(old) => *old = new,
                None => self.options.push(new),
            }
        }
    }
}

/// The folders of profiles: those of tuned's settings, or the usual ones.
fn profile_dirs(host: &Host) -> Vec<String> {
    let text = host.read_regular(MAIN).unwrap_or_default();
    let options = tuned_profile::parse(&text, ProfileFile::Variables).unwrap_or_default();
    let given = options.into_iter().rev().find(|it| it.name == "profile_dirs");
    let given = given.and_then(|it| it.value).unwrap_or_default();
    let mut dirs: Vec<String> = given
        .split([',', ';'])
        .map(|dir| dir.trim().trim_end_matches('/').to_owned())
        .filter(|dir| dir.starts_with('/'))
        .collect();
    // The last one wins.
    dirs.reverse();
    if dirs.is_empty() { DIRS.map(str::to_owned).to_vec() } else { dirs }
}

/// The variables of a profile, and where each definition is. A file of variables that does not
/// exist is skipped, as tuned does.
fn read_variables<'a>(
    host: &Host,
    machine: &'a Machine,
    options: &[MergedOption],
) -> Result<(ProfileVariables<'a>, Vec<(String, SettingPlace)>), SetupError> {
    let mut variables = ProfileVariables::new(&machine.topology);
    let mut places = Vec::new();
    for option in options.iter().filter(|option| option.section == "variables") {
        if option.name != "include" {
            variables.define(&option.name, &option.value);
            // A variable defined as itself keeps its place.
            if option.value != format!("${{{}}}", option.name) {
                places.push((option.name.clone(), option.place.clone()));
            }
            continue;
        }
        let path = option.value.trim();
        let Some(text) = present(host.read_regular(path))? else { continue };
        let parsed = tuned_profile::parse(&text, ProfileFile::Variables);
        for variable in parsed.map_err(|error| error.at(path))? {
            let Some(value) = variable.value else { continue };
            variables.define(&variable.name, &value);
            places.push((variable.name, SettingPlace::line(path, variable.line)));
        }
    }
    Ok((variables, places))
}

/// The isolated CPUs; `None` when the profile names none.
fn find_shield(
    options: &[MergedOption],
    variables: &ProfileVariables<'_>,
    places: &[(String, SettingPlace)],
    settings: &[ToolSetting],
) -> Result<Option<ToolShield>, SetupError> {
    let shield = |what: &str, place: &SettingPlace, cpus: CpuSet| ToolShield {
        name: OtherTool::Tuned.to_string(),
        cpus,
        what: what.to_owned(),
        place: place.clone(),
    };
    for (section, name) in CPU_OPTIONS {
        let defined =
            places.iter().rev().find(|(known, _)| section == "variables" && known == name);
        let option = options.iter().find(|it| it.section == section && it.name == name);
        let (text, place) = match (defined, option) {
            (Some((name, place)), _) => (format!("${{{name}}}"), place),
            (None, Some(option)) => (option.value.clone(), &option.place),
            (None, None) => continue,
        };
        let what =
            if section == "variables" { name.to_owned() } else { format!("[{section}] {name}") };
        match variables.cpus(&text) {
            Ok(cpus) if cpus.is_empty() => {}
            Ok(cpus) => return Ok(Some(shield(&what, place, cpus))),
            // The variable was never set.
            Err(UnknownValue::Variable { .. }) => {}
            Err(why) => return Err(SetupError::UnknownCpus { what, why, place: place.clone() }),
        }
    }
    let words = settings.iter().filter(|it| it.target == SettingTarget::BootParameter);
    let words: Vec<(&ToolSetting, &String)> =
        words.filter_map(|it| Some((it, it.value.as_ref().ok()?))).collect();
    Ok(CPU_WORDS.iter().find_map(|name| {
        let (setting, word) = words.iter().find(|(it, _)| cmdline::same_name(&it.name, name))?;
        let cpus = word_cpus(name, word.split_once('=')?.1)?;
        Some(shield(word, &setting.place, cpus))
    }))
}

/// The isolated CPUs in the words that tuned has written for the boot loader.
fn read_boot_words(host: &Host) -> Option<ToolShield> {
    let text = host.read_regular(BOOT_WORDS).ok()?;
    let mut lines = text.lines().enumerate();
    let (index, words) =
        lines.find_map(|(index, line)| Some((index, line.strip_prefix("TUNED_BOOT_CMDLINE=")?)))?;
    let params = cmdline::parse(words.trim().trim_matches(['"', '\'']));
    CPU_WORDS.iter().find_map(|name| {
        let param = params.iter().find(|it| cmdline::same_name(&it.name, name))?;
        let cpus = word_cpus(name, param.value.as_deref()?)?;
        Some(ToolShield {
            name: OtherTool::Tuned.to_string(),
            cpus,
            what: to_word(param),
            place: SettingPlace::line(BOOT_WORDS, index + 1),
        })
    })
}

/// The CPUs that a parameter isolates; `None` when it names none.
fn word_cpus(name: &str, value: &str) -> Option<CpuSet> {
    let cpus = match name {
        "isolcpus" => cmdline::isolcpus(value, None).ok()?.cpus,
        _ => CpuSet::parse_list(value, None).ok()?,
    };
    (!cpus.is_empty()).then_some(cpus)
}

/// Everything that the profile sets.
fn collect_settings(
    options: &[MergedOption],
    variables: &ProfileVariables<'_>,
) -> Vec<ToolSetting> {
    let disabled = |section: &str| {
        let mut of_section = options.iter().filter(|it| it.section == section);
        of_section.any(|it| it.name == "enabled" && !["1", "true", "True"].contains(&&*it.value))
    };
    let kind_of = |section: &str| {
        let mut of_section = options.iter().filter(|it| it.section == section);
        let kind = of_section.find(|it| it.name == "type").map(|it| it.value.clone());
        kind.unwrap_or_else(|| section.to_owned())
    };
    let mut settings = Vec::new();
    let mut words: Vec<ToolSetting> = Vec::new();
    for option in options {
        let MergedOption { section, name, value, place } = option;
        if ["main", "variables"].contains(&section.as_str())
            || OF_UNITS.contains(&name.as_str())
            || disabled(section)
        {
            continue;
        }
        let value = variables.value(value).map(|it| it.trim_matches(['"', '\'']).to_owned());
        let (name, target) = match kind_of(section).as_str() {
            "bootloader" if name.starts_with("cmdline") => {
                add_words(&mut words, value, place);
                continue;
            }
            "sysctl" => {
                let path = format!("/proc/sys/{}", name.replace('.', "/"));
                (name.clone(), SettingTarget::KernelFile { path })
            }
            "sysfs" => (name.clone(), SettingTarget::KernelFile { path: name.clone() }),
            kind => (format!("[{kind}] {name}"), SettingTarget::ToolOption),
        };
        settings.push(ToolSetting { name, target, value, place: place.clone() });
    }
    settings.extend(words);
    settings
}

/// Adds the words of an option `cmdline…`. A `-` in front removes them again
/// (`BootloaderPlugin._get_effective_options()`).
fn add_words(
    words: &mut Vec<ToolSetting>,
    value: Result<String, UnknownValue>,
    place: &SettingPlace,
) {
    let target = SettingTarget::BootParameter;
    let value = match value {
        Ok(value) => value,
        Err(why) => {
            let (name, value) = ("[bootloader] cmdline".to_owned(), Err(why));
            words.push(ToolSetting { name, target, value, place: place.clone() });
            return;
        }
    };
    if let Some(removed) = value.strip_prefix('-') {
        let removed: Vec<&str> = removed.split_whitespace().collect();
        words.retain(|it| !it.value.as_ref().is_ok_and(|word| removed.contains(&word.as_str())));
        return;
    }
    let added = value.strip_prefix(['+', '\\']).unwrap_or(&value);
    for word in added.split_whitespace() {
        let name = word.split('=').next().unwrap_or(word).to_owned();
        let (target, value) = (target.clone(), Ok(word.to_owned()));
        words.push(ToolSetting { name, target, value, place: place.clone() });
    }
}
