//! Kernel parameters that the user wrote: checked against the kernel's names and the modules of the
//! chosen kernel, and then treated as all others.

use super::grub::Machine;
use super::{make_plan, request_cpus, words};
use cpushield::boot::plan::BootRequest;
use cpushield::boot::write::{self, WriteMode};
use cpushield::boot::{GivenWords, UnknownWords, WordSource, loaders, plan::plan};
use cpushield::failure::{Failure, FailureKind};
use cpushield::policy::RequestedParameter;
use cpushield::survey::survey;
use cpushield::tunables;
use cpushield_linux::{CommandOutput, CpuSet};
use cpushield_simulator::Simulated;

const RT: &str = "6.12.9-rt-amd64";

fn request(parameters: &[&str]) -> BootRequest {
    let mut request = request_cpus("2-3");
    request.shield.parameters = parameters
        .iter()
        .zip(1..)
        .map(|(word, line)| RequestedParameter {
            word: (*word).to_owned(),
            place: format!("policy.toml:{line}"),
        })
        .collect();
    request
}

/// A machine whose real-time kernel has a few modules.
fn machine_with_modules() -> Machine {
    let machine = Machine::debian();
    let dir = format!("lib/modules/{RT}");
    machine.write(
        &format!("{dir}/modules.dep"),
        "kernel/drivers/gpu/drm/radeon/radeon.ko: x.ko\nkernel/drivers/net/e1000e.ko.xz:\n",
    );
    machine.write(
        &format!("{dir}/kernel/drivers/gpu/drm/radeon/radeon.ko"),
        "\u{7f}ELF\0parm=modeset:KMS\0parmtype=modeset:int\0parm=audio:x\0",
    );
    machine.write(&format!("{dir}/modules.builtin"), "kernel/drivers/idle/own_idle.ko\n");
    machine.write(&format!("{dir}/modules.builtin.modinfo"), "own_idle.parmtype=depth:int\0");
    machine
}

#[test]
fn words_of_the_user_are_written_to_the_chosen_kernels_and_removed_byte_for_byte() {
    let machine = machine_with_modules();
    let before = machine.files();
    let own = ["nohlt", "radeon.modeset=0", "console=tty0", "console=ttyS0,115200"];
    let plan = make_plan(&machine.host(), &request(&own)).unwrap();
    let all = ["nohz_full=2-3", "rcu_nocbs=2-3", "irqaffinity=0-1"].into_iter().chain(own);
    assert_eq!(words(&plan), all.collect::<Vec<_>>());
    write::write(&machine.host(), &machine.store(), &plan, &WriteMode::default()).unwrap();
    let (_, found) = loaders::find(&machine.host()).unwrap().unwrap();
    for entry in &found.entries {
        let has = entry.args.contains("nohlt radeon.modeset=0 console=tty0 console=ttyS0,115200");
        assert_eq!(has, entry.ours && entry.version == RT, "{entry:#?}");
    }
    write::undo(&machine.host(), &machine.store()).unwrap();
    assert_eq!(before, machine.files());
}

#[test]
fn a_word_that_the_plan_or_the_request_already_has_is_not_added_twice() {
    let machine = machine_with_modules();
    let plan = make_plan(&machine.host(), &request(&["nohz-full=2,3", "nohlt", "nohlt"])).unwrap();
    let wanted = ["nohz_full=2-3", "rcu_nocbs=2-3", "irqaffinity=0-1", "nohlt"];
    assert_eq!(words(&plan), wanted);
}

#[test]
fn a_word_that_the_chosen_kernels_lack_is_refused_unless_the_user_insists() {
    let machine = Machine::debian();
    let config = "CONFIG_PREEMPT_RT=y\n# CONFIG_NO_HZ_FULL is not set\nCONFIG_CPU_ISOLATION=y\n";
    machine.write(&format!("boot/config-{RT}"), config);
    let own = request(&["nohz_full=3"]);
    let refused = Failure::from(make_plan(&machine.host(), &own).unwrap_err()).to_string();
    let fault = "policy.toml:1: \"nohz_full=3\" is not a parameter of the chosen kernels: built \
                 without CONFIG_NO_HZ_FULL";
    assert!(refused.contains(fault) && refused.contains("--allow-unknown"), "{refused}");
    let insisting = BootRequest { unknown_words: UnknownWords::Accept, ..own };
    let plan = make_plan(&machine.host(), &insisting).unwrap();
    assert!(words(&plan).contains(&"nohz_full=3"), "{:?}", words(&plan));
}

