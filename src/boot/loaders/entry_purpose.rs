//! Recognizes entries that do not start the system for its normal work: recovery, memory tests and
//! crash dumps. They never get parameters, so that a machine that does not boot with the parameters
//! can be repaired. Pure.

use crate::documents::boot::EntryPurpose;
use cpushield_linux::text::cmdline;

/// Parts of titles, ids and names of kernel files:
/// - `(recovery mode)` and `-recovery-` of 10_linux (util/grub.d/10_linux.in of GRUB, 2.12);
/// - `0-rescue` (51-dracut-rescue.install of dracut, 059);
/// - `memtest86+` and `memtest86` (20_memtest86+ of Debian's memtest86+);
/// - `kdump` (the kernel of that name in old SUSE releases).
const NAMES: &[(&str, EntryPurpose)] = &[
    ("memtest", EntryPurpose::MemoryTest),
    ("kdump", EntryPurpose::CrashDump),
    ("rescue", EntryPurpose::Recovery),
    ("recovery", EntryPurpose::Recovery),
    ("failsafe", EntryPurpose::Recovery),
    ("emergency", EntryPurpose::Recovery),
];

/// Words that select a mode for repairs: those that systemd knows (kernel-command-line(7), 257),
/// and `recovery` of Ubuntu's friendly-recovery.
const MODES: &[&str] =
    &["single", "s", "S", "-s", "1", "rescue", "emergency", "-b", "recovery", "rd.break"];

/// Programs that take the place of init for repairs.
const SHELLS: &[&str] = &["sh", "bash", "dash", "ash", "busybox", "sulogin"];

/// What an entry is for, by its names and its command line; `None`: for normal work.
pub(super) fn find_purpose(names: &[&str], args: &str) -> Option<EntryPurpose> {
    let parts = names.iter().flat_map(|name| name.split(|c: char| !c.is_ascii_alphanumeric()));
    let by_name = parts.into_iter().find_map(|part| {
        let part = part.to_ascii_lowercase();
        let known = NAMES.iter().find(|(name, _)| match *name {
            // `memtest86`, `memtest86+x64`.
            "memtest" => part.starts_with(name),
            name => part == name,
        });
        known.map(|(_, purpose)| *purpose)
    });
    let params = cmdline::parse(args);
    by_name.or_else(|| params.iter().find_map(purpose_of_word))
}

/// What an entry with this word is for; `None`: for normal work.
pub(in crate::boot) fn find_word_purpose(word: &str) -> Option<EntryPurpose> {
    cmdline::parse(word).iter().find_map(purpose_of_word)
}

fn purpose_of_word(param: &cmdline::KernelParam) -> Option<EntryPurpose> {
    let file = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
    let is_recovery = match (param.name.as_str(), param.value.as_deref()) {
        // The kernel that kexec starts after a crash (Documentation/admin-guide/kdump/kdump.rst,
        // 6.12).
        ("reset_devices", None) | ("elfcorehdr", Some(_)) => return Some(EntryPurpose::CrashDump),
        (mode, None) => MODES.contains(&mode),
        ("systemd.unit", Some(unit)) => {
            ["rescue", "emergency", "friendly-recovery"].iter().any(|it| unit.starts_with(it))
        }
        ("init", Some(program)) => SHELLS.contains(&file(program).as_str()),
        _ => false,
    };
    is_recovery.then_some(EntryPurpose::Recovery)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_for_repairs_tests_and_dumps_are_recognized() {
        use EntryPurpose::{CrashDump, MemoryTest, Recovery};
        let normal = "root=/dev/sda1 ro quiet crashkernel=256M init=/sbin/init";
        for (names, args, expected) in [
            (&["Debian GNU/Linux", "gnulinux-simple-ab", "/vmlinuz-6.1"][..], normal, None),
            (&["Debian, with Linux 6.1 (recovery mode)"], "ro single", Some(Recovery)),
            (&["Ubuntu"], "ro recovery nomodeset dis_ucode_ldr", Some(Recovery)),
            (&["Fedora (0-rescue-5a94) 40"], "ro rhgb", Some(Recovery)),
            (&["x", "5a94-0-rescue", "/vmlinuz-0-rescue-5a94"], "ro", Some(Recovery)),
            (&["l0r"], "root=/dev/sda1 ro single", Some(Recovery)),
            (&["l0"], "ro systemd.unit=rescue.target", Some(Recovery)),
            (&["l0"], "ro init=/bin/bash", Some(Recovery)),
            (&["l0"], "ro 1", Some(Recovery)),
            (&["Memory test (memtest86+x64.efi)"], "", Some(MemoryTest)),
            (&["/boot/memtest86+.bin"], "", Some(MemoryTest)),
            (&["Linux-kdump"], "ro", Some(CrashDump)),
            (&["x"], "irqpoll nr_cpus=1 reset_devices", Some(CrashDump)),
            (&["x"], "elfcorehdr=0x1000 ro", Some(CrashDump)),
            // Parts of other words are no sign.
            (&["host rescued", "discovery"], "root=/dev/sda1 s=1 single=x", None),
        ] {
            assert_eq!(find_purpose(names, args), expected, "{names:?} {args}");
        }
    }
}
