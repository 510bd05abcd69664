//! A tally without a loop: its events come from the kernel's records.

use super::{Book, Tally, Terms, Wake};
use std::sync::atomic::Ordering;

/// The loop's side of a tally where there is no loop: who keeps it learns of the events afterwards,
/// from the kernel's records.
#[derive(Debug, Clone, Copy)]
pub struct Ledger {
    terms: Terms,
    bar: u64,
    last: u64,
}

impl Ledger {
    /// Begins to keep the tally.
    #[must_use]
    pub fn open(tally: &Tally, terms: Terms) -> Ledger {
        tally.stage.store(1, Ordering::Release);
        Ledger { terms, bar: 0, last: 0 }
    }

    /// An event, in the order of their times.
    pub fn enter(&mut self, tally: &Tally, wake: Wake) {
        let Ledger { terms, bar, last } = *self;
        // Where this runs says nothing about where the event was.
        let mut book = Book { tally, terms, bar, moment: 0, last, knows_cpu: false };
        book.enter(wake);
        (self.bar, self.last) = (book.bar, book.last);
    }

    /// Nothing more comes.
    pub fn close(self, tally: &Tally) {
        tally.stage.store(2, Ordering::Release);
    }
}
