//! Lint: the command line of the running kernel and the [`Machine`] → [`LintFinding`]s: words that
//! the kernel refuses, ignores or does not know, that contradict each other, or that are not in
//! force. A line that is only planned has no effect yet: [`lint_line`]. Pure. `lists.rs` has the
//! findings about CPU lists, `limits.rs` those about words that keep CPUs from starting, `words.rs`
//! those about words, `overrides.rs` those about words that switch others off, `cpusets.rs` those
//! about words that keep a shield open, and `effects.rs` compares with what the kernel shows.

pub(super) mod cpusets;
mod effects;
mod limits;
mod lists;
mod overrides;
mod words;

pub(super) use limits::find_unstarted;

use super::refusals;
use super::running_kernel::has_smt;
use crate::documents::boot::LintFinding;
use crate::documents::machine::Machine;
use crate::survey::running_list_rules;
use cpushield_linux::CpuSet;
use cpushield_linux::text::cmdline;
use cpushield_linux::text::first_releases::PARALLEL_BRINGUP;
use cpushield_linux::text::kernel_version::KernelVersion;

/// What a command line is judged for: a kernel, and the CPUs of its machine.
#[derive(Debug, Clone, Copy)]
pub struct LintTarget<'a> {
    /// CPUs that the machine could ever have; empty when unknown.
    pub possible: &'a CpuSet,
    /// CPUs that are online now; empty when unknown.
    pub online: &'a CpuSet,
    /// Whether these CPUs were started with this command line.
    pub running: bool,
    /// Whether the CPUs are SMT siblings; `false` when unknown.
    pub smt: bool,
    /// The kernel's version; `None`: unknown, treated as a recent one.
    pub version: Option<KernelVersion>,
    /// The version by whose rules the kernel applies isolation lists; `None`: those of a recent
    /// one.
    pub list_rules: Option<KernelVersion>,
    /// The architecture, as in `uname -m`, where known.
    pub arch: Option<&'a str>,
}

impl<'a> LintTarget<'a> {
    /// The running kernel of a surveyed machine.
    pub(in crate::boot) fn running(machine: &'a Machine) -> LintTarget<'a> {
        LintTarget {
            possible: &machine.topology.possible,
            online: &machine.topology.online,
            running: true,
            smt: machine.topology.smt_control.as_deref().is_some_and(has_smt),
            version: machine.kernel.version,
            list_rules: running_list_rules(&machine.kernel, &machine.isolation),
            arch: machine.kernel.arch.as_deref(),
        }
    }

    /// Whether the kernel starts one sibling of each core before the others
    /// (`cpuhp_bringup_cpus_parallel()`, kernel/cpu.c, 6.5).
    fn starts_cores_first(&self) -> bool {
        self.smt
            && self.arch.is_none_or(|arch| arch.contains("86"))
            && self.version.is_none_or(|version| version >= PARALLEL_BRINGUP)
    }

    /// CPUs that are online, or all possible ones where that is unknown.
    fn online(&self) -> &'a CpuSet {
        if self.online.is_empty() { self.possible } else { self.online }
    }
}

/// Finds what is wrong with a command line that a kernel does not have yet, as far as the words
/// show it. An option that the kernel was built without is not looked for.
#[must_use]
pub fn lint_line(line: &str, target: &LintTarget<'_>) -> Vec<LintFinding> {
    distinct(lint_words(&cmdline::parse(line), target))
}

/// The findings that need no look at what the kernel shows.
fn lint_words(params: &[cmdline::KernelParam], target: &LintTarget<'_>) -> Vec<LintFinding> {
    let found = [
        lists::find(target, params),
        Vec::from_iter(limits::find(target, params)),
        words::find(target, params),
        overrides::find(target, params),
    ];
    found.concat()
}

fn distinct<T: PartialEq>(found: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut distinct = Vec::new();
    for finding in found {
        if !distinct.contains(&finding) {
            distinct.push(finding);
        }
    }
    distinct
}

