//! Which kernels of a menu get the parameters, and which parameters: real-time kernels by name and
//! configuration, and only words that a kernel has.

use super::grub::{Machine, mkconfig};
use super::{change, make_plan, request_cpus, words};
use cpushield::boot::plan::BootRequest;
use cpushield::boot::trial::conclude;
use cpushield::boot::write::{self, ParameterTerm, WriteMode};
use cpushield::boot::{WordSource, earlier, loaders, plan, status};
use cpushield::survey::{RealtimeKind, survey};

/// The machine of the LinuxCNC wiki: an RTAI kernel runs, and a newer generic one is installed.
/// The options are those of linuxcnc.org's 5.4.258-rtai-amd64, as far as they matter here.
fn rtai_machine() -> Machine {
    let machine = Machine::with(&[]);
    machine.install_with(RTAI, "CONFIG_IPIPE=y\nCONFIG_CPU_ISOLATION=y\nCONFIG_RCU_NOCB_CPU=y\n");
    machine.install("5.15.0-91-generic", false);
    machine.write("proc/sys/kernel/osrelease", &format!("{RTAI}\n"));
    machine.write("proc/cmdline", &format!("BOOT_IMAGE=/boot/vmlinuz-{RTAI} ro quiet\n"));
    machine.remove("sys/devices/system/cpu/nohz_full");
    machine.update_grub();
    machine
}

const RTAI: &str = "5.4.258-rtai-amd64";

#[test]
fn the_rtai_kernel_gets_the_parameters_and_the_newer_generic_one_does_not() {
    let machine = rtai_machine();
    let before = machine.files();
    let plan = make_plan(&machine.host(), &request_cpus("3")).unwrap();
    let kernels: Vec<_> =
        plan.kernels.iter().map(|it| (it.version.as_str(), it.realtime_kind, it.chosen)).collect();
    assert_eq!(
        kernels,
        [("5.15.0-91-generic", None, false), (RTAI, Some(RealtimeKind::Rtai), true)]
    );
    let written =
        write::write(&machine.host(), &machine.store(), &plan, &WriteMode::default()).unwrap();
    assert_eq!(written.kernels, [RTAI]);
    let (_, found) = loaders::find(&machine.host()).unwrap().unwrap();
    for entry in &found.entries {
        let has = words(&plan).iter().all(|word| entry.args.contains(word));
        assert_eq!((has, entry.version == RTAI && entry.ours), (entry.ours, entry.ours));
    }
    write::undo(&machine.host(), &machine.store()).unwrap();
    assert_eq!(before, machine.files());
}

#[test]
fn kernels_with_a_cokernel_that_are_installed_later_get_the_parameters() {
    let machine = rtai_machine();
    let plan = make_plan(&machine.host(), &request_cpus("3")).unwrap();
    write::write(&machine.host(), &machine.store(), &plan, &WriteMode::default()).unwrap();
    machine.install_with("4.19.89-plain", "CONFIG_XENOMAI=y\nCONFIG_IPIPE=y\n");
    machine.install_with("4.19.90-xeno-3", "# CONFIG_SMT is not set\n");
    machine.install_with("4.19.91-xenon", "# CONFIG_SMT is not set\n");
    machine.update_grub();
    let (_, found) = loaders::find(&machine.host()).unwrap().unwrap();
    let ours: Vec<&str> =
        found.entries.iter().filter(|it| it.ours).map(|it| it.version.as_str()).collect();
    assert_eq!(ours, [RTAI, "4.19.90-xeno-3", "4.19.89-plain"]);
}

