//! Decodes pages of the kernel's trace ring buffer, as `per_cpu/cpuN/trace_pipe_raw` returns them.
//! Pure: bytes in, records out.
//!
//! The format is that of kernel/trace/ring_buffer.c (4.17 to 6.18). A page starts with the time of
//! its first record and the number of committed bytes. The two highest bits of that number say that
//! records were lost before this page, and that their number follows the data. A record starts with
//! a word of 5 bits of type or length and 27 bits of time since the previous record.
//!
//! For any bytes, decoding ends, never panics and never invents a record. Bytes that cannot be
//! decoded are counted in [`PageRecords::skipped`]. Little-endian machines only.

use crate::text::TextError;

/// `RINGBUF_TYPE_PADDING`, `_TIME_EXTEND` and `_TIME_STAMP` (include/linux/ring_buffer.h).
const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;

/// Bits of time in a record's first word.
const TIME_BITS: u32 = 27;

/// An absolute time has 59 bits; the others are those of the previous time (`rb_fix_abs_ts()`).
const ABSOLUTE_HIGH: u64 = 0xf8 << 56;

/// `RB_MISSED_EVENTS` and `RB_MISSED_STORED`. On 64 bits the kernel adds them as signed `int`, so
/// the upper half of the word is all ones; only the lower half is meaningful.
const MISSED: u32 = 1 << 31;
const MISSED_STORED: u32 = 1 << 30;

/// The layout of a page, from `events/header_page`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageLayout {
    /// Offset of the number of committed bytes.
    commit: usize,
    /// Its size: 8 on 64-bit kernels, 4 on 32-bit ones.
    commit_size: usize,
    /// Offset of the first record.
    data: usize,
    /// Bytes of records in one page.
    data_size: usize,
}

impl PageLayout {
    /// The layout of a 4096-byte page of a 64-bit kernel.
    pub const COMMON: PageLayout =
        PageLayout { commit: 8, commit_size: 8, data: 16, data_size: 4080 };

    /// Parses `events/header_page`.
    ///
    /// # Errors
    /// A field is missing, or the numbers do not form a page.
    pub fn parse(text: &str) -> Result<PageLayout, TextError> {
        let (commit, commit_size) = parse_field(text, "commit")?;
        let (data, data_size) = parse_field(text, "data")?;
        let (timestamp, timestamp_size) = parse_field(text, "timestamp")?;
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
            Err(TextError::new(0, "the layout of a ring buffer page", text))
        }
    }

    /// The same layout for sub-buffers of this many KiB (`buffer_subbuf_size_kb`, 6.8).
    #[must_use]
    pub fn with_page_kib(mut self, kib: usize) -> PageLayout {
        if let Some(size) = kib.checked_mul(1024).and_then(|bytes| bytes.checked_sub(self.data))
            && (64..=1 << 24).contains(&size)
        {
            self.data_size = size;
        }
        self
    }

    /// The size of a whole page, which one read of `trace_pipe_raw` must request.
    #[must_use]
    pub fn page_size(&self) -> usize {
        self.data + self.data_size
    }

    /// Whether `long` has 64 bits in the kernel that wrote the pages.
    #[must_use]
    pub fn long_is_64_bits(&self) -> bool {
        self.commit_size == 8
    }
}

/// Offset and size of one field of `header_page`.
fn parse_field(text: &str, name: &'static str) -> Result<(usize, usize), TextError> {
    let line = text.lines().find(|line| declared_name(line) == Some(name)).unwrap_or("");
    match (field_number(line, "offset:"), field_number(line, "size:")) {
        (Some(offset), Some(size)) if offset <= 1 << 16 && size <= 1 << 24 => Ok((offset, size)),
        _ => Err(TextError::new(0, name, text)),
    }
}

/// The name that a line of `header_page` declares: `local_t commit;\toffset:8;…`.
fn declared_name(line: &str) -> Option<&str> {
    line.split(';').next()?.split_whitespace().next_back()
}

fn field_number(line: &str, key: &str) -> Option<usize> {
    line.split(';').find_map(|part| part.trim().strip_prefix(key)?.parse().ok())
}

/// The records that the kernel dropped before a page because the buffer was full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LostRecords {
    /// None.
    Nothing,
    /// This many.
    Count(u64),
    /// Some; the page had no space for their number.
    Some,
}

/// A decoded page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BufferPage<'a> {
    /// The time of the first record, in the unit of the trace clock.
    pub timestamp: u64,
    /// Records lost before this page.
    pub lost: LostRecords,
    data: &'a [u8],
    /// Committed bytes that the page does not have.
    missing: u64,
}

/// A record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RawRecord<'a> {
    /// Its time, in the unit of the trace clock.
    pub timestamp: u64,
    /// The event, which starts with its `common_type`.
    pub bytes: &'a [u8],
}

/// An iterator over the records of a page, in order.
#[derive(Debug, Clone)]
pub struct PageRecords<'a> {
    data: &'a [u8],
    at: usize,
    timestamp: u64,
    skipped: u64,
}

/// Decodes one page. Too few bytes for a header make a page without records.
#[must_use]
pub fn decode<'a>(layout: &PageLayout, page: &'a [u8]) -> BufferPage<'a> {
    let Some((timestamp, commit, data)) = decode_header(layout, page) else {
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

/// The timestamp, the commit word and the data of a page.
fn decode_header<'a>(layout: &PageLayout, page: &'a [u8]) -> Option<(u64, u32, &'a [u8])> {
    // The lower half of the commit word is enough; see MISSED.
    Some((u64_at(page, 0)?, u32_at(page, layout.commit)?, page.get(layout.data..)?))
}

