//! `irq`: its name, its page and other words for it. Pure.

use super::CauseEntry;

pub(super) const ENTRY: CauseEntry = CauseEntry {
    name: "irq",
    summary: "a device interrupt",
    words: &[],
    beginnings: &[],
    page: PAGE,
};

const PAGE: &str = "\
A device raised an interrupt. The interrupt goes to a CPU in its mask,
/proc/irq/N/smp_affinity_list; effective_affinity_list shows which one. Users cannot move per-CPU or
managed interrupts. Many managed interrupts also serve housekeeping CPUs; the boot parameter
`isolcpus=managed_irq,…` sends such interrupts to those CPUs.

The report shows the number of the interrupt and the name under which the driver requested it
(/proc/interrupts). Most drivers use the name of the device and the queue.

Source: irq_do_set_affinity() in kernel/irq/manage.c (6.12),
Documentation/core-api/irq/irq-affinity.rst, Documentation/admin-guide/kernel-parameters.txt.";
