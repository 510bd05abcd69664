//! Pages about activities of the kernel that appear under several names: the function that runs,
//! the function that sends it and the work item that it is sent from. Pure.

/// A page, and the names that lead to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Topic {
    /// Its name for `explain`.
    pub name: &'static str,
    /// A summary of one line.
    pub summary: &'static str,
    /// The page (Markdown).
    pub text: &'static str,
    /// The functions of the kernel that it explains.
    pub functions: &'static [&'static str],
}

/// Every topic.
pub const TOPICS: &[Topic] = &[
    Topic {
        name: "kernel-tlb-flush",
        summary: "every CPU must flush freed kernel addresses from its TLB",
        text: KERNEL_TLB_FLUSH,
        functions: &[
            "do_flush_tlb_all",
            "do_kernel_range_flush",
            "flush_tlb_kernel_range",
            "drain_vmap_area_work",
            "__purge_vmap_area_lazy",
            "_vm_unmap_aliases",
            "vm_unmap_aliases",
            "purge_vmap_area_lazy",
        ],
    },
    Topic {
        name: "framebuffer-console",
        summary: "the kernel draws the text console of a screen on the CPU that wrote to it",
        text: FRAMEBUFFER_CONSOLE,
        functions: &["fb_flashcursor", "drm_fb_helper_damage_work"],
    },
];

/// Finds the topic with this name, or that of this kernel function.
#[must_use]
pub fn find(name: &str) -> Option<&'static Topic> {
    TOPICS.iter().find(|topic| topic.name == name || topic.functions.contains(&name))
}

const KERNEL_TLB_FLUSH: &str = "\
The kernel freed some of its own addresses (vmalloc areas), and any CPU may still have them in its
TLB. Before the kernel reuses the addresses, each CPU must flush them: `do_flush_tlb_all` runs on
every CPU, isolated or not. For ranges of at most 33 pages, `do_kernel_range_flush` runs instead
(`tlb_single_page_flush_ceiling`, arch/x86/mm/tlb.c).

What frees addresses:
* Threads and processes that end. With CONFIG_VMAP_STACK each has a kernel stack in a vmalloc area,
and each CPU keeps only two for reuse (NR_CACHED_STACKS, kernel/fork.c). Fork storms are the usual
source.
* Modules and BPF programs that are loaded or removed.
* Drivers, file systems and tracers that free large buffers with vfree().

When the flush happens: the kernel collects the freed areas and flushes once for all of them when
they exceed fls(online CPUs) times 32 MiB: 64 MiB with 2 CPUs, 96 MiB with 4, 224 MiB with 64
(lazy_max_pages() in mm/vmalloc.c). Then `drain_vmap_area_work` runs on a kworker of the CPU that
freed the last area, and `__purge_vmap_area_lazy` sends the flush. A measurement of a few seconds
usually shows no flush: even under fork storms on 4 CPUs, a flush occurred only about every 160 s.
vm_unmap_aliases() flushes at once, however little was freed. On x86 the functions set_memory_*(),
which change the page permissions of kernel memory, call it (arch/x86/mm/pat/set_memory.c). So does
freeing executable memory (vm_reset_perms() in mm/vmalloc.c).

No tunable prevents the flush: there is no mask, and the threshold is compiled in. What helps:
* Trigger the flush before the critical phase. Any call to vm_unmap_aliases() flushes the areas that
the kernel has collected. To cause such a call, load an unused module and remove it again:
`modprobe dummy; modprobe -r dummy`. This interrupts every CPU a few times. The kernel then starts
to collect from zero.
* Fork less in the critical phase: avoid services that start a program for each request, shell
loops, and builds. Threads that keep running cause no flush.
* Load modules and BPF programs before the shield is needed, and keep them loaded.

Some processors flush without an interrupt. From 6.15 on, AMD processors with INVLPGB flush with
that instruction (kernel_tlb_flush_all() in arch/x86/mm/tlb.c, commit 82378c6c2f43); look for
`invlpgb` among the flags in /proc/cpuinfo. On arm64 the hardware broadcasts the flush
(flush_tlb_kernel_range() in arch/arm64/include/asm/tlbflush.h). A series that defers the flush
until a `nohz_full` CPU enters the kernel is under review (\"context_tracking,x86: Defer some IPIs
until a user->kernel transition\", v8, March 2026).

Source: lazy_max_pages(), free_vmap_area_noflush(), drain_vmap_area_work() and
__purge_vmap_area_lazy() in mm/vmalloc.c, flush_tlb_kernel_range() in arch/x86/mm/tlb.c (6.12).";

const FRAMEBUFFER_CONSOLE: &str = "\
On a framebuffer, the kernel draws the text console as a picture. The CPU from which a program or
the kernel writes to the console draws the text at once. Two work items follow, and both are queued
on that CPU. Their workqueues are per-CPU, so no cpuset, IRQ affinity or workqueue mask keeps the
work items off the shield. If the kernel was booted with `workqueue.power_efficient=1`, the
workqueue of the cursor is unbound.

* `fb_flashcursor` draws the blinking cursor, about five times a second, and queues itself again
until the cursor stops blinking. If it is queued from a `nohz_full` CPU, its timer runs on a
housekeeping CPU, and the work item follows. Since 6.9 another CPU can also take it over from an
idle CPU. `console-cursor-blink` stops it; `vt.global_cursor_default=0` on the kernel command line
removes the cursor.
* `drm_fb_helper_damage_work` copies the drawn text to the display, once for each burst of text. It
stops when nothing more is written.

What helps against `drm_fb_helper_damage_work`:
* Let the kernel write fewer messages to the console: `dmesg -n 1` (/proc/sys/kernel/printk) lets
only emergency messages through. All messages stay in the kernel log.
* Keep programs on shielded CPUs from writing to the console on a screen. A serial line, a network
login or a desktop terminal is not such a console.
* If `console=ttyS0` is the only console on the kernel command line, the kernel does not draw its
messages. While a display server has the screen in graphics mode, the kernel does not draw the
console.

Source: fbcon_add_cursor_work(), fb_flashcursor() and fbcon_is_active() in
drivers/video/fbdev/core/fbcon.c;
drm_fb_helper_damage() and drm_fb_helper_damage_work() in drivers/gpu/drm/drm_fb_helper.c,
__queue_delayed_work() in kernel/workqueue.c (6.12);
do_syslog() in kernel/printk/printk.c. Firedancer stops both for its own CPUs (console.c in
src/app/shared/commands/configure, commit 178b48f).";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_and_its_sender_have_the_same_page() {
        for name in ["do_flush_tlb_all", "drain_vmap_area_work", "kernel-tlb-flush"] {
            assert_eq!(find(name).map(|topic| topic.name), Some("kernel-tlb-flush"), "{name}");
        }
        for name in ["fb_flashcursor", "drm_fb_helper_damage_work"] {
            assert_eq!(find(name).map(|topic| topic.name), Some("framebuffer-console"), "{name}");
        }
        assert_eq!(find("do_sync_core"), None);
        for topic in TOPICS {
            assert!(topic.text.contains("\nSource: "), "{}", topic.name);
            assert!(topic.text.lines().all(|line| line.chars().count() <= 100), "{}", topic.name);
        }
    }
}
