//! Pages of the timerlat tracer as two kernels wrote them, counted, against what the same kernels
//! said of them in words (`trace`). Recorded in guests.

use super::*;
use crate::latency::instruments::by_name;
use cpushield_linux::text::trace_format::EventFormat;

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

/// What `trace` said of the first records: the interrupt's latencies, the thread's.
const WORDS_6_12: [&[u64]; 2] = [
    &[1_030_649, 227_053, 5_068_354, 58_170, 46_833, 43_692, 3_767_055],
    &[1_646_293, 246_270, 5_112_075, 74_505, 55_819, 51_965, 3_783_320],
];
const WORDS_6_1: [&[u64]; 2] = [
    &[81_081, 208_611, 28_745, 82_587, 100_698, 132_324, 684_121],
    &[757_840, 233_551, 61_216, 110_573, 150_015, 191_584, 788_631],
];

/// What a page of these two stages came to.
struct CountedPage {
    board: LatencyBoard,
    books: Vec<ChannelRecorder>,
    lost: u64,
    torn: bool,
}

fn counted(format: &str, pages: &[&[u8]]) -> CountedPage {
    let tracer = by_name("kernel").unwrap().tracer().unwrap();
    let form = RecordLayout::new(tracer, &EventFormat::parse(format).unwrap()).unwrap();
    let board = LatencyBoard::new(2).unwrap();
    let terms = ThreadSettings {
        cpu: 3,
        period_ns: 1_000_000,
        from_ns: 0,
        until_ns: u64::MAX,
        gives_up: false,
        limits_ns: [0; LIMITS],
    };
    let begin = |tally| ChannelRecorder {
        ledger: Some(DeferredRecorder::open(tally, terms)),
        ..ChannelRecorder::default()
    };
    let mut books: Vec<ChannelRecorder> = board.tallies().iter().map(begin).collect();
    let (mut lost, mut torn) = (0, false);
    let cpus = CpuSet::one(3);
    let job = TracerJob { cpus: &cpus, period_ns: 1_000_000 };
    for page in pages {
        let mut into = PageSink { books: &mut books, lost: &mut lost, torn: &mut torn };
        into.page(&PageLayout::COMMON, page, tracer, &form, &job, board.tallies());
    }
    CountedPage { board, books, lost, torn }
}

/// The longest of a stage, each in nanoseconds.
fn longest(counted: &CountedPage, stage: usize) -> Vec<u64> {
    let worst = counted.board.tallies()[stage].figures().worst;
    worst.iter().map(|moment| moment.late_ns).collect()
}

#[test]
fn a_page_says_what_the_kernel_says_of_it_in_words() {
    for (format, page, wanted) in
        [(FORMAT_6_12, PAGE_6_12, WORDS_6_12), (FORMAT_6_1, PAGE_6_1, WORDS_6_1)]
    {
        let counted = counted(format, &[page]);
        for (stage, wanted) in wanted.iter().enumerate() {
            let figures = counted.board.tallies()[stage].figures();
            let seen: Vec<u64> = counted.board.tallies()[stage].counts().map(|it| it.0).collect();
            for late in *wanted {
                let near = |seen: &u64| *seen <= *late && late - seen <= late >> 10;
                assert!(seen.iter().any(near), "{stage}: {late} of {seen:?}");
            }
            // Whole page: two records of each period but where it ends.
            assert!(figures.samples > 50 && counted.books[stage].gone == 0, "{figures:?}");
            let late: Vec<u64> = longest(&counted, stage);
            assert_eq!(figures.missed, missed(&counted, stage), "{late:?}");
        }
        assert_eq!((counted.lost, counted.torn), (0, false));
        let of = |stage: usize| counted.board.tallies()[stage].figures().samples;
        assert!(of(0).abs_diff(of(1)) <= 1);
    }
}

/// Periods that went by, by what was counted.
fn missed(counted: &CountedPage, stage: usize) -> u64 {
    counted.board.tallies()[stage].counts().map(|(late, count)| late / 1_000_000 * count).sum()
}

#[test]
fn records_that_are_not_there_are_missed() {
    // The same page twice goes back in its numbers, so nearly all numbers are missing.
    let twice = counted(FORMAT_6_12, &[PAGE_6_12, PAGE_6_12]);
    assert!(twice.books.iter().all(|book| book.gone > 0));
    // RB_MISSED_EVENTS.
    let mut flagged = PAGE_6_12.to_vec();
    flagged[11] |= 0x80;
    assert!(counted(FORMAT_6_12, &[&flagged]).torn);
    // The rest of a page that was cut.
    assert!(counted(FORMAT_6_12, &[&PAGE_6_12[..1000]]).torn);
    // A stage that this kernel was not asked for.
    let mut odd = PAGE_6_12.to_vec();
    let context = 16 + 4 + 12;
    let first = counted(FORMAT_6_12, &[PAGE_6_12]).board.tallies()[0].figures().samples;
    odd[context] = 9;
    let other = counted(FORMAT_6_12, &[&odd]);
    assert!(other.torn && other.board.tallies()[0].figures().samples < first, "{first}");
}
