//! The only module that prints. Results go to standard output; status, warnings and errors go to
//! standard error. Colour is used only on a terminal and never with `NO_COLOR`.

use crate::failure::{Failure, FailureKind};
use crate::json::{to_json, to_json_line};
use anstyle::{AnsiColor, Style};
use cpushield_linux::processes::process;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use serde_json::Value;
use std::cell::Cell;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

/// The width when standard output is not a terminal: files are read in wide windows or searched,
/// and a search does not find a line that is broken in two.
const WIDTH: usize = 120;

/// How results are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputFormat {
    /// Plain text.
    Text,
    /// One JSON document.
    Json,
}

/// Whether status lines and progress are shown on standard error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatusLines {
    /// They are shown.
    Shown,
    /// They are suppressed, as with `--quiet`.
    Suppressed,
}

/// How a command shows its results, status and errors.
#[derive(Debug)]
pub struct Ui {
    /// The format of results.
    pub format: OutputFormat,
    /// Whether status lines are shown.
    pub status_lines: StatusLines,
    /// Whether something was already written to standard output.
    shown: Cell<bool>,
}

/// A failure as a JSON document. Programs read it, so its form is stable.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FailureDocument<'a> {
    /// The version of the schema.
    schema: u32,
    /// The failure.
    error: FailureFields<'a>,
}

/// The failure of a [`FailureDocument`].
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FailureFields<'a> {
    /// The kind.
    kind: FailureKind,
    /// The exit code of the command.
    exit_code: u8,
    /// Why: a tag with the facts of the refusal. Absent where only the message says it.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a Value>,
    /// The message, in one or more lines.
    message: &'a str,
    /// What to do next.
    hints: &'a [String],
}

/// Emphasis by meaning, not by colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Emphasis {
    /// Holds, restored.
    Good,
    /// Leaks, refused.
    Bad,
    /// Unknown, warnings.
    Doubt,
    /// Headings.
    Head,
    /// Less important.
    Dim,
}

impl Emphasis {
    fn style(self) -> Style {
        let bold = Style::new().bold();
        match self {
            Emphasis::Good => bold.fg_color(Some(AnsiColor::Green.into())),
            Emphasis::Bad => bold.fg_color(Some(AnsiColor::Red.into())),
            Emphasis::Doubt => bold.fg_color(Some(AnsiColor::Yellow.into())),
            Emphasis::Head => bold,
            Emphasis::Dim => Style::new().dimmed(),
        }
    }

    /// The text with this emphasis. The stream strips the escapes where colour is not wanted.
    #[must_use]
    pub fn paint(self, text: &str) -> String {
        let style = self.style();
        format!("{style}{text}{style:#}")
    }
}

impl Ui {
    /// A `Ui` with this format.
    #[must_use]
    pub fn new(format: OutputFormat, status_lines: StatusLines) -> Ui {
        Ui { format, status_lines, shown: Cell::new(false) }
    }

    /// Shows a failure on standard error. With JSON output and nothing on standard output yet, it
    /// also writes an error document there, so that a reader of one document gets one.
    pub fn show_failure(&self, failure: &Failure) {
        print_to_stderr(&format!("{}: {failure}", Emphasis::Bad.paint("error")));
        if self.format != OutputFormat::Json || self.shown.get() {
            return;
        }
        let Failure { kind, message, hints, reason } = failure;
        let (exit_code, reason) = (kind.code(), reason.as_ref());
        let error = FailureFields { kind: *kind, exit_code, reason, message, hints };
        if let Ok(text) = serde_json::to_string_pretty(&FailureDocument { schema: 1, error }) {
            // Standard error has the failure even if this fails.
            let _ = self.print(&text);
        }
    }

    /// Shows a document as JSON or as its text.
    ///
    /// # Errors
    /// Standard output cannot be written; a closed pipe is not an error.
    pub fn show<T: Serialize>(
        &self,
        document: &T,
        text: impl FnOnce() -> String,
    ) -> Result<(), Failure> {
        let out = match self.format {
            OutputFormat::Text => text(),
            OutputFormat::Json => to_json(document)?,
        };
        self.print(&out).map(|_| ())
    }

    /// Shows a text unchanged.
    ///
    /// # Errors
    /// Standard output cannot be written; a closed pipe is not an error.
    pub fn text(&self, text: &str) -> Result<(), Failure> {
        self.print(text).map(|_| ())
    }