#[test]
fn a_word_of_the_user_that_another_one_defeats_is_named_with_its_own_place() {
    let machine = Machine::debian();
    machine.write("etc/default/grub", "\nGRUB_CMDLINE_LINUX=\"isolcpus=2\"\n");
    for (own, fault) in [
        ("isolcpus=nohz,2", "the kernel ignores isolcpus=nohz,2: nohz_full=2-3 comes first"),
        ("isolcpus=nohz,2-9", "isolcpus=nohz,2-9 names CPU 4-9, but the last CPU is 3"),
    ] {
        let failure = Failure::from(make_plan(&machine.host(), &request(&[own])).unwrap_err());
        let text = failure.to_string();
        assert_eq!(failure.kind, FailureKind::Usage, "{text}");
        assert!(text.contains("policy.toml:1") && text.contains(fault), "{text}");
    }
}

#[test]
fn a_faulty_word_is_one_error_with_its_place_and_a_suggestion() {
    let machine = machine_with_modules();
    let before = machine.files();
    for (own, error, hint) in [
        (
            &["nohl"][..],
            "policy.toml:1: \"nohl\" is not in kernel-parameters.txt of Linux",
            "nohlt",
        ),
        (&["nohlt", "idel=poll"], "policy.toml:2: \"idel=poll\" is not in", "did you mean idle?"),
        (
            &["radeon.modset=0"],
            "names modset, which module radeon of kernel",
            "mean radeon.modeset?",
        ),
        (&["radeo.modeset=0"], "module radeo, which kernel 6.12.9-rt", "mean radeon.modeset?"),
        (&["own_idle.dpth=1"], "names dpth, which module own_idle", "did you mean own_idle.depth?"),
        (&["vendor_word"], "\"vendor_word\" is not in kernel-para", "--allow-unknown"),
        (&["nohz_full=3"], "contradicts nohz_full=2-3, which is planned", "nohz-full = false in"),
        (&["radeon.=1"], "\"radeon.=1\" has no name of a parameter after", "MODULE.PARAMETER="),
        (&["idle=poll", "idle=halt"], "policy.toml:2: \"idle=halt\" contradicts idle=poll", "omit"),
        (&["isolcpus=domain,x"], "does not name CPUs", "a list looks like"),
        (&["isolcpus"], "\"isolcpus\" has no value", "add a CPU list: isolcpus=2-3"),
        (&["idle=pol"], "has a value that no known kernel recognizes", "mean idle=poll?"),
        (&["skew_tick=yes"], "has a value that no known kernel recognizes", "--allow-unknown"),
        (
            &["tsc=relaible"],
            "no known kernel recognizes; the parameter takes reliable",
            "mean tsc=reliable?",
        ),
        (&["intel_pstate=disabl"], "no known kernel recognizes", "mean intel_pstate=disable?"),
        (&["iommu=force,tp"], "no known kernel recognizes", "mean iommu=force,pt?"),
        (&["maxcpus=abc"], "the parameter takes a number", "--allow-unknown"),
        (&["rcu_nocbs=3-1"], "does not name CPUs", "a list looks like"),
        (&["isolcpus=io_queue,2"], "comes from a patch series that", "explain isolcpus-io-queue"),
        (&["isolcpus=manged_irq,2"], "has the unknown flag manged_irq", "mean managed_irq?"),
        (&["isolcpus=domain,x"], "does not name CPUs: the list is empty", "a list looks"),
        (&["nohz_full"], "contradicts nohz_full=2-3, which is planned", "nohz-full = false in"),
        (&["two words"], "is not a single word", "nohlt or radeon.modeset=0"),
        (&["a=$(reboot)"], "is not a single word", "nohlt or radeon.modeset=0"),
        (&["x='1'"], "is not a single word", "nohlt or radeon.modeset=0"),
        (&[""], "is not a single word", "nohlt or radeon.modeset=0"),
        (&["=1"], "is not a single word", "nohlt or radeon.modeset=0"),
        (&["--"], "is not a single word", "nohlt or radeon.modeset=0"),
    ] {
        let refused = make_plan(&machine.host(), &request(own)).unwrap_err();
        let text = Failure::from(refused).to_string();
        assert!(text.contains(error) && text.contains(hint), "{own:?}: {text}");
    }
    assert_eq!(before, machine.files());
}

