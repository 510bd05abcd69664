//! Counts pages of the timerlat tracer from two kernels and compares with the same kernels' text
//! form (`trace`). Recorded in guests.

use super::*;
use crate::latency::instruments::named;
use cpushield_linux::text::trace_format::EventFormat;
use cpushield_linux::trace::ring_buffer::PageLayout;

/// The records of 6.12-rt, and those of 6.1-rt, which has one more common field.
const FORMAT_6_12: &str = "name: timerlat
ID: 17
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;
\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

\tfield:unsigned int seqnum;\toffset:8;\tsize:4;\tsigned:0;
\tfield:int context;\toffset:12;\tsize:4;\tsigned:1;
\tfield:u64 timer_latency;\toffset:16;\tsize:8;\tsigned:0;
";
const FORMAT_6_1: &str = "name: timerlat
ID: 17
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;
\tfield:unsigned char common_preempt_lazy_count;\toffset:8;\tsize:1;\tsigned:0;

\tfield:unsigned int seqnum;\toffset:12;\tsize:4;\tsigned:0;
\tfield:int context;\toffset:16;\tsize:4;\tsigned:1;
\tfield:u64 timer_latency;\toffset:24;\tsize:8;\tsigned:0;
";
const PAGE_6_12: &[u8] = include_bytes!("6.12-rt.page");
const PAGE_6_1: &[u8] = include_bytes!("6.1-rt.page");

/// The first records in `trace`: the latencies of the interrupt and of the thread.
const TEXT_6_12: [&[u64]; 2] = [
    &[1_030_649, 227_053, 5_068_354, 58_170, 46_833, 43_692, 3_767_055],
    &[1_646_293, 246_270, 5_112_075, 74_505, 55_819, 51_965, 3_783_320],
];
const TEXT_6_1: [&[u64]; 2] = [
    &[81_081, 208_611, 28_745, 82_587, 100_698, 132_324, 684_121],
    &[757_840, 233_551, 61_216, 110_573, 150_015, 191_584, 788_631],
];

/// The counts of pages with these two stages.
struct CountedPage {
    board: LatencyBoard,
    recorders: Vec<ChannelRecorder>,
    lost: u64,
    torn: bool,
}

fn count_pages(format: &str, pages: &[&[u8]]) -> CountedPage {
    let tracer = named("kernel").unwrap().tracer.unwrap();
    let record_layout = RecordLayout::new(tracer, &EventFormat::parse(format).unwrap()).unwrap();
    let board = LatencyBoard::new(2).unwrap();
    let settings = ThreadSettings {
        cpu: 3,
        period_ns: 1_000_000,
        from_ns: 0,
        until_ns: u64::MAX,
        gives_up: false,
        limits_ns: [0; LIMITS],
    };
    let begin = |tally| ChannelRecorder {
        deferred: Some(DeferredRecorder::open(tally, settings)),
        ..ChannelRecorder::default()
    };
    let mut recorders: Vec<ChannelRecorder> = board.tallies().iter().map(begin).collect();
    let (mut lost, mut torn) = (0, false);
    let cpus = CpuSet::single(3);
    let job = TracerJob { cpus: &cpus, period_ns: 1_000_000 };
    for page in pages {
        let mut sink = PageSink { recorders: &mut recorders, lost: &mut lost, torn: &mut torn };
        sink.count_page(&PageLayout::COMMON, page, tracer, &record_layout, &job, board.tallies());
    }
    CountedPage { board, recorders, lost, torn }
}

/// The longest latencies of a stage, in nanoseconds.
fn longest(counted: &CountedPage, stage: usize) -> Vec<u64> {
    let worst = counted.board.tallies()[stage].figures().worst;
    worst.iter().map(|moment| moment.late_ns).collect()
}

#[test]
fn a_raw_page_has_the_same_latencies_as_the_kernels_text() {
    for (format, page, wanted) in
        [(FORMAT_6_12, PAGE_6_12, TEXT_6_12), (FORMAT_6_1, PAGE_6_1, TEXT_6_1)]
    {
        let counted = count_pages(format, &[page]);
        for (stage, wanted) in wanted.iter().enumerate() {
            let figures = counted.board.tallies()[stage].figures();
            let seen: Vec<u64> =
                counted.board.tallies()[stage].counts().map(|(late, _)| late).collect();
            for late in *wanted {
                let near = |seen: &u64| *seen <= *late && late - seen <= late >> 10;
                assert!(seen.iter().any(near), "{stage}: {late} of {seen:?}");
            }
            // A whole page: two records of each period, except at its end.
            assert!(figures.samples > 50 && counted.recorders[stage].missing == 0, "{figures:?}");
            let late: Vec<u64> = longest(&counted, stage);
            assert_eq!(figures.missed, missed(&counted, stage), "{late:?}");
        }
        assert_eq!((counted.lost, counted.torn), (0, false));
        let samples = [0, 1].map(|stage: usize| counted.board.tallies()[stage].figures().samples);
        assert!(samples[0].abs_diff(samples[1]) <= 1);
    }
}

/// Missed periods by the counted latencies.
fn missed(counted: &CountedPage, stage: usize) -> u64 {
    counted.board.tallies()[stage].counts().map(|(late, count)| late / 1_000_000 * count).sum()
}

#[test]
fn lost_and_damaged_records_are_noticed() {
    // The second copy of a page starts with lower numbers, so nearly all numbers are missing.
    let twice = count_pages(FORMAT_6_12, &[PAGE_6_12, PAGE_6_12]);
    assert!(twice.recorders.iter().all(|recorder| recorder.missing > 0));
    // RB_MISSED_EVENTS.
    let mut flagged = PAGE_6_12.to_vec();
    flagged[11] |= 0x80;
    assert!(count_pages(FORMAT_6_12, &[&flagged]).torn);
    // A truncated page.
    assert!(count_pages(FORMAT_6_12, &[&PAGE_6_12[..1000]]).torn);
    // An unknown stage.
    let mut odd = PAGE_6_12.to_vec();
    let context = 16 + 4 + 12;
    let first = count_pages(FORMAT_6_12, &[PAGE_6_12]).board.tallies()[0].figures().samples;
    odd[context] = 9;
    let other = count_pages(FORMAT_6_12, &[&odd]);
    assert!(other.torn && other.board.tallies()[0].figures().samples < first, "{first}");
}
