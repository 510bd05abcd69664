//! The command lines of recorded machines, compared with what those kernels show.

#[expect(dead_code, reason = "tests/machines.rs uses the rest")]
mod recorded;

use cpushield::boot::lint::lint;
use cpushield::survey::{Machine, survey};
use cpushield_linux::Host;
use recorded::{data, machine, own};
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
        assert_eq!(lint(machine, &[]), [], "{name}: {:?}", machine.kernel.cmdline);
    }
}
