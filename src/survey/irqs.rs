//! Interrupts: their actions, their affinity and whether they can be moved. The last is tested by
//! writing the current mask back: that changes nothing, and the kernel refuses it as it would
//! refuse any other mask. While a shield is active, no interrupt is tried, and
//! `tunables::complete_survey` adds what the journal knows.

use super::reader::{CpuSetSpelling::List, CpuSetSpelling::Mask, SurveyReader};
use super::{Irq, IrqMovability};
use cpushield_linux::text::interrupts;
use cpushield_linux::{CpuSet, Operation, RecordedOutcome};
use std::collections::{BTreeMap, BTreeSet};

const IRQ: &str = "/proc/irq";

/// Interrupts in ascending order, and the default affinity of later ones.
pub(super) fn read_irqs(
    r: &SurveyReader,
    shielded: &CpuSet,
    isolated: &CpuSet,
) -> (Vec<Irq>, Option<CpuSet>) {
    if !shielded.is_empty() {
        r.note(IRQ, why_not_tried(shielded));
    }
    let path = "/proc/interrupts";
    let text = r.host.read(path);
    let parsed = text.and_then(|text| interrupts::parse(&text).map_err(|error| error.at(path)));
    let table = r.required(parsed).unwrap_or_default();
    let rows: BTreeMap<u32, &interrupts::InterruptRow> =
        table.rows.iter().filter_map(|row| Some((row.irq()?, row))).collect();
    let dirs: BTreeSet<u32> = r.names(IRQ).iter().filter_map(|name| name.parse().ok()).collect();
    let numbers: BTreeSet<u32> = dirs.iter().chain(rows.keys()).copied().collect();
    let mut requested =
        dirs.iter().filter(|irq| rows.get(irq).is_some_and(|it| !it.name.is_empty()));
    let files = IrqFiles::find(r, requested.next().or_else(|| dirs.first()).copied());
    let mut irqs = Vec::new();
    for irq in numbers {
        let dir = format!("{IRQ}/{irq}");
        let row = rows.get(&irq);
        let actions = row.map(|row| row.name.clone()).unwrap_or_default();
        let movable = if shielded.is_empty() {
            try_move(r, &dir, &actions)
        } else {
            IrqMovability::Unknown(why_not_tried(shielded))
        };
        // An interrupt that no driver requested is not delivered.
        let effective = files.effective.filter(|_| !actions.is_empty());
        let affinity = files.affinity.and_then(|pair| pair.read(r, &dir));
        let is_isolated = affinity.as_ref().is_some_and(|it| it.is_subset(isolated));
        let hint = is_isolated.then(|| r.set(&[(&format!("{dir}/affinity_hint"), Mask)])).flatten();
        irqs.push(Irq {
            irq,
            chip: row.map(|row| row.chip.clone()).unwrap_or_default(),
            affinity,
            hint,
            effective: effective.and_then(|pair| pair.read(r, &dir)),
            movable,
            counts: row.map(|row| table.by_cpu(row).collect()).unwrap_or_default(),
            actions,
        });
    }
    (irqs, read_default(r))
}

/// The default affinity of interrupts that are requested later.
pub(super) fn read_default(r: &SurveyReader) -> Option<CpuSet> {
    r.set(&[(&format!("{IRQ}/default_smp_affinity"), Mask)])
}

/// The two files that show one CPU set of an interrupt: as a mask and as a list.
#[derive(Clone, Copy)]
struct AffinityPair {
    mask: &'static str,
    list: &'static str,
    /// Whether the list is read first.
    list_first: bool,
}

impl AffinityPair {
    /// The pair, when `names` has one of the two. The mask comes first, because it is written back.
    fn find(mask: &'static str, list: &'static str, names: &[String]) -> Option<AffinityPair> {
        let list_first = !names.iter().any(|name| name == mask);
        let exists = !list_first || names.iter().any(|name| name == list);
        exists.then_some(AffinityPair { mask, list, list_first })
    }

    /// Reads the set. The second file is read only when the first is absent, as in a recording.
    fn read(self, r: &SurveyReader, dir: &str) -> Option<CpuSet> {
        let (mask, list) = (format!("{dir}/{}", self.mask), format!("{dir}/{}", self.list));
        let mut files = [(mask.as_str(), Mask), (list.as_str(), List)];
        if self.list_first {
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
    /// Finds out from one interrupt which files exist.
    fn find(r: &SurveyReader, example: Option<u32>) -> IrqFiles {
        let names = example.map(|irq| r.names(&format!("{IRQ}/{irq}"))).unwrap_or_default();
        IrqFiles {
            affinity: AffinityPair::find("smp_affinity", "smp_affinity_list", &names),
            effective: AffinityPair::find("effective_affinity", "effective_affinity_list", &names),
        }
    }
}

/// Why moving was not tried: after a write the chip chooses a CPU of the mask again, and interrupts
/// the previous CPU to clean up (irq_complete_move() in arch/x86/kernel/apic/vector.c, 6.1).
fn why_not_tried(shielded: &CpuSet) -> String {
    format!("cpushield does not try to move interrupts while CPU {shielded} is shielded")
}

/// Writes `smp_affinity` back. Two side effects remain. The kernel marks the mask as set by a user,
/// so it survives when the driver frees the interrupt. And an interrupt thread that was moved
/// elsewhere returns to the mask (`irq_do_set_affinity()`, `irq_set_thread_affinity()`,
/// kernel/irq/manage.c, 6.12).
fn try_move(r: &SurveyReader, dir: &str, actions: &str) -> IrqMovability {
    if actions.is_empty() {
        return IrqMovability::Unknown("no driver has requested it".to_owned());
    }
    let path = format!("{dir}/smp_affinity");
    let result = if r.host.is_live() {
        match r.host.read_line(&path) {
            Ok(mask) => {
                r.cache_line(&path, &mask);
                r.host.write(&path, &mask)
            }
            Err(error) => return IrqMovability::Unknown(error.reason()),
        }
    } else {
        match r.host.recorded_outcome(Operation::Write, &path) {
            RecordedOutcome::Succeeded => Ok(()),
            RecordedOutcome::Failed(error) => Err(error),
            RecordedOutcome::NotRecorded => {
                return IrqMovability::Unknown(
                    "the recording does not show whether a move succeeds".to_owned(),
                );
            }
        }
    };
    if let Err(error) = &result {
        r.host.note_error(error);
    }
    match result {
        Ok(()) => IrqMovability::Yes,
        Err(error) if error.is_denied() => IrqMovability::Denied(error.reason()),
        Err(error) => IrqMovability::No(error.reason()),
    }
}
