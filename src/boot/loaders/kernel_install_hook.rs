//! Our hook in `/etc/kernel/install.d`: `kernel-install` runs it for each kernel that is installed,
//! after the hook that creates the entry. Pure, except for the check whether `kernel-install` is
//! used.
//!
//! Source: kernel-install(8), systemd 257: `COMMAND VERSION ENTRY-DIR IMAGE`, and
//! KERNEL_INSTALL_BOOT_ROOT; entries are `TOKEN-VERSION.conf`, or `TOKEN-VERSION+TRIES.conf`.

use crate::boot::grub::later_kernels::{LaterKernels, cokernel_names, realtime_options};
use crate::documents::boot::KernelRule;
use cpushield_linux::Host;

const DIR: &str = "/etc/kernel/install.d";
/// After 20-grub.install and 90-loaderentry.install.
pub(super) const PATH: &str = "/etc/kernel/install.d/95-cpushield.install";
/// The first words of the hook.
pub(super) const MARK: &str = "#!/bin/sh\n# Made by cpushield;";

/// Whether this machine installs kernels with `kernel-install`.
pub(super) fn is_used(host: &Host) -> bool {
    host.exists(DIR) && host.program("kernel-install").is_some()
}

/// The script. The words and the pattern must be plain.
pub(super) fn script(kernels: &LaterKernels) -> String {
    let of_rule = |rule: &KernelRule| match rule {
        // The configuration, or else the banner in the first sectors of the kernel's image.
        KernelRule::Realtime => format!(
            "case $1 in ({names}) return ;; esac
    for config in \"/usr/lib/modules/$1/config\" \"/boot/config-$1\"; do
        [ ! -r \"$config\" ] || {{
            grep -Eqx '{options}' \"$config\"
            return
        }}
    done
    head -c 65536 \"$2\" 2>/dev/null | grep -aq ' PREEMPT_RT '",
            names = cokernel_names(),
            options = realtime_options()
        ),
        KernelRule::First => {
            "[ \"$(printf '%s\\n' /lib/modules/* | sort -V | tail -n 1)\" = \"/lib/modules/$1\" ]"
                .to_owned()
        }
        KernelRule::Matching { glob } => format!("case $1 in ({glob}) : ;; (*) false ;; esac"),
    };
    let act = |words: &str| format!("! chosen \"$2\" \"$4\" || added='{words} '\n");
    format!(
        r#"{MARK} `cpushield boot undo` removes it.
# Adds the parameters to the entry of a chosen kernel when that kernel is installed. Removes them
# from the entry of any other kernel, which may have them from the running kernel's command line.
[ "$1" = add ] || exit 0
parameters='{words}'

# Prints an entry without the parameters, or with these in front.
edited() {{ # words
    while IFS= read -r line || [ -n "$line" ]; do
        case $line in
        'options '* | 'options	'*)
            rest=" ${{line#options?}} "
            for word in $parameters; do
                while :; do
                    case $rest in
                    *" $word "*) rest="${{rest%%" $word "*}} ${{rest#*" $word "}}" ;;
                    *) break ;;
                    esac
                done
            done
            rest=${{rest# }}
            line="options $1${{rest% }}"
            ;;
        esac
        printf '%s\n' "$line"
    done
}}

