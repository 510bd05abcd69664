//! `irq-affinity`: device interrupts leave the shield. Pure.

use super::boot::preparable;
use super::want::{is_evicted, keep_work_off};
use super::{RemedyAnswer, Tunable, UnresolvedCause, WantedChange, WantedChanges};
use crate::causes::culprit::CulpritPattern;
use crate::causes::{Cause, Culprit};
use crate::change::{EffectTime, Outcome, Risk, ValueComparison};
use crate::documents::inapplicable::InapplicableReason;
use crate::documents::machine::{Irq, IrqMovability, Kernel, Machine};
use crate::documents::plan::{
    BootAdvice, BootAdviceReason, Immovable, ImmovableReason, ImmovableThing, Plan, PlanWarning,
    RefusedIrq, Shield, Step, StepReason,
};
use crate::documents::remedy::{Remedy, RemedyObstacle};
use cpushield_linux::CpuSet;
use cpushield_linux::text::cmdline::managed_irq_word;
use cpushield_linux::text::first_releases::{
    IRQ_AFFINITY_LIST, LIST_PER_ISOLATION, MANAGED_IRQ_FLAG,
};
use cpushield_linux::text::kernel_version::may_be_vendor_build;

const DEFAULT: &str = "/proc/irq/default_smp_affinity";

const PAGE: &str = "\
An interrupt preempts the task on its CPU. First, apply removes the shielded CPUs from
/proc/irq/default_smp_affinity, the mask of interrupts that drivers request later. Then it removes
them from the mask of each interrupt on the shield. The other CPUs that are isolated already go too,
and those of `nohz_full=` where the node has others. If no CPU would be left, the interrupt gets all
housekeeping CPUs. An interrupt stays if its mask has only CPUs of `isolcpus=`: a user has put it
there. That does not count for a mask that its driver wants (affinity_hint), or that is a whole
node. `--evict` moves such an interrupt too.

Some interrupts cannot be moved: per-CPU interrupts, interrupts of a chip that cannot move any, and
queues whose affinity the kernel manages (NVMe, virtio-blk, virtio-scsi, but not virtio-net). The
kernel refuses to move any of them: with EIO before 6.12, with EPERM since then. It shows the reason
only in debugfs, and most kernels are built without that file. The plan lists these interrupts. It
assumes that those that are message-signalled (MSI, MSI-X) belong to managed queues, and that the
others do not. A managed queue serves the CPUs of its mask. If that mask also has housekeeping CPUs,
the boot parameter `isolcpus=managed_irq,…` sends the queue's interrupt to them. If the mask has
only shielded CPUs, the queue interrupts them only for their own requests.

On x86 without interrupt remapping, an interrupt moves when it next arrives; until then
`effective_affinity` shows the old CPU. An interrupt keeps its mask when its driver requests it
again. But some drivers allocate new interrupts, for example when a device is reset or the number of
its queues changes. These get the default mask. Some network drivers also choose a mask themselves
when the interface is brought up (irq_set_affinity_and_hint()).

Cost: the housekeeping CPUs also handle every interrupt that was moved.

Source: write_irq_affinity() in kernel/irq/proc.c, irq_setup_affinity() in kernel/irq/manage.c,
arch/x86/kernel/apic/msi.c, virtnet_find_vqs() in drivers/net/virtio_net.c (6.12);
Documentation/core-api/irq/irq-affinity.rst; kernel-parameters.txt (isolcpus).";

pub(super) const IRQ_AFFINITY: Tunable = Tunable {
    name: "irq-affinity",
    summary: "send device interrupts to the housekeeping CPUs, including those requested later",
    page: PAGE,
    removes: &[Cause::Irq, Cause::Softirq],
    culprits: &[
        CulpritPattern::AnyIrq,
        CulpritPattern::Softirq("NET_RX"),
        CulpritPattern::Softirq("NET_TX"),
        CulpritPattern::Softirq("BLOCK"),
        CulpritPattern::Softirq("IRQ_POLL"),
        CulpritPattern::Softirq("TASKLET"),
        CulpritPattern::Softirq("HI"),
    ],
    risk: Risk::Low,
    wants,
    remains,
    remedy_for,
    ..Tunable::PLAIN
};