#[test]
fn a_kernel_without_nohz_full_that_is_installed_later_gets_no_nohz_full() {
    let machine = Machine::debian();
    let plan = make_plan(&machine.host(), &request_cpus("3")).unwrap();
    assert!(words(&plan).contains(&"nohz_full=3"), "{:?}", words(&plan));
    write::write(&machine.host(), &machine.store(), &plan, &WriteMode::default()).unwrap();
    machine.install_with("5.4.1-rtai", "CONFIG_IPIPE=y\n# CONFIG_NO_HZ_FULL is not set\n");
    machine.install_with("5.4.2-rtai", "CONFIG_IPIPE=y\nCONFIG_NO_HZ_FULL=y\n");
    machine.install_with("5.4.3-rtai", "");
    machine.remove("boot/config-5.4.3-rtai");
    machine.install("6.13.1-rt-amd64", true);
    let output = mkconfig(&machine.path(""));
    let left_out: Vec<&str> = output.err.lines().filter(|it| it.contains("gets no")).collect();
    assert_eq!(
        left_out,
        [
            "cpushield: 5.4.3-rtai gets no parameters: no file shows that it has CONFIG_NO_HZ_FULL",
            "cpushield: 5.4.1-rtai gets no parameters: no file shows that it has CONFIG_NO_HZ_FULL",
        ]
    );
    machine.update_grub();
    let (_, found) = loaders::find(&machine.host()).unwrap().unwrap();
    let ours: Vec<&str> =
        found.entries.iter().filter(|it| it.ours).map(|it| it.version.as_str()).collect();
    assert_eq!(ours, ["6.13.1-rt-amd64", "6.12.9-rt-amd64", "5.4.2-rtai"]);
}

#[test]
fn isolcpus_of_one_kind_of_kernels_is_not_for_later_ones_of_another_kind() {
    let machine = rtai_machine();
    machine.install("5.4.1-rt-amd64", true);
    machine.update_grub();
    let mut request = request_cpus("3");
    request.shield.tunables.set("nohz-full", false);
    let plan = make_plan(&machine.host(), &request).unwrap();
    write::write(&machine.host(), &machine.store(), &plan, &WriteMode::default()).unwrap();
    machine.install("6.12.9-rt-amd64", true);
    machine.install_with("5.4.2-rtai", "CONFIG_IPIPE=y\n");
    machine.update_grub();
    let (_, found) = loaders::find(&machine.host()).unwrap().unwrap();
    for entry in found.entries.iter().filter(|it| it.ours) {
        assert_eq!(entry.args.contains("isolcpus=3"), entry.version.contains("-rtai"), "{entry:?}");
    }
    assert_eq!(found.entries.iter().filter(|it| it.ours).count(), 4);
}

/// The PREEMPT_RT kernel has its words from an earlier apply, so only the boot of the other one
/// shows whether the trial booted.
#[test]
fn a_trial_boots_a_kernel_with_a_new_word() {
    let machine = rtai_machine();
    machine.install("6.12.9-rt-amd64", true);
    machine.save("saved_entry", "0");
    machine.update_grub();
    let (host, store) = (machine.host(), machine.store());
    let request = BootRequest { kernels: Some("6.12*".to_owned()), ..request_cpus("3") };
    let plan = make_plan(&host, &request).unwrap();
    write::write(&host, &store, &plan, &WriteMode::default()).unwrap();
    let earlier = machine.read("boot/grub/grub.cfg");
    let menu = earlier::find_menu(&host, &store).unwrap();
    let request = request_cpus("3");
    let source = WordSource::Request(&request);
    let plan = plan::plan(&host, &survey(&host, &[]), source, menu.as_ref()).unwrap();
    let mode = WriteMode { term: ParameterTerm::Trial, ..WriteMode::default() };
    let trial = write::write(&host, &store, &plan, &mode).unwrap().trial.unwrap();
    assert_eq!(trial.entry, format!("cpushield-trial-{RTAI}"));
    assert_eq!(trial.words.join(" "), "rcu_nocbs=3 irqaffinity=0-2 isolcpus=3");
    machine.write("proc/sys/kernel/random/boot_id", "another\n");
    conclude(&host, &store, &[]).unwrap();
    assert_eq!(earlier, machine.read("boot/grub/grub.cfg"));
}

