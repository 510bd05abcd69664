//! The only printing. Results go to standard output, status, warnings and errors to standard error;
//! colour only on a terminal and never with `NO_COLOR`.

use crate::failure::{Failure, FailureKind};
use anstyle::{AnsiColor, Style};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use std::cell::Cell;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

/// Columns where standard output is no terminal: a file is looked at in a wide window, or searched,
/// and a line that is cut in two is found by nobody.
const WIDTH: usize = 120;

/// How results are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputFormat {
    /// Text for people.
    Text,
    /// One JSON document.
    Json,
}

/// Where and how a command shows what it has to say.
#[derive(Debug)]
pub struct Ui {
    /// Text or JSON.
    pub format: OutputFormat,
    /// Only results, warnings and errors.
    pub quiet: bool,
    /// Whether something is on standard output already.
    shown: Cell<bool>,
}

/// A failure as a document. Its form stays: programs read it.
#[derive(Debug, Serialize)]
struct FailureDocument<'a> {
    schema: u32,
    error: FailureFields<'a>,
}

#[derive(Debug, Serialize)]
struct FailureFields<'a> {
    kind: FailureKind,
    exit_code: u8,
    message: &'a str,
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
        let colour = |c: AnsiColor| Style::new().fg_color(Some(c.into()));
        match self {
            Emphasis::Good => colour(AnsiColor::Green).bold(),
            Emphasis::Bad => colour(AnsiColor::Red).bold(),
            Emphasis::Doubt => colour(AnsiColor::Yellow).bold(),
            Emphasis::Head => Style::new().bold(),
            Emphasis::Dim => Style::new().dimmed(),
        }
    }

    /// The text in this tone; the escapes vanish where they are not wanted.
    #[must_use]
    pub fn paint(self, text: &str) -> String {
        let style = self.style();
        format!("{style}{text}{style:#}")
    }
}

impl Ui {
    /// One that shows results so; `quiet`: nothing but results, warnings and errors.
    #[must_use]
    pub fn new(format: OutputFormat, quiet: bool) -> Ui {
        Ui { format, quiet, shown: Cell::new(false) }
    }

    /// Shows a failure, on standard error. Where JSON was asked for and nothing is on standard
    /// output yet, a document about it goes there: what reads one document gets one.
    pub fn show_failure(&self, failure: &Failure) {
        say(&format!("{}: {failure}", Emphasis::Bad.paint("error")));
        if self.format != OutputFormat::Json || self.shown.get() {
            return;
        }
        let Failure { kind, message, hints } = failure;
        let error = FailureFields { kind: *kind, exit_code: kind.code(), message, hints };
        if let Ok(text) = serde_json::to_string_pretty(&FailureDocument { schema: 1, error }) {
            // The failure is told on standard error, whatever becomes of this.
            let _ = self.print(&text);
        }
    }

    /// Shows a document: as JSON, or by its text.
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
            OutputFormat::Json => serde_json::to_string_pretty(document)
                .map_err(|e| Failure::new(FailureKind::Bug, format!("cannot make JSON: {e}")))?,
        };
        self.print(&out).map(|_| ())
    }

    /// Shows a text as it is.
    ///
    /// # Errors
    /// Standard output cannot be written; a closed pipe is not an error.
    pub fn text(&self, text: &str) -> Result<(), Failure> {
        self.print(text).map(|_| ())
    }

    /// Shows one document of many, on a line of its own; `false` when nobody reads any more.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub fn line<T: Serialize>(&self, document: &T) -> Result<bool, Failure> {
        let line = serde_json::to_string(document)
            .map_err(|e| Failure::new(FailureKind::Bug, format!("cannot make JSON: {e}")))?;
        self.print(&line)
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

    /// Columns of the terminal; `None` where standard output is none.
    #[must_use]
    pub fn columns(&self) -> Option<u16> {
        let size = ratatui::crossterm::terminal::size();
        size.ok().filter(|_| self.is_terminal()).map(|(columns, _)| columns)
    }

    /// Columns of the terminal; those of a wide one where standard output is none.
    #[must_use]
    pub fn width(&self) -> usize {
        self.columns().map_or(WIDTH, usize::from)
    }

    /// A line about what is being done, on standard error; not when quiet.
    pub fn status(&self, line: &str) {
        if !self.quiet {
            say(line);
        }
    }

    /// What is going on, on a terminal: one line that changes and vanishes at its end.
    #[must_use]
    pub fn bar(&self) -> ProgressLine {
        let bar = ProgressBar::new(0);
        // Standard error that is no terminal hides it by itself.
        if self.quiet {
            bar.set_draw_target(ProgressDrawTarget::hidden());
        }
        ProgressLine { bar }
    }

    /// A warning, on standard error.
    pub fn warn(&self, line: &str) {
        say(&format!("{}: {line}", Emphasis::Doubt.paint("warning")));
    }
}

/// A time as it is waited for: `9 s`, `3 min 20 s`, `23 h 59 min`.
fn left(time: Duration) -> String {
    let seconds = time.as_millis().div_ceil(1000);
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    match (hours, minutes) {
        (0, 0) => format!("{seconds} s"),
        (0, _) => format!("{minutes} min {} s", seconds % 60),
        _ => format!("{hours} h {} min", minutes % 60),
    }
}

/// A line about progress, with the time that is left.
#[derive(Debug)]
pub struct ProgressLine {
    bar: ProgressBar,
}

impl ProgressLine {
    /// Doing something of which the length is not known.
    pub fn tell(&self, what: &str) {
        self.show("{msg} …", what);
    }

    /// So much of it is done.
    pub fn part(&self, what: &str, done: Duration, of: Duration) {
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let left = left(of.saturating_sub(done));
        self.bar.set_length(ms(of));
        self.bar.set_position(ms(done));
        self.show("{msg} [{bar:30}]", &format!("{what}, {left} left"));
    }

    fn show(&self, template: &str, message: &str) {
        if let Ok(style) = ProgressStyle::with_template(template) {
            self.bar.set_style(style.progress_chars("=> "));
        }
        self.bar.set_message(message.to_owned());
        self.bar.tick();
    }

    /// The line vanishes.
    pub fn end(&self) {
        self.bar.finish_and_clear();
    }
}

fn say(line: &str) {
    // Nowhere is left to tell that standard error is closed.
    let _ = writeln!(anstream::stderr(), "{line}");
}

/// `false` when the reader is gone.
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
    fn what_is_left_is_told_in_units_that_fit() {
        let told = |ms| left(Duration::from_millis(ms));
        assert_eq!([told(8_001), told(60_000)], ["9 s", "1 min 0 s"]);
        assert_eq!([told(200_000), told(86_399_000)], ["3 min 20 s", "23 h 59 min"]);
    }
}
