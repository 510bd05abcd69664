//! The processes that descend from one.

use cpushield_linux::Host;

/// The processes that descend from this one, this one first.
pub fn family(host: &Host, pid: i32) -> Vec<i32> {
    let tasks = host.tasks().unwrap();
    let mut found = vec![pid];
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        let born = tasks.iter().filter(|task| task.parent == parent && task.pid == task.id.tid);
        found.extend(born.map(|task| task.pid));
        next += 1;
    }
    found
}