/// A kernel that is known to have a parameter, and one whose configuration is not installed.
#[test]
fn words_that_a_chosen_kernel_may_lack_are_written_on_request_only() {
    let machine = Machine::debian();
    let unknown = "4.18.0-553.el8.x86_64";
    machine.install_with(unknown, "");
    machine.remove(&format!("boot/config-{unknown}"));
    machine.update_grub();
    let mut request = BootRequest { kernels: Some("*".to_owned()), ..BootRequest::default() };
    let own = |request: &BootRequest| {
        let plan = make_plan(&machine.host(), request).unwrap();
        let groups = plan.word_groups();
        let groups = groups.into_iter().map(|it| (it.kernels.len(), it.words.join(" ")));
        groups.collect::<Vec<_>>()
    };
    let words = "nohz_full=1-3 rcu_nocbs=1-3".to_owned();
    assert_eq!(own(&request), [(2, words.clone()), (1, String::new())]);
    let plan = make_plan(&machine.host(), &request).unwrap();
    write::write(&machine.host(), &machine.store(), &plan, &WriteMode::default()).unwrap();
    let (_, found) = loaders::find(&machine.host()).unwrap().unwrap();
    let ours: Vec<&str> =
        found.entries.iter().filter(|it| it.ours).map(|it| it.version.as_str()).collect();
    assert_eq!(ours, ["6.12.9-rt-amd64", "6.12.9-amd64"]);
    write::undo(&machine.host(), &machine.store()).unwrap();
    for name in ["nohz-full", "rcu-nocbs"] {
        request.shield.tunables.set(name, true);
    }
    assert_eq!(own(&request), [(3, words)]);
    let plan = make_plan(&machine.host(), &request).unwrap();
    let written =
        write::write(&machine.host(), &machine.store(), &plan, &WriteMode::default()).unwrap();
    assert_eq!(written.kernels, ["6.12.9-rt-amd64", "6.12.9-amd64", unknown]);
    let (_, found) = loaders::find(&machine.host()).unwrap().unwrap();
    assert_eq!(found.entries.iter().filter(|entry| entry.ours).count(), 3);
}

#[test]
fn a_cokernel_without_a_configuration_gets_isolcpus_and_a_warning() {
    let machine = rtai_machine();
    let unknown = "5.4.259-rtai-amd64";
    machine.install_with(unknown, "");
    machine.remove(&format!("boot/config-{unknown}"));
    machine.update_grub();
    let request = BootRequest { kernels: Some(unknown.to_owned()), ..request_cpus("3") };
    let plan = make_plan(&machine.host(), &request).unwrap();
    assert_eq!(words(&plan), ["irqaffinity=0-2", "isolcpus=3"]);
    let warnings: Vec<String> = plan.warnings.iter().map(ToString::to_string).collect();
    let missing = format!(
        "the configuration of kernel {unknown} is unknown: there is no /boot/config-{unknown}"
    );
    assert!(warnings.contains(&missing), "{warnings:?}");
    let mut on = request;
    on.shield.tunables.set("nohz-full", true);
    let plan = make_plan(&machine.host(), &on).unwrap();
    assert_eq!(words(&plan), ["nohz_full=3", "irqaffinity=0-2"]);
}

#[test]
fn a_running_cokernel_is_known_by_its_directory_or_its_name() {
    let running = |release: &str, directory: Option<&str>| {
        let machine = Machine::without_loader();
        machine.write("proc/sys/kernel/osrelease", &format!("{release}\n"));
        machine.write("proc/version", &format!("Linux version {release} (a@b) (gcc) #1 SMP x\n"));
        if let Some(directory) = directory {
            machine.write(&format!("proc/{directory}/version"), "1\n");
        }
        let kernel = survey(&machine.host(), &[]).kernel;
        (kernel.realtime, kernel.realtime_kind, kernel.realtime_source.unwrap_or_default())
    };
    let found = |kind, source: &str| (Some(true), Some(kind), source.to_owned());
    let by_name = "RTAI: named in the kernel release";
    assert_eq!(running(RTAI, None), found(RealtimeKind::Rtai, by_name));
    let dir = "RTAI: /proc/ipipe exists";
    assert_eq!(running(RTAI, Some("ipipe")), found(RealtimeKind::Rtai, dir));
    let dir = "Xenomai: /proc/xenomai exists";
    assert_eq!(running("4.19.1", Some("xenomai")), found(RealtimeKind::Xenomai, dir));
    assert_eq!(running("4.19.1", Some("rtai")).1, Some(RealtimeKind::Rtai));
    assert_eq!(running("4.19.1", Some("ipipe")).1, Some(RealtimeKind::InterruptPipeline));
    assert_eq!(running("4.19.1", None).0, Some(false));
}

