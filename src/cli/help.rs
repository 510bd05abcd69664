//! The end of every help text and man page: examples, units of time and exit codes.

/// An example: the command, and a description.
pub type HelpExample = (&'static str, &'static str);

const USAGE: (&str, &str) = ("2", "invalid usage or input");
const BUG: (&str, &str) = ("70", "a bug in cpushield");

/// The exit codes, and what each means.
pub const EXIT_CODES: &[(&str, &str)] = &[
    ("0", "success: the operation is complete, the shield holds, or the shield is active"),
    (
        "1",
        "negative or unknown result: the shield or a limit does not hold, or a setting has changed",
    ),
    USAGE,
    (
        "3",
        "failure: no shield, a failed operation, or a machine that lacks a feature; the \
         message says whether all changes were undone",
    ),
    BUG,
];

/// The exit codes of subcommands for which the general table is too vague.
const OWN_CODES: &[(&str, &[(&str, &str)])] = &[
    (
        "run",
        &[
            ("125", "cpushield failed before it started the program"),
            ("126", "the program cannot be executed"),
            ("127", "the program is not found"),
            ("*", "the program's own status, or 128 + N when signal N ended it"),
        ],
    ),
    (
        "survey",
        &[
            ("0", "success; with --lint: no finding"),
            ("1", "with --lint: at least one finding"),
            USAGE,
            ("3", "failure: the machine or the recording cannot be read or written"),
            BUG,
        ],
    ),
    (
        "status",
        &[
            ("0", "every shield is active and unchanged"),
            (
                "1",
                "changed settings, foreign tasks, or a shield that is incomplete, being changed or \
                 unreadable",
            ),
            USAGE,
            ("3", "no shield, or a failed operation"),
            BUG,
        ],
    ),
    (
        "boot plan",
        &[
            ("0", "success: the kernels can get the parameters"),
            USAGE,
            ("3", "failure: no parameter applies, or the boot loader's files cannot be read"),
            BUG,
        ],
    ),
    (
        "boot apply",
        &[
            ("0", "success: the parameters are written, or were already present"),
            USAGE,
            ("3", "failure; the message says whether all files were restored"),
            BUG,
        ],
    ),
    (
        "boot status",
        &[
            ("0", "every parameter is written, booted and in force"),
            ("1", "a parameter is not written, not booted or not in force"),
            USAGE,
            ("3", "no parameters were written, or a failed operation"),
            BUG,
        ],
    ),
    (
        "boot undo",
        &[
            ("0", "success: the boot loader's files are restored, or there was nothing to undo"),
            USAGE,
            ("3", "failure: a file cannot be restored; the journal is kept"),
            BUG,
        ],
    ),
    (
        "enable",
        &[
            ("0", "success: the file is written; with --now: the shield is also active"),
            USAGE,
            ("3", "failure: the shield cannot be planned or applied, or the file not written"),
            BUG,
        ],
    ),
    (
        "disable",
        &[
            ("0", "success: no boot applies a shield; with --now: all changes are undone"),
            USAGE,
            ("3", "failure: the file cannot be removed, or a change cannot be undone"),
            BUG,
        ],
    ),
    (
        "add",
        &[
            ("0", "success: every process is in the shield"),
            USAGE,
            ("3", "failure: no shield, or a process that cannot be moved; those before it stay"),
            BUG,
        ],
    ),
    (
        "remove",
        &[
            ("0", "success: every process is out of the shield"),
            USAGE,
            ("3", "failure: no shield, or a process that cannot be moved; those before it are out"),
            BUG,
        ],
    ),
    (
        "experiment",
        &[
            ("0", "success: the results are complete, or the search found the options"),
            ("1", "the search ended without a set of options that meets the goal"),
            USAGE,
            ("3", "failure; the message says whether all changes were undone"),
            BUG,
        ],
    ),
];

/// The exit codes of a subcommand, such as `boot plan`; `None` is the command itself.
#[must_use]
pub fn exit_codes(name: Option<&str>) -> &'static [(&'static str, &'static str)] {
    name.and_then(own_exit_codes).unwrap_or(EXIT_CODES)
}

fn own_exit_codes(name: &str) -> Option<&'static [(&'static str, &'static str)]> {
    OWN_CODES.iter().find(|(subcommand, _)| *subcommand == name).map(|(_, codes)| *codes)
}

