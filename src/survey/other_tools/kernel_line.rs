//! The isolation that the running kernel's command line requests.

use super::super::CommandLineFault;
use super::super::command_line::{
    IsolationKind, IsolationSetup, isolation_setup, plain_word, running_list_rules,
};
use super::{
    Machine, OtherTool, SettingPlace, SettingTarget, SetupError, ToolSetting, ToolSetup, ToolShield,
};
use cpushield_linux::CpuSet;
use cpushield_linux::text::cmdline::{self, KernelParam};

const FILE: &str = "/proc/cmdline";
/// The parameters that name isolated CPUs; the first one that is there decides.
const NAMES: [&str; 3] = ["isolcpus", "nohz_full", "rcu_nocbs"];

/// Reads the CPUs that the command line isolates, and its words.
pub(super) fn read_command_line(machine: &Machine) -> Result<ToolSetup, SetupError> {
    let nothing = |why: &str| SetupError::NothingFound {
        tool: OtherTool::Cmdline,
        why: why.to_owned(),
        looked_in: vec![FILE.to_owned()],
    };
    let line = machine.kernel.cmdline.as_deref();
    let line = line.ok_or_else(|| nothing("it cannot be read"))?;
    let params = cmdline::parse(line);
    let rules = running_list_rules(&machine.kernel, &machine.isolation);
    let setup = isolation_setup(line, &machine.topology.possible, rules);
    let named =
        params.iter().filter_map(|param| Some((param, named_cpus(param, &setup, machine)?)));
    let named: Vec<(&KernelParam, CpuSet)> = named.filter(|(_, cpus)| !cpus.is_empty()).collect();
    let refused: Vec<(&str, &CommandLineFault)> =
        setup.faults.iter().filter_map(|fault| Some((fault.refused_word()?, fault))).collect();
    let mut remarks: Vec<String> = refused.iter().map(|(_, fault)| fault.to_string()).collect();
    let shield = NAMES.iter().find_map(|name| {
        let mut same = named.iter().filter(|(param, _)| cmdline::same_name(&param.name, name));
        // A later `rcu_nocbs=` replaces an earlier one.
        let (param, cpus) = if *name == "rcu_nocbs" { same.next_back() } else { same.next() }?;
        let what = to_word(param);
        let (cpus, boot_cpu) = leave_boot_cpu(cpus, machine)?;
        remarks.extend(boot_cpu.map(|boot| {
            format!("{what} names every CPU; CPU {boot}, the boot CPU, stays a housekeeping CPU")
        }));
        Some(ToolShield {
            name: OtherTool::Cmdline.to_string(),
            cpus,
            what,
            place: SettingPlace::file(FILE),
        })
    });
    let is_refused = |param: &KernelParam| {
        let word = plain_word(param);
        refused.iter().any(|(refused, _)| *refused == word)
    };
    let words = params.iter().filter(|param| !is_refused(param)).map(|param| ToolSetting {
        name: param.name.clone(),
        target: SettingTarget::BootParameter,
        value: to_word(param),
        place: SettingPlace::file(FILE),
    });
    Ok(ToolSetup {
        tool: OtherTool::Cmdline,
        name: None,
        shields: vec![shield.ok_or_else(|| {
            let why =
                "the running kernel's command line has no isolcpus=, nohz_full= or rcu_nocbs= with \
                 a CPU list";
            let refused = refused.first().map(|(_, fault)| format!("; {fault}"));
            nothing(&format!("{why}{}", refused.unwrap_or_else(|| explain_flags(&params))))
        })?],
        settings: words.collect(),
        remarks,
    })
}

/// The CPUs that a parameter isolates; `None` for other parameters and for lists that the kernel
/// does not accept.
fn named_cpus(param: &KernelParam, setup: &IsolationSetup, machine: &Machine) -> Option<CpuSet> {
    let value = param.value.as_deref()?;
    let isolation = &machine.isolation;
    let name = *NAMES.iter().find(|name| cmdline::same_name(&param.name, name))?;
    if name == "rcu_nocbs" {
        return CpuSet::parse_list(value, machine.topology.possible.last()).ok();
    }
    let word = plain_word(param);
    let taken = setup.taken.iter().find(|taken| taken.word == word)?;
    let is_domain = taken.kinds.contains(&IsolationKind::Domain);
    let isolated = isolation.isolated.as_ref().filter(|_| is_domain);
    if isolated.is_some_and(|isolated| !isolated.intersects(&taken.cpus)) {
        return None;
    }
    // The kernel says which CPUs it has taken.
    let shown = match &isolation.nohz_full {
        Some(nohz_full) if name == "nohz_full" && !nohz_full.is_empty() => Some(nohz_full.clone()),
        _ => None,
    };
    Some(shown.unwrap_or_else(|| taken.cpus.clone()))
}

/// The word of a parameter as [`isolation_setup`] has it, without quotes.
/// Takes the boot CPU out of a list that has every CPU, and returns it too; `None` if no CPU is
/// left. The kernel does so for `isolcpus=` and `nohz_full=` (`housekeeping_setup()`,
/// kernel/sched/isolation.c, 6.12), and a shield needs a housekeeping CPU.
fn leave_boot_cpu(cpus: &CpuSet, machine: &Machine) -> Option<(CpuSet, Option<usize>)> {
    let topology = &machine.topology;
    let all = if topology.online.is_empty() { &topology.possible } else { &topology.online };
    let boot = topology.boot_cpu().or_else(|| topology.possible.first());
    let boot = boot.filter(|_| all.is_subset(cpus));
    let left = boot.map_or_else(|| cpus.clone(), |boot| cpus.difference(&CpuSet::single(boot)));
    (!left.is_empty()).then_some((left, boot))
}