#[test]
fn a_contradiction_on_the_command_line_is_resolved_by_options() {
    let mut own = request(&["nohz_full=3"]);
    own.shield.parameters[0].place = "--parameter".to_owned();
    let refused = make_plan(&Machine::debian().host(), &own).unwrap_err();
    let text = Failure::from(refused).to_string();
    assert!(text.contains("--cpus, or keep only your word: --off nohz-full"), "{text}");
}

#[test]
fn a_word_that_makes_an_entry_one_for_repairs_is_refused_even_if_unknown_words_are_accepted() {
    let machine = Machine::debian();
    for (word, purpose) in [
        ("init=/bin/sh", "recovery"),
        ("single", "recovery"),
        ("systemd.unit=rescue.target", "recovery"),
        ("elfcorehdr=1", "crash dump"),
    ] {
        for unknown_words in [UnknownWords::Refuse, UnknownWords::Accept] {
            let own = BootRequest { unknown_words, ..request(&[word]) };
            let text = Failure::from(make_plan(&machine.host(), &own).unwrap_err()).to_string();
            let why = format!("policy.toml:1: {word:?} makes an entry one for {purpose}");
            assert!(text.contains(&why), "{text}");
        }
    }
    let own = request(&["init=/sbin/init"]);
    assert!(make_plan(&machine.host(), &own).is_ok());
}

#[test]
fn a_word_that_no_check_knows_is_written_only_when_unknown_words_are_accepted() {
    let machine = machine_with_modules();
    let known = ["radeon.dyndbg=+p", "sysctl.vm.swappiness=1"];
    for word in known {
        assert!(make_plan(&machine.host(), &request(&[word])).is_ok(), "{word}");
    }
    for word in ["vendor_word=7", "nosuch.x=1"] {
        let mut accepted = request(&[word]);
        assert!(make_plan(&machine.host(), &accepted).is_err(), "{word}");
        accepted.unknown_words = UnknownWords::Accept;
        let plan = make_plan(&machine.host(), &accepted).unwrap();
        assert_eq!(words(&plan).last(), Some(&word));
    }
    // A malformed word is refused in any case.
    let mut accepted = request(&["a b"]);
    accepted.unknown_words = UnknownWords::Accept;
    assert!(make_plan(&machine.host(), &accepted).is_err());
    // Without its modules the name cannot be checked.
    let bare = Machine::debian();
    let error = make_plan(&bare.host(), &request(&["radeon.modeset=0"])).unwrap_err().to_string();
    assert!(error.contains("cannot be checked: there is no /lib/modules/6.12.9-rt"), "{error}");
}

#[test]
fn a_word_that_the_kernel_lacks_is_refused_or_written_with_a_warning() {
    let machine = Machine::debian();
    machine.write(&format!("boot/config-{RT}"), "CONFIG_PREEMPT_RT=y\nCONFIG_CPU_ISOLATION=y\n");
    let mut own = request(&["nohz_full=2-3"]);
    let text = Failure::from(make_plan(&machine.host(), &own).unwrap_err()).to_string();
    let why = "is not a parameter of the chosen kernels: built without CONFIG_NO_HZ_FULL";
    assert!(text.contains(why) && text.contains("--allow-unknown"), "{text}");
    own.unknown_words = UnknownWords::Accept;
    let plan = make_plan(&machine.host(), &own).unwrap();
    assert!(words(&plan).contains(&"nohz_full=2-3"));
    let warnings: Vec<String> = plan.warnings.iter().map(ToString::to_string).collect();
    let warning =
        format!("kernel {RT} does not support nohz_full=2-3: built without CONFIG_NO_HZ_FULL");
    assert!(warnings.contains(&warning), "{warnings:?}");
}

