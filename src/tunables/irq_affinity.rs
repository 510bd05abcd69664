//! `irq-affinity`: device interrupts leave the shield. Pure.

use super::want::away;
use super::{Remains, Tunable, Wanted, Wants};
use crate::causes::Cause;
use crate::change::{Compare, Risk};
use crate::plan::{BootAdvice, Immovable, Shield};
use crate::survey::{Irq, Machine, Movable};

const DEFAULT: &str = "/proc/irq/default_smp_affinity";

#[derive(Debug)]
pub(super) struct IrqAffinity;

const PAGE: &str = "\
An interrupt takes the CPU from whatever runs there. The mask for interrupts that are requested
later, /proc/irq/default_smp_affinity, is set first; then each interrupt whose mask touches the
shield gets the housekeeping CPUs of its mask.

Some cannot be moved: per-CPU interrupts, and queues whose place the kernel manages (NVMe,
virtio, many network cards). The kernel answers EIO, since 6.12 EPERM. They are listed. A
managed queue serves the CPUs of its mask. Where that mask has housekeeping CPUs too, the boot
parameter `isolcpus=managed_irq,…` sends it to those; where it has shielded CPUs only, it
interrupts them only for what they themselves asked for.

An IO-APIC interrupt moves when it next arrives; until then `effective_affinity` shows the old
CPU. Drivers that request their interrupts anew, as many network cards do when the link comes
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

    fn culprits(&self) -> &'static [&'static str] {
        &["IRQ", "NET_RX", "NET_TX", "BLOCK", "TASKLET", "HI"]
    }

    fn risk(&self) -> Risk {
        Risk::Low
    }

    fn wants(&self, machine: &Machine, shield: &Shield) -> Wants {
        let mut wanted = Vec::new();
        if let Some(default) = &machine.irq_default {
            wanted.push(Wanted::over(
                Some(default.to_mask()),
                DEFAULT,
                &away(default, shield).to_mask(),
                Compare::Mask,
                "interrupts requested from now on stay off the shield",
            ));
        }
        for irq in &machine.irqs {
            let Some(affinity) = touching(irq, shield) else { continue };
            if matches!(irq.movable, Movable::No(_)) {
                continue;
            }
            wanted.push(Wanted::over(
                Some(affinity.to_string()),
                &format!("/proc/irq/{}/smp_affinity_list", irq.irq),
                &away(affinity, shield).to_string(),
                Compare::List,
                &format!("{} may interrupt the shield", title(irq)),
            ));
        }
        if wanted.is_empty() {
            return Wants::Nothing("this machine shows no interrupt masks".to_owned());
        }
        Wants::Changes(wanted)
    }

    fn remains(&self, machine: &Machine, shield: &Shield) -> Remains {
        let mut remains = Remains::default();
        let mut steerable = false;
        for irq in machine.irqs.iter().filter(|irq| !irq.actions.is_empty()) {
            let Movable::No(answer) = &irq.movable else { continue };
            let place = irq.effective.as_ref().filter(|e| !e.is_empty()).or(irq.affinity.as_ref());
            if !place.is_some_and(|place| place.intersects(&shield.cpus)) {
                continue;
            }
            let mask = irq.affinity.clone().unwrap_or_default();
            let shared = mask.intersects(&shield.housekeeping);
            steerable |= shared;
            let serves = if shared {
                format!("; it serves CPU {mask}")
            } else {
                "; it arrives only for what the shield itself asked for".to_owned()
            };
            let reason = format!("the kernel refuses ({answer}){serves}");
            remains.immovable.push(Immovable { what: title(irq), reason });
        }
        let managed = shield.cpus.is_subset(&machine.isolation.managed_irq);
        if steerable && !managed {
            let all = machine.isolation.managed_irq.union(&shield.cpus);
            remains.boot.push(BootAdvice {
                parameter: format!("isolcpus=managed_irq,{all}"),
                removes: vec![Cause::Irq],
                reason: "managed interrupts that serve other CPUs too then go to those".to_owned(),
            });
        }
        remains
    }
}

/// The mask of an interrupt that touches the shield.
fn touching<'a>(irq: &'a Irq, shield: &Shield) -> Option<&'a cpushield_linux::CpuSet> {
    irq.affinity.as_ref().filter(|affinity| affinity.intersects(&shield.cpus))
}

fn title(irq: &Irq) -> String {
    if irq.actions.is_empty() {
        format!("irq {}", irq.irq)
    } else {
        format!("irq {} ({})", irq.irq, irq.actions)
    }
}