/// Finds what is wrong with the command line that the machine was booted with. `log` has the
/// kernel's messages, and is empty when they cannot be read. An unknown command line has no
/// findings.
#[must_use]
pub fn lint(machine: &Machine, log: &[String]) -> Vec<LintFinding> {
    let Some(line) = machine.kernel.cmdline.as_deref() else { return Vec::new() };
    let params = cmdline::parse(line);
    let unknown = words::unknown_to_kernel(machine, &params);
    // A word that the kernel does not know has no other fault and no effect.
    let known: Vec<_> =
        params.iter().filter(|it| !words::is_named(&unknown, it)).cloned().collect();
    let target = LintTarget::running(machine);
    let mut found = lint_words(&known, &target);
    found.extend(unknown);
    found.extend(effects::find(machine, &known));
    found.extend(cpusets::find(machine, &known, target.version, target.list_rules));
    found.extend(words::misspelled_in_log(log, &found));
    distinct(found).into_iter().map(|finding| add_messages(finding, log)).collect()
}

/// Whether the kernel's log may say more than these findings, which were made without it.
#[must_use]
pub fn may_be_reported(machine: &Machine, found: &[LintFinding]) -> bool {
    let line = machine.kernel.cmdline.as_deref().unwrap_or_default();
    found.iter().any(|finding| finding.messages().is_some())
        || cmdline::parse(line).iter().any(words::resembles_parameter)
}

/// Adds what the kernel reported about the words of a finding.
fn add_messages(finding: LintFinding, log: &[String]) -> LintFinding {
    if finding.messages().is_none() {
        return finding;
    }
    let messages = finding.words().into_iter().flat_map(|word| refusals::find(log, word));
    let messages = distinct(messages);
    finding.with_messages(messages)
}

/// Whether a word lacks the value without which the kernel does not know it.
#[must_use]
pub fn lacks_value(word: &str) -> bool {
    cmdline::parse(word).iter().any(words::lacks_value)
}