#[test]
fn without_a_requested_kernel_the_plan_says_that_real_time_kernels_get_the_parameters() {
    let machine = rtai_machine();
    let plan = make_plan(&machine.host(), &BootRequest::default()).unwrap();
    let why: Vec<String> = plan.why.iter().map(ToString::to_string).collect();
    let wanted = "real-time kernels get the parameters; other kernels stay as they are";
    assert!(why.iter().any(|it| it == wanted), "{why:?}");
}

#[test]
fn a_kernel_without_nohz_full_gets_isolcpus_for_one_core_and_never_nohz_full() {
    let machine = rtai_machine();
    let plan = make_plan(&machine.host(), &BootRequest::default()).unwrap();
    assert_eq!(words(&plan), ["rcu_nocbs=3", "isolcpus=3"]);
    assert_eq!(plan.proves.to_string(), "3");
    let why: Vec<String> = plan.why.iter().map(ToString::to_string).collect();
    let price = "with isolcpus=, the scheduler places no other program on CPU 3 until you boot \
                 without it; a program can still pin itself there; to choose other CPUs: --cpus \
                 LIST";
    assert_eq!(why.first().map(String::as_str), Some(price));
    // A note would only repeat it.
    let warnings = plan.warnings.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert!(!warnings.iter().any(|it| it.contains("can still pin itself")), "{warnings:?}");
    let plan = make_plan(&machine.host(), &request_cpus("2-3")).unwrap();
    assert_eq!(words(&plan), ["rcu_nocbs=2-3", "irqaffinity=0-1", "isolcpus=2-3"]);
    let mut off = request_cpus("2-3");
    off.shield.tunables.set("isolcpus-domain", false);
    off.shield.tunables.set("nohz-full", true);
    let plan = make_plan(&machine.host(), &off).unwrap();
    assert_eq!(words(&plan), ["rcu_nocbs=2-3", "irqaffinity=0-1"]);
}

/// An old kernel of the wiki's time, whose configuration was removed.
#[test]
fn without_a_configuration_mainlines_version_counts_where_no_vendor_is_named() {
    let machine = rtai_machine();
    let old = "3.4-9-rtai-686-pae";
    machine.install_with(old, "");
    machine.remove(&format!("boot/config-{old}"));
    machine.update_grub();
    let request = BootRequest { kernels: Some("3.4*".to_owned()), ..request_cpus("3") };
    let plan = make_plan(&machine.host(), &request).unwrap();
    // It is older than irqaffinity=.
    assert_eq!(words(&plan), ["isolcpus=3"]);
    // Nor does a request give it words that are younger.
    let mut on = request;
    for name in ["nosmt", "intel-pstate-disable", "idle-poll"] {
        on.shield.tunables.set(name, true);
    }
    let plan = make_plan(&machine.host(), &on).unwrap();
    assert_eq!(words(&plan), ["isolcpus=3", "idle=poll"]);
    let skipped = |name: &str| {
        let skipped = plan.skipped.iter().find(|it| it.name == name);
        skipped.map(|it| it.reason.to_string()).unwrap_or_default()
    };
    assert_eq!(skipped("nosmt"), "Linux 4.19 introduced it");
    assert_eq!(skipped("intel-pstate-disable"), "Linux 3.9 introduced it");
}