/// Why an `isolcpus=` isolates nothing. `all` is no list there: words before the list are flags,
/// and unknown ones are skipped (`housekeeping_isolcpus_setup()`, kernel/sched/isolation.c, 6.12).
fn explain_flags(params: &[KernelParam]) -> String {
    let mut values = cmdline::values(params, "isolcpus");
    let with_flag = values.find_map(|value| {
        let isolcpus = cmdline::isolcpus(value, None).ok().filter(|it| it.cpus.is_empty())?;
        Some((value, isolcpus.unknown.into_iter().next()?))
    });
    let explain = |(value, flag)| {
        format!("; isolcpus={value} isolates no CPU, because the kernel reads {flag} as a flag")
    };
    with_flag.map_or_else(String::new, explain)
}

/// The word of a parameter. A value with white space is quoted, as the kernel reads it.
pub(super) fn to_word(param: &KernelParam) -> String {
    match param.value.as_deref() {
        Some(value) if value.contains(char::is_whitespace) => {
            format!("{}=\"{value}\"", param.name)
        }
        Some(value) => format!("{}={value}", param.name),
        None => param.name.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cpushield_linux::text::kernel_version::KernelVersion;

    fn setup(line: &str) -> Result<(String, String), String> {
        let mut machine = Machine::default();
        machine.kernel.cmdline = Some(line.to_owned());
        machine.topology.possible = (0..8).collect();
        match read_command_line(&machine) {
            Ok(setup) => Ok((setup.shields[0].cpus.to_string(), setup.shields[0].what.clone())),
            Err(SetupError::NothingFound { why, .. }) => Err(why),
            Err(other) => panic!("{other:?}"),
        }
    }

    #[test]
    fn isolcpus_decides_then_nohz_full_then_rcu_nocbs() {
        let found = |cpus: &str, what: &str| Ok((cpus.to_owned(), what.to_owned()));
        let line = "quiet nohz_full=2-7 isolcpus=managed_irq,domain,4-N rcu_nocbs=2-7 x";
        assert_eq!(setup(line), found("4-7", "isolcpus=managed_irq,domain,4-N"));
        assert_eq!(setup("nohz-full=2-7 rcu_nocbs=1"), found("2-7", "nohz-full=2-7"));
        assert_eq!(setup("ro rcu_nocbs=5,6"), found("5-6", "rcu_nocbs=5,6"));
        // The kernel refuses the list.
        assert_eq!(setup("isolcpus=a-b nohz_full=6"), found("6", "nohz_full=6"));
        assert!(setup("quiet -- isolcpus=3").unwrap_err().contains("no isolcpus="));
        let refused = setup("isolcpus=domain,all").unwrap_err();
        assert!(refused.ends_with("isolates no CPU, because the kernel reads all as a flag"));
    }

    #[test]
    fn a_list_that_the_kernel_does_not_take_is_a_remark() {
        for (version, line, nohz_full, isolated, cpus, remark) in [
            ((4, 9), "isolcpus=1 isolcpus=2-3", None, None, Ok("2-3"), "isolcpus=1 has no effect"),
            (
                (5, 10),
                "nohz_full=1-3 isolcpus=2-3",
                Some("1-3"),
                Some(""),
                Ok("1-3"),
                "the kernel ignores isolcpus=2-3",
            ),
            ((6, 12), "isolcpus=2-9", None, None, Err("the last CPU is 3"), ""),
            ((6, 12), "isolcpus=2-3", None, Some(""), Err("no isolcpus="), ""),
        ] {
            let mut machine = Machine::default();
            machine.kernel.cmdline = Some(line.to_owned());
            machine.kernel.version = Some(KernelVersion::new(version.0, version.1));
            machine.topology.possible = (0..4).collect();
            machine.isolation.nohz_full = nohz_full.map(|list: &str| list.parse().unwrap());
            machine.isolation.isolated = isolated.map(|list: &str| list.parse().unwrap());
            match (read_command_line(&machine), cpus) {
                (Ok(setup), Ok(cpus)) => {
                    assert_eq!(setup.shields[0].cpus.to_string(), cpus, "{line}");
                    let [text] = setup.remarks.as_slice() else { panic!("{:?}", setup.remarks) };
                    assert!(text.starts_with(remark), "{text}");
                    assert_eq!(setup.settings.len(), 1, "{line}");
                }
                (Err(SetupError::NothingFound { why, .. }), Err(part)) => {
                    assert!(why.contains(part), "{why}");
                }
                (found, _) => panic!("{line}: {found:?}"),
            }
        }
    }

    #[test]
    fn a_list_of_every_cpu_leaves_the_boot_cpu() {
        for (line, cpus) in [
            ("nohz_full=all", "1-7"),
            ("isolcpus=0-7 nohz_full=1-7", "1-7"),
            ("rcu_nocbs=0-N", "1-7"),
            ("nohz_full=0-6", "0-6"),
        ] {
            assert_eq!(setup(line).map(|(cpus, _)| cpus), Ok(cpus.to_owned()), "{line}");
        }
        let mut machine = Machine::default();
        machine.kernel.cmdline = Some("nohz_full=all".to_owned());
        machine.topology.possible = (0..8).collect();
        machine.isolation.nohz_full = Some("2-7".parse().unwrap());
        let setup = read_command_line(&machine).unwrap();
        assert_eq!(setup.shields[0].cpus.to_string(), "2-7");
        machine.topology.possible = CpuSet::single(0);
        machine.isolation.nohz_full = None;
        assert!(read_command_line(&machine).is_err());
    }
}