/// The words of a line again, without those that [`lint`] leaves out.
fn to_line(params: &[cmdline::KernelParam]) -> String {
    params.iter().map(super::line::to_word).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::documents::machine::PlacedThread;
    use cpushield_linux::{Task, TaskId};
    use proptest::prelude::*;

    /// A machine with CPUs 0 to 3 and a 6.12 kernel that was booted with this line.
    fn machine(line: &str) -> Machine {
        let mut machine = Machine::default();
        machine.kernel.cmdline = Some(line.to_owned());
        machine.kernel.version = Some(KernelVersion::new(6, 12));
        machine.kernel.arch = Some("x86_64".to_owned());
        machine.topology.possible = "0-3".parse().unwrap();
        machine.topology.online = "0-3".parse().unwrap();
        machine
    }

    fn texts(machine: &Machine, log: &[&str]) -> Vec<String> {
        let log: Vec<String> = log.iter().map(|&line| line.to_owned()).collect();
        lint(machine, &log).iter().map(ToString::to_string).collect()
    }

    fn findings(line: &str) -> Vec<String> {
        texts(&machine(line), &[])
    }

    #[test]
    fn rcu_nocbs_without_a_list_is_known_since_5_17() {
        let mut machine = machine("rcu_nocbs");
        assert_eq!(texts(&machine, &[]), [""; 0]);
        machine.kernel.version = Some(KernelVersion::new(5, 10));
        assert!(matches!(lint(&machine, &[]).as_slice(), [LintFinding::NoValue { .. }]));
    }

    #[test]
    fn a_list_is_not_called_good_where_the_possible_cpus_are_unknown() {
        let mut machine = machine("quiet nohz_full=1-9 rcu_nocbs isolcpus=2");
        machine.topology.possible = CpuSet::new();
        let words = ["nohz_full=1-9", "isolcpus=2"];
        let wanted = words.map(|word| LintFinding::Unchecked { word: word.to_owned() });
        assert_eq!(lint(&machine, &[]), wanted);
    }

    #[test]
    fn two_lists_that_are_in_force_are_no_finding() {
        let mut machine = machine("nohz_full=1-3 isolcpus=domain,managed_irq,2-3");
        machine.kernel.version = Some(KernelVersion::new(5, 14));
        machine.isolation.nohz_full = Some("1-3".parse().unwrap());
        for release in ["5.14.0-570.12.1.el9_6.x86_64", "5.14.0"] {
            machine.kernel.release = Some(release.to_owned());
            machine.isolation.isolated = Some("2-3".parse().unwrap());
            assert_eq!(texts(&machine, &[]), [""; 0], "{release}");
            machine.isolation.isolated = Some(CpuSet::new());
            assert_eq!(texts(&machine, &[]).len(), 1, "{release}");
        }
    }

    /// Command lines with their findings.
    const LINES: &[(&str, &[&str])] = &[
        ("BOOT_IMAGE=/vmlinuz root=/dev/sda1 ro quiet splash nosmp nosmap nosmep", &[]),
        ("mitigations=auto,no_guest_host skew_tick=1 mce=off mce=ignore_ce audit=0", &[]),
        ("nohz_full=2-3 rcu_nocbs=2-3 irqaffinity=0-1 isolcpus=managed_irq,2-3 nohz=on", &[]),
        ("nmi_watchdog=0 amd_pstate=active tsc=nowatchdog tsc=reliable nohz=off", &[]),
        (
            "isolcpus=nohz,domain,1-N isolcpus=nohz,domain,1-N -- nohz_ful=1",
            &["isolcpus=nohz,domain,1-N is on the command line more than once"],
        ),
        (
            "nohz_ful=2-3 isolcpu=2 rcu_nocb=2 irq_affinity=0",
            &[
                "nohz_ful=2-3 looks like a misspelled nohz_full",
                "isolcpu=2 looks like a misspelled isolcpus",
                "rcu_nocb=2 looks like a misspelled rcu_nocbs",
                "irq_affinity=0 looks like a misspelled irqaffinity",
            ],
        ),
        ("nohz_full", &["nohz_full comes from a patch series that no released kernel contains"]),
        ("isolcpus", &["isolcpus has no value; the kernel does not accept the word without one"]),
        (
            "isolcpus=io_queue,2-3",
            &["isolcpus=io_queue,2-3 comes from a patch series that no released kernel contains"],
        ),
        ("isolcpus= rcu_nocbs=", &["isolcpus= names no CPU", "rcu_nocbs= names no CPU"]),
        ("nohz_full=", &["nohz_full= names no CPU"]),
        ("isolcpus=nohz,domain", &["isolcpus=nohz,domain names no CPU"]),
        (
            "irqaffinity=1-3 nohz_full=1-3",
            &["irqaffinity=1-3 sends interrupts only to CPU 1-3 and the boot CPU, but \
               nohz_full=1-3 is meant to stop the tick on CPU 1-3"],
        ),
        // A prepared machine: the CPUs of nohz_full= are housekeeping CPUs until a shield starts.
        ("irqaffinity=0-1 nohz_full=1-3", &[]),
        // CPUs that are online have started.
        ("nohz_full=1-3 maxcpus=2", &[]),
        (
            "idle=pol mitigations=of mce=ignor_ce skew_tick=yes",
            &[
                "idle=pol has a value that the kernel does not recognize; similar: poll",
                "mitigations=of has a value that the kernel does not recognize; similar: off",
                "mce=ignor_ce has a value that the kernel does not recognize; similar: ignore_ce",
                "skew_tick=yes has a value that the kernel does not recognize; the parameter takes a \
                 number",
            ],
        ),
        (
            "tsc=relaible intel_pstate=disabl iommu=tp nosmt=fource preempt=ful",
            &[
                "tsc=relaible has a value that the kernel does not recognize; similar: reliable",
                "intel_pstate=disabl has a value that the kernel does not recognize; similar: disable",
                "iommu=tp has a value that the kernel does not recognize; similar: pt",
                "nosmt=fource has a value that the kernel does not recognize; similar: force",
                "preempt=ful has a value that the kernel does not recognize; similar: full",
            ],
        ),
        (
            "intel_idle.max_cstate=x maxcpus=abc nmi_watchdog=of idel=poll",
            &[
                "intel_idle.max_cstate=x has a value that the kernel does not recognize; the \
                 parameter takes a number",
                "maxcpus=abc has a value that the kernel does not recognize; the parameter takes a \
                 number; the kernel reads a word as 0 and starts only the boot CPU",
                "nmi_watchdog=of has a value that the kernel does not recognize; the parameter takes \
                 0, 1, panic or nopanic",
                "idel=poll looks like a misspelled idle",
            ],
        ),
        (
            "threadirqs quiet threadirqs quiet",
            &["threadirqs is on the command line more than once"],
        ),
        (
            "workqueue.unbound_cpu=0 procesor.max_cstate=1 nmi_watchdg=0 workqueue.watchdog_thresh=9",
            &[
                "workqueue.unbound_cpu=0 looks like a misspelled workqueue.unbound_cpus",
                "procesor.max_cstate=1 looks like a misspelled processor.max_cstate",
                "nmi_watchdg=0 looks like a misspelled nmi_watchdog",
            ],
        ),
        (
            "isolcpus=2-9",
            &["isolcpus=2-9 names CPU 4-9, but the last CPU is 3: the kernel ignores the whole \
                 list"],
        ),
        (
            "rcu_nocbs=2-9 irqaffinity=0-7 workqueue.unbound_cpus=4",
            &[
                "rcu_nocbs=2-9 names CPU 4-9, but the last CPU is 3: the kernel uses all CPUs \
                 instead",
                "irqaffinity=0-7 names CPU 4-7, but the last CPU is 3: the kernel uses only the \
                 CPUs before the error, plus the boot CPU",
                "workqueue.unbound_cpus=4 names CPU 4, but the last CPU is 3: the kernel ignores \
                 the whole list",
            ],
        ),
        (
            "nohz_full=two",
            &["the kernel cannot parse the CPU list of nohz_full=two: the kernel ignores the \
                 whole list"],
        ),
        (
            "isolcpus=mangaed_irq,2-3",
            &["isolcpus=mangaed_irq,2-3 has the flag mangaed_irq, which mainline kernels do not \
                 support; similar: managed_irq"],
        ),
        (
            "isolcpus=2-3 irqaffinity=0,3",
            &["irqaffinity=0,3 sends interrupts to CPU 3, which isolcpus=2-3 isolates; the \
                 kernel does not compare the two"],
        ),
        (
            "nohz=off nohz_full=2-3",
            &["nohz=off keeps the tick on every CPU, so nohz_full=2-3 cannot stop it"],
        ),
        (
            "nohz=off nohz_full=2-3 nohz=on",
            &["nohz=off has no effect: nohz=on comes later and replaces it"],
        ),
        ("nohz_full=0-3", &["nohz_full=0-3 leaves no online CPU for housekeeping"]),
        (
            "nohz_full=0-1 isolcpus=2-3",
            &["nohz_full=0-1 together with isolcpus=2-3 leaves no online CPU for housekeeping"],
        ),
        (
            "skew_tick=1 skew_tick=1 console=tty0 console=tty0",
            &["skew_tick=1 is on the command line more than once"],
        ),
        (
            "rcu_nocbs=1 rcu-nocbs=2-3",
            &["rcu_nocbs=1 has no effect: rcu-nocbs=2-3 comes later and replaces it"],
        ),
        (
            "nohz_full=1 nohz_full=2-3",
            &["the kernel ignores nohz_full=2-3: nohz_full=1 comes first and names other CPUs"],
        ),
        (
            "kthread_cpus=0",
            &["kthread_cpus=0: mainline kernels do not support it; use the tunable kthreads"],
        ),
    ];

    #[test]
    fn each_wrong_line_has_its_findings_and_a_good_line_has_none() {
        for (line, expected) in LINES {
            assert_eq!(findings(line), *expected, "{line}");
        }
        let unknown = Machine::default();
        assert_eq!(lint(&unknown, &[]), []);
    }

    #[test]
    fn words_that_this_kernel_was_built_without_are_findings() {
        let mut built = machine("nohz_full=2-3 rcu_nocbs=2-3 isolcpus=2-3 nosoftlockup idle=poll");
        for (option, value) in [
            ("CONFIG_NO_HZ_FULL", "n"),
            ("CONFIG_RCU_NOCB_CPU", "n"),
            ("CONFIG_CPU_ISOLATION", "n"),
            ("CONFIG_SOFTLOCKUP_DETECTOR", "n"),
        ] {
            built.kernel.config.insert(option.to_owned(), value.to_owned());
        }
        let expected = [
            "this kernel ignores nohz_full=2-3: built without CONFIG_NO_HZ_FULL",
            "this kernel ignores rcu_nocbs=2-3: built without CONFIG_RCU_NOCB_CPU",
            "this kernel ignores isolcpus=2-3: built without CONFIG_CPU_ISOLATION",
            "this kernel ignores nosoftlockup: built without CONFIG_SOFTLOCKUP_DETECTOR",
        ];
        assert_eq!(texts(&built, &[]), expected);
        // Before 4.13 and 4.15 these words needed other options.
        built.kernel.version = Some(KernelVersion::new(4, 9));
        built.kernel.release = Some("4.9.0".to_owned());
        assert_eq!(texts(&built, &[]), expected[..2]);
        // A word that is younger than the kernel.
        let mut old = machine("nosmt mitigations=off intel_pstate=disable");
        old.kernel.version = Some(KernelVersion::new(2, 6));
        old.kernel.release = Some("2.6.32-122-rtai".to_owned());
        assert_eq!(
            texts(&old, &[]),
            [
                "this kernel ignores nosmt: Linux 4.19 introduced it",
                "this kernel ignores mitigations=off: Linux 5.2 introduced it",
                "this kernel ignores intel_pstate=disable: Linux 3.9 introduced it",
            ]
        );
        old.kernel.release = Some("2.6.32-754.el6.x86_64".to_owned());
        assert_eq!(texts(&old, &[]), [""; 0]);
        let mut arm = machine("idle=poll");
        arm.kernel.arch = Some("aarch64".to_owned());
        assert_eq!(
            texts(&arm, &[]),
            ["this kernel ignores idle=poll: aarch64 has no such parameter"]
        );
        // Without a configuration, the absent file says it.
        let mut shown = machine("nohz_full=2-3");
        shown.isolation.isolated = Some(CpuSet::new());
        assert_eq!(texts(&shown, &[]), expected[..1]);
    }

    fn kthread(comm: &str) -> PlacedThread {
        let id = TaskId { tid: 9, started: 1 };
        let task = Task { id, pid: 9, kthread: true, comm: comm.to_owned(), ..blank_task() };
        PlacedThread { task, affinity: CpuSet::single(0), group: None }
    }

    fn blank_task() -> Task {
        Task {
            id: TaskId { tid: 1, started: 1 },
            pid: 1,
            parent: 0,
            comm: String::new(),
            kthread: false,
            bound: false,
            cpu: 0,
            state: 'S',
            nice: 0,
            rt_priority: 0,
            policy: 0,
        }
    }

    #[test]
    fn parameters_that_are_not_in_force_are_findings_with_the_messages_of_the_kernel() {
        let mut shown = machine("nohz_full=2-3 isolcpus=domain,2-3 rcu_nocbs=2-3 irqaffinity=1 ro");
        shown.isolation.nohz_full = Some("2-3".parse().unwrap());
        // From 7.0 live partitions are among them.
        shown.isolation.isolated = Some("1-3".parse().unwrap());
        shown.irq_default = Some("0-1".parse().unwrap());
        shown.tasks = ["rcuog/2", "rcuop/2", "rcuop/3", "kthreadd"].map(kthread).to_vec();
        assert_eq!(texts(&shown, &[]), [""; 0]);

        shown.isolation.nohz_full = Some("2".parse().unwrap());
        shown.isolation.isolated = Some(CpuSet::new());
        shown.irq_default = Some("0-3".parse().unwrap());
        shown.tasks.remove(2);
        let cleared = "NO_HZ: Clearing 3 from nohz_full range for timekeeping";
        assert_eq!(
            texts(&shown, &[cleared, "Linux version 6.12"]),
            [
                "nohz_full=2-3 requests CPU 2-3, but /sys/devices/system/cpu/nohz_full has CPU 2; the \
             kernel reported: NO_HZ: Clearing 3 from nohz_full range for timekeeping",
                "isolcpus=domain,2-3 requests CPU 2-3, but /sys/devices/system/cpu/isolated has no CPU",
                "rcu_nocbs=2-3 requests CPU 2-3, but the list of rcuo threads has CPU 2",
                "irqaffinity=1 requests CPU 1, but /proc/irq/default_smp_affinity has CPU 0-3",
            ]
        );
        // More CPUs without tick than requested are a difference too.
        shown.isolation.nohz_full = Some("1-3".parse().unwrap());
        assert!(texts(&shown, &[])[0].contains("has CPU 1-3"));
        // CPUs without tick that no word requests are only observed.
        shown.kernel.cmdline = Some("ro irqaffinity=0-3".to_owned());
        let observed = "/sys/devices/system/cpu/nohz_full has CPU 1-3, which no word of the \
                        command line requests";
        assert_eq!(texts(&shown, &[]), [observed]);
        shown.kernel.cmdline =
            Some("nohz_full=2-3 isolcpus=domain,2-3 rcu_nocbs=2-3 irqaffinity=1 ro".to_owned());
        // In a container there are no kernel threads to see.
        shown.tasks.clear();
        assert_eq!(texts(&shown, &[]).len(), 3);
    }

    /// The messages are those of docs/isolcpus.md (6.12).
    #[test]
    fn a_list_that_the_kernel_refused_has_its_message() {
        let range = "Housekeeping: nohz_full= or isolcpus= incorrect CPU range";
        let boot_cpu = "Housekeeping: must include one present CPU, using boot CPU:0";
        let rcu = "rcu: rcu_nocbs= bad CPU range, all CPUs set";
        for (line, message) in [
            ("nohz_full=3-9", range),
            ("isolcpus=9", range),
            ("isolcpus=3,x", range),
            ("nohz_full=2-3 isolcpus=nohz,3", "Housekeeping: nohz_full= must match isolcpus="),
            ("isolcpus=0-3", boot_cpu),
            ("rcu_nocbs=2-9", rcu),
        ] {
            let log = ["Kernel command line: ro", message, "NO_HZ: Full dynticks CPUs: 1-3."];
            let without = findings(line);
            let reported = format!("{}; the kernel reported: {message}", without.join("|"));
            assert_eq!(texts(&machine(line), &log), [reported], "{line}");
        }
        let overlap = machine("isolcpus=2-3 irqaffinity=0,3");
        assert_eq!(texts(&overlap, &[range]), texts(&overlap, &[]));
    }

    #[test]
    fn a_word_that_the_kernel_reported_as_unknown_and_that_resembles_a_parameter_is_a_finding() {
        let message = "Unknown kernel command line parameters \"splash nohlz rcu_nocb=2 live=1\", \
                       will be passed to user space.";
        let line = "splash nohlz rcu_nocb=2 live=1";
        let reported = |text: &str| format!("{text}; the kernel reported: {message}");
        let log = ["Kernel command line: ro", message];
        assert_eq!(
            texts(&machine(line), &log),
            [
                reported("rcu_nocb=2 looks like a misspelled rcu_nocbs"),
                reported("nohlz looks like a misspelled nohlt"),
            ]
        );
        assert_eq!(texts(&machine(line), &[]), ["rcu_nocb=2 looks like a misspelled rcu_nocbs"]);
    }

    #[test]
    fn a_clocksource_and_smt_that_are_not_as_requested_are_findings() {
        let mut shown = machine("clocksource=hpet clocksource=tsc nosmt");
        shown.kernel.clocksource = Some("tsc".to_owned());
        shown.topology.smt_control = Some("off".to_owned());
        let overridden =
            "clocksource=hpet has no effect: clocksource=tsc comes later and replaces it";
        assert_eq!(texts(&shown, &[]), [overridden]);
        shown.kernel.clocksource = Some("hpet".to_owned());
        shown.topology.smt_control = Some("on".to_owned());
        let expected = [
            overridden,
            "clocksource=tsc is not in force: \
             /sys/devices/system/clocksource/clocksource0/current_clocksource has hpet",
            "nosmt is not in force: /sys/devices/system/cpu/smt/control has on",
        ];
        assert_eq!(texts(&shown, &[]), expected);
        let unknown = machine("clocksource=tsc nosmt");
        assert_eq!(texts(&unknown, &[]), [""; 0]);
    }

    #[test]
    fn the_boot_cpu_that_the_kernel_keeps_is_one_finding() {
        let mut all = machine("nohz_full=0-3");
        all.isolation.nohz_full = Some("1-3".parse().unwrap());
        assert_eq!(texts(&all, &[]), ["nohz_full=0-3 leaves no online CPU for housekeeping"]);
    }

    #[test]
    fn json_has_the_tag_the_fields_and_the_text() {
        let found = lint(&machine("isolcpus=2-9 nohz_ful=1"), &[]);
        let json = serde_json::to_value(&found).unwrap();
        assert_eq!(
            (&json[0]["finding"], &json[0]["fault"]),
            (&"not-accepted".into(), &"beyond-last".into())
        );
        assert_eq!(
            (&json[1]["finding"], &json[1]["near"]),
            (&"misspelled".into(), &"nohz_full".into())
        );
        assert!(found.iter().all(|finding| !finding.advice().is_empty()));
    }

    proptest! {
        #[test]
        fn no_line_makes_it_panic(line in "((nohz_full|isolcpus|rcu_nocbs|irqaffinity|nohz)=?[a-z0-9,-]{0,9} ?){0,5}") {
            let _ = findings(&line);
        }
    }
}
