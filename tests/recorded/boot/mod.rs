//! Boot parameters on machines made of files: written for the chosen kernels only, and removed
//! byte for byte, whichever write is refused or killed. This test simulates the loader's programs;
//! our script runs in a real shell.

mod bls_entries;
mod by_hand;
mod change;
mod data;
mod defaults;
mod early;
mod effects;
mod foreign;
mod grub;
mod init;
mod kernels;
mod kexec;
mod lines;
mod made_by_hand;
mod once;
mod other_systems;
mod others;
mod repairs;
mod reported;
mod rows;
mod trial;
mod trial_end;
mod trial_over;
mod trouble;
mod words;

use cpushield::boot::grub::generator;
use cpushield::boot::grub::later_kernels::LaterKernels;
use cpushield::boot::plan::{BootRequest, plan};
use cpushield::boot::write::{self, WriteMode};
use cpushield::boot::{
    BootDifference, BootError, BootPlan, FileFate, KernelRule, KernelWords, WordSource, loaders,
    status,
};
use cpushield::policy::ShieldRequest;
use cpushield::refusal::UserError;
use cpushield::report::blocks::{terminal_blocks, unpainted};
use cpushield::report::{boot_plan_blocks, boot_status_blocks};
use cpushield::survey::survey;
use cpushield_linux::Host;
use cpushield_simulator::{InjectedFault, Simulated};
use effects::kernel_thread;
use grub::Machine;

fn make_plan(host: &Host, asked: &BootRequest) -> Result<BootPlan, BootError> {
    let machine = survey(host, &[]);
    plan(host, &machine, WordSource::Request(asked), loaders::find(host)?.as_ref())
}

fn request_cpus(list: &str) -> BootRequest {
    let wish = ShieldRequest { cpus: Some(list.parse().unwrap()), ..ShieldRequest::default() };
    BootRequest { shield: wish, kernels: None, ..BootRequest::default() }
}

fn words(plan: &BootPlan) -> Vec<&str> {
    plan.parameters.iter().map(|it| it.word.as_str()).collect()
}

#[test]
fn rt_kernels_get_the_parameters_and_other_kernels_are_unchanged() {
    let machine = Machine::debian();
    let before = machine.files();
    let plan = make_plan(&machine.host(), &BootRequest::default()).unwrap();
    assert_eq!(words(&plan), ["nohz_full=1-3", "rcu_nocbs=1-3"]);
    let written =
        write::write(&machine.host(), &machine.store(), &plan, &WriteMode::default()).unwrap();
    assert_eq!(written.kernels, ["6.12.9-rt-amd64"]);
    assert!(written.next_has, "{written:#?}");
    assert_eq!(written.entry.as_deref(), Some("cpushield-6.12.9-rt-amd64"));
    let (_, found) = loaders::find(&machine.host()).unwrap().unwrap();
    for entry in &found.entries {
        let has = entry.args.contains("nohz_full=1-3 rcu_nocbs=1-3");
        assert_eq!(has, entry.ours, "{entry:#?}");
        assert_eq!(entry.ours, entry.id.as_deref() == Some("cpushield-6.12.9-rt-amd64"));
    }
    assert_eq!(found.entries.iter().filter(|entry| entry.ours).count(), 1);
    // The second time nothing is written.
    let again = machine.host();
    assert!(
        write::write(&again, &machine.store(), &plan, &WriteMode::default())
            .unwrap()
            .files
            .is_empty()
    );
    assert_eq!(again.writes(), 0);
    let undone = write::undo(&machine.host(), &machine.store()).unwrap().unwrap();
    machine.assert_fates(&undone, &before);
    assert_eq!(before, machine.files());
    assert_eq!(write::undo(&machine.host(), &machine.store()).unwrap(), None);
}

