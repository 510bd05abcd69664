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
    let last = machine.topology.possible.last();
    let named = params.iter().filter_map(|param| Some((param, named_cpus(param, last)?)));
    let named: Vec<(&KernelParam, CpuSet)> = named.filter(|(_, cpus)| !cpus.is_empty()).collect();
    let shield = NAMES.iter().find_map(|name| {
        let mut same = named.iter().filter(|(param, _)| cmdline::same_name(&param.name, name));
        let (param, cpus) = same.next()?;
        Some(ToolShield {
            name: OtherTool::Cmdline.to_string(),
            cpus: cpus.clone(),
            what: to_word(param),
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
            nothing("the running kernel has no isolcpus=, nohz_full= or rcu_nocbs= with a CPU list")
        })?],
        settings: words.collect(),
        remarks: Vec::new(),
    })
}

/// The CPUs that a parameter isolates; `None` for other parameters and for lists that the kernel
/// does not accept.
fn named_cpus(param: &KernelParam, last: Option<usize>) -> Option<CpuSet> {
    let value = param.value.as_deref()?;
    match NAMES.iter().find(|name| cmdline::same_name(&param.name, name))? {
        &"isolcpus" => cmdline::isolcpus(value, last).ok().map(|isolcpus| isolcpus.cpus),
        _ => CpuSet::parse_list(value, last).ok(),
    }
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
    }
}
