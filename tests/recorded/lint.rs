//! The command lines of recorded machines and of the guests of docs/isolcpus.md, compared with what
//! those kernels show.

use crate::recordings::{data, machine, own};
use cpushield::boot::LintFinding;
use cpushield::boot::lint::lint;
use cpushield::survey::{CgroupMode, Machine, survey};
use cpushield_linux::text::kernel_version::KernelVersion;
use cpushield_linux::{CpuSet, Host};
use std::fs;

/// Every recorded machine, own and foreign. A finding on one of them would be a false alarm until
/// it is judged and listed here.
#[test]
fn recorded_machines_have_no_findings_about_their_command_line() {
    let mut machines: Vec<(String, Machine)> = Vec::new();
    for (name, dir) in own() {
        machines.push((name, survey(&Host::recorded(&dir.join("root")).unwrap(), &[])));
    }
    if let Some(data) = data() {
        for row in fs::read_to_string(data.join("machines/index.csv")).unwrap().lines().skip(1) {
            let name = row.split(',').next().unwrap().to_owned();
            machines.push((name.clone(), machine(&data, &name)));
        }
    }
    let with_line = machines.iter().filter(|(_, machine)| machine.kernel.cmdline.is_some()).count();
    eprintln!("{} machines, {with_line} with a command line", machines.len());
    for (name, machine) in &machines {
        let mut found = lint(machine, &[]);
        // It is of 6.12, and has isolcpus= with the flag domain.
        let is_open = |it: &LintFinding| matches!(it, LintFinding::NoPartition { .. });
        assert_eq!(found.iter().any(is_open), name == "6.12-rt-numa", "{name}: {found:?}");
        found.retain(|it| !is_open(it));
        assert_eq!(found, [], "{name}: {:?}", machine.kernel.cmdline);
    }
}

/// A boot of docs/isolcpus.md: a guest with 4 CPUs.
struct GuestBoot {
    release: String,
    words: String,
    isolated: CpuSet,
    nohz_full: CpuSet,
    /// What the kernel reported about the words.
    messages: Vec<String>,
    /// What became of a partition, or of an exclusive cpuset of v1, of CPU 3.
    partition: String,
}

impl GuestBoot {
    fn machine(&self) -> Machine {
        let mut machine = Machine::default();
        machine.kernel.cmdline = Some(format!("console=ttyS0 quiet {}", self.words));
        machine.kernel.version = KernelVersion::from_release(&self.release);
        machine.kernel.release = Some(self.release.clone());
        machine.kernel.arch = Some("x86_64".to_owned());
        machine.topology.possible = "0-3".parse().unwrap();
        machine.topology.online = "0-3".parse().unwrap();
        machine.isolation.isolated = Some(self.isolated.clone());
        machine.isolation.nohz_full = Some(self.nohz_full.clone());
        let v1 = self.partition.starts_with("cpu_exclusive");
        machine.cgroup.mode = if v1 { CgroupMode::V1 } else { CgroupMode::V2 };
        machine
    }
}

fn guest_boots() -> Vec<GuestBoot> {
    let list = |cell: &str| if cell == "(null)" { CpuSet::new() } else { cell.parse().unwrap() };
    let mut boots = Vec::new();
    for section in include_str!("../../docs/isolcpus.md").split("\n## ").skip(1) {
        // The table of all kernels has no messages.
        let Some((rows, reported)) = section.split_once("\nKernel: ") else { continue };
        let (release, reported) = reported.split_once(". Kernel messages:").unwrap();
        for row in rows.lines().filter(|line| line.starts_with("| `")) {
            let cells: Vec<&str> = row.split('|').map(str::trim).collect();
            let words = cells[1].trim_matches('`').to_owned();
            // An indented line is the list of what the kernel passes to init.
            let begin = format!("- `{words}`: ");
            let messages = reported.lines().filter_map(|line| line.strip_prefix(&begin));
            let messages = messages.filter(|it| !it.starts_with(' ')).map(str::to_owned).collect();
            let (isolated, nohz_full) = (list(cells[2]), list(cells[3]));
            let (release, partition) = (release.to_owned(), cells[9].to_owned());
            boots.push(GuestBoot { release, words, isolated, nohz_full, messages, partition });
        }
    }
    boots
}

/// The kernels themselves say which words they do not take as written: lint finds something in
/// these boots, with the message, and nothing in the others. No finding is a difference between
/// the words and the kernel's files: what the kernel does with each form is known. The kernel's
/// answer to a partition of CPU 3 is known too.
#[test]
fn lint_finds_in_every_form_of_isolcpus_what_the_guests_reported_and_nothing_else() {
    let boots = guest_boots();
    assert!(boots.len() >= 90, "{}", boots.len());
    for boot in &boots {
        let place = format!("{}: {}", boot.release, boot.words);
        let found = lint(&boot.machine(), &boot.messages);
        let is_open = |it: &LintFinding| matches!(it, LintFinding::NoPartition { .. });
        let (open, found): (Vec<_>, Vec<_>) = found.into_iter().partition(is_open);
        assert_eq!(open.len() == 1, boot.partition.contains("invalid"), "{place}: {open:#?}");
        assert_eq!(found.is_empty(), boot.messages.is_empty(), "{place}: {found:#?}");
        for finding in &found {
            assert!(!matches!(finding, LintFinding::NotInForce { .. }), "{place}: {finding}");
            assert!(finding.messages().is_none_or(|it| it == boot.messages), "{place}: {finding}");
        }
        // The same words with other files are not in force.
        let mut other = boot.machine();
        other.isolation.nohz_full = Some("1".parse().unwrap());
        let found = lint(&other, &[]);
        let asks = boot.nohz_full != CpuSet::new();
        let differs = found.iter().any(|it| matches!(it, LintFinding::NotInForce { .. }));
        assert_eq!(differs, asks, "{place}: {found:#?}");
        let observed = found.iter().any(|it| matches!(it, LintFinding::NotRequested { .. }));
        assert_eq!(observed, !asks, "{place}: {found:#?}");
    }
}
