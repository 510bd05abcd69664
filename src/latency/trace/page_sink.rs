//! Adds the pages of a tracer's buffer to the latency figures of each stage.

use crate::latency::tracer::{LatencyTracer, RecordLayout, TracerJob, TracerRecord, TracerSample};
use cpushield_linux::shared_memory::latency_stats::{DeferredRecorder, LatencyStats};
use cpushield_linux::trace::ring_buffer::{self, LostRecords, PageLayout};

/// The events of one stage on one CPU.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ChannelRecorder {
    pub(super) deferred: Option<DeferredRecorder>,
    /// The sequence number of the last event.
    pub(super) last: Option<u32>,
    /// When it was due.
    pub(super) due_ns: u64,
    /// Events whose sequence numbers never came.
    pub(super) missing: u64,
}

/// The counters that a page is added to.
pub(super) struct PageSink<'a> {
    pub(super) recorders: &'a mut [ChannelRecorder],
    pub(super) lost: &'a mut u64,
    pub(super) torn: &'a mut bool,
}

impl PageSink<'_> {
    /// Adds the samples of one page.
    pub(super) fn count_page(
        &mut self,
        layout: &PageLayout,
        page: &[u8],
        tracer: &dyn LatencyTracer,
        record_layout: &RecordLayout,
        job: &TracerJob<'_>,
        tallies: &[LatencyStats],
    ) {
        let page = ring_buffer::decode(layout, page);
        match page.lost {
            LostRecords::Nothing => {}
            LostRecords::Count(count) => *self.lost = self.lost.saturating_add(count),
            LostRecords::Some => *self.torn = true,
        }
        let mut records = page.records();
        for record in records.by_ref() {
            match record_layout.read(tracer, record.bytes, record.timestamp, job) {
                TracerRecord::Sample(sample) => self.enter(&sample, tallies),
                TracerRecord::Foreign => {}
                TracerRecord::Odd => *self.torn = true,
            }
        }
        *self.torn |= records.skipped() > 0;
    }

    fn enter(&mut self, sample: &TracerSample, tallies: &[LatencyStats]) {
        let (Some(recorder), Some(tally)) =
            (self.recorders.get_mut(sample.stage), tallies.get(sample.stage))
        else {
            *self.torn = true;
            return;
        };
        if let (Some(last), Some(number)) = (recorder.last, sample.number) {
            recorder.missing += u64::from(number.wrapping_sub(last).wrapping_sub(1));
        }
        recorder.last = sample.number;
        recorder.due_ns = sample.wake.due_ns;
        if let Some(deferred) = &mut recorder.deferred {
            deferred.record(tally, sample.wake);
        }
    }
}
