//! What tuned has in force: the CPUs in the file of variables of its active profile, the words that
//! it has written for the boot loader, and the settings of its profiles for isolation. A profile
//! itself is not evaluated, because its language calls programs.

use super::kernel_line::to_word;
use super::{
    Machine, OtherTool, SettingPlace, SettingTarget, SetupError, ToolSetting, ToolSetup,
    ToolShield, settings_in_force,
};
use cpushield_linux::error::present;
use cpushield_linux::text::cmdline::{self, KernelParam};
use cpushield_linux::{CpuSet, Host};

const ACTIVE: &str = "/etc/tuned/active_profile";
/// What the plugin `bootloader` writes (tuned/plugins/plugin_bootloader.py, 2.20).
const BOOT_WORDS: &str = "/etc/tuned/bootcmdline";
/// What the profiles cpu-partitioning and realtime set (2.20).
const FILES: &[(&str, Option<&str>)] = &[
    ("/proc/sys/kernel/nmi_watchdog", Some("0")),
    ("/proc/sys/kernel/sched_rt_runtime_us", Some("-1")),
    ("/proc/sys/vm/stat_interval", Some("10")),
    ("/sys/bus/workqueue/devices/writeback/cpumask", None),
];
/// What cpu-partitioning-powersave sets for each isolated CPU.
const IDLE_LIMIT: &str = "power/pm_qos_resume_latency_us";
/// The variable of those profiles that names the isolated CPUs.
const VARIABLE: &str = "isolated_cores";

/// Reads the setup of the active profile.
pub(super) fn read_tuned(host: &Host, machine: &Machine) -> Result<ToolSetup, SetupError> {
    let tool = OtherTool::Tuned;
    let nothing = |why: &str, looked_in| {
        let why = why.to_owned();
        SetupError::NothingFound { tool, why, looked_in }
    };
    let mut looked_in = vec![ACTIVE.to_owned()];
    let names = present(host.read_regular(ACTIVE))?;
    let Some(names) = names.filter(|names| !names.trim().is_empty()) else {
        return Err(nothing("no profile is active, or tuned is not installed", looked_in));
    };
    let names = names.split_whitespace().collect::<Vec<_>>();
    let words = read_boot_words(host)?;
    let (mut shield, mut unknown) = (words.iter().find_map(shield_of_word), None);
    for name in &names {
        let file = format!("/etc/tuned/{name}-variables.conf");
        let Some(text) = present(host.read_regular(&file))? else { continue };
        looked_in.push(file.clone());
        let Some((line, value)) = find_variable(&text) else { continue };
        let (what, place) = (VARIABLE.to_owned(), SettingPlace::line(&file, line));
        match CpuSet::parse_list(value, None) {
            Ok(cpus) if cpus.is_empty() => {}
            Ok(cpus) => {
                shield = Some(ToolShield { name: tool.to_string(), cpus, what, place });
                break;
            }
            Err(_) => unknown = Some(SetupError::UnknownCpus { what, place }),
        }
    }
    let names = names.join(" ");
    looked_in.push(BOOT_WORDS.to_owned());
    let shield = shield.ok_or_else(|| {
        let why = format!("the active profile {names} names no isolated CPUs");
        unknown.unwrap_or_else(|| nothing(&why, looked_in))
    })?;
    let runs = machine.tasks.iter().any(|it| it.task.comm == "tuned" && !it.task.kthread);
    let runs = if runs { "tuned is running" } else { "tuned is not running" };
    let remarks = vec![runs.to_owned(), format!("profile: {names} ({ACTIVE})")];
    let limit = find_idle_limit(host, &shield.cpus);
    let settings = settings_in_force(host, FILES).chain(limit);
    let settings = settings.chain(words.iter().map(BootWord::setting));
    let (name, shields) = (Some(names), vec![shield]);
    Ok(ToolSetup { tool, name, shields, settings: settings.collect(), remarks })
}

/// The lowest limit of the exit latency of these CPUs; `None` where none has a limit (0).
fn find_idle_limit(host: &Host, cpus: &CpuSet) -> Option<ToolSetting> {
    let limits = cpus.iter().filter_map(|cpu| {
        let path = format!("/sys/devices/system/cpu/cpu{cpu}/{IDLE_LIMIT}");
        let value = host.read_line(&path).ok().filter(|value| value != "0")?;
        Some((value.parse().unwrap_or(0_u32), path, value))
    });
    let (_, path, value) = limits.min()?;
    let (name, place) = ("pm_qos_resume_latency_us".to_owned(), SettingPlace::file(&path));
    Some(ToolSetting { name, target: SettingTarget::KernelFile { path }, value, place })
}

/// The last definition of the variable in a file, as Python's `configparser` reads it: its line and
/// its value.
fn find_variable(text: &str) -> Option<(usize, &str)> {
    let lines = text.lines().enumerate().filter_map(|(index, line)| {
        let (name, value) = line.split_once('=')?;
        let value = value.split(" #").next()?.trim().trim_matches(['"', '\'']);
        (name.trim() == VARIABLE).then_some((index + 1, value))
    });
    lines.last()
}

/// A word that tuned has written for the boot loader, and the line.
struct BootWord {
    param: KernelParam,
    line: usize,
}

impl BootWord {
    fn setting(&self) -> ToolSetting {
        ToolSetting {
            name: self.param.name.clone(),
            target: SettingTarget::BootParameter,
            value: to_word(&self.param),
            place: SettingPlace::line(BOOT_WORDS, self.line),
        }
    }
}

fn read_boot_words(host: &Host) -> Result<Vec<BootWord>, SetupError> {
    let text = present(host.read_regular(BOOT_WORDS))?.unwrap_or_default();
    let lines = text.lines().enumerate().filter_map(|(index, line)| {
        let words = line.strip_prefix("TUNED_BOOT_CMDLINE=")?.trim().trim_matches(['"', '\'']);
        Some(cmdline::parse(words).into_iter().map(move |param| (index + 1, param)))
    });
    Ok(lines.flatten().map(|(line, param)| BootWord { param, line }).collect())
}

/// The CPUs that a word isolates; `None` when it names none.
fn shield_of_word(word: &BootWord) -> Option<ToolShield> {
    let (name, value) = (word.param.name.as_str(), word.param.value.as_deref()?);
    let cpus = if cmdline::same_name(name, "isolcpus") {
        cmdline::isolcpus(value, None).ok()?.cpus
    } else if cmdline::same_name(name, "nohz_full") {
        CpuSet::parse_list(value, None).ok()?
    } else {
        return None;
    };
    let ToolSetting { value: what, place, .. } = word.setting();
    let name = OtherTool::Tuned.to_string();
    (!cpus.is_empty()).then_some(ToolShield { name, cpus, what, place })
}