impl<'a> BufferPage<'a> {
    /// The records.
    #[must_use]
    pub fn records(&self) -> PageRecords<'a> {
        PageRecords { data: self.data, at: 0, timestamp: self.timestamp, skipped: self.missing }
    }
}

impl PageRecords<'_> {
    /// The number of bytes that could not be decoded or are missing; final once the iterator has
    /// ended. Anything but 0 means that records may have been missed.
    #[must_use]
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Skips the rest of the page, because it cannot be decoded.
    fn skip_rest(&mut self) {
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
                self.skip_rest();
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
                        self.skip_rest();
                        return None;
                    }
                    self.at = end;
                    continue;
                }
                (TIME_EXTEND, Some(high)) => {
                    let extended = (u64::from(high) << TIME_BITS) + delta;
                    self.timestamp = self.timestamp.wrapping_add(extended);
                    self.at += 8;
                    continue;
                }
                (TIME_STAMP, Some(high)) => {
                    let stamp = (u64::from(high) << TIME_BITS) + delta;
                    self.timestamp = full_time(stamp, self.timestamp);
                    self.at += 8;
                    continue;
                }
                (0, Some(length)) if length >= 4 => (self.at + 8, self.at + 4 + length as usize),
                (1..PADDING, _) => (self.at + 4, self.at + 4 + 4 * kind as usize),
                _ => {
                    self.skip_rest();
                    return None;
                }
            };
            let Some(bytes) = self.data.get(start..end) else {
                self.skip_rest();
                return None;
            };
            self.timestamp = self.timestamp.wrapping_add(delta);
            self.at = end;
            return Some(RawRecord { timestamp: self.timestamp, bytes });
        }
    }
}

/// The full time of an absolute stamp, with the upper bits of the previous time.
fn full_time(stamp: u64, before: u64) -> u64 {
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

    /// The times and contents of all records, and the number of bytes skipped.
    fn decode_all(bytes: &[u8]) -> (Vec<(u64, Vec<u8>)>, u64) {
        let mut records = decode(&PageLayout::COMMON, bytes).records();
        let list = records.by_ref().map(|r| (r.timestamp, r.bytes.to_vec())).collect();
        (list, records.skipped())
    }

    #[test]
    fn every_kind_of_record_advances_the_clock_as_in_the_kernel() {
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
        let (records, skipped) = decode_all(&page(1000, 4 * words.len() as u64, &words));
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
    fn an_absolute_time_gets_the_upper_bits_of_the_previous_time() {
        let base = 0x1800_0000_0000_0010;
        let words =
            [word(TIME_STAMP, 0x11), 0, word(1, 0), 0, word(TIME_STAMP, 1), 0, word(1, 0), 0];
        let (records, _) = decode_all(&page(base, 32, &words));
        let times: Vec<u64> = records.iter().map(|r| r.0).collect();
        // The second stamp is lower: the 59 bits have wrapped around.
        assert_eq!(times, [base + 1, (base & ABSOLUTE_HIGH) + (1 << 59) + 1]);
    }

    #[test]
    fn lost_records_are_counted_even_if_the_flag_fills_the_upper_half() {
        let decoded =
            |commit: u64, words: &[u32]| decode(&PageLayout::COMMON, &page(0, commit, words)).lost;
        let record = [word(1, 0), 0];
        assert_eq!(decoded(8, &record), LostRecords::Nothing);
        assert_eq!(decoded(8 | u64::from(MISSED), &record), LostRecords::Some);
        let stored = [word(1, 0), 0, 77, 0];
        assert_eq!(decoded(8 | u64::from(MISSED | MISSED_STORED), &stored), LostRecords::Count(77));
        // As when a signed int is added to a long: 8 + (1 << 30) - (1 << 31).
        let added = 8u64.wrapping_add(1 << 30).wrapping_sub(1 << 31);
        assert_eq!(added >> 32, 0xffff_ffff);
        let bytes = page(0, added, &stored);
        assert_eq!(decode(&PageLayout::COMMON, &bytes).lost, LostRecords::Count(77));
        assert_eq!(decode_all(&bytes), (vec![(0, vec![0; 4])], 0));
    }

    #[test]
    fn torn_bytes_are_counted_and_end_the_page() {
        // A record longer than the committed bytes; earlier records remain.
        let words = [word(1, 1), 0, word(28, 1), 0];
        assert_eq!(decode_all(&page(0, 16, &words)), (vec![(1, vec![0; 4])], 8));
        // A length below its own size, and zeroes where a record should be.
        assert_eq!(decode_all(&page(0, 12, &[word(0, 1), 3, 0])), (vec![], 12));
        assert_eq!(decode_all(&page(0, 8, &[])), (vec![], 8));
        // More committed than a page holds; the last word cut in two; no header.
        assert_eq!(decode_all(&page(0, 5000, &[word(1, 1), 0])).1, 920 + 4080 - 8);
        assert_eq!(decode_all(&page(0, 10, &[word(1, 1), 0])), (vec![(1, vec![0; 4])], 2));
        assert_eq!(decode_all(&[0; 11]), (vec![], 11));
        assert_eq!(decode_all(&[]), (vec![], 0));
    }

    #[test]
    fn layouts_of_64_and_32_bits_and_of_large_pages_are_parsed() {
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
        fn no_bytes_make_it_panic_or_miscount(
            bytes in prop::collection::vec(any::<u8>(), 0..600),
            commit in 0u32..700,
            missed in any::<bool>(),
        ) {
            let mut bytes = bytes;
            if let Some(commit_bytes) = bytes.get_mut(8..12) {
                let commit = if missed { commit | MISSED | MISSED_STORED } else { commit };
                commit_bytes.copy_from_slice(&commit.to_le_bytes());
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