    /// Shows one document of many on one line; `false` when the reader has closed the pipe.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub fn line<T: Serialize>(&self, document: &T) -> Result<bool, Failure> {
        self.print(&to_json_line(document)?)
    }

    fn print(&self, text: &str) -> Result<bool, Failure> {
        self.shown.set(true);
        print(text)
    }

    /// Whether standard output is a terminal.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        io::stdout().is_terminal()
    }

    /// Whether standard output takes colours: not with `NO_COLOR`.
    #[must_use]
    pub fn is_coloured(&self) -> bool {
        anstream::AutoStream::choice(&io::stdout()) != anstream::ColorChoice::Never
    }

    /// Whether the locale has characters beyond ASCII.
    #[must_use]
    pub fn is_unicode(&self) -> bool {
        process::locale_is_utf8()
    }

    /// The columns of the terminal; `None` when standard output is not a terminal.
    #[must_use]
    pub fn columns(&self) -> Option<u16> {
        // Without a terminal, crossterm would start tput(1).
        let size = self.is_terminal().then(ratatui::crossterm::terminal::size)?;
        size.ok().map(|(columns, _)| columns)
    }

    /// The columns of the terminal; those of a wide one when standard output is not a terminal.
    #[must_use]
    pub fn width(&self) -> usize {
        self.columns().map_or(WIDTH, usize::from)
    }

    /// Shows a status line on standard error, unless quiet.
    pub fn status(&self, line: &str) {
        if self.status_lines == StatusLines::Shown {
            print_to_stderr(line);
        }
    }

    /// A progress line on a terminal, which disappears at the end.
    #[must_use]
    pub fn bar(&self) -> ProgressLine {
        let bar = ProgressBar::new(0);
        // The bar is hidden automatically when standard error is not a terminal.
        if self.status_lines == StatusLines::Suppressed {
            bar.set_draw_target(ProgressDrawTarget::hidden());
        }
        ProgressLine { bar }
    }

    /// Shows a warning on standard error.
    pub fn warn(&self, line: &str) {
        print_to_stderr(&format!("{}: {line}", Emphasis::Doubt.paint("warning")));
    }
}

/// A remaining time: `9 s`, `3 min 20 s`, `23 h 59 min`.
fn format_remaining(time: Duration) -> String {
    let seconds = time.as_millis().div_ceil(1000);
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    match (hours, minutes) {
        (0, 0) => format!("{seconds} s"),
        (0, _) => format!("{minutes} min {} s", seconds % 60),
        _ => format!("{hours} h {} min", minutes % 60),
    }
}

/// A progress line with the remaining time.
#[derive(Debug)]
pub struct ProgressLine {
    bar: ProgressBar,
}

impl ProgressLine {
    /// Shows a task of unknown length.
    pub fn show_task(&self, what: &str) {
        self.show("{msg} …", what);
    }

    /// Shows a task of which `done` out of `total` is over.
    pub fn show_progress(&self, what: &str, done: Duration, total: Duration) {
        let remaining = format_remaining(total.saturating_sub(done));
        self.bar.set_length(as_millis(total));
        self.bar.set_position(as_millis(done));
        self.show("{msg} [{bar:30}]", &format!("{what}, {remaining} left"));
    }

    fn show(&self, template: &str, message: &str) {
        if let Ok(style) = ProgressStyle::with_template(template) {
            self.bar.set_style(style.progress_chars("=> "));
        }
        self.bar.set_message(message.to_owned());
        self.bar.tick();
    }

    /// Removes the line.
    pub fn end(&self) {
        self.bar.finish_and_clear();
    }
}

fn as_millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn print_to_stderr(line: &str) {
    // A closed standard error cannot be reported anywhere.
    let _ = writeln!(anstream::stderr(), "{line}");
}

/// Writes to standard output; `false` when the reader has closed the pipe.
fn print(text: &str) -> Result<bool, Failure> {
    let mut out = anstream::stdout().lock();
    let done = out
        .write_all(text.as_bytes())
        .and_then(|()| if text.ends_with('\n') { Ok(()) } else { out.write_all(b"\n") });
    match done.and_then(|()| out.flush()) {
        // The reader of the pipe has seen enough (`cpushield survey | head`).
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::machine(format!("cannot write the result: {error}"))),
        Ok(()) => Ok(true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remaining_time_has_units_that_fit() {
        let texts = [8_001, 60_000, 200_000, 86_399_000]
            .map(|ms| format_remaining(Duration::from_millis(ms)));
        assert_eq!(texts, ["9 s", "1 min 0 s", "3 min 20 s", "23 h 59 min"]);
    }
}