/// The script must not change, or a second `apply` on a prepared machine would differ.
#[test]
fn the_generator_writes_the_same_script_as_before() {
    let words = ["nohz_full=1-3", "rcu_nocbs=1-3"].map(str::to_owned);
    let kernels = vec!["6.12.9-rt-amd64".to_owned()];
    let groups = [KernelWords { kernels, words: words.to_vec() }];
    let (rule, groups) = (&KernelRule::Realtime, &groups);
    let script = generator::script(&LaterKernels { rule, groups }, &generator::PERMANENT);
    assert_eq!(script, include_str!("07_cpushield"));
}

#[test]
fn a_kernel_that_is_installed_later_gets_the_parameters_and_undo_rebuilds_the_menu() {
    let machine = Machine::debian();
    let plan = make_plan(&machine.host(), &BootRequest::default()).unwrap();
    write::write(&machine.host(), &machine.store(), &plan, &WriteMode::default()).unwrap();
    machine.install("6.13.1-rt-amd64", true);
    machine.install("6.13.1-amd64", false);
    machine.update_grub();
    let (_, found) = loaders::find(&machine.host()).unwrap().unwrap();
    let ours: Vec<&str> =
        found.entries.iter().filter(|e| e.ours).map(|e| e.version.as_str()).collect();
    assert_eq!(ours, ["6.13.1-rt-amd64", "6.12.9-rt-amd64"]);
    let undone = write::undo(&machine.host(), &machine.store()).unwrap().unwrap();
    assert_eq!(undone.files.last().unwrap().1, FileFate::Regenerated);
    let cfg = machine.read("boot/grub/grub.cfg");
    assert!(!cfg.contains("nohz_full") && cfg.contains("6.13.1-rt-amd64"), "{cfg}");
}

#[test]
fn without_an_rt_kernel_the_newest_or_the_saved_one_gets_the_parameters() {
    let machine = Machine::with(&[("6.12.9-amd64", false), ("6.1.4-amd64", false)]);
    let chosen = |machine: &Machine| {
        let plan = make_plan(&machine.host(), &request_cpus("2-3")).unwrap();
        assert_eq!(words(&plan), ["nohz_full=2-3", "rcu_nocbs=2-3", "irqaffinity=0-1"]);
        write::write(
            &machine.host(),
            &machine.store(),
            &plan,
            &WriteMode { default_entry: write::DefaultEntry::Kept, ..WriteMode::default() },
        )
        .unwrap()
    };
    let written = chosen(&machine);
    assert_eq!((written.kernels, written.next_has), (vec!["6.12.9-amd64".to_owned()], false));
    machine.install("6.13.1-amd64", false);
    machine.update_grub();
    let (_, found) = loaders::find(&machine.host()).unwrap().unwrap();
    let ours: Vec<&str> =
        found.entries.iter().filter(|e| e.ours).map(|e| e.version.as_str()).collect();
    assert_eq!(ours, ["6.13.1-amd64"]);

    let machine = Machine::with(&[("6.12.9-amd64", false), ("6.1.4-amd64", false)]);
    machine.save("saved_entry", "gnulinux-advanced-ab>gnulinux-6.1.4-amd64-advanced-ab");
    assert_eq!(chosen(&machine).kernels, ["6.1.4-amd64"]);
}

