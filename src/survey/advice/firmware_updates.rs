//! The timer of fwupd, which looks for firmware updates.

use super::{AdviceSource, SubjectReading, SurveyFinding};

/// Links to the timers that systemd starts.
const WANTED: &str = "/etc/systemd/system/timers.target.wants";
/// A link to `/dev/null` here masks the timer.
const MASK: &str = "/etc/systemd/system/fwupd-refresh.timer";

pub(super) fn read(source: &AdviceSource<'_>) -> SubjectReading {
    let host = source.r.host;
    if !host.exists(WANTED) {
        return None;
    }
    let masked = host.read_link(MASK).is_ok_and(|target| target == "/dev/null");
    let enabled = host.exists(&format!("{WANTED}/fwupd-refresh.timer")) && !masked;
    Some(Vec::from_iter(enabled.then(|| {
        SurveyFinding::new(
            "fwupd-refresh",
            "fwupd-refresh.timer is enabled",
            "on some machines it causes system management interrupts, which stop all CPUs. \
             OpenShift disables this timer (CNF-26497). To disable it: systemctl disable --now \
             fwupd-refresh.timer",
        )
    })))
}
