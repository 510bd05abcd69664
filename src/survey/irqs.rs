//! Interrupts: who they are, where they may go and whether they can be moved. The last is found by
//! writing the very mask that is there: it changes nothing, and the kernel refuses it as it would
//! refuse another one.

use super::reader::{CpuSetSpelling::List, CpuSetSpelling::Mask, SurveyReader};
use super::{Irq, IrqMovability};
use cpushield_linux::text::interrupts;
use cpushield_linux::{CpuSet, Operation};
use std::collections::{BTreeMap, BTreeSet};

const IRQ: &str = "/proc/irq";

/// Interrupts in ascending order, and the mask for those to come.
pub(super) fn irqs(r: &SurveyReader, shielded: &CpuSet) -> (Vec<Irq>, Option<CpuSet>) {
    if !shielded.is_empty() {
        r.note(IRQ, not_tried(shielded));
    }
    let path = "/proc/interrupts";
    let parsed = r
        .wanted(r.host.read(path))
        .map(|text| interrupts::parse(&text).map_err(|error| error.at(path)));
    let table = parsed.and_then(|answer| r.wanted(answer)).unwrap_or_default();
    let rows: BTreeMap<u32, &interrupts::InterruptRow> =
        table.rows.iter().filter_map(|row| Some((row.irq()?, row))).collect();
    let dirs: BTreeSet<u32> = r.names(IRQ).iter().filter_map(|name| name.parse().ok()).collect();
    let numbers: BTreeSet<u32> = dirs.iter().chain(rows.keys()).copied().collect();
    let is_requested = |irq: &&u32| rows.get(*irq).is_some_and(|row| !row.name.is_empty());
    let example = dirs.iter().find(is_requested).or_else(|| dirs.first());
    let files = IrqFiles::of(r, example.copied());
    let irq = |irq: u32| {
        let dir = format!("{IRQ}/{irq}");
        let row = rows.get(&irq);
        let actions = row.map(|row| row.name.clone()).unwrap_or_default();
        let movable = if shielded.is_empty() {
            movable(r, &dir, &actions)
        } else {
            IrqMovability::Unknown(not_tried(shielded))
        };
        // What nobody has requested arrives nowhere.
        let effective = files.effective.filter(|_| !actions.is_empty());
        Irq {
            irq,
            chip: row.map(|row| row.chip.clone()).unwrap_or_default(),
            affinity: files.affinity.and_then(|pair| pair.read(r, &dir)),
            effective: effective.and_then(|pair| pair.read(r, &dir)),
            movable,
            counts: row.map(|row| table.by_cpu(row).collect()).unwrap_or_default(),
            actions,
        }
    };
    let default = format!("{IRQ}/default_smp_affinity");
    let default = r.set(&[(&default, Mask)]);
    (numbers.into_iter().map(irq).collect(), default)
}

/// A set of CPUs of an interrupt, which the kernel shows as a mask and as a list.
#[derive(Clone, Copy)]
struct AffinityPair {
    mask: &'static str,
    list: &'static str,
    /// The list is asked first.
    by_list: bool,
}

impl AffinityPair {
    /// The pair when one of both is there. The mask comes first: it is what is written back.
    fn found(mask: &'static str, list: &'static str, there: &[String]) -> Option<AffinityPair> {
        let has = |wanted: &str| there.iter().any(|name| name == wanted);
        let by_list = !has(mask);
        (has(mask) || has(list)).then_some(AffinityPair { mask, list, by_list })
    }

    /// The other file is asked only where the first is not there, as in a recording.
    fn read(self, r: &SurveyReader, dir: &str) -> Option<CpuSet> {
        let (mask, list) = (format!("{dir}/{}", self.mask), format!("{dir}/{}", self.list));
        let mut files = [(mask.as_str(), Mask), (list.as_str(), List)];
        if self.by_list {
            files.reverse();
        }
        r.set(&files)
    }
}

/// The files that are read for each interrupt. A kernel has them for all or for none
/// (`register_irq_proc()` in kernel/irq/proc.c, 6.12).
struct IrqFiles {
    affinity: Option<AffinityPair>,
    effective: Option<AffinityPair>,
}

impl IrqFiles {
    fn of(r: &SurveyReader, example: Option<u32>) -> IrqFiles {
        let there = example.map(|irq| r.names(&format!("{IRQ}/{irq}"))).unwrap_or_default();
        IrqFiles {
            affinity: AffinityPair::found("smp_affinity", "smp_affinity_list", &there),
            effective: AffinityPair::found("effective_affinity", "effective_affinity_list", &there),
        }
    }
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
fn movable(r: &SurveyReader, dir: &str, actions: &str) -> IrqMovability {
    if actions.is_empty() {
        return IrqMovability::Unknown("no driver has requested it".to_owned());
    }
    let path = format!("{dir}/smp_affinity");
    let answer = if r.host.is_live() {
        match r.host.read_line(&path) {
            Ok(mask) => {
                r.keep(&path, &mask);
                r.host.write(&path, &mask)
            }
            Err(error) => return IrqMovability::Unknown(error.reason()),
        }
    } else {
        match r.host.recorded_outcome(Operation::Write, &path) {
            Some(answer) => answer,
            None => return IrqMovability::Unknown("the recording did not try".to_owned()),
        }
    };
    if let Err(error) = &answer {
        r.host.note_error(error);
    }
    match answer {
        Ok(()) => IrqMovability::Yes,
        Err(error) if error.is_denied() => IrqMovability::Denied(error.reason()),
        Err(error) => IrqMovability::No(error.reason()),
    }
}
