//! Boot files that another program changes in between, and file systems that take no more writes:
//! nothing is lost, and the menu is whole.

use super::change::MACHINES;
use super::grub::{Machine, mkconfig};
use super::{make_plan, request_cpus};
use cpushield::boot::plan::BootRequest;
use cpushield::boot::write::{self, WriteMode};
use cpushield::boot::{BootError, BootPlan, FileFate, loaders};
use cpushield::failure::Failure;
use cpushield::refusal::UserError;
use cpushield_linux::Host;
use cpushield_simulator::{InjectedFault, Simulated};

fn plan_rt(machine: &Machine) -> BootPlan {
    let asked = BootRequest { kernels: Some("*-rt*".to_owned()), ..request_cpus("2-3") };
    make_plan(&machine.host(), &asked).unwrap()
}

fn write(machine: &Machine, host: &Host, plan: &BootPlan) -> Result<(), BootError> {
    write::write(host, &machine.store(), plan, &WriteMode::default()).map(drop)
}

/// A full and a read-only file system: ENOSPC and EROFS.
#[test]
fn every_loader_survives_a_refusal_or_a_kill_at_any_write() {
    for (name, make) in MACHINES {
        let count = {
            let machine = make();
            let host = machine.host();
            write(&machine, &host, &plan_rt(&machine)).unwrap();
            host.writes()
        };
        assert!(count >= 1);
        for at in 0..count {
            let machine = make();
            let (before, plan) = (machine.files(), plan_rt(&machine));
            for errno in [28, 30] {
                let refused = machine.host().failing(InjectedFault::Refuse { at, errno });
                let error = write(&machine, &refused, &plan).unwrap_err();
                assert!(matches!(error, BootError::Failed { undone: None, .. }), "{name}: {error}");
                assert_eq!(before, machine.files(), "{name}: refused at write {at}");
                assert_eq!(write::undo(&machine.host(), &machine.store()).unwrap(), None);
            }
            let killed = machine.host().failing(InjectedFault::Stop { at });
            assert!(write(&machine, &killed, &plan).is_err_and(|error| error.is_stop()));
            loaders::find(&machine.host()).unwrap().unwrap();
            write::undo(&machine.host(), &machine.store()).unwrap().unwrap();
            assert_eq!(before, machine.files(), "{name}: killed at write {at}");
        }
    }
}

#[test]
fn a_full_state_directory_loses_nothing() {
    for (name, make) in MACHINES {
        for room in 0..40 {
            let machine = make();
            let (before, plan) = (machine.files(), plan_rt(&machine));
            let full = machine.store().with_room_for(room);
            let how = WriteMode::default();
            if write::write(&machine.host(), &full, &plan, &how).is_ok() {
                assert!(room > 0, "{name}");
                break;
            }
            assert!(room < 39, "{name}: the store never has enough room");
            // Undo has nothing to do, or restores every byte.
            write::undo(&machine.host(), &machine.store()).unwrap();
            assert_eq!(before, machine.files(), "{name}: room for {room} writes");
        }
    }
}

#[test]
fn a_menu_that_changed_since_the_plan_is_not_written() {
    for (name, make) in MACHINES {
        let machine = make();
        let plan = plan_rt(&machine);
        for path in machine.files().into_keys().filter(|path| path.is_file()) {
            let text = std::fs::read(&path).unwrap();
            let Ok(text) = String::from_utf8(text) else { continue };
            if path.starts_with(machine.path("boot")) {
                let text = text.replace("root=", "nohz_full=1 root=");
                let _ = std::fs::remove_file(&path);
                std::fs::write(&path, text).unwrap();
            }
        }
        let changed = machine.files();
        let error = write(&machine, &machine.host(), &plan).unwrap_err();
        let text = Failure::from(error).to_string();
        let why = "another process changed the boot menu after the parameters were planned";
        assert!(text.contains(why) && text.contains("try again"), "{name}: {text}");
        assert_eq!(changed, machine.files(), "{name}");
        assert_eq!(write::undo(&machine.host(), &machine.store()).unwrap(), None);
    }
}

#[test]
fn a_menu_that_another_program_writes_during_the_change_keeps_its_text() {
    let machine = Machine::debian();
    let plan = plan_rt(&machine);
    let cfg = machine.path("boot/grub/grub.cfg");
    let theirs = format!("{}# theirs\n", machine.read("boot/grub/grub.cfg"));
    let text = theirs.clone();
    let host = machine.host().with_programs(move |root, words, _| match words {
        ["grub-mkconfig"] => {
            let generated = mkconfig(root);
            std::fs::remove_file(&cfg).unwrap();
            std::fs::write(&cfg, &text).unwrap();
            Some(generated)
        }
        _ => None,
    });
    let error = write(&machine, &host, &plan).unwrap_err();
    assert!(matches!(error, BootError::Failed { undone: None, .. }), "{error}");
    let why = "another process changed /boot/grub/grub.cfg after the parameters were planned";
    assert!(error.to_string().contains(why), "{error}");
    assert_eq!(machine.read("boot/grub/grub.cfg"), theirs);
    assert!(!machine.path("etc/grub.d/07_cpushield").exists());
}

#[test]
fn undo_leaves_a_menu_without_our_entries_as_it_is() {
    let machine = Machine::debian();
    write(&machine, &machine.host(), &plan_rt(&machine)).unwrap();
    let theirs = "menuentry 'by hand' {\n\tlinux /boot/vmlinuz-6.12.9-amd64 ro\n}\n";
    let _ = std::fs::remove_file(machine.path("boot/grub/grub.cfg"));
    machine.write("boot/grub/grub.cfg", theirs);
    let undone = write::undo(&machine.host(), &machine.store()).unwrap().unwrap();
    assert_eq!(undone.files.last().unwrap().1, FileFate::Drifted);
    assert_eq!(machine.read("boot/grub/grub.cfg"), theirs);
}