/// The words of a row of an experiment are judged for the kernel and the CPUs of that row.
#[test]
fn words_of_a_row_are_checked_for_its_kernel_and_its_cpus() {
    let machine = machine_with_modules();
    let host = machine.host();
    let menu = loaders::find(&host).unwrap();
    let survey = survey(&host, &tunables::reads());
    let cpus: CpuSet = "2-3".parse().unwrap();
    let check = |word: &str, kernel: Option<&str>, unknown| {
        let given = GivenWords::of_row(&survey, kernel, &[word.to_owned()]);
        let given = GivenWords { unknown, cpus: cpus.clone(), ..given };
        let planned = plan(&host, &survey, WordSource::Given(&given), menu.as_ref());
        planned.map(drop).map_err(|error| error.to_string())
    };
    let (refuse, accept) = (UnknownWords::Refuse, UnknownWords::Accept);
    assert_eq!(check("radeon.modeset=0", Some(RT), refuse), Ok(()));
    let error = check("radeon.modset=0", Some(RT), refuse).unwrap_err();
    assert!(error.contains("names modset, which module radeon of kernel"), "{error}");
    assert_eq!(check("radeon.modset=0", Some(RT), accept), Ok(()));
    for unknown in [refuse, accept] {
        let error = check("maxcpus=3", Some(RT), unknown).unwrap_err();
        assert!(error.contains("only CPU 0-2, but the row measures CPU 3"), "{error}");
        assert_eq!(check("maxcpus=4", Some(RT), unknown), Ok(()));
    }
    machine.write(&format!("boot/config-{RT}"), "CONFIG_PREEMPT_RT=y\nCONFIG_CPU_ISOLATION=y\n");
    let error = check("nohz_full=3", Some(RT), refuse).unwrap_err();
    assert!(error.contains("built without CONFIG_NO_HZ_FULL"), "{error}");
    assert_eq!(check("nohz_full=3", Some(RT), accept), Ok(()));
}

/// The file is compressed by xz, so `modinfo` reads it.
#[test]
fn the_parameters_of_a_compressed_module_are_checked_by_modinfo() {
    let machine = machine_with_modules();
    let path = format!("/lib/modules/{RT}/kernel/drivers/net/e1000e.ko.xz");
    machine.write(&path[1..], "");
    std::fs::write(machine.path(&path[1..]), b"\xfd7zXZ\0").unwrap();
    let host = machine.host().with_programs(move |_, words, _| match words {
        ["modinfo", "-0", "-F", field, file] if *file == path => {
            let out = match *field {
                "parm" => &b"copybreak:Maximum size\nof a packet (uint)\0"[..],
                _ => &b"copybreak:uint\0SmartPowerDownEnable:array of int\0"[..],
            };
            let out = out.to_vec();
            Some(CommandOutput { status: Some(0), out, ..CommandOutput::default() })
        }
        _ => None,
    });
    for word in ["e1000e.copybreak=256", "e1000e.SmartPowerDownEnable=1"] {
        assert_eq!(words(&make_plan(&host, &request(&[word])).unwrap()).last(), Some(&word));
    }
    let error = make_plan(&host, &request(&["e1000e.copybrake=256"])).unwrap_err();
    let text = Failure::from(error).to_string();
    assert!(text.contains("names copybrake, which module e1000e of kernel"), "{text}");
    assert!(text.contains("did you mean e1000e.copybreak?"), "{text}");
}

#[test]
fn a_compressed_module_that_no_program_reads_is_unknown_unless_sysfs_shows_the_parameter() {
    let machine = machine_with_modules();
    let asked = || request(&["e1000e.copybreak=256"]);
    let error = make_plan(&machine.host(), &asked()).unwrap_err();
    let text = Failure::from(error).to_string();
    let why = "cannot be checked: the parameters of e1000e in kernel 6.12.9-rt-amd64 cannot be \
               read: only modinfo can read /lib/modules/6.12.9-rt-amd64/kernel/drivers/net/\
               e1000e.ko.xz, but it is not installed";
    assert!(text.contains(why) && text.contains("--allow-unknown"), "{text}");
    let accepted = BootRequest { unknown_words: UnknownWords::Accept, ..asked() };
    make_plan(&machine.host(), &accepted).unwrap();
    // The chosen kernel runs and shows it.
    machine.write("sys/module/e1000e/parameters/copybreak", "256\n");
    make_plan(&machine.host(), &asked()).unwrap();
    machine.write("proc/sys/kernel/osrelease", "6.12.9-amd64\n");
    make_plan(&machine.host(), &asked()).unwrap_err();
}
