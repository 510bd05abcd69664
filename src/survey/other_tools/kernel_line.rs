//! The isolation that the running kernel's command line requests.

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
    let line = line.ok_or_else(|| nothing("the command line cannot be read"))?;
    let params = cmdline::parse(line);
    let named = params.iter().filter_map(|param| Some((param, named_cpus(param, machine)?)));
    let named: Vec<(&KernelParam, CpuSet)> = named.filter(|(_, cpus)| !cpus.is_empty()).collect();
    let mut remarks = Vec::new();
    let shield = NAMES.iter().find_map(|name| {
        let mut same = named.iter().filter(|(param, _)| cmdline::same_name(&param.name, name));
        let (param, cpus) = same.next()?;
        let what = to_word(param);
        let (cpus, boot_cpu) = leave_boot_cpu(cpus, machine)?;
        remarks.extend(boot_cpu.map(|boot| {
            format!("{what} has every CPU; CPU {boot} stays a housekeeping CPU, as the boot CPU")
        }));
        Some(ToolShield {
            name: OtherTool::Cmdline.to_string(),
            cpus,
            what,
            place: SettingPlace::file(FILE),
        })
    });
    let words = params.iter().map(|param| ToolSetting {
        name: param.name.clone(),
        target: SettingTarget::BootParameter,
        value: Ok(to_word(param)),
        place: SettingPlace::file(FILE),
    });
    Ok(ToolSetup {
        tool: OtherTool::Cmdline,
        name: None,
        shields: vec![shield.ok_or_else(|| {
            let why =
                "the running kernel has no isolcpus=, nohz_full= or rcu_nocbs= with a CPU list";
            nothing(&format!("{why}{}", explain_flags(&params)))
        })?],
        settings: words.collect(),
        remarks,
    })
}

/// The CPUs that a parameter isolates; `None` for other parameters and for lists that the kernel
/// does not accept.
fn named_cpus(param: &KernelParam, machine: &Machine) -> Option<CpuSet> {
    let value = param.value.as_deref()?;
    let last = machine.topology.possible.last();
    match *NAMES.iter().find(|name| cmdline::same_name(&param.name, name))? {
        "isolcpus" => cmdline::isolcpus(value, last).ok().map(|isolcpus| isolcpus.cpus),
        // The kernel says which CPUs it has taken.
        "nohz_full" if machine.isolation.nohz_full.as_ref().is_some_and(|it| !it.is_empty()) => {
            machine.isolation.nohz_full.clone()
        }
        _ => CpuSet::parse_list(value, last).ok(),
    }
}

/// Takes the boot CPU out of a list that has every CPU, and returns it too; `None` if no CPU is
/// left. The kernel does so for `isolcpus=` and `nohz_full=` (`housekeeping_setup()`,
/// kernel/sched/isolation.c, 6.12), and a shield needs a housekeeping CPU.
fn leave_boot_cpu(cpus: &CpuSet, machine: &Machine) -> Option<(CpuSet, Option<usize>)> {
    let topology = &machine.topology;
    let all = if topology.online.is_empty() { &topology.possible } else { &topology.online };
    let boot = all.first().filter(|_| all.is_subset(cpus));
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
