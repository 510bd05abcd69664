//! The only module that prints. Results go to standard output; status, warnings and errors go to
//! standard error. Colour is used only on a terminal and never with `NO_COLOR`.

use crate::failure::{Failure, FailureKind};
use crate::json::{to_json, to_json_line};
use crate::report::blocks::TextTone;
use crate::report::table::truncate;
use anstyle::{AnsiColor, Style};
use cpushield_linux::processes::process;
use cpushield_linux::sys::terminal;
use serde::Serialize;
use serde_json::Value;
use std::cell::{Cell, RefCell};
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

/// Colours words by their meaning. The stream strips the escapes where colour is not wanted.
#[must_use]
pub fn paint(tone: TextTone, words: &str) -> String {
    let bold = Style::new().bold();
    let style = match tone {
        TextTone::Plain => return words.to_owned(),
        TextTone::Good => bold.fg_color(Some(AnsiColor::Green.into())),
        TextTone::Bad => bold.fg_color(Some(AnsiColor::Red.into())),
        TextTone::Doubt => bold.fg_color(Some(AnsiColor::Yellow.into())),
        TextTone::Head => bold,
        TextTone::Dim => Style::new().dimmed(),
    };
    format!("{style}{words}{style:#}")
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
        print_to_stderr(&format!("{}: {failure}", paint(TextTone::Bad, "error")));
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
        terminal::size(&io::stdout()).map(|(columns, _)| columns)
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
        let is_shown = self.status_lines == StatusLines::Shown && io::stderr().is_terminal();
        ProgressLine { is_shown, drawn: RefCell::default() }
    }

    /// Shows a warning on standard error.
    pub fn warn(&self, line: &str) {
        print_to_stderr(&format!("{}: {line}", paint(TextTone::Doubt, "warning")));
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

/// The columns of the bar of a progress line.
const BAR: usize = 30;

/// A progress line with the remaining time. Dropping it removes the line.
#[derive(Debug)]
pub struct ProgressLine {
    is_shown: bool,
    drawn: RefCell<String>,
}

impl ProgressLine {
    /// Shows a task of unknown length.
    pub fn show_task(&self, what: &str) {
        self.draw(&format!("{what} …"));
    }

    /// Shows a task of which `done` out of `total` is over.
    pub fn show_progress(&self, what: &str, done: Duration, total: Duration) {
        let remaining = format_remaining(total.saturating_sub(done));
        let bar = format_bar(done, total);
        self.draw(&format!("{what}, {remaining} left [{bar}]"));
    }

    /// Removes the line.
    pub fn end(&self) {
        self.draw("");
    }

    fn draw(&self, text: &str) {
        if !self.is_shown {
            return;
        }
        let columns = terminal::size(&io::stderr()).map_or(WIDTH, |(columns, _)| columns.into());
        let text = truncate(text, columns.saturating_sub(1));
        if *self.drawn.borrow() != text {
            // Its first column, and no rest of the line before. A failure has nowhere to go.
            let _ = write!(io::stderr(), "\r{text}\x1b[K");
            self.drawn.replace(text);
        }
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        self.end();
    }
}

/// What is done as a bar.
fn format_bar(done: Duration, total: Duration) -> String {
    let done = done.min(total).as_millis() * BAR as u128 / total.as_millis().max(1);
    let bar = "=".repeat(usize::try_from(done).unwrap_or(BAR)) + ">";
    format!("{bar:<BAR$.BAR$}")
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

    #[test]
    fn a_bar_is_as_long_as_what_is_done() {
        let total = Duration::from_secs(60);
        for (done_s, bar) in
            [(0, ">".to_owned()), (20, "==========>".to_owned()), (99, "=".repeat(30))]
        {
            assert_eq!(format_bar(Duration::from_secs(done_s), total), format!("{bar:<30}"));
        }
        assert_eq!(format_bar(Duration::ZERO, Duration::ZERO).len(), BAR);
    }
}
