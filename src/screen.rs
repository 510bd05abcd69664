//! The terminal as a screen of its own: taken over, drawn on, and in any case given back as it was.
//! What is drawn is somebody else's matter.

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::{DefaultTerminal, Frame};
use std::io;
use std::time::{Duration, Instant};

/// What the user wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// To leave: `q`, Esc, Ctrl-C, Ctrl-D.
    Quit,
    /// Up by so many lines, or down when negative.
    Up(isize),
    /// Any other letter.
    Letter(char),
    /// To see it anew: the size has changed.
    Redraw,
}

/// The terminal while it is ours. Given back when this is dropped, and before a panic is told.
#[derive(Debug)]
pub struct Screen {
    terminal: DefaultTerminal,
}

/// A page of scrolling.
const PAGE: isize = 10;

impl Screen {
    /// Takes the terminal over.
    ///
    /// # Errors
    /// There is none, or it does not do what is asked.
    pub fn take() -> io::Result<Screen> {
        Ok(Screen { terminal: ratatui::try_init()? })
    }

    /// Draws anew.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn draw(&mut self, view: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        self.terminal.draw(view).map(|_| ())
    }

    /// Waits for a key, at most so long. A signal ends the waiting early.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn wait(&mut self, time: Duration) -> io::Result<Option<Key>> {
        let until = Instant::now() + time;
        match event::poll(until.saturating_duration_since(Instant::now())) {
            Ok(false) => Ok(None),
            Ok(true) => Ok(meaning(&event::read()?)),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Nobody is left to tell when the terminal is gone.
        let _ = ratatui::try_restore();
    }
}

fn meaning(event: &Event) -> Option<Key> {
    let key = match event {
        Event::Resize(..) => return Some(Key::Redraw),
        Event::Key(key) if key.kind != KeyEventKind::Release => key,
        _ => return None,
    };
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    match key.code {
        KeyCode::Char('c' | 'd') if control => Some(Key::Quit),
        KeyCode::Char('q') | KeyCode::Esc => Some(Key::Quit),
        KeyCode::Up | KeyCode::Char('k') => Some(Key::Up(1)),
        KeyCode::Down | KeyCode::Char('j') => Some(Key::Up(-1)),
        KeyCode::PageUp => Some(Key::Up(PAGE)),
        KeyCode::PageDown => Some(Key::Up(-PAGE)),
        KeyCode::Home => Some(Key::Up(isize::MAX)),
        KeyCode::Char(letter) => Some(Key::Letter(letter)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::crossterm::event::KeyEvent;

    #[test]
    fn every_usual_way_out_is_a_way_out() {
        let key = |code, modifiers| meaning(&Event::Key(KeyEvent::new(code, modifiers)));
        let none = KeyModifiers::NONE;
        assert_eq!(key(KeyCode::Char('q'), none), Some(Key::Quit));
        assert_eq!(key(KeyCode::Esc, none), Some(Key::Quit));
        assert_eq!(key(KeyCode::Char('c'), KeyModifiers::CONTROL), Some(Key::Quit));
        assert_eq!(key(KeyCode::Char('d'), KeyModifiers::CONTROL), Some(Key::Quit));
        assert_eq!(key(KeyCode::Char('c'), none), Some(Key::Letter('c')));
        assert_eq!(key(KeyCode::Down, none), Some(Key::Up(-1)));
        assert_eq!(meaning(&Event::Resize(80, 24)), Some(Key::Redraw));
        assert_eq!(meaning(&Event::FocusLost), None);
    }
}