#[test]
fn a_word_that_stable_releases_got_later_is_written_on_request_with_a_warning() {
    let machine = rtai_machine();
    let old = "4.14.50-rtai";
    machine.install_with(old, "");
    machine.remove(&format!("boot/config-{old}"));
    machine.update_grub();
    let mut request = BootRequest { kernels: Some("4.14*".to_owned()), ..request_cpus("3") };
    request.shield.tunables.set("nosmt", true);
    let plan = make_plan(&machine.host(), &request).unwrap();
    assert!(words(&plan).contains(&"nosmt"), "{:?}", words(&plan));
    let warnings: Vec<String> = plan.warnings.iter().map(ToString::to_string).collect();
    let undecided = format!(
        "it is unknown whether kernel {old} supports nosmt: only later stable releases of its \
         series do; find out with a trial boot: --trial"
    );
    assert!(warnings.contains(&undecided), "{warnings:?}");
}

#[test]
fn what_a_vendor_kernel_has_is_not_known_and_is_written_on_request_only() {
    let machine = rtai_machine();
    let vendor = "4.18.0-553.el8.x86_64";
    machine.install_with(vendor, "");
    machine.remove(&format!("boot/config-{vendor}"));
    machine.update_grub();
    let before = machine.files();
    let mut request = BootRequest { kernels: Some("4.18*".to_owned()), ..BootRequest::default() };
    let plan = make_plan(&machine.host(), &request).unwrap();
    assert_eq!(words(&plan), [""; 0]);
    let refused =
        write::write(&machine.host(), &machine.store(), &plan, &WriteMode::default()).unwrap_err();
    let text = cpushield::failure::Failure::from(refused).to_string();
    assert!(
        text.contains("nohz-full: unknown: the kernel's configuration is not installed"),
        "{text}"
    );
    let hint = "cpushield boot apply --trial --on nohz-full --on rcu-nocbs";
    assert!(text.contains(hint), "{text}");
    assert_eq!(before, machine.files());
    request.shield.tunables.set("nohz-full", true);
    let plan = make_plan(&machine.host(), &request).unwrap();
    assert_eq!(words(&plan), ["nohz_full=1-3"]);
    let warnings: Vec<String> = plan.warnings.iter().map(ToString::to_string).collect();
    let undecided = format!(
        "it is unknown whether kernel {vendor} supports nohz-full; find out with a trial boot: \
         --trial"
    );
    assert!(warnings.contains(&undecided), "{warnings:?}");
}

#[test]
fn the_flags_of_isolcpus_are_one_word_with_its_price_and_status_compares_it() {
    let machine = Machine::debian();
    let config = "CONFIG_NO_HZ_FULL=y\nCONFIG_RCU_NOCB_CPU=y\nCONFIG_CPU_ISOLATION=y\n";
    machine.install_with("6.12.9-rt-amd64", &format!("{config}CONFIG_PREEMPT_RT=y\n"));
    let on = |names: &[&str]| {
        let mut request = request_cpus("2-3");
        for name in names {
            request.shield.tunables.set(name, true);
        }
        make_plan(&machine.host(), &request).unwrap()
    };
    for (names, word, has_price) in [
        (&["isolcpus-domain"][..], "isolcpus=2-3", true),
        (&["isolcpus-nohz"], "isolcpus=nohz,2-3", false),
        (&["isolcpus-managed-irq"], "isolcpus=managed_irq,2-3", false),
        (&["isolcpus-managed-irq", "isolcpus-domain"], "isolcpus=domain,managed_irq,2-3", true),
        (
            &["isolcpus-nohz", "isolcpus-managed-irq", "isolcpus-domain"],
            "isolcpus=nohz,domain,managed_irq,2-3",
            true,
        ),
    ] {
        let plan = on(names);
        assert_eq!(words(&plan).last(), Some(&word));
        let price = "the scheduler places no other program on CPU 2-3 until you boot without it";
        let warned = plan.warnings.iter().any(|warning| warning.to_string().contains(price));
        assert_eq!(warned, has_price, "{names:?}");
    }
    let plan = on(&["isolcpus-domain", "isolcpus-managed-irq"]);
    let before = machine.files();
    write::write(&machine.host(), &machine.store(), &plan, &WriteMode::default()).unwrap();
    machine.write("proc/cmdline", &format!("{} ro\n", words(&plan).join(" ")));
    let in_force = |isolated: &str| {
        machine.write("sys/devices/system/cpu/isolated", isolated);
        let status = status::status(&machine.host(), &machine.store()).unwrap();
        let word = status.words.into_iter().find(|it| it.word.starts_with("isolcpus=")).unwrap();
        (word.shows.unwrap(), word.in_force)
    };
    assert_eq!(in_force("2-3\n"), ("isolated: 2-3".to_owned(), Some(true)));
    assert_eq!(in_force("\n"), ("isolated: ".to_owned(), Some(false)));
    machine.remove("sys/devices/system/cpu/isolated");
    machine
        .write("proc/cmdline", "BOOT_IMAGE=/boot/vmlinuz-6.12.9-rt-amd64 root=UUID=ab ro quiet\n");
    write::undo(&machine.host(), &machine.store()).unwrap();
    assert_eq!(before, machine.files());
}