#[test]
fn after_a_kill_or_refusal_at_any_write_every_byte_is_restored() {
    let count = {
        let (machine, host) = (Machine::debian(), Machine::debian());
        let (host, plan) =
            (host.host(), make_plan(&machine.host(), &BootRequest::default()).unwrap());
        write::write(&host, &machine.store(), &plan, &WriteMode::default()).unwrap();
        host.writes()
    };
    assert!(count >= 2);
    for at in 0..count {
        let machine = Machine::debian();
        let before = machine.files();
        let plan = make_plan(&machine.host(), &BootRequest::default()).unwrap();
        let killed = machine.host().failing(InjectedFault::Stop { at });
        let error =
            write::write(&killed, &machine.store(), &plan, &WriteMode::default()).unwrap_err();
        assert!(error.is_stop(), "{at}: {error}");
        // The menu that GRUB reads is the old one or the new one.
        loaders::find(&machine.host()).unwrap().unwrap();
        let refused = write::write(&machine.host(), &machine.store(), &plan, &WriteMode::default())
            .unwrap_err();
        assert!(matches!(refused, BootError::Unfinished), "{at}: {refused}");
        write::undo(&machine.host(), &machine.store()).unwrap().unwrap();
        assert_eq!(before, machine.files(), "killed at write {at}");

        let refused = machine.host().failing(InjectedFault::Refuse { at, errno: 28 });
        let error =
            write::write(&refused, &machine.store(), &plan, &WriteMode::default()).unwrap_err();
        assert!(matches!(error, BootError::Failed { undone: None, .. }), "{at}: {error}");
        assert_eq!(before, machine.files(), "refused at write {at}");
        assert_eq!(write::undo(&machine.host(), &machine.store()).unwrap(), None);

        // Undo, killed at its n-th write and called again.
        write::write(&machine.host(), &machine.store(), &plan, &WriteMode::default()).unwrap();
        let killed = machine.host().failing(InjectedFault::Stop { at });
        write::undo(&killed, &machine.store()).unwrap_err();
        write::undo(&machine.host(), &machine.store()).unwrap().unwrap();
        assert_eq!(before, machine.files(), "undo killed at write {at}");
    }
}

#[test]
fn unsafe_or_contradictory_requests_are_refused_before_any_write() {
    let machine = Machine::debian();
    let before = machine.files();
    let refused = |asked: &BootRequest| make_plan(&machine.host(), asked).unwrap_err();
    for list in ["0-3", "9", "0"] {
        assert!(matches!(
            refused(&request_cpus(list)),
            BootError::Refused(_) | BootError::BootCpu { .. }
        ));
    }
    let kernels =
        |glob: &str| BootRequest { kernels: Some(glob.to_owned()), ..BootRequest::default() };
    assert!(matches!(refused(&kernels("a'b")), BootError::NotPlain { .. }));
    assert!(matches!(refused(&kernels("5.*")), BootError::NoKernel { .. }));
    let on = |name: &str| {
        let mut asked = BootRequest::default();
        asked.shield.tunables.set(name, true);
        asked
    };
    assert!(matches!(refused(&on("mitigations")), BootError::Never { .. }));
    assert!(matches!(refused(&on("skew-tik")), BootError::NoSuchParameter { .. }));
    let own = cpushield::failure::Failure::from(refused(&on("nohlt"))).to_string();
    assert!(own.contains("a kernel parameter of your own: --parameter nohlt"), "{own}");
    machine.write("etc/default/grub", "GRUB_CMDLINE_LINUX=\"nohz_full=2\"\n");
    machine.update_grub();
    let error = refused(&BootRequest::default());
    match &error {
        BootError::Conflict { place, .. } => assert_eq!(place, "/etc/default/grub:1"),
        error => panic!("{error}"),
    }
    machine.write("etc/default/grub", "");
    machine.update_grub();
    assert_eq!(before, machine.files());
}

#[test]
fn before_5_18_nohz_full_is_refused_with_an_isolcpus_of_another_list() {
    let given = |version: &str, line: &str| {
        let machine = Machine::with(&[(version, true)]);
        machine.write("etc/default/grub", &format!("GRUB_CMDLINE_LINUX=\"{line}\"\n"));
        machine.update_grub();
        machine
    };
    for line in ["isolcpus=2-3", "isolcpus=managed_irq,domain,3 quiet"] {
        let machine = given("5.10.0-rt-amd64", line);
        let before = machine.files();
        let error = make_plan(&machine.host(), &BootRequest::default()).unwrap_err();
        let BootError::ListsDiffer { place, .. } = &error else { panic!("{error}") };
        assert_eq!(place, "/etc/default/grub:1");
        let text = error.to_string();
        let isolcpus = line.split(' ').next().unwrap();
        let ignores = format!("the kernel ignores {isolcpus}: nohz_full=1-3 comes first");
        assert!(text.contains(&ignores), "{text}");
        assert_eq!(before, machine.files());
    }
    // The same list is accepted, and the hint says how to request it.
    let machine = given("5.10.0-rt-amd64", "isolcpus=2-3");
    let error = make_plan(&machine.host(), &BootRequest::default()).unwrap_err();
    let failure = cpushield::failure::Failure::from(error).to_string();
    assert!(failure.contains("--cpus 2-3"), "{failure}");
    assert_eq!(
        words(&make_plan(&machine.host(), &request_cpus("2-3")).unwrap())[0],
        "nohz_full=2-3"
    );
    // Later kernels take both, and the plan says so.
    let machine = given("5.18.0-rt-amd64", "isolcpus=2-3");
    let warnings = make_plan(&machine.host(), &BootRequest::default()).unwrap().warnings;
    let taken = "nohz_full=1-3 and isolcpus=2-3 have different lists: this kernel accepts both";
    assert!(warnings.iter().any(|it| it.to_string().contains(taken)), "{warnings:#?}");
}