fn wants(machine: &Machine, shield: &Shield) -> WantedChanges {
    let mut wanted = Vec::new();
    if let Some(default) = &machine.irq_default {
        wanted.push(WantedChange::write(
            Some(default.to_mask()),
            DEFAULT,
            &keep_work_off(default, machine, shield).to_mask(),
            ValueComparison::Mask,
            "interrupts that are requested later stay off the shield",
        ));
    }
    for irq in &machine.irqs {
        let evicted = irq.affinity.as_ref().filter(|it| is_evicted(it, machine, shield));
        let Some(affinity) = affinity_on_shield(irq, shield).or(evicted) else { continue };
        if matches!(irq.movable, IrqMovability::No(_)) || stays(machine, irq, shield) {
            continue;
        }
        let (path, spelled, compare) = spell_affinity(machine, irq.irq);
        wanted.push(WantedChange::write(
            Some(spelled(affinity)),
            &path,
            &spelled(&keep_work_off(affinity, machine, shield)),
            compare,
            StepReason::Irq { irq: irq.irq, actions: irq.actions.clone() },
        ));
    }
    if wanted.is_empty() {
        return WantedChanges::Nothing(match machine.shows_proc() {
            true => InapplicableReason::NoIrqMasks,
            false => InapplicableReason::IrqMasksUnknown,
        });
    }
    WantedChanges::Changes(wanted)
}

fn remains(machine: &Machine, shield: &Shield) -> UnresolvedCause {
    let mut remains = UnresolvedCause::default();
    for irq in machine.irqs.iter().filter(|irq| !irq.actions.is_empty()) {
        if stays(machine, irq, shield) {
            let reason = ImmovableReason::PlacedByUser;
            remains.immovable.push(Immovable { what: to_immovable(irq), reason });
        }
        let IrqMovability::No(answer) = &irq.movable else { continue };
        let place = irq.effective.as_ref().filter(|e| !e.is_empty()).or(irq.affinity.as_ref());
        if !place.is_some_and(|place| place.intersects(&shield.cpus)) {
            continue;
        }
        let (answer, arrives) = (answer.clone(), arrival(irq, shield));
        let reason = ImmovableReason::Refused { answer, arrives };
        remains.immovable.push(Immovable { what: to_immovable(irq), reason });
    }
    remains.warnings.extend(warn_untried(machine, shield));
    if reaches_managed(machine, shield) && may_know_flag(&machine.kernel) {
        remains.boot.push(BootAdvice {
            tunable: IRQ_AFFINITY.name.to_owned(),
            parameter: managed_irq(machine, shield),
            removes: vec![Cause::Irq],
            reason: BootAdviceReason::ManagedIrqsElsewhere,
        });
    }
    remains
}

fn remedy_for(machine: &Machine, shield: &Shield, culprit: &Culprit) -> Option<RemedyAnswer> {
    let Culprit::Irq { irq: number, .. } = culprit else { return None };
    let irq = machine.irqs.iter().find(|irq| irq.irq == *number)?;
    let mask = irq.affinity.as_ref()?;
    let on_shield = mask.intersects(&shield.cpus);
    let tunable = IRQ_AFFINITY.name.to_owned();
    let (path, spelled, _) = spell_affinity(machine, irq.irq);
    let echo = format!("echo {} > {path}", spelled(&keep_work_off(mask, machine, shield)));
    Some(match &irq.movable {
        IrqMovability::No(answer) => {
            let (answer, arrives) = (answer.clone(), arrival(irq, shield));
            let prepared = preparable(machine, shield);
            let managed = prepared.is_subset(&machine.isolation.managed_irq);
            match arrives {
                RefusedIrq::ServesOthers { .. } if managed => {
                    RemedyAnswer::Impossible(RemedyObstacle::IrqRefusedAtBoot { answer })
                }
                RefusedIrq::ServesOthers { .. } if may_know_flag(&machine.kernel) => {
                    let how = managed_irq(machine, shield);
                    RemedyAnswer::Remedy(Remedy { tunable, when: EffectTime::Boot, how })
                }
                _ => RemedyAnswer::Impossible(RemedyObstacle::IrqRefused { answer, arrives }),
            }
        }
        IrqMovability::Yes if on_shield => {
            RemedyAnswer::Remedy(Remedy { tunable, when: EffectTime::Runtime, how: echo })
        }
        IrqMovability::Unknown(_) | IrqMovability::Denied(_) if on_shield => {
            let how = echo + "  # the kernel may refuse";
            RemedyAnswer::Remedy(Remedy { tunable, when: EffectTime::Runtime, how })
        }
        _ if irq.effective.as_ref().is_some_and(|e| e.intersects(&shield.cpus)) => {
            RemedyAnswer::Impossible(RemedyObstacle::IrqNotMovedYet { mask: mask.clone() })
        }
        _ => RemedyAnswer::Impossible(RemedyObstacle::IrqMovedSince { mask: mask.clone() }),
    })
}

