//! Interrupts: who they are, where they may go and whether they can be moved. The last is found by
//! writing the very mask that is there: it changes nothing, and the kernel refuses it as it would
//! refuse another one.

use super::reader::{Reader, Spelling::List, Spelling::Mask};
use super::{Irq, Movable};
use cpushield_linux::text::interrupts;
use cpushield_linux::{CpuSet, Verb};
use std::collections::{BTreeMap, BTreeSet};

const IRQ: &str = "/proc/irq";

/// Interrupts in ascending order, and the mask for those to come.
pub(super) fn irqs(r: &Reader, shielded: &CpuSet) -> (Vec<Irq>, Option<CpuSet>) {
    if !shielded.is_empty() {
        r.note(IRQ, not_tried(shielded));
    }
    let path = "/proc/interrupts";
    let parsed = r
        .wanted(r.host.read(path))
        .map(|text| interrupts::parse(&text).map_err(|error| error.at(path)));
    let table = parsed.and_then(|answer| r.wanted(answer)).unwrap_or_default();
    let rows: BTreeMap<u32, &interrupts::Row> =
        table.rows.iter().filter_map(|row| Some((row.irq()?, row))).collect();
    let dirs: BTreeSet<u32> = r.names(IRQ).iter().filter_map(|name| name.parse().ok()).collect();
    let numbers: BTreeSet<u32> = dirs.iter().chain(rows.keys()).copied().collect();
    let irq = |irq: u32| {
        let dir = format!("{IRQ}/{irq}");
        let set = |list: &str, mask: &str| {
            let (list, mask) = (format!("{dir}/{list}"), format!("{dir}/{mask}"));
            r.set(&[(&list, List), (&mask, Mask)])
        };
        let row = rows.get(&irq);
        let actions = row.map(|row| row.name.clone()).unwrap_or_default();
        let movable = if shielded.is_empty() {
            movable(r, &dir, &actions)
        } else {
            Movable::Unknown(not_tried(shielded))
        };
        Irq {
            irq,
            actions,
            chip: row.map(|row| row.chip.clone()).unwrap_or_default(),
            affinity: set("smp_affinity_list", "smp_affinity"),
            effective: set("effective_affinity_list", "effective_affinity"),
            movable,
            counts: row.map(|row| table.by_cpu(row).collect()).unwrap_or_default(),
        }
    };
    let default = format!("{IRQ}/default_smp_affinity");
    let default = r.set(&[(&default, Mask)]);
    (numbers.into_iter().map(irq).collect(), default)
}

/// When a mask is written the chip chooses among its CPUs anew, and the one that is left is
/// interrupted to clean up (irq_complete_move() in arch/x86/kernel/apic/vector.c, 6.1).
fn not_tried(shielded: &CpuSet) -> String {
    format!("whether it can be moved is not tried while CPU {shielded} is shielded")
}

/// Writes `smp_affinity` back. Two traces remain: the kernel marks the mask as set by a user, so
/// that it outlives the driver's giving the line up, and a thread of the line that someone moved
/// away goes back to the mask (`irq_do_set_affinity()`, `irq_set_thread_affinity()`,
/// kernel/irq/manage.c, 6.12).
fn movable(r: &Reader, dir: &str, actions: &str) -> Movable {
    if actions.is_empty() {
        return Movable::Unknown("no driver has requested it".to_owned());
    }
    let path = format!("{dir}/smp_affinity");
    let answer = if r.host.is_live() {
        match r.host.read_line(&path) {
            Ok(mask) => r.host.write(&path, &mask),
            Err(error) => return Movable::Unknown(error.reason()),
        }
    } else {
        match r.host.tried(Verb::Write, &path) {
            Some(answer) => answer,
            None => return Movable::Unknown("the recording did not try".to_owned()),
        }
    };
    if let Err(error) = &answer {
        r.host.note_error(error);
    }
    match answer {
        Ok(()) => Movable::Yes,
        Err(error) if error.is_denied() => Movable::Unknown(error.reason()),
        Err(error) => Movable::No(error.reason()),
    }
}