#[test]
fn status_reports_isolation_parameters_that_the_running_kernel_ignores() {
    let machine = Machine::debian();
    let line = "ro isolcpus=1 nohz_full=1-3 isolcpus=2 irqaffinity=0-1\n";
    machine.write("proc/cmdline", line);
    machine.write("boot/config-6.12.9-rt-amd64", "CONFIG_NO_HZ_FULL=y\nCONFIG_CPU_ISOLATION=y\n");
    machine.write("sys/devices/system/cpu/nohz_full", "1-3\n");
    let status = status::status(&machine.host(), &machine.store()).unwrap();
    assert_eq!(status.findings.len(), 2, "{:#?}", status.findings);
    let text = terminal_blocks(&boot_status_blocks(&status), usize::MAX, &unpainted);
    for fault in [
        "the kernel ignores isolcpus=2: isolcpus=1 comes first and names other CPUs",
        "irqaffinity=0-1 sends interrupts to CPU 1, which isolcpus=1 isolates",
    ] {
        assert!(text.contains(fault), "{text}");
    }
}

#[test]
fn foreign_or_unparsable_files_are_left_alone() {
    let machine = Machine::debian();
    let plan = make_plan(&machine.host(), &BootRequest::default()).unwrap();
    machine.write("etc/grub.d/07_cpushield", "#!/bin/sh\necho mine\n");
    let error =
        write::write(&machine.host(), &machine.store(), &plan, &WriteMode::default()).unwrap_err();
    assert!(matches!(error, BootError::Foreign { .. }), "{error}");
    machine.remove("etc/grub.d/07_cpushield");
    // So is one that only has the name of a script that would be removed.
    let (foreign, text) = ("etc/grub.d/42_cpushield", "#!/bin/sh\ntrue\n");
    machine.write(foreign, text);
    write::write(&machine.host(), &machine.store(), &plan, &WriteMode::default()).unwrap();
    write::undo(&machine.host(), &machine.store()).unwrap().unwrap();
    assert_eq!(machine.read(foreign), text);
    machine.remove(foreign);
    // An edit of grub.cfg by hand would be lost.
    let cfg = machine.read("boot/grub/grub.cfg");
    machine.write("boot/grub/grub.cfg", &format!("{cfg}# by hand\n"));
    let before = machine.files();
    let error =
        write::write(&machine.host(), &machine.store(), &plan, &WriteMode::default()).unwrap_err();
    assert!(error.to_string().contains("# by hand"), "{error}");
    assert_eq!(before, machine.files());
    machine.write("boot/grub/grub.cfg", &format!("{cfg}menuentry 'x' {{\n"));
    let error = make_plan(&machine.host(), &BootRequest::default()).unwrap_err();
    let line = cfg.lines().count() + 1;
    assert!(error.to_string().contains(&format!("line {line}: ")), "{error}");
}

