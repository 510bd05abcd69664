//! Pages of the kernel's trace ring buffer, as `per_cpu/cpuN/trace_pipe_raw` gives them. Pure:
//! bytes in, records out, nothing read.
//!
//! The form is that of kernel/trace/ring_buffer.c (4.17 to 6.18): a page begins with the time of
//! its first record and the number of bytes committed, whose two highest bits say that records were
//! lost before this page and that their number stands behind the data. A record begins with a word
//! of 5 bits of type or length and 27 bits of time since the record before.
//!
//! Whatever the bytes are, decoding ends, never panics and never invents a record: what cannot be
//! understood is counted in [`PageRecords::skipped`]. Little-endian machines only.

use crate::text::TextError;

/// `RINGBUF_TYPE_PADDING`, `_TIME_EXTEND` and `_TIME_STAMP` (include/linux/ring_buffer.h).
const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;

/// Bits of time in a record's first word.
const TIME_BITS: u32 = 27;

/// An absolute time has 59 bits; the others are those of the time before (`rb_fix_abs_ts()`).
const ABSOLUTE_HIGH: u64 = 0xf8 << 56;

/// `RB_MISSED_EVENTS` and `RB_MISSED_STORED`. On 64 bits the kernel adds them as signed `int`, so
/// that the upper half of the word is all ones; only the lower half means something.
const MISSED: u32 = 1 << 31;
const MISSED_STORED: u32 = 1 << 30;

/// Where things lie in a page, from `events/header_page`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageLayout {
    /// Offset of the number of committed bytes.
    commit: usize,
    /// Its size: 8 on 64-bit kernels, 4 on 32-bit ones.
    commit_size: usize,
    /// Offset of the first record.
    data: usize,
    /// Bytes for records in one page.
    data_size: usize,
}

impl PageLayout {
    /// A page of 4096 bytes of a 64-bit kernel.
    pub const COMMON: PageLayout =
        PageLayout { commit: 8, commit_size: 8, data: 16, data_size: 4080 };

    /// Reads `events/header_page`.
    ///
    /// # Errors
    /// A field is missing, or the numbers do not make a page.
    pub fn parse(text: &str) -> Result<PageLayout, TextError> {
        let (commit, commit_size) = field(text, "commit")?;
        let (data, data_size) = field(text, "data")?;
        let (timestamp, timestamp_size) = field(text, "timestamp")?;
        let sane = timestamp == 0
            && timestamp_size == 8
            && matches!(commit_size, 4 | 8)
            && commit >= 8
            && commit + commit_size <= data
            && data <= 64
            && (64..=1 << 24).contains(&data_size);
        if sane {
            Ok(PageLayout { commit, commit_size, data, data_size })
        } else {
            Err(TextError::new(0, "offsets and sizes of a page", text))
        }
    }

    /// The same for sub-buffers of this many KiB (`buffer_subbuf_size_kb`, 6.8).
    #[must_use]
    pub fn with_page_kib(mut self, kib: usize) -> PageLayout {
        if let Some(size) = kib.checked_mul(1024).and_then(|bytes| bytes.checked_sub(self.data))
            && (64..=1 << 24).contains(&size)
        {
            self.data_size = size;
        }
        self
    }

    /// Bytes of a whole page: what one read of `trace_pipe_raw` must ask for.
    #[must_use]
    pub fn page_size(&self) -> usize {
        self.data + self.data_size
    }

    /// The size of `long` of the kernel that wrote the pages.
    #[must_use]
    pub fn long_is_64_bits(&self) -> bool {
        self.commit_size == 8
    }
}

/// Offset and size of one field of `header_page`.
fn field(text: &str, name: &'static str) -> Result<(usize, usize), TextError> {
    let missing = || TextError::new(0, name, text);
    let line = text
        .lines()
        .find(|line| {
            let declaration = line.split(';').next().unwrap_or("");
            declaration.split_whitespace().next_back() == Some(name)
        })
        .ok_or_else(missing)?;
    let number = |key: &str| -> Option<usize> {
        line.split(';').find_map(|part| part.trim().strip_prefix(key)?.parse().ok())
    };
    match (number("offset:"), number("size:")) {
        (Some(offset), Some(size)) if offset <= 1 << 16 && size <= 1 << 24 => Ok((offset, size)),
        _ => Err(missing()),
    }
}