/// Examples of a subcommand, such as `boot plan`; `None` is the command itself.
#[must_use]
pub fn examples(name: Option<&str>) -> &'static [HelpExample] {
    let Some(name) = name else {
        return &[
            ("cpushield try", "shield a CPU for a few seconds and see the effect"),
            ("cpushield apply --count 1", "shield a CPU that cpushield chooses"),
            ("cpushield run -- ./control", "run a program in the shield"),
            ("cpushield verify --for 1m", "verify the shield for a minute"),
            ("cpushield undo", "restore the original settings"),
        ];
    };
    EXAMPLES
        .iter()
        .find(|(subcommand, _)| *subcommand == name)
        .map_or(&[], |(_, examples)| examples)
}

const EXAMPLES: &[(&str, &[HelpExample])] = &[
    (
        "try",
        &[
            ("cpushield try", "5 seconds without and 5 seconds with a shield"),
            ("cpushield try --cpus 3 --for 1m", "shield CPU 3, for a longer time"),
            ("cpushield try --price", "also measure the cost to all other programs"),
        ],
    ),
    (
        "survey",
        &[
            ("cpushield survey", "show this machine and what is isolated"),
            ("cpushield survey --record machine", "save a recording of this machine"),
            ("cpushield survey --root machine", "read that recording on another computer"),
        ],
    ),
    (
        "plan",
        &[
            ("cpushield plan --count 2", "choose two CPUs and list the changes"),
            ("cpushield plan --cpus 2-3 -o shield.json", "save the plan for `apply`"),
            ("cpushield plan --near eth0 --workload cyclic -v", "show every command"),
            ("cpushield plan --from tuned -o policy.toml", "a policy with the CPUs of tuned"),
            ("cpushield plan --cpus 2-3 --export kernel-parameters", "for the boot loader"),
            ("cpushield plan --free", "CPUs in no shield, by NUMA node and cache"),
            ("cpushield plan --all --policy shields.toml", "plan every shield of a policy"),
        ],
    ),
    (
        "boot",
        &[
            ("cpushield boot plan --cpus 2-3", "kernel parameters for the next boot"),
            ("cpushield boot apply --trial", "boot once with them, and keep them if they hold"),
            ("cpushield boot status", "parameters: requested, written, booted, in force"),
            ("cpushield boot undo", "remove them"),
        ],
    ),
    (
        "boot plan",
        &[
            ("cpushield boot plan --cpus 2-3", "what a boot with CPUs 2 and 3 shielded needs"),
            ("cpushield boot plan --kernels '*-rt-*'", "for these kernels only"),
            ("cpushield boot plan --from results.json --row tickless", "as in an experiment"),
        ],
    ),
    (
        "boot apply",
        &[
            ("cpushield boot apply --cpus 2-3 --dry-run", "print the files only"),
            ("cpushield boot apply --cpus 2-3", "add boot entries; reboot to use them"),
            (
                "cpushield boot apply --trial --until network --within 5m",
                "boot once; boot the old entry again unless the network comes up",
            ),
            ("cpushield boot apply --parameter nohlt", "with a parameter of your own"),
        ],
    ),
    (
        "boot status",
        &[
            ("cpushield boot status", "parameters: requested, written, booted, in force"),
            ("cpushield boot status --json", "the same for a program"),
        ],
    ),
    (
        "boot undo",
        &[("cpushield boot undo", "remove the parameters; the next boot has the old ones")],
    ),
    (
        "apply",
        &[
            ("cpushield apply --cpus 3", "shield CPU 3"),
            ("cpushield apply shield.json", "apply a saved plan"),
            ("cpushield apply --cpus 3 --dry-run", "print the shell commands only"),
            ("cpushield apply --all", "apply every shield of the policy"),
        ],
    ),
    (
        "enable",
        &[
            ("cpushield enable --cpus 3", "shield CPU 3 at every boot"),
            ("cpushield enable --now --cpus 3", "also shield it now"),
            ("cpushield enable --all", "apply every shield of the policy at every boot"),
        ],
    ),
    (
        "disable",
        &[
            ("cpushield disable", "no shield at the next boot"),
            ("cpushield disable --now", "also take the active shield down"),
        ],
    ),
    (
        "run",
        &[
            (
                "cpushield run -- ./control --rate 1000",
                "on the shielded CPU with the fewest programs",
            ),
            ("cpushield run --cpu 3 --fifo 80 -- ./control", "on CPU 3 with a real-time priority"),
            ("cpushield run --spread --user ada -- ./solver", "one thread per CPU, as user ada"),
        ],
    ),
    (
        "add",
        &[
            ("cpushield add 4711", "move process 4711 into the shield"),
            ("cpushield add --cpu 3 $(pidof control)", "onto this shielded CPU"),
        ],
    ),
    (
        "remove",
        &[
            ("cpushield remove 4711", "move process 4711 out of the shield"),
            ("cpushield remove $(pidof control)", "move every process of this name"),
        ],
    ),
    (
        "status",
        &[
            ("cpushield status", "the shield and what is on its CPUs"),
            ("cpushield status --json", "the same for a program"),
        ],
    ),
    (
        "verify",
        &[
            ("cpushield verify", "watch the shield for 10 seconds"),
            ("cpushield verify --for 10m --max-entries 5", "check a limit"),
            ("cpushield verify --cpus 3 -- ./control", "with a program instead of the busy loop"),
            ("cpushield verify --fix", "fix leaks, then verify again"),
        ],
    ),
    (
        "latency",
        &[
            ("cpushield latency timer", "measure the shielded CPUs as cyclictest does"),
            ("cpushield latency timer --for 1h --max 50us", "check a limit"),
            ("cpushield latency spin --cpus 3 --load all", "with a load on the other CPUs"),
            (
                "cpushield latency timer --why -o after.json",
                "report what ran during the worst latencies; save the results",
            ),
        ],
    ),
    (
        "compare",
        &[
            ("cpushield compare before.json after.json", "two runs"),
            (
                "cpushield compare off=a1.json,a2.json,a3.json,a4.json \
                 on=b1.json,b2.json,b3.json,b4.json",
                "repeated runs, to tell differences from chance",
            ),
        ],
    ),
    (
        "experiment",
        &[
            ("cpushield experiment lathe.toml --dry-run", "show the order and the duration"),
            ("cpushield experiment lathe.toml --reboot -o result.json", "measure across reboots"),
            ("cpushield experiment --status", "show the results so far"),
            (
                "cpushield experiment lathe.toml --minimize --max 20us",
                "find the options that are needed",
            ),
            (
                "cpushield experiment --between good.json bad.json --max 20us",
                "find what broke the goal",
            ),
        ],
    ),
    (
        "watch",
        &[
            ("cpushield watch", "all CPUs, once a second"),
            ("cpushield watch --trace", "also name what interrupts the shield"),
            ("cpushield watch --once --json", "one frame for a program"),
        ],
    ),
    (
        "report",
        &[
            ("cpushield report before.json after.json -o report.html", "a page"),
            ("cpushield report off=a.json on=b.json --format md", "Markdown, with labels"),
            ("cpushield report a.json --picture histogram -o a.svg", "one picture"),
        ],
    ),
    ("undo", &[("cpushield undo", "take the shield down and restore the original settings")]),
    (
        "explain",
        &[
            ("cpushield explain", "list all pages"),
            ("cpushield explain irq-affinity", "what a tunable does"),
            ("cpushield explain vmstat_update", "what a kernel function means"),
        ],
    ),
    (
        "mask",
        &[
            ("cpushield mask 0-3,8", "the mask of a list"),
            ("cpushield mask 0x80", "the list of a mask"),
        ],
    ),
    (
        "completions",
        &[
            ("source <(cpushield completions bash)", "for this shell"),
            (
                "cpushield completions fish > ~/.config/fish/completions/cpushield.fish",
                "for every new shell",
            ),
        ],
    ),
];

