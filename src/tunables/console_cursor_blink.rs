//! `console-cursor-blink`: the cursor of the framebuffer console stands still. Pure.

use super::setting::set_file;
use super::want::setting;
use super::{Tunable, WantedChanges};
use crate::causes::Cause;
use crate::causes::culprit::CulpritPattern;
use crate::change::{Risk, ValueComparison};
use crate::documents::inapplicable::InapplicableReason;
use crate::documents::machine::Machine;
use crate::documents::plan::Shield;

const FILE: &str = "/sys/class/graphics/fbcon/cursor_blink";

pub(super) const CONSOLE_CURSOR_BLINK: Tunable = Tunable {
    name: "console-cursor-blink",
    summary: "stop the blinking cursor of the framebuffer console",
    page: "\
The cursor of the text console on a screen appears or disappears about five times a second. Each
time, a work item (fb_flashcursor) draws or erases it and queues itself again. It stays on its CPU
while that CPU is busy, unless the CPU is in `nohz_full=`: then its timer fires on a housekeeping
CPU. Since 6.9 another CPU can also take it over from an idle CPU. The workqueue is per-CPU, unless
the kernel was booted with workqueue.power_efficient=1 or has this default
(CONFIG_WQ_POWER_EFFICIENT_DEFAULT). So neither a cpuset nor the masks of `workqueues` and
`irq-affinity` keep the work item off a CPU. It starts on a CPU when a task writes to the console
there, or when the kernel prints a message there.

The same CPU also draws the text of the console: see `framebuffer-console`.

Cost: the cursor of the console does not blink, or is not visible, while the shield is active.

Source: fbcon_add_cursor_work(), fb_flashcursor() and store_cursor_blink() in
drivers/video/fbdev/core/fbcon.c, __queue_delayed_work() in kernel/workqueue.c (6.12). Firedancer
sets the same file (console.c in src/app/shared/commands/configure, commit 178b48f).",
    reads: &[FILE],
    removes: &[Cause::Workqueue],
    culprits: &[CulpritPattern::Function("fb_flashcursor")],
    risk: Risk::Low,
    wants,
    ..Tunable::PLAIN
};

/// Kernels such as 6.12 answer -1 if the console has no framebuffer (show_cursor_blink() in
/// drivers/video/fbdev/core/fbcon.c).
fn wants(machine: &Machine, _: &Shield) -> WantedChanges {
    let reason = "the CPU that wrote to the console otherwise draws the cursor five times a second";
    match setting(machine, FILE) {
        Some("-1") => WantedChanges::Nothing(InapplicableReason::NoFramebufferConsole),
        _ => set_file(machine, FILE, "0", ValueComparison::Text, reason),
    }
}

#[cfg(test)]
mod tests {
    use super::super::WantedChanges;
    use super::super::tests::{busy, shield};
    use super::*;
    use crate::documents::machine::{CgroupMode, TunableReading};

    #[test]
    fn a_cursor_that_blinks_is_stopped_where_there_is_one() {
        let mut m = busy(CgroupMode::V2);
        let shield = shield(&m);
        let wants = |m: &Machine| (CONSOLE_CURSOR_BLINK.wants)(m, &shield);
        m.settings.remove(FILE);
        let absent = InapplicableReason::SettingAbsent { file: FILE.to_owned() };
        assert_eq!(wants(&m), WantedChanges::Nothing(absent));
        let mut with = |text: &str| {
            m.settings.insert(FILE.to_owned(), TunableReading::Value(text.to_owned()));
            wants(&m)
        };
        let none = InapplicableReason::NoFramebufferConsole;
        assert_eq!(with("-1"), WantedChanges::Nothing(none));
        let already = |wanted: WantedChanges| match wanted {
            WantedChanges::Changes(changes) => changes.iter().map(|it| it.already).collect(),
            WantedChanges::Nothing(_) => Vec::new(),
        };
        assert_eq!((already(with("1")), already(with("0"))), (vec![false], vec![true]));
    }
}