/// Completes a survey with an active shield, which tries no interrupt: takes from the shield's plan
/// and outcomes which interrupts can be moved.
pub(super) fn complete_survey(machine: &mut Machine, plan: &Plan, outcomes: &[(Step, Outcome)]) {
    for irq in &mut machine.irqs {
        let known = matches!(irq.movable, IrqMovability::Yes | IrqMovability::No(_));
        if known || irq.actions.is_empty() {
            continue;
        }
        // IRQ numbers are reused, so the name must match too.
        let reason = StepReason::Irq { irq: irq.irq, actions: irq.actions.clone() };
        let step = outcomes.iter().find(|(step, _)| step.reason == reason);
        let refusal = plan.immovable.iter().find_map(|immovable| match &immovable.reason {
            ImmovableReason::Refused { answer, .. } if immovable.what == to_immovable(irq) => {
                Some(answer)
            }
            _ => None,
        });
        irq.movable = match (step.map(|(_, outcome)| outcome), refusal) {
            (Some(Outcome::Changed), _) => IrqMovability::Yes,
            (Some(Outcome::Refused { reason, .. }), _) => IrqMovability::No(reason.clone()),
            (_, Some(answer)) => IrqMovability::No(answer.clone()),
            _ => continue,
        };
    }
}

/// Warns when the survey was not allowed to try to move interrupts.
fn warn_untried(machine: &Machine, shield: &Shield) -> Option<PlanWarning> {
    let on_shield = machine.irqs.iter().filter(|irq| affinity_on_shield(irq, shield).is_some());
    let denied = on_shield.filter(|irq| matches!(irq.movable, IrqMovability::Denied(_)));
    let count = denied.count();
    (count > 0).then_some(PlanWarning::IrqsUntried { count })
}

/// What a refused interrupt serves. Managed ones are messages of a device: the kernel spreads the
/// queues of devices that request it (pci_alloc_irq_vectors_affinity() in drivers/pci/msi/api.c,
/// 6.12). That a refused message interrupt is managed is a guess, but a good one.
fn arrival(irq: &Irq, shield: &Shield) -> RefusedIrq {
    let cpus = irq.affinity.clone().unwrap_or_default();
    match (irq.chip.contains("MSI"), cpus.intersects(&shield.housekeeping)) {
        (true, true) => RefusedIrq::ServesOthers { cpus },
        (true, false) => RefusedIrq::OwnRequests,
        (false, _) => RefusedIrq::NotKnown,
    }
}

