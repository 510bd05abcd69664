//! `irq-affinity`: device interrupts leave the shield. Pure.

use super::boot::preparable;
use super::want::away;
use super::{Remedy, RemedyAnswer, Tunable, UnresolvedCause, WantedChange, WantedChanges};
use crate::causes::culprit::CulpritPattern;
use crate::causes::{Cause, Culprit};
use crate::change::{EffectTime, Outcome, Risk, ValueComparison};
use crate::plan::{
    BootAdvice, Immovable, ImmovableReason, ImmovableThing, Plan, RefusedIrq, Shield, Step,
    StepReason,
};
use crate::survey::{Irq, IrqMovability, Machine};

const DEFAULT: &str = "/proc/irq/default_smp_affinity";

#[derive(Debug)]
pub(super) struct IrqAffinity;

const PAGE: &str = "\
An interrupt takes the CPU from whatever runs there. The mask for interrupts that are requested
later, /proc/irq/default_smp_affinity, is set first; then each interrupt whose mask touches the
shield gets the housekeeping CPUs of its mask.

Some cannot be moved: per-CPU interrupts, those of chips that move none, and queues whose place
the kernel manages (NVMe, virtio, many network cards). The kernel answers EIO, since 6.12 EPERM,
to all of them, and tells which it is in debugfs only, where most kernels are built without that.
They are listed; a message of a device (MSI, MSI-X) is taken for a managed queue, no other is. A
managed queue serves the CPUs of its mask. Where that mask has housekeeping CPUs too, the boot
parameter `isolcpus=managed_irq,…` sends it to those; where it has shielded CPUs only, it
interrupts them only for what they themselves asked for.

An IO-APIC interrupt moves when it next arrives; until then `effective_affinity` shows the old
CPU. Drivers that request their interrupts again, as many network cards do when the link comes
up, get the default mask.

Cost: the housekeeping CPUs handle all interrupts.

Source: write_irq_affinity() in kernel/irq/proc.c (6.12);
Documentation/core-api/irq/irq-affinity.rst; kernel-parameters.txt (isolcpus).";

impl Tunable for IrqAffinity {
    fn name(&self) -> &'static str {
        "irq-affinity"
    }

    fn summary(&self) -> &'static str {
        "send device interrupts to the housekeeping CPUs, those requested later too"
    }

    fn page(&self) -> &'static str {
        PAGE
    }

    fn reads(&self) -> &'static [&'static str] {
        &[]
    }

    fn removes(&self) -> &'static [Cause] {
        &[Cause::Irq, Cause::Softirq]
    }

    fn culprits(&self) -> &'static [CulpritPattern] {
        &[
            CulpritPattern::AnyIrq,
            CulpritPattern::Softirq("NET_RX"),
            CulpritPattern::Softirq("NET_TX"),
            CulpritPattern::Softirq("BLOCK"),
            CulpritPattern::Softirq("IRQ_POLL"),
            CulpritPattern::Softirq("TASKLET"),
            CulpritPattern::Softirq("HI"),
        ]
    }

    fn risk(&self) -> Risk {
        Risk::Low
    }

    fn wants(&self, machine: &Machine, shield: &Shield) -> WantedChanges {
        let mut wanted = Vec::new();
        if let Some(default) = &machine.irq_default {
            wanted.push(WantedChange::over(
                Some(default.to_mask()),
                DEFAULT,
                &away(default, shield).to_mask(),
                ValueComparison::Mask,
                "interrupts requested from now on stay off the shield",
            ));
        }
        for irq in &machine.irqs {
            let Some(affinity) = touching(irq, shield) else { continue };
            if matches!(irq.movable, IrqMovability::No(_)) {
                continue;
            }
            wanted.push(WantedChange::over(
                Some(affinity.to_string()),
                &path(irq),
                &away(affinity, shield).to_string(),
                ValueComparison::List,
                StepReason::Irq { irq: irq.irq, actions: irq.actions.clone() },
            ));
        }
        if wanted.is_empty() {
            return WantedChanges::Nothing(match machine.shows_proc() {
                true => "this machine shows no interrupt masks".to_owned(),
                false => "the masks of interrupts are not known".to_owned(),
            });
        }
        WantedChanges::Changes(wanted)
    }

    fn remains(&self, machine: &Machine, shield: &Shield) -> UnresolvedCause {
        let mut remains = UnresolvedCause::default();
        let (mut steerable, prepared) = (false, preparable(shield));
        for irq in machine.irqs.iter().filter(|irq| !irq.actions.is_empty()) {
            let IrqMovability::No(answer) = &irq.movable else { continue };
            let place = irq.effective.as_ref().filter(|e| !e.is_empty()).or(irq.affinity.as_ref());
            if !place.is_some_and(|place| place.intersects(&shield.cpus)) {
                continue;
            }
            let mask = irq.affinity.clone().unwrap_or_default();
            let shared = mask.intersects(&shield.housekeeping);
            let message = is_message(irq);
            steerable |= shared && message && place.is_some_and(|at| at.intersects(&prepared));
            let arrives = match (message, shared) {
                (true, true) => RefusedIrq::ServesOthers { cpus: mask },
                (true, false) => RefusedIrq::OwnRequests,
                (false, _) => RefusedIrq::NotKnown,
            };
            let reason = ImmovableReason::Refused { answer: answer.clone(), arrives };
            remains.immovable.push(Immovable { what: thing(irq), reason });
        }
        remains.warnings.extend(untried(machine, shield));
        let managed = prepared.is_subset(&machine.isolation.managed_irq);
        if steerable && !managed {
            remains.boot.push(BootAdvice {
                parameter: managed_irq(machine, shield),
                removes: vec![Cause::Irq],
                reason: "managed interrupts that serve other CPUs too then go to those".to_owned(),
            });
        }
        remains
    }

    fn settles(
        &self,
        machine: &Machine,
        shield: &Shield,
        culprit: &Culprit,
    ) -> Option<RemedyAnswer> {
        let Culprit::Irq { irq: number, .. } = culprit else { return None };
        let irq = machine.irqs.iter().find(|irq| irq.irq == *number)?;
        let mask = irq.affinity.as_ref()?;
        let on_shield = mask.intersects(&shield.cpus);
        let boot = || Remedy {
            tunable: self.name().to_owned(),
            when: EffectTime::Boot,
            how: managed_irq(machine, shield),
        };
        let echo = |end: &str| Remedy {
            tunable: self.name().to_owned(),
            when: EffectTime::Runtime,
            how: format!("echo {} > {}{end}", away(mask, shield), path(irq)),
        };
        Some(match &irq.movable {
            IrqMovability::No(answer) if !is_message(irq) => RemedyAnswer::impossible(format!(
                "the kernel refuses to move it ({answer}); {}",
                RefusedIrq::NotKnown
            )),
            IrqMovability::No(answer) if !mask.intersects(&shield.housekeeping) => {
                RemedyAnswer::impossible(format!(
                    "the kernel refuses to move it ({answer}); {}",
                    RefusedIrq::OwnRequests
                ))
            }
            IrqMovability::No(answer)
                if preparable(shield).is_subset(&machine.isolation.managed_irq) =>
            {
                let covered = "isolcpus=managed_irq has the shield already";
                RemedyAnswer::impossible(format!(
                    "the kernel refuses to move it ({answer}), and {covered}"
                ))
            }
            IrqMovability::No(_) => RemedyAnswer::Remedy(boot()),
            IrqMovability::Yes if on_shield => RemedyAnswer::Remedy(echo("")),
            IrqMovability::Unknown(_) | IrqMovability::Denied(_) if on_shield => {
                RemedyAnswer::Remedy(echo("  # the kernel may refuse"))
            }
            _ if irq.effective.as_ref().is_some_and(|e| e.intersects(&shield.cpus)) => {
                RemedyAnswer::impossible(format!(
                    "its mask is CPU {mask} already; it moves when it next arrives"
                ))
            }
            _ => RemedyAnswer::impossible(format!(
                "its mask is CPU {mask} now; this came before that took effect"
            )),
        })
    }
}