/// Records that the kernel dropped before a page because the buffer was full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LostRecords {
    /// None.
    Nothing,
    /// This many.
    Count(u64),
    /// Some; the page had no room for their number.
    Some,
}

/// One page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BufferPage<'a> {
    /// The time of the first record, in the unit of the trace clock.
    pub timestamp: u64,
    /// Records lost before this page.
    pub lost: LostRecords,
    data: &'a [u8],
    /// Bytes that the header promises and the page does not have.
    missing: u64,
}

/// One record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RawRecord<'a> {
    /// When, in the unit of the trace clock.
    pub timestamp: u64,
    /// The event, beginning with its `common_type`.
    pub bytes: &'a [u8],
}

/// The records of a page in their order.
#[derive(Debug, Clone)]
pub struct PageRecords<'a> {
    data: &'a [u8],
    at: usize,
    timestamp: u64,
    skipped: u64,
}

/// Decodes one page. Bytes too few for a header make a page without records.
#[must_use]
pub fn decode<'a>(layout: &PageLayout, page: &'a [u8]) -> BufferPage<'a> {
    let header = (|| {
        let timestamp = u64_at(page, 0)?;
        // The lower half holds all; see MISSED.
        let commit = u32_at(page, layout.commit)?;
        let data = page.get(layout.data..)?;
        Some((timestamp, commit, data))
    })();
    let Some((timestamp, commit, data)) = header else {
        let missing = page.len() as u64;
        return BufferPage { timestamp: 0, lost: LostRecords::Nothing, data: &[], missing };
    };
    let committed = (commit & !(MISSED | MISSED_STORED)) as usize;
    let end = committed.min(data.len()).min(layout.data_size);
    let lost = if commit & MISSED == 0 {
        LostRecords::Nothing
    } else if commit & MISSED_STORED == 0 {
        LostRecords::Some
    } else {
        let count = if layout.commit_size == 8 {
            u64_at(data, committed)
        } else {
            u32_at(data, committed).map(u64::from)
        };
        count.map_or(LostRecords::Some, LostRecords::Count)
    };
    BufferPage {
        timestamp,
        lost,
        data: data.get(..end).unwrap_or(&[]),
        missing: (committed - end) as u64,
    }
}

impl<'a> BufferPage<'a> {
    /// The records.
    #[must_use]
    pub fn records(&self) -> PageRecords<'a> {
        PageRecords { data: self.data, at: 0, timestamp: self.timestamp, skipped: self.missing }
    }
}

impl PageRecords<'_> {
    /// Bytes that were not understood or are missing, so far; all of them once the iterator has
    /// ended. Anything but 0 means that records may have been missed.
    #[must_use]
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Gives up: the rest of the page cannot be told apart.
    fn give_up(&mut self) {
        self.skipped += (self.data.len() - self.at) as u64;
        self.at = self.data.len();
    }
}

impl<'a> Iterator for PageRecords<'a> {
    type Item = RawRecord<'a>;

