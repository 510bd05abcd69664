//! The work of the text console: the blinking cursor, and blanking after a time.

use super::{AdviceSource, SubjectReading, SurveyFinding};

/// Seconds until the console blanks; 0: never (drivers/tty/vt/vt.c, 6.12).
const BLANK: &str = "/sys/module/kernel/parameters/consoleblank";
/// Whether the cursor of the framebuffer console blinks (drivers/video/fbdev/core/fbcon.c, 6.12).
const BLINK: &str = "/sys/class/graphics/fbcon/cursor_blink";

pub(super) fn read(source: &AdviceSource<'_>) -> SubjectReading {
    let blank = source.r.line(BLANK)?;
    let blink = source.r.line(BLINK);
    let findings = [check_blank(&blank), check_blink(blink.as_deref())];
    Some(findings.into_iter().flatten().collect())
}

fn check_blank(text: &str) -> Option<SurveyFinding> {
    let seconds = text.parse::<u64>().ok().filter(|seconds| *seconds > 0)?;
    Some(SurveyFinding::new(
        "console-blank",
        format!("the console blanks after {seconds} s without a key press"),
        "blanking runs a timer and a work item once; consoleblank=0 prevents it",
    ))
}

fn check_blink(text: Option<&str>) -> Option<SurveyFinding> {
    (text == Some("1")).then(|| {
        SurveyFinding::new(
            "cursor-blink",
            "the cursor of the framebuffer console blinks",
            "about five times a second, a work item for the cursor runs on the CPU that last wrote \
             to the console; a shield stops it (tunable console-cursor-blink), as does \
             vt.global_cursor_default=0 on the kernel command line",
        )
    })
}