#[test]
fn parameters_that_no_released_kernel_has_are_explained_and_not_written() {
    let machine = Machine::debian();
    for name in ["isolcpus-io-queue", "nohz-full-without-list"] {
        let mut request = request_cpus("2-3");
        request.shield.tunables.set(name, true);
        let error = make_plan(&machine.host(), &request).unwrap_err().to_string();
        assert!(error.contains("no released kernel"), "{error}");
    }
}

/// One script has the words of each kernel, also of those that are installed later.
#[test]
fn kernels_with_and_without_nohz_full_each_get_their_own_words() {
    let machine = rtai_machine();
    machine.install("6.12.9-rt-amd64", true);
    machine.save("saved_entry", "0");
    machine.update_grub();
    let before = machine.files();
    let (host, store) = (machine.host(), machine.store());
    let plan = make_plan(&host, &request_cpus("3")).unwrap();
    let warnings: Vec<String> = plan.warnings.iter().map(ToString::to_string).collect();
    assert!(!warnings.iter().any(|it| it.contains("does not support")), "{warnings:?}");
    let rt = "nohz_full=3 rcu_nocbs=3 irqaffinity=0-2";
    let rtai = "rcu_nocbs=3 irqaffinity=0-2 isolcpus=3";
    let ours = || {
        let (_, found) = loaders::find(&host).unwrap().unwrap();
        let own = |args: &str| {
            let words = args.split(' ').filter(|it| it.ends_with("=3") || it.ends_with("=0-2"));
            words.collect::<Vec<_>>().join(" ")
        };
        let ours = found.entries.iter().filter(|it| it.ours);
        ours.map(|it| (it.version.clone(), own(&it.args))).collect::<Vec<_>>()
    };
    let pair = |version: &str, words: &str| (version.to_owned(), words.to_owned());
    let both = [pair("6.12.9-rt-amd64", rt), pair(RTAI, rtai)];
    for mode in
        [WriteMode::default(), WriteMode { term: ParameterTerm::Trial, ..WriteMode::default() }]
    {
        write::write(&host, &store, &plan, &mode).unwrap();
        assert_eq!(ours(), both);
        write::undo(&host, &store).unwrap();
        assert_eq!(before, machine.files());
    }
    let written = write::write(&host, &store, &plan, &WriteMode::default()).unwrap();
    assert_eq!(written.kernels, ["6.12.9-rt-amd64", RTAI]);
    let chosen = |glob: &str| {
        let request = BootRequest { kernels: Some(glob.to_owned()), ..request_cpus("3") };
        words(&make_plan(&host, &request).unwrap()).join(" ")
    };
    assert_eq!((chosen(RTAI), chosen("6.12.9-rt-amd64")), (rtai.to_owned(), rt.to_owned()));
    machine.install("6.13.1-rt-amd64", true);
    machine.install_with("5.4.1-rtai", "CONFIG_IPIPE=y\n");
    machine.install_with("5.4.2-rtai", "");
    machine.remove("boot/config-5.4.2-rtai");
    machine.update_grub();
    let all = [
        pair("6.13.1-rt-amd64", rt),
        pair("6.12.9-rt-amd64", rt),
        pair(RTAI, rtai),
        pair("5.4.2-rtai", rtai),
        pair("5.4.1-rtai", rtai),
    ];
    assert_eq!(ours(), all);
    // The words of the other kernels are not missing.
    for (running, own) in [(RTAI, rtai), ("6.13.1-rt-amd64", rt)] {
        machine.write("proc/sys/kernel/osrelease", &format!("{running}\n"));
        machine.write("proc/cmdline", &format!("BOOT_IMAGE=/boot/vmlinuz-{running} ro {own}\n"));
        let status = status::status(&host, &store).unwrap();
        let shown: Vec<&str> = status.words.iter().map(|it| it.word.as_str()).collect();
        assert_eq!((shown.join(" "), status.kernels.len()), (own.to_owned(), 5));
        assert_eq!((status.groups.len(), status.differs), (2, Vec::new()));
    }
    // A kernel that is of another kind now gets the words of that kind.
    let options = "CONFIG_PREEMPT_RT=y\nCONFIG_CPU_ISOLATION=y\nCONFIG_RCU_NOCB_CPU=y\n";
    machine.install_with("6.12.9-rt-amd64", options);
    let plan = change::make_plan(&machine, &request_cpus("3"));
    write::write(&host, &store, &plan, &WriteMode::default()).unwrap();
    assert!(ours().contains(&pair("6.12.9-rt-amd64", rtai)), "{:?}", ours());
    let mut both = request_cpus("3");
    both.shield.tunables =
        [("nohz-full".to_owned(), false), ("isolcpus-domain".to_owned(), true)].into();
    let both = make_plan(&host, &both).unwrap();
    assert!(words(&both).contains(&"isolcpus=3"), "{:?}", words(&both));
}