#[test]
fn status_shows_the_message_of_the_kernel_about_a_list_that_it_refused() {
    let machine = Machine::debian();
    machine.write("proc/cmdline", "ro nohz_full=3-9\n");
    machine.write("sys/devices/system/cpu/nohz_full", "\n");
    let message = "Housekeeping: nohz_full= or isolcpus= incorrect CPU range";
    machine.write("dev/kmsg", &format!("4,1,0,-;{message}\n"));
    let found = status::status(&machine.host(), &machine.store()).unwrap().findings;
    let found: Vec<String> = found.iter().map(ToString::to_string).collect();
    let expected = format!(
        "nohz_full=3-9 names CPU 4-9, but the last CPU is 3: the kernel ignores the whole list; \
         the kernel reported: {message}"
    );
    assert_eq!(found, [expected]);
}

/// Words that no apply wrote are compared with what the kernel shows, too.
#[test]
fn status_compares_every_word_of_the_boot_that_the_kernel_shows() {
    let machine = Machine::debian();
    machine.write("proc/cmdline", "ro isolcpus=2-3 nohz_full=2-3 rcu_nocbs=2-3 irqaffinity=0-1\n");
    let config = "CONFIG_NO_HZ_FULL=y\nCONFIG_CPU_ISOLATION=y\nCONFIG_RCU_NOCB_CPU=y\n";
    machine.write("boot/config-6.12.9-rt-amd64", config);
    machine.write("sys/devices/system/cpu/isolated", "2-3\n");
    machine.write("sys/devices/system/cpu/nohz_full", "2-3\n");
    machine.write("proc/irq/default_smp_affinity", "3\n");
    for (pid, name) in [(2, "kthreadd"), (32, "rcuop/2"), (33, "rcuop/3")] {
        machine.write(&format!("proc/{pid}/stat"), &kernel_thread(pid, name));
        let status = format!("Name:\t{name}\nCpus_allowed_list:\t0-3\n");
        machine.write(&format!("proc/{pid}/task/{pid}/stat"), &kernel_thread(pid, name));
        machine.write(&format!("proc/{pid}/task/{pid}/status"), &status);
    }
    let findings = || status::status(&machine.host(), &machine.store()).unwrap().findings;
    assert_eq!(findings(), []);
    for (path, text, said) in [
        ("sys/devices/system/cpu/isolated", "2\n", "/sys/devices/system/cpu/isolated has CPU 2"),
        ("sys/devices/system/cpu/nohz_full", "2\n", "/sys/devices/system/cpu/nohz_full has CPU 2"),
        ("proc/irq/default_smp_affinity", "f\n", "/proc/irq/default_smp_affinity has CPU 0-3"),
    ] {
        let before = machine.read(path);
        machine.write(path, text);
        let seen = findings();
        assert!(seen.len() == 1 && seen[0].to_string().contains(said), "{path}: {seen:#?}");
        machine.write(path, &before);
    }
    machine.remove("proc/33/task/33/stat");
    machine.remove("proc/33/stat");
    let seen = findings();
    assert!(seen.len() == 1 && seen[0].to_string().contains("rcu_nocbs=2-3"), "{seen:#?}");
}

