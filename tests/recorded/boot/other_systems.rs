//! Entries of other systems, which os-prober finds: their kernels never get parameters.

use super::grub::Machine;
use super::make_plan;
use cpushield::boot::plan::BootRequest;
use cpushield::boot::write::{self, WriteMode};
use cpushield::boot::{KernelRule, loaders};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

/// What 30_os-prober prints for another Linux (util/grub.d/30_os-prober.in, 2.12), shortened.
const UBUNTU: &str = "menuentry 'Ubuntu 22.04 (on /dev/sdb2)' --class ubuntu $menuentry_id_option \
                      'osprober-gnulinux-simple-cd' {\n\
                      \tlinux /boot/vmlinuz-5.15.0-91-generic root=UUID=cd ro quiet\n\
                      \tinitrd /boot/initrd.img-5.15.0-91-generic\n}\n";

#[test]
fn fedora_with_another_linux_still_boots_bls_entries() {
    let machine = Machine::without_loader();
    machine.write("etc/grub.d/10_linux", "");
    let cfg = format!(
        "set default=\"${{saved_entry}}\"\n### BEGIN /etc/grub.d/10_linux ###\ninsmod blscfg\n\
         blscfg\n### END /etc/grub.d/10_linux ###\n\n### BEGIN /etc/grub.d/30_os-prober ###\n\
         {UBUNTU}### END /etc/grub.d/30_os-prober ###\n"
    );
    machine.write("boot/grub2/grub.cfg", &cfg);
    let entry = "title Fedora\nversion 6.8.5\nlinux /vmlinuz-6.8.5\noptions root=UUID=ab ro\n";
    machine.write("boot/loader/entries/m-6.8.5.conf", entry);
    let (loader, found) = loaders::find(&machine.host()).unwrap().unwrap();
    assert_eq!(loader.name(), "bls");
    let versions: Vec<&str> = found.entries.iter().map(|it| it.version.as_str()).collect();
    assert_eq!(versions, ["6.8.5"]);
}

#[test]
fn the_kernel_of_another_system_boots_next_and_gets_no_parameters() {
    let machine = Machine::with(&[("6.12.9-amd64", false)]);
    let path = "etc/grub.d/30_os-prober";
    machine.write(path, &format!("#!/bin/sh\ncat <<'E'\n{UBUNTU}E\n"));
    fs::set_permissions(machine.path(path), Permissions::from_mode(0o755)).unwrap();
    machine.update_grub();
    machine.save("saved_entry", "osprober-gnulinux-simple-cd");
    let before = machine.files();
    let plan = make_plan(&machine.host(), &BootRequest::default()).unwrap();
    let versions: Vec<&str> = plan.kernels.iter().map(|it| it.version.as_str()).collect();
    assert_eq!((versions, &plan.rule), (vec!["6.12.9-amd64"], &KernelRule::First));
    let next = plan.next.as_ref().unwrap().to_string();
    assert!(next.starts_with("Ubuntu 22.04 (on /dev/sdb2)"), "{next}");
    let spared: Vec<String> = plan.spared.iter().map(|it| it.purpose.to_string()).collect();
    assert!(spared.contains(&"another system".to_owned()), "{spared:?}");
    let written =
        write::write(&machine.host(), &machine.store(), &plan, &WriteMode::default()).unwrap();
    assert_eq!((written.kernels, written.next_has), (plan_kernels(), false));
    write::undo(&machine.host(), &machine.store()).unwrap().unwrap();
    assert_eq!(before, machine.files());
}

fn plan_kernels() -> Vec<String> {
    vec!["6.12.9-amd64".to_owned()]
}
