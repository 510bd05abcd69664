//! Words that other programs have set are reported with file and line, and how to remove them.

use super::grub::Machine;
use super::{make_plan, request_cpus};
use cpushield::boot::plan::BootRequest;
use cpushield::boot::status;
use cpushield::policy::RequestedParameter;
use cpushield::report::blocks::{terminal_blocks, unpainted};
use cpushield::report::{boot_plan_blocks, boot_status_blocks};

const DEFAULTS: &str = "\
# GRUB_CMDLINE_LINUX=\"isolcpus=7\"
GRUB_CMDLINE_LINUX=
GRUB_CMDLINE_LINUX_DEFAULT='quiet splash' # nohz_full=5
export GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX isolcpus=2 skew-tick=1\"
";

fn sentences(machine: &Machine) -> Vec<String> {
    let status = status::status(&machine.host(), &machine.store()).unwrap();
    status.foreign.iter().map(ToString::to_string).collect()
}

#[test]
fn words_of_others_are_reported_with_file_and_line() {
    let machine = Machine::debian();
    assert_eq!(sentences(&machine), [""; 0]);
    machine.write("etc/default/grub", DEFAULTS);
    machine.write("etc/default/grub.d/rt.cfg.bak", "GRUB_CMDLINE_LINUX=rcu_nocbs=3\n");
    machine.update_grub();
    machine.write("etc/default/grub.d/rt.cfg", "GRUB_CMDLINE_LINUX+=\" rcu_nocbs=2\"\n");
    machine.write("etc/tuned/bootcmdline", "TUNED_BOOT_CMDLINE=\"nohz=on nohz_full=3\"\n");
    let expected = [
        "/etc/default/grub:4: GRUB_CMDLINE_LINUX has isolcpus=2 skew-tick=1; in the boot entries, \
         from the next boot on; to remove it, edit that file and run `grub-mkconfig -o \
         /boot/grub/grub.cfg`",
        "/etc/default/grub.d/rt.cfg:1: GRUB_CMDLINE_LINUX has rcu_nocbs=2; not in the boot \
         entries, so not in the next boot: run `grub-mkconfig -o /boot/grub/grub.cfg`; if the \
         entries stay without it, they are not made from this file",
        "/etc/tuned/bootcmdline:1: TUNED_BOOT_CMDLINE has nohz_full=3; not in the boot entries, so \
         not in the next boot: run `grub-mkconfig -o /boot/grub/grub.cfg`; if the entries stay \
         without it, they are not made from this file",
    ];
    assert_eq!(sentences(&machine), expected);
    let plan = make_plan(&machine.host(), &BootRequest::default()).unwrap();
    let plan = terminal_blocks(&boot_plan_blocks(&plan), usize::MAX, &unpainted);
    let status = status::status(&machine.host(), &machine.store()).unwrap();
    let status = terminal_blocks(&boot_status_blocks(&status), usize::MAX, &unpainted);
    for text in [plan, status] {
        assert!(text.contains("\nSet by other programs or by hand\n"), "{text}");
        assert!(expected.iter().all(|sentence| text.contains(sentence)), "{text}");
    }
}

#[test]
fn words_of_a_value_with_several_lines_have_their_own_lines() {
    let machine = Machine::debian();
    let defaults = "GRUB_TIMEOUT=1\nGRUB_CMDLINE_LINUX=\"quiet \\\n  isolcpus=2 \\\n  nohz_full=2\"\n\
                    GRUB_CMDLINE_LINUX_DEFAULT='splash\nskew_tick=1'\n";
    machine.write("etc/default/grub", defaults);
    machine.update_grub();
    machine.write("proc/cmdline", "ro isolcpus=2 nohz_full=2 skew_tick=1\n");
    let how = "in force; to remove it, edit that file and run `grub-mkconfig -o \
               /boot/grub/grub.cfg`";
    // GRUB's own file has the last word on a line of its own, which is no part of the command line.
    let expected = [
        format!("/etc/default/grub:3: GRUB_CMDLINE_LINUX has isolcpus=2; {how}"),
        format!("/etc/default/grub:4: GRUB_CMDLINE_LINUX has nohz_full=2; {how}"),
        "/etc/default/grub:6: GRUB_CMDLINE_LINUX_DEFAULT has skew_tick=1; not in the boot entries, \
         so not in the next boot: run `grub-mkconfig -o /boot/grub/grub.cfg`; if the entries stay \
         without it, they are not made from this file"
            .to_owned(),
    ];
    assert_eq!(sentences(&machine), expected);
    // A contradiction names the line of the word, too.
    machine.write("etc/default/grub", "GRUB_CMDLINE_LINUX=\"quiet \\\n nohz_full=2\"\n");
    machine.update_grub();
    let error = make_plan(&machine.host(), &request_cpus("3")).unwrap_err().to_string();
    assert!(error.contains("/etc/default/grub:2"), "{error}");
}