    fn next(&mut self) -> Option<RawRecord<'a>> {
        loop {
            if self.at >= self.data.len() {
                return None;
            }
            let Some(word) = u32_at(self.data, self.at) else {
                self.give_up();
                return None;
            };
            let (kind, delta) = (word & 31, u64::from(word >> 5));
            let second = u32_at(self.data, self.at + 4);
            let (start, end) = match (kind, second) {
                (PADDING, _) if delta == 0 => {
                    // The rest of the page was never written.
                    self.at = self.data.len();
                    return None;
                }
                (PADDING, Some(length)) => {
                    // A discarded record; a time of 1 stands for 0 (`rb_event_discard()`).
                    if delta != 1 {
                        self.timestamp = self.timestamp.wrapping_add(delta);
                    }
                    let end = self.at + 4 + length as usize;
                    if end > self.data.len() {
                        self.give_up();
                        return None;
                    }
                    self.at = end;
                    continue;
                }
                (TIME_EXTEND, Some(high)) => {
                    let more = (u64::from(high) << TIME_BITS) + delta;
                    self.timestamp = self.timestamp.wrapping_add(more);
                    self.at += 8;
                    continue;
                }
                (TIME_STAMP, Some(high)) => {
                    self.timestamp =
                        absolute((u64::from(high) << TIME_BITS) + delta, self.timestamp);
                    self.at += 8;
                    continue;
                }
                (0, Some(length)) if length >= 4 => (self.at + 8, self.at + 4 + length as usize),
                (1..PADDING, _) => (self.at + 4, self.at + 4 + 4 * kind as usize),
                _ => {
                    self.give_up();
                    return None;
                }
            };
            let Some(bytes) = self.data.get(start..end) else {
                self.give_up();
                return None;
            };
            self.timestamp = self.timestamp.wrapping_add(delta);
            self.at = end;
            return Some(RawRecord { timestamp: self.timestamp, bytes });
        }
    }
}

