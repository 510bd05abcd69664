//! The end of every help text and man page: examples, units of time and exit codes. Each
//! subcommand has a [`HelpTail`] in its own file.

/// An example: the command, and a description.
pub type HelpExample = (&'static str, &'static str);

/// An exit code, and what it means.
pub type ExitCode = (&'static str, &'static str);

/// The exit code of invalid usage.
pub(super) const USAGE: ExitCode = ("2", "invalid usage or input");
/// The exit code of a bug.
pub(super) const BUG: ExitCode = ("70", "a bug in cpushield");

/// The general exit codes. A bug has a code of its own (`EX_SOFTWARE` of sysexits.h), so that a
/// script never mistakes it for a result.
pub const EXIT_CODES: &[ExitCode] = &[
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

/// The exit codes of a subcommand that changes nothing and judges nothing.
pub(super) const READING: &[ExitCode] = &[
    ("0", "success"),
    USAGE,
    ("3", "failure: the machine or a file cannot be read or written, or lacks what is needed"),
    BUG,
];

/// The end of the help of a subcommand. Times are added where an option takes a TIME.
#[derive(Debug)]
pub struct HelpTail {
    /// Its examples.
    pub examples: &'static [HelpExample],
    /// The table of exit codes.
    pub exit_codes: &'static [ExitCode],
}

/// The end of the help of `cpushield` itself.
pub(super) const COMMAND: HelpTail = HelpTail {
    examples: &[
        ("cpushield try", "shield a CPU for a few seconds and see the effect"),
        ("cpushield apply --count 1", "shield a CPU that cpushield chooses"),
        ("cpushield run -- ./control", "run a program in the shield"),
        ("cpushield verify --for 1m", "verify the shield for a minute"),
        ("cpushield undo", "restore the original settings"),
    ],
    exit_codes: EXIT_CODES,
};

impl HelpTail {
    /// The text for `--help`.
    pub(super) fn text(&self, takes_time: bool) -> String {
        let mut text = "Examples:\n".to_owned();
        for (command, what) in self.examples {
            text.push_str(&format!("  {command}\n      {what}\n"));
        }
        if takes_time {
            text.push_str(&format!("\nTimes:\n  {TIMES}\n"));
        }
        text.push_str("\nExit codes:\n");
        for (code, what) in self.exit_codes {
            text.push_str(&format!("  {code:<4} {what}\n"));
        }
        text
    }
}

/// The last line of the help of `cpushield` itself.
pub(super) const RUN_EXIT_CODE: &str =
    "  `cpushield run` returns the program's exit code: see `cpushield run --help`\n";

/// The form of every TIME.
pub(super) const TIMES: &str = "TIME is a number with a unit: 800ns, 5us, 1.5ms, 30s, 10m, 1h, 1d";

/// Whether a subcommand has an option that takes a TIME.
pub(super) fn takes_time(command: &clap::Command) -> bool {
    let mut names = command.get_arguments().filter_map(clap::Arg::get_value_names).flatten();
    names.any(|name| name == "TIME")
}
