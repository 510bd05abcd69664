//! Counts the records of each event between two reads of the counters that the trace is compared
//! with. The moment of a read is known only as a span. Pure.

use cpushield_linux::sys::clock::ClockTicks;

/// The span of one read of the counters, on the clock of the trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadSpan {
    /// Just before it.
    pub begun: ClockTicks,
    /// Just after it.
    pub ended: ClockTicks,
}

/// The records of one CPU between two reads.
#[derive(Debug, Default)]
pub struct RecordWindow {
    first: Option<ReadSpan>,
    last: Option<ReadSpan>,
    /// Records between the reads, and records during them, by place in the catalogue.
    between: Vec<u64>,
    during: Vec<u64>,
}

impl RecordWindow {
    /// Opens the window after the first read. Records older than its end may still arrive.
    pub fn open(&mut self, first: ReadSpan) {
        *self = RecordWindow { first: Some(first), ..RecordWindow::default() };
    }

    /// Closes the window after the last read. No record younger than its start has arrived yet.
    pub fn close(&mut self, last: ReadSpan) {
        self.last = Some(last);
    }

    /// Counts the next record, of the event at this place in the catalogue.
    pub fn record(&mut self, place: usize, at: ClockTicks) {
        let Some(first) = self.first.filter(|first| at >= first.begun) else { return };
        let counts = match self.last {
            _ if at <= first.ended => &mut self.during,
            Some(last) if at > last.ended => return,
            Some(last) if at >= last.begun => &mut self.during,
            _ => &mut self.between,
        };
        if counts.len() <= place {
            counts.resize(place + 1, 0);
        }
        counts[place] += 1;
    }

    /// The number of records of an event between the reads, and between and during them.
    #[must_use]
    pub fn bounds(&self, place: usize) -> (u64, u64) {
        let between = self.between.get(place).copied().unwrap_or(0);
        let during = self.during.get(place).copied().unwrap_or(0);
        (between, between + during)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(begun: u64, ended: u64) -> ReadSpan {
        ReadSpan { begun: ClockTicks(begun), ended: ClockTicks(ended) }
    }

    #[test]
    fn records_during_a_read_may_be_counted_and_those_outside_are_not() {
        let mut window = RecordWindow::default();
        window.record(0, ClockTicks(5));
        assert_eq!(window.bounds(0), (0, 0), "nothing was read yet");
        window.open(read(10, 20));
        for at in [9, 10, 20, 21, 30] {
            window.record(2, ClockTicks(at));
        }
        window.close(read(40, 50));
        for at in [39, 40, 50, 51] {
            window.record(2, ClockTicks(at));
        }
        assert_eq!(window.bounds(2), (3, 7));
        assert_eq!(window.bounds(1), (0, 0));
        assert_eq!(window.bounds(9), (0, 0));
        window.open(read(60, 70));
        assert_eq!(window.bounds(2), (0, 0), "a new window begins with nothing");
    }
}