# After a failure here the entry stays as it is, so that the kernel is installed anyway.
change() {{ # entry, words
    [ -f "$1" ] || return 0
    new=${{1%/*}}/.cpushield-new
    if edited "$2" <"$1" >"$new" && ! cmp -s "$new" "$1"; then
        chmod --reference="$1" "$new" 2>/dev/null
        sync "$new" 2>/dev/null
        mv -f "$new" "$1" || echo "cpushield: $1 was not changed" >&2
    fi
    rm -f "$new"
}}

added=
{added}
for dir in "${{KERNEL_INSTALL_BOOT_ROOT:-/boot}}/loader/entries" /boot/loader/entries; do
    for entry in "$dir"/*-"$2".conf "$dir"/*-"$2"+*.conf; do
        change "$entry" "$added"
    done
    # The rescue entry that dracut makes has the running kernel's command line.
    for entry in "$dir"/*-0-rescue.conf "$dir"/*-0-rescue-*.conf; do
        change "$entry" ""
    done
done
exit 0
"#,
        words = kernels.words(),
        added = kernels.shell_code("version, image", of_rule, act),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::documents::boot::KernelWords;
    use std::path::Path;
    use std::process::Command;

    fn group(words: &[&str]) -> [KernelWords; 1] {
        let words = words.iter().map(|word| (*word).to_owned()).collect();
        [KernelWords { kernels: Vec::new(), words }]
    }

    fn run(script: &str, boot: &Path, words: &[&str]) -> bool {
        let file = boot.join("95-cpushield.install");
        std::fs::write(&file, script).unwrap();
        let mut command = Command::new("sh");
        command.arg(&file).args(words).env("KERNEL_INSTALL_BOOT_ROOT", boot);
        command.status().unwrap().success()
    }

    #[test]
    fn a_chosen_kernel_gets_the_words_and_any_other_loses_inherited_ones() {
        let dir = std::env::temp_dir().join(format!("cpushield-hook-{}", std::process::id()));
        let entries = dir.join("loader/entries");
        std::fs::create_dir_all(&entries).unwrap();
        let groups = group(&["nohz_full=1-3", "rcu_nocbs=1-3"]);
        let entry = |name: &str, options: &str| {
            let text = format!("title x\nversion y\noptions {options}\nlinux /z\n");
            std::fs::write(entries.join(name), text).unwrap();
        };
        let read = |name: &str| {
            let text = std::fs::read_to_string(entries.join(name)).unwrap();
            text.lines().nth(2).unwrap().to_owned()
        };
        std::fs::write(dir.join("rt"), b"MZ\0 6.99 #1 SMP PREEMPT_RT Debian\0").unwrap();
        std::fs::write(dir.join("plain"), b"MZ\0 6.98 #1 SMP PREEMPT_DYNAMIC\0").unwrap();
        let (rt, plain) = (dir.join("rt"), dir.join("plain"));
        let (rt, plain) = (rt.to_str().unwrap(), plain.to_str().unwrap());
        let script_of = |rule| script(&LaterKernels { rule: &rule, groups: &groups });
        let realtime = script_of(KernelRule::Realtime);
        entry("m-6.99.conf", "root=UUID=a ro quiet x=\"a b\"");
        entry("m-6.98+3.conf", "nohz_full=1-3 rcu_nocbs=1-3 root=UUID=a nohz_full=1-3 ro");
        entry("m-16.99.conf", "root=UUID=a");
        assert!(run(&realtime, &dir, &["add", "6.99", "/e", rt]));
        assert!(run(&realtime, &dir, &["add", "6.98", "/e", plain]));
        let wanted = "options nohz_full=1-3 rcu_nocbs=1-3 root=UUID=a ro quiet x=\"a b\"";
        assert_eq!(read("m-6.99.conf"), wanted);
        assert_eq!(read("m-6.98+3.conf"), "options root=UUID=a ro");
        assert_eq!(read("m-16.99.conf"), "options root=UUID=a");
        // Called twice, and for a kernel that is removed.
        assert!(run(&realtime, &dir, &["add", "6.99", "/e", rt]));
        assert!(run(&realtime, &dir, &["remove", "6.98", "/e"]));
        assert_eq!(read("m-6.99.conf"), wanted);
        let glob = script_of(KernelRule::Matching { glob: "16.*".to_owned() });
        assert!(run(&glob, &dir, &["add", "16.99", "/e", plain]));
        assert_eq!(read("m-16.99.conf"), "options nohz_full=1-3 rcu_nocbs=1-3 root=UUID=a");
        assert!(run(&script_of(KernelRule::First), &dir, &["add", "6.98", "/e", plain]));
        assert_eq!(std::fs::read_dir(&entries).unwrap().count(), 3);
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_kernel_with_a_cokernel_and_no_configuration_gets_no_nohz_full() {
        let dir = std::env::temp_dir().join(format!("cpushield-hook-nohz-{}", std::process::id()));
        std::fs::create_dir_all(dir.join("loader/entries")).unwrap();
        let entry = dir.join("loader/entries/m-6.98-rtai.conf");
        let text = "title x\noptions nohz_full=1-3 root=UUID=a\n";
        let kernels = vec!["6.98-rtai".to_owned()];
        for (kernels, options) in
            [(Vec::new(), "options root=UUID=a"), (kernels, "options nohz_full=1-3 root=UUID=a")]
        {
            std::fs::write(&entry, text).unwrap();
            let groups = [KernelWords { kernels, words: vec!["nohz_full=1-3".to_owned()] }];
            let (rule, groups) = (&KernelRule::Realtime, &groups);
            let script = script(&LaterKernels { rule, groups });
            assert!(run(&script, &dir, &["add", "6.98-rtai", "/e", "/no-image"]));
            let text = std::fs::read_to_string(&entry).unwrap();
            assert_eq!(text.lines().nth(1), Some(options));
        }
        std::fs::remove_dir_all(dir).unwrap();
    }
}