/// After another program's change undo takes from each line what was written there, and no more.
#[test]
fn undo_of_a_changed_file_takes_the_words_of_each_kernel_only() {
    let machine = Machine::without_loader();
    machine.install_with(RTAI, "CONFIG_IPIPE=y\nCONFIG_CPU_ISOLATION=y\nCONFIG_RCU_NOCB_CPU=y\n");
    machine.install("6.12.9-rt-amd64", true);
    machine.install("6.12.9", false);
    let label = |kernel: &str, args: &str| {
        format!("label {kernel}\n\tlinux /vmlinuz-{kernel}\n\tappend {args}\n")
    };
    let labels =
        [(RTAI, "ro"), ("6.12.9-rt-amd64", "irqaffinity=0-2 ro"), ("6.12.9", "nohz_full=3 ro")];
    let before = labels.map(|(kernel, args)| label(kernel, args)).concat();
    let conf = "boot/extlinux/extlinux.conf";
    machine.write(conf, &before);
    let (host, store) = (machine.host(), machine.store());
    let plan = make_plan(&host, &request_cpus("3")).unwrap();
    write::write(&host, &store, &plan, &WriteMode::default()).unwrap();
    let theirs = |text: &str| {
        let (first, rest) = text.split_at(text.find("6.12.9").unwrap());
        first.to_owned()
            + &rest.replace(" ro\n", " ro isolcpus=3\n")
            + &label("6.1.0-later", "nohz_full=3 ro")
    };
    machine.write(conf, &theirs(&std::fs::read_to_string(machine.path(conf)).unwrap()));
    write::undo(&host, &store).unwrap();
    assert_eq!(std::fs::read_to_string(machine.path(conf)).unwrap(), theirs(&before));
}
