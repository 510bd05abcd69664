//! The only printing. Results go to standard output, status, warnings and errors to standard error;
//! colour only on a terminal and never with `NO_COLOR`.

use crate::failure::{Failure, Kind};
use anstyle::{AnsiColor, Style};
use serde::Serialize;
use std::io::{self, Write};

/// How results are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Text for people.
    Text,
    /// One JSON document.
    Json,
}

/// Where and how a command shows what it has to say.
#[derive(Debug, Clone, Copy)]
pub struct Ui {
    /// Text or JSON.
    pub format: Format,
    /// Only results, warnings and errors.
    pub quiet: bool,
}

/// Emphasis by meaning, not by colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
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

impl Tone {
    fn style(self) -> Style {
        let colour = |c: AnsiColor| Style::new().fg_color(Some(c.into()));
        match self {
            Tone::Good => colour(AnsiColor::Green).bold(),
            Tone::Bad => colour(AnsiColor::Red).bold(),
            Tone::Doubt => colour(AnsiColor::Yellow).bold(),
            Tone::Head => Style::new().bold(),
            Tone::Dim => Style::new().dimmed(),
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
            Format::Text => text(),
            Format::Json => serde_json::to_string_pretty(document)
                .map_err(|e| Failure::new(Kind::Bug, format!("cannot make JSON: {e}")))?,
        };
        print(&out)
    }

    /// A line about what is being done, on standard error; not when quiet.
    pub fn status(&self, line: &str) {
        if !self.quiet {
            say(line);
        }
    }

    /// A warning, on standard error.
    pub fn warn(&self, line: &str) {
        say(&format!("{}: {line}", Tone::Doubt.paint("warning")));
    }
}

/// Shows a failure, on standard error.
pub fn show_failure(failure: &Failure) {
    say(&format!("{}: {failure}", Tone::Bad.paint("error")));
}

fn say(line: &str) {
    // Nowhere is left to tell that standard error is closed.
    let _ = writeln!(anstream::stderr(), "{line}");
}

fn print(text: &str) -> Result<(), Failure> {
    let mut out = anstream::stdout().lock();
    let done = out
        .write_all(text.as_bytes())
        .and_then(|()| if text.ends_with('\n') { Ok(()) } else { out.write_all(b"\n") });
    match done.and_then(|()| out.flush()) {
        // The reader of the pipe has seen enough (`cpushield survey | head`).
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(Failure::machine(format!("cannot write the result: {error}"))),
        Ok(()) => Ok(()),
    }
}