/// The end of the help of a subcommand; `None` is the command itself.
#[must_use]
pub fn tail(name: Option<&str>) -> String {
    let mut text = "Examples:\n".to_owned();
    for (command, what) in examples(name) {
        text.push_str(&format!("  {command}\n      {what}\n"));
    }
    if name.is_none_or(|name| WITH_TIMES.contains(&name)) {
        text.push_str(&format!("\nTimes:\n  {TIMES}\n"));
    }
    if name.is_none_or(|name| WITH_CODES.contains(&name) || own_exit_codes(name).is_some()) {
        text.push_str("\nExit codes:\n");
        for (code, what) in exit_codes(name) {
            text.push_str(&format!("  {code:<4} {what}\n"));
        }
    }
    if name.is_none() {
        text.push_str(
            "  `cpushield run` returns the program's exit code: see `cpushield run --help`\n",
        );
    }
    text
}

/// The form of every TIME.
pub const TIMES: &str = "TIME is a number and its unit: 800ns, 5us, 1.5ms, 30s, 10m, 1h, 1d";

/// Subcommands with an option that takes a TIME.
pub const WITH_TIMES: &[&str] = &["try", "boot apply", "verify", "latency", "watch", "experiment"];

/// Subcommands whose exit code is a result, with the general table.
const WITH_CODES: &[&str] = &["try", "apply", "boot", "verify", "latency", "undo"];
