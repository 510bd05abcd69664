//! SELinux and AppArmor, and what they could refuse.

use super::{AdviceSource, SubjectReading, SurveyFinding};

/// The active security modules: `lockdown,capability,yama,apparmor` (security/inode.c, 6.12).
const MODULES: &str = "/sys/kernel/security/lsm";
/// 1: enforcing, 0: permissive (security/selinux/selinuxfs.c, 6.12).
const ENFORCE: &str = "/sys/fs/selinux/enforce";

pub(super) fn read(source: &AdviceSource<'_>) -> SubjectReading {
    let modules = source.r.line(MODULES)?;
    let active = |name: &str| modules.split(',').any(|module| module.trim() == name);
    let selinux = active("selinux").then(|| source.r.line(ENFORCE)).flatten();
    let findings = [check_selinux(selinux.as_deref()), check_apparmor(active("apparmor"))];
    Some(findings.into_iter().flatten().collect())
}

fn check_selinux(enforce: Option<&str>) -> Option<SurveyFinding> {
    (enforce == Some("1")).then(|| {
        SurveyFinding::new(
            "selinux",
            "SELinux is enforcing",
            "it can deny a confined service the right to apply a shield, start a program in it, or \
             use a real-time priority. To list the denials: ausearch -m avc -c cpushield",
        )
    })
}

fn check_apparmor(active: bool) -> Option<SurveyFinding> {
    active.then(|| {
        SurveyFinding::new(
            "apparmor",
            "AppArmor is active",
            "it confines only programs with a profile (aa-status); it may deny such a program a \
             real-time priority or locked memory in the shield. To list the denials: dmesg; where \
             auditd runs: ausearch -m avc",
        )
    })
}