/// The full time of an absolute stamp, whose upper bits are those of the time before.
fn absolute(stamp: u64, before: u64) -> u64 {
    let high = before & ABSOLUTE_HIGH;
    if high == 0 {
        return stamp;
    }
    let full = (stamp & !ABSOLUTE_HIGH) | high;
    if full < before { full.wrapping_add(1 << 59) } else { full }
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|chunk| u32::from_le_bytes(*chunk))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|chunk| u64::from_le_bytes(*chunk))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// `events/header_page` of 6.12, x86-64.
    const HEADER_64: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
        \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
        \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
        \tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";

    fn page(timestamp: u64, commit: u64, words: &[u32]) -> Vec<u8> {
        let mut bytes = timestamp.to_le_bytes().to_vec();
        bytes.extend(commit.to_le_bytes());
        bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        bytes.resize(4096, 0);
        bytes
    }

    fn word(kind: u32, delta: u32) -> u32 {
        delta << 5 | kind
    }

    /// Times and contents of all records, then the bytes skipped.
    fn all(bytes: &[u8]) -> (Vec<(u64, Vec<u8>)>, u64) {
        let mut records = decode(&PageLayout::COMMON, bytes).records();
        let list = records.by_ref().map(|r| (r.timestamp, r.bytes.to_vec())).collect();
        (list, records.skipped())
    }

    #[test]
    fn every_kind_of_record_moves_the_clock_as_the_kernel_does() {
        let words = [
            word(1, 5), // 4 bytes at 1005
            0x0403_0201,
            word(TIME_EXTEND, 7), // + (1 << 27) + 7
            1,
            word(2, 0), // 8 bytes
            0x0101_0101,
            0x0202_0202,
            word(PADDING, 9), // discarded, + 9; its length counts the second word
            8,
            0,
            word(0, 1), // length in the second word: 8 - 4 bytes of data
            8,
            0x0909_0909,
            word(TIME_STAMP, 3), // absolute (2 << 27) + 3
            2,
            word(1, 4),
            0x0707_0707,
            word(PADDING, 0), // the rest is padding
            0xdead_beef,
        ];
        let (records, skipped) = all(&page(1000, 4 * words.len() as u64, &words));
        let later = 1005 + (1 << 27) + 7;
        assert_eq!(
            records,
            [
                (1005, vec![1, 2, 3, 4]),
                (later, vec![1, 1, 1, 1, 2, 2, 2, 2]),
                (later + 9 + 1, vec![9; 4]),
                ((2 << 27) + 3 + 4, vec![7; 4]),
            ]
        );
        assert_eq!(skipped, 0);
    }

    #[test]
    fn an_absolute_time_keeps_the_upper_bits_of_the_time_before() {
        let base = 0x1800_0000_0000_0010;
        let words =
            [word(TIME_STAMP, 0x11), 0, word(1, 0), 0, word(TIME_STAMP, 1), 0, word(1, 0), 0];
        let (records, _) = all(&page(base, 32, &words));
        let times: Vec<u64> = records.iter().map(|r| r.0).collect();
        // The second stamp is lower: the 59 bits have turned over.
        assert_eq!(times, [base + 1, (base & ABSOLUTE_HIGH) + (1 << 59) + 1]);
    }

    #[test]
    fn lost_records_are_counted_also_when_the_flag_fills_the_upper_half() {
        let decoded =
            |commit: u64, words: &[u32]| decode(&PageLayout::COMMON, &page(0, commit, words)).lost;
        let record = [word(1, 0), 0];
        assert_eq!(decoded(8, &record), LostRecords::Nothing);
        assert_eq!(decoded(8 | u64::from(MISSED), &record), LostRecords::Some);
        let stored = [word(1, 0), 0, 77, 0];
        assert_eq!(decoded(8 | u64::from(MISSED | MISSED_STORED), &stored), LostRecords::Count(77));
        // As a signed int is added to a long: 8 + (1 << 30) - (1 << 31).
        let added = 8u64.wrapping_add(1 << 30).wrapping_sub(1 << 31);
        assert_eq!(added >> 32, 0xffff_ffff);
        let bytes = page(0, added, &stored);
        assert_eq!(decode(&PageLayout::COMMON, &bytes).lost, LostRecords::Count(77));
        assert_eq!(all(&bytes), (vec![(0, vec![0; 4])], 0));
    }

    #[test]
    fn what_is_torn_is_counted_and_ends_the_page() {
        // A record longer than what was committed; what came before it stays.
        let words = [word(1, 1), 0, word(28, 1), 0];
        assert_eq!(all(&page(0, 16, &words)), (vec![(1, vec![0; 4])], 8));
        // A length below its own size, and zeroes where a record should be.
        assert_eq!(all(&page(0, 12, &[word(0, 1), 3, 0])), (vec![], 12));
        assert_eq!(all(&page(0, 8, &[])), (vec![], 8));
        // More committed than a page holds; the last word cut in two; no header.
        assert_eq!(all(&page(0, 5000, &[word(1, 1), 0])).1, 920 + 4080 - 8);
        assert_eq!(all(&page(0, 10, &[word(1, 1), 0])), (vec![(1, vec![0; 4])], 2));
        assert_eq!(all(&[0; 11]), (vec![], 11));
        assert_eq!(all(&[]), (vec![], 0));
    }

    #[test]
    fn layouts_of_64_and_32_bits_and_of_large_pages_are_read() {
        assert_eq!(PageLayout::parse(HEADER_64), Ok(PageLayout::COMMON));
        let half = HEADER_64
            .replace("commit;\toffset:8;\tsize:8", "commit;\toffset:8;\tsize:4")
            .replace("offset:16;\tsize:4080", "offset:12;\tsize:4084");
        let half = PageLayout::parse(&half).unwrap();
        assert_eq!((half.page_size(), half.long_is_64_bits()), (4096, false));
        assert_eq!(PageLayout::COMMON.with_page_kib(16).page_size(), 16384);
        assert_eq!(PageLayout::COMMON.with_page_kib(0), PageLayout::COMMON);
        for wrong in ["", "# compressed entry header", &HEADER_64.replace("offset:16", "offset:2")]
        {
            assert!(PageLayout::parse(wrong).is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic_or_lose_count(
            bytes in prop::collection::vec(any::<u8>(), 0..600),
            commit in 0u32..700,
            missed in any::<bool>(),
        ) {
            let mut bytes = bytes;
            if let Some(place) = bytes.get_mut(8..12) {
                let commit = if missed { commit | MISSED | MISSED_STORED } else { commit };
                place.copy_from_slice(&commit.to_le_bytes());
            }
            let page = decode(&PageLayout::COMMON, &bytes);
            let mut records = page.records();
            let seen: usize = records.by_ref().map(|record| record.bytes.len()).sum();
            prop_assert!(seen + usize::try_from(records.skipped()).unwrap() <= 800);
            prop_assert_eq!(records.next(), None);
        }

        #[test]
        fn header_text_never_panics(text in "[a-z:; \t\n0-9]{0,200}") {
            let _ = PageLayout::parse(&text);
        }
    }
}