/// The boot parameter that sends managed interrupts to other CPUs of their masks. Kernels before
/// 5.18 have one list for this and `nohz_full=`. Where the kernel has no `nohz_full=`, `domain`
/// takes its place.
fn managed_irq(machine: &Machine, shield: &Shield) -> String {
    let Machine { kernel, isolation, .. } = machine;
    let one_list = kernel.version.is_some_and(|version| version < LIST_PER_ISOLATION);
    let nohz_full = isolation.nohz_full.clone().filter(|_| one_list).unwrap_or_default();
    let cpus = isolation.managed_irq.union(&preparable(machine, shield)).union(&nohz_full);
    let line = kernel.cmdline.as_deref().unwrap_or_default();
    let isolates = machine.can_stop_tick() == Some(false);
    let flags = (isolates, machine.may_refuse_partition(kernel.version));
    managed_irq_word(line, &cpus, machine.topology.possible.last(), flags)
}

/// Whether managed interrupts that also serve other CPUs reach CPUs that a boot can prepare.
pub fn reaches_managed(machine: &Machine, shield: &Shield) -> bool {
    let prepared = preparable(machine, shield);
    let reaches = |irq: &Irq| {
        let place = irq.effective.as_ref().filter(|e| !e.is_empty()).or(irq.affinity.as_ref());
        let shared = matches!(arrival(irq, shield), RefusedIrq::ServesOthers { .. });
        let refused = matches!(irq.movable, IrqMovability::No(_)) && !irq.actions.is_empty();
        refused && shared && place.is_some_and(|at| at.intersects(&prepared))
    };
    !prepared.is_subset(&machine.isolation.managed_irq) && machine.irqs.iter().any(reaches)
}

/// Whether a kernel has the flag `managed_irq`, as far as its version and configuration show it.
fn may_know_flag(kernel: &Kernel) -> bool {
    let old = kernel.version.is_some_and(|version| version < MANAGED_IRQ_FLAG)
        && !kernel.release.as_deref().is_some_and(may_be_vendor_build);
    let option = kernel.config.get("CONFIG_CPU_ISOLATION");
    !old && (kernel.config.is_empty() || option.is_some_and(|value| value == "y"))
}

/// Names of the files of an interrupt's affinity, as a list and as a mask.
const FILES: [&str; 2] = ["smp_affinity_list", "smp_affinity"];

/// Whether this is a file of the interrupt's affinity.
pub(super) fn is_affinity_file(path: &str, irq: u32) -> bool {
    FILES.iter().any(|name| path == format!("/proc/irq/{irq}/{name}"))
}

/// The file of an interrupt's affinity, how it spells CPUs, and how two of its texts are compared.
/// The list is younger than the mask.
fn spell_affinity(machine: &Machine, irq: u32) -> (String, fn(&CpuSet) -> String, ValueComparison) {
    let [list, mask] = FILES.map(|name| format!("/proc/irq/{irq}/{name}"));
    if machine.kernel.version.is_some_and(|version| version < IRQ_AFFINITY_LIST) {
        return (mask, CpuSet::to_mask, ValueComparison::Mask);
    }
    (list, CpuSet::to_string, ValueComparison::List)
}

/// The mask of an interrupt, if it includes shielded CPUs.
fn affinity_on_shield<'a>(irq: &'a Irq, shield: &Shield) -> Option<&'a CpuSet> {
    irq.affinity.as_ref().filter(|affinity| affinity.intersects(&shield.cpus))
}

/// Whether the user has put an interrupt of the shield on CPUs of `isolcpus=`: irqbalance does not
/// choose only these, the kernel only all of a node (`irq_setup_affinity()`, kernel/irq/manage.c,
/// 6.12), and the driver wants other ones.
fn stays(machine: &Machine, irq: &Irq, shield: &Shield) -> bool {
    let online = &machine.topology.online;
    let is_of_node = |mask: &CpuSet| {
        machine.topology.nodes.iter().any(|node| node.cpus.intersection(online) == *mask)
    };
    let mask = affinity_on_shield(irq, shield)
        .filter(|mask| mask.is_subset(&machine.isolation.isolcpus_domain) && !is_of_node(mask));
    let can_move = !matches!(irq.movable, IrqMovability::No(_));
    !shield.evict && can_move && mask.is_some() && irq.hint.as_ref() != mask
}

fn to_immovable(irq: &Irq) -> ImmovableThing {
    ImmovableThing::Irq { irq: irq.irq, actions: irq.actions.clone() }
}