#[test]
fn status_reports_what_is_written_booted_and_in_force() {
    let machine = Machine::debian();
    let read_status = || status::status(&machine.host(), &machine.store()).unwrap();
    assert!(read_status().words.is_empty());
    let plan = make_plan(&machine.host(), &BootRequest::default()).unwrap();
    write::write(&machine.host(), &machine.store(), &plan, &WriteMode::default()).unwrap();
    let seen = read_status();
    let word = &seen.words[0];
    assert_eq!((word.written, word.booted, word.in_force), (true, false, Some(false)));
    assert_eq!(seen.kernels, ["6.12.9-rt-amd64"]);
    let (with, without) = (&seen.entries_with, &seen.entries_without);
    assert!(with.len() == 1 && with[0].contains("(cpushield)"), "{with:?}");
    assert!(
        without.contains(&"Debian GNU/Linux, with Linux 6.12.9-rt-amd64".to_owned()),
        "{without:?}"
    );
    let text = terminal_blocks(&boot_status_blocks(&seen), usize::MAX, &unpainted);
    assert!(
        text.contains(&format!("\nMenu entries with the parameters:\n  {}\n", with[0])),
        "{text}"
    );
    let words = ["nohz_full=1-3", "rcu_nocbs=1-3"].map(str::to_owned).to_vec();
    assert_eq!(seen.differs, [BootDifference::EntryNotBooted { words }]);
    machine.write("proc/cmdline", "ro nohz_full=1-3 rcu_nocbs=1-3\n");
    machine.write("sys/devices/system/cpu/nohz_full", "1-3\n");
    let seen = read_status();
    assert!(seen.words.iter().all(|word| word.booted) && seen.differs.is_empty(), "{seen:#?}");
    assert_eq!(seen.words[0].in_force, Some(true));
    // The words were booted, but the kernel did not accept them.
    machine.write("sys/devices/system/cpu/nohz_full", "2\n");
    let seen = read_status();
    assert!(matches!(seen.differs[..], [BootDifference::NotInForce { .. }]), "{seen:#?}");
    // The kernel's log has the reason; a program's line in the log does not count.
    machine.write(
        "dev/kmsg",
        "5,0,0,-;Kernel command line: ro nohz_full=1-3 rcu_nocbs=1-3\n\
         4,1,0,-;Housekeeping: nohz_full= must match isolcpus=\n\
         30,2,9,-;Housekeeping: by hand\n",
    );
    let seen = read_status();
    let message = "Housekeeping: nohz_full= must match isolcpus=";
    assert_eq!(
        (&seen.words[0].refusals[..], seen.words[1].refusals.len()),
        (&[message.into()][..], 0)
    );
    let text = format!("the kernel reported about nohz_full: {message}");
    assert_eq!(seen.differs[1].to_string(), text);
}

#[test]
fn when_no_parameter_applies_nothing_is_written_and_the_reason_is_reported() {
    let machine = Machine::with(&[("6.12.9-amd64", false)]);
    machine.write("boot/config-6.12.9-amd64", "# CONFIG_NO_HZ_FULL is not set\nCONFIG_HZ=250\n");
    let before = machine.files();
    let plan = make_plan(&machine.host(), &BootRequest::default()).unwrap();
    assert_eq!(words(&plan), [""; 0]);
    let refused = write::write(&machine.host(), &machine.store(), &plan, &WriteMode::default());
    let preview =
        write::preview(&machine.host(), &machine.store(), &plan, &WriteMode::default()).map(drop);
    for error in [refused.unwrap_err(), preview.unwrap_err()] {
        let text = error.to_string();
        assert!(text.contains("nohz-full: built without CONFIG_NO_HZ_FULL"), "{text}");
        assert!(text.contains("rcu-nocbs: built without CONFIG_RCU_NOCB_CPU"), "{text}");
    }
    let text = terminal_blocks(&boot_plan_blocks(&plan), 80, &unpainted);
    assert!(text.contains("none apply") && !text.contains("gets them"), "{text}");
    assert_eq!(before, machine.files());
    // Parameters that the loader already gives are fine, and nothing is written either.
    let machine = Machine::debian();
    let all = "GRUB_CMDLINE_LINUX=\"nohz_full=1-3 rcu_nocbs=1-3\"\n";
    machine.write("etc/default/grub", all);
    machine.update_grub();
    let plan = make_plan(&machine.host(), &BootRequest::default()).unwrap();
    assert_eq!(
        write::preview(&machine.host(), &machine.store(), &plan, &WriteMode::default()).unwrap(),
        Default::default()
    );
    let written =
        write::write(&machine.host(), &machine.store(), &plan, &WriteMode::default()).unwrap();
    assert_eq!(written.files, [""; 0]);
}

#[test]
fn the_first_kernel_of_a_menu_is_not_called_the_newest() {
    let machine = Machine::with(&[("6.12.9-amd64", false), ("6.1.4-amd64", false)]);
    let plan = make_plan(&machine.host(), &BootRequest::default()).unwrap();
    let text = terminal_blocks(&boot_plan_blocks(&plan), 200, &unpainted);
    let why = "there is no real-time kernel, so the first kernel in the menu gets the parameters";
    assert!(text.contains(why) && !text.contains("newe"), "{text}");
}