/// Tells a machine that was surveyed beside a shield, where no interrupt is tried, what is known
/// of its interrupts from the shield's plan and from what came of its steps.
pub(super) fn recall(machine: &mut Machine, plan: &Plan, outcomes: &[(Step, Outcome)]) {
    for irq in &mut machine.irqs {
        let known = matches!(irq.movable, IrqMovability::Yes | IrqMovability::No(_));
        if known || irq.actions.is_empty() {
            continue;
        }
        // Numbers are used again: the name must be the same, too.
        let reason = StepReason::Irq { irq: irq.irq, actions: irq.actions.clone() };
        let own = |step: &Step| step.reason == reason;
        let made = outcomes.iter().find(|(step, _)| own(step)).map(|(_, outcome)| outcome);
        let stays = plan.immovable.iter().find_map(|stays| match &stays.reason {
            ImmovableReason::Refused { answer, .. } if stays.what == thing(irq) => Some(answer),
            _ => None,
        });
        irq.movable = match (made, stays) {
            (Some(Outcome::Changed), _) => IrqMovability::Yes,
            (Some(Outcome::Refused { reason, .. }), _) => IrqMovability::No(reason.clone()),
            (_, Some(answer)) => IrqMovability::No(answer.clone()),
            _ => continue,
        };
    }
}

/// What a plan does not know when its survey had no right to try.
fn untried(machine: &Machine, shield: &Shield) -> Option<String> {
    let denied = |irq: &&Irq| {
        matches!(irq.movable, IrqMovability::Denied(_)) && touching(irq, shield).is_some()
    };
    let count = machine.irqs.iter().filter(denied).count();
    (count > 0).then(|| {
        format!(
            "as a normal user interrupts could not be tried: the kernel may refuse to move some of \
             {count}; as root the plan knows which"
        )
    })
}

/// Whether an interrupt is a message of a device, as those are that the kernel manages: it spreads
/// the queues of devices that ask for that (pci_alloc_irq_vectors_affinity() in
/// drivers/pci/msi/api.c, 6.12). That one which is refused is managed is a guess, if a good one.
fn is_message(irq: &Irq) -> bool {
    irq.chip.contains("MSI")
}

/// The boot parameter that sends managed interrupts to other CPUs of their masks.
fn managed_irq(machine: &Machine, shield: &Shield) -> String {
    format!("isolcpus=managed_irq,{}", machine.isolation.managed_irq.union(&preparable(shield)))
}

/// The file of an interrupt's affinity.
pub(super) fn affinity_file(irq: u32) -> String {
    format!("/proc/irq/{irq}/smp_affinity_list")
}

fn path(irq: &Irq) -> String {
    affinity_file(irq.irq)
}

/// The mask of an interrupt that touches the shield.
fn touching<'a>(irq: &'a Irq, shield: &Shield) -> Option<&'a cpushield_linux::CpuSet> {
    irq.affinity.as_ref().filter(|affinity| affinity.intersects(&shield.cpus))
}

fn thing(irq: &Irq) -> ImmovableThing {
    ImmovableThing::Irq { irq: irq.irq, actions: irq.actions.clone() }
}
