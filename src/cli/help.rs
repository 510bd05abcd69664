//! What stands at the end of a help and of a man page: examples and exit codes.

/// An example: the command, and what it does.
pub type Example = (&'static str, &'static str);

/// The exit codes, and what each means.
pub const EXIT_CODES: &[(&str, &str)] = &[
    ("0", "yes: done; it holds; it is in force"),
    ("1", "no: it does not hold, is not in force, breaks a limit, or is unknown"),
    ("2", "wrong usage or wrong input"),
    (
        "3",
        "cannot: the machine lacks what it takes, there is no shield, or it failed; the message says \
         whether everything was undone",
    ),
    ("70", "a defect of cpushield"),
];

/// What `run` ends with, beside the status of the program.
pub const RUN_CODES: &[(&str, &str)] = &[
    ("125", "cpushield failed before it started the program"),
    ("126", "the program cannot be executed"),
    ("127", "the program is not found"),
    ("*", "the program's own status, or 128 + N when signal N ended it"),
];

/// The exit codes of a subcommand; `None` is the command itself.
#[must_use]
pub fn exit_codes(name: Option<&str>) -> &'static [(&'static str, &'static str)] {
    if name == Some("run") { RUN_CODES } else { EXIT_CODES }
}

/// Examples of each subcommand; `None` is the command itself.
#[must_use]
pub fn examples(name: Option<&str>) -> &'static [Example] {
    let Some(name) = name else {
        return &[
            ("cpushield try", "shield a CPU for seconds and see what that does"),
            ("cpushield apply --count 1", "shield a CPU that cpushield chooses"),
            ("cpushield run -- ./control", "run a program there"),
            ("cpushield verify --for 1m", "watch whether the shield holds"),
            ("cpushield undo", "put everything back"),
        ];
    };
    EXAMPLES.iter().find(|(of, _)| *of == name).map_or(&[], |(_, examples)| examples)
}

const EXAMPLES: &[(&str, &[Example])] = &[
    (
        "try",
        &[
            ("cpushield try", "5 seconds before and 5 seconds under a shield"),
            ("cpushield try --cpus 3 --for 1m", "this CPU, for longer"),
            ("cpushield try --price", "also what the shield costs all other programs"),
        ],
    ),
    (
        "survey",
        &[
            ("cpushield survey", "what this machine is, and what is isolated"),
            ("cpushield survey --record machine", "save a recording for another computer"),
            ("cpushield survey --root machine", "read the recording there"),
        ],
    ),
    (
        "plan",
        &[
            ("cpushield plan --count 2", "choose two CPUs and list the changes"),
            ("cpushield plan --cpus 2-3 -o shield.json", "save the plan for `apply`"),
            ("cpushield plan --near eth0 --workload cyclic -v", "show every command"),
            ("cpushield plan --boot --cpus 2-3", "kernel parameters for the next boot"),
        ],
    ),
    (
        "apply",
        &[
            ("cpushield apply --cpus 3", "shield CPU 3"),
            ("cpushield apply shield.json", "put a saved plan in force"),
            ("cpushield apply --cpus 3 --dry-run", "print the shell commands only"),
            ("cpushield apply --boot --trial", "boot once with the kernel parameters"),
        ],
    ),
    (
        "run",
        &[
            ("cpushield run -- ./control --rate 1000", "on the shielded CPU with fewest programs"),
            ("cpushield run --cpu 3 --fifo 80 -- ./control", "on CPU 3 with a real-time priority"),
            (
                "cpushield run --spread --user ada -- ./solver",
                "a thread for each CPU, as this user",
            ),
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
            ("cpushield remove $(pidof control)", "every process of this name"),
        ],
    ),
    (
        "status",
        &[
            ("cpushield status", "the shield and what is on its CPUs"),
            ("cpushield status --json", "the same for a program"),
            ("cpushield status --boot", "kernel parameters: written, booted, in force"),
        ],
    ),
    (
        "verify",
        &[
            ("cpushield verify", "watch the shield for 10 seconds"),
            ("cpushield verify --for 10m --max-entries 5", "with a limit"),
            ("cpushield verify --cpus 3 -- ./control", "with a program instead of a busy loop"),
            ("cpushield verify --fix", "remove what leaks, and look again"),
        ],
    ),
    (
        "latency",
        &[
            ("cpushield latency timer", "as cyclictest measures it, on the shield"),
            ("cpushield latency timer --for 1h --max 50us", "with a limit"),
            ("cpushield latency spin --cpus 3 --load all", "while the other CPUs are busy"),
            ("cpushield latency timer --why -o after.json", "name what ran meanwhile; save it"),
        ],
    ),
    (
        "compare",
        &[
            ("cpushield compare before.json after.json", "two runs"),
            (
                "cpushield compare off=a1.json,a2.json,a3.json,a4.json \
                 on=b1.json,b2.json,b3.json,b4.json",
                "repeated runs, which tell a difference from chance",
            ),
        ],
    ),
    (
        "trial",
        &[
            ("cpushield trial matrix.toml --dry-run", "the order and how long it takes"),
            ("cpushield trial matrix.toml --reboot -o result.json", "measure, through reboots"),
            ("cpushield trial --status", "what was measured so far"),
        ],
    ),
    (
        "watch",
        &[
            ("cpushield watch", "all CPUs, once a second"),
            ("cpushield watch --trace", "with the names of what interrupts the shield"),
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
    (
        "undo",
        &[
            ("cpushield undo", "take the shield down and put everything back"),
            ("cpushield undo --boot", "take back kernel parameters"),
        ],
    ),
    (
        "explain",
        &[
            ("cpushield explain", "list all pages"),
            ("cpushield explain irq-affinity", "what a tunable does"),
            ("cpushield explain vmstat_update", "what a function of the kernel means"),
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
            ("source <(cpushield completions bash)", "in this shell"),
            (
                "cpushield completions fish > ~/.config/fish/completions/cpushield.fish",
                "in every shell that starts later",
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
    if name.is_none_or(|name| WITH_CODES.contains(&name)) {
        text.push_str("\nExit codes:\n");
        for (code, what) in exit_codes(name) {
            text.push_str(&format!("  {code:<4} {what}\n"));
        }
    }
    if name.is_none() {
        text.push_str("  `cpushield run` has those of the program: see `cpushield run --help`\n");
    }
    text
}

/// Subcommands whose exit code is an answer.
const WITH_CODES: &[&str] = &["try", "apply", "run", "status", "verify", "latency", "undo"];