#[test]
fn a_word_that_the_request_has_too_is_reported() {
    let machine = Machine::debian();
    machine.write("etc/default/grub", "GRUB_CMDLINE_LINUX=\"nohlt quiet\"\n");
    machine.update_grub();
    assert_eq!(sentences(&machine), [""; 0]);
    let mut request = request_cpus("3");
    let (word, place) = ("nohlt".to_owned(), "--parameter".to_owned());
    request.shield.parameters = vec![RequestedParameter { word, place }];
    let plan = make_plan(&machine.host(), &request).unwrap();
    let words: Vec<_> = plan.foreign.iter().map(|it| (it.line, it.words.join(" "))).collect();
    assert_eq!(words, [(1, "nohlt".to_owned())]);
}

#[test]
fn entries_with_their_own_command_line_are_changed_by_grubby() {
    let machine = Machine::without_loader();
    machine.write("boot/grub2/grub.cfg", "blscfg\n");
    machine
        .write("boot/loader/entries/a.conf", "title A\nversion 6.1\nlinux /vmlinuz\noptions ro\n");
    machine.write("etc/default/grub", "GRUB_CMDLINE_LINUX=\"isolcpus=2\"\n");
    let found = sentences(&machine);
    assert_eq!(
        found,
        [
            "/etc/default/grub:1: GRUB_CMDLINE_LINUX has isolcpus=2; not in the boot entries, so not \
          in the next boot: run `grubby --update-kernel=ALL --args=isolcpus=2`; if the entries \
          stay without it, they are not made from this file"
        ]
    );
    machine.write(
        "boot/loader/entries/a.conf",
        "title A\nversion 6.1\nlinux /vmlinuz\noptions ro isolcpus=2\n",
    );
    let found = sentences(&machine);
    assert_eq!(
        found,
        ["/etc/default/grub:1: GRUB_CMDLINE_LINUX has isolcpus=2; in the boot entries, from the \
          next boot on; to remove it, edit that file and run `grubby --update-kernel=ALL \
          --remove-args=isolcpus=2`, which updates the existing boot entries"]
    );
}

/// The files from which entries and images are made.
#[test]
fn words_of_the_command_line_for_new_entries_are_reported() {
    let machine = Machine::without_loader();
    machine.write("etc/kernel/cmdline", "# isolcpus=1\nroot=ZFS=rpool/ROOT/pve-1 isolcpus=2-3\n");
    machine.write("etc/kernel/cmdline.d/50-rt.conf", "quiet skew_tick=1\n");
    machine.write("etc/kernel/cmdline.d/50-rt.conf.bak", "nohz_full=3\n");
    let sentences_with = |first: &str, second: &str| {
        assert_eq!(
            sentences(&machine),
            [
                format!("/etc/kernel/cmdline:2 has isolcpus=2-3; {first}"),
                format!("/etc/kernel/cmdline.d/50-rt.conf:1 has skew_tick=1; {second}"),
            ]
        );
    };
    let unknown = "not in force, and whether the next boot has it is unknown";
    let unread = |program: &str| {
        format!("not set: this machine has {program}, which does not read that file")
    };
    sentences_with(unknown, unknown);
    // It comes with systemd, and says nothing where no loader reads its entries.
    machine.program("usr/bin/kernel-install");
    sentences_with(unknown, unknown);
    machine.write("boot/loader/loader.conf", "timeout 3\n");
    let makes = |command: &str| format!("{unknown}: `{command}` makes the entries");
    sentences_with(&makes("kernel-install add-all"), &unread("kernel-install"));
    machine.write("proc/cmdline", "initrd=\\a isolcpus=2-3 quiet\n");
    let in_force = "in force; to remove it, edit that file and run `kernel-install add-all`";
    sentences_with(in_force, &unread("kernel-install"));
    machine.program("usr/bin/clr-boot-manager");
    let in_force = "in force; to remove it, edit that file and run `clr-boot-manager update`";
    sentences_with(in_force, &makes("clr-boot-manager update"));
    machine.write("etc/kernel/proxmox-boot-uuids", "AB12-CD34\n");
    let in_force = "in force; to remove it, edit that file and run `proxmox-boot-tool refresh`";
    sentences_with(in_force, &unread("proxmox-boot-tool with systemd-boot"));
}
