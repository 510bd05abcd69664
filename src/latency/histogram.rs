//! Histograms: from counted values to HDR, and from documents to files that other programs read.
//! Pure.

use super::{LatencyMeasurement, Percentile, ThreadSeries};
use crate::documents::count_text::joined;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cpushield_sentence::Sentence;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};
use std::fmt::{self, Write};
use std::time::{Duration, UNIX_EPOCH};

/// The highest value that is distinguished: the limit of a tally (18 minutes).
const HIGHEST_NS: u64 = 1 << 40;
/// Significant digits.
const DIGITS: u8 = 3;
/// The percentiles of a document.
const PERCENTS: [f64; 6] = [50.0, 90.0, 99.0, 99.9, 99.99, 99.999];
/// The most lines of a cyclictest histogram: 100 ms.
const LINES_MAX: usize = 100_000;

/// Makes a histogram of values and their counts.
pub(super) fn collect(counts: impl Iterator<Item = (u64, u64)>) -> Histogram<u64> {
    let mut histogram = empty();
    for (value, count) in counts {
        // The tally has the same bounds, so no value is outside.
        histogram.saturating_record_n(value, count);
    }
    histogram
}

fn empty() -> Histogram<u64> {
    match Histogram::new_with_bounds(1, HIGHEST_NS, DIGITS) {
        Ok(histogram) => histogram,
        Err(_) => unreachable!("the bounds are constants, and a test makes one"),
    }
}

/// Adds missed events: an event that is late by more than a period hides those that were due
/// in that time, each late by a period less than the one before.
pub(super) fn with_missed(histogram: &Histogram<u64>, period_ns: u64) -> Histogram<u64> {
    let mut whole = histogram.clone();
    for step in histogram.iter_recorded() {
        let (late, count) = (step.value_iterated_to(), step.count_at_value());
        let missed = late.checked_div(period_ns).unwrap_or(0);
        for nth in 1..=missed {
            whole.saturating_record_n(late - nth * period_ns, count);
        }
    }
    whole
}

/// Returns the percentiles that the number of values supports: a thousand values have no 99.99 %.
/// A step's upper end may be above the longest latency, so values are limited to `longest_ns`.
pub(super) fn percentiles(histogram: &Histogram<u64>, longest_ns: u64) -> Vec<Percentile> {
    let values = histogram.len() as f64;
    let supported = PERCENTS.iter().filter(|percent| values * (100.0 - **percent) > 99.9);
    let percentiles = supported.map(|percent| Percentile {
        percent: *percent,
        ns: histogram.value_at_percentile(*percent).min(longest_ns),
    });
    percentiles.collect()
}

/// A part of a whole in percent; 0 when the whole is empty.
#[must_use]
pub fn percent_of(part: u64, whole: u64) -> f64 {
    part as f64 * 100.0 / whole.max(1) as f64
}

/// Encodes a histogram as text for a document.
pub(super) fn encode(histogram: &Histogram<u64>) -> String {
    let mut bytes = Vec::new();
    match V2DeflateSerializer::new().serialize(histogram, &mut bytes) {
        Ok(_) => STANDARD.encode(bytes),
        Err(_) => unreachable!("writing to memory does not fail"),
    }
}

/// Why the histograms of a document cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Sentence)]
pub enum HistogramError {
    /// cannot decode the histogram of CPU {cpu}: {error}.
    Damaged {
        /// The CPU of the series.
        cpu: usize,
        /// The decoder's error.
        error: String,
    },
    /// a histogram is too wide: {error}.
    TooWide {
        /// The error of the addition.
        error: String,
    },
    /// cannot write the HDR log: {error}.
    NoLog {
        /// The writer's error.
        error: String,
    },
}

/// Decodes the histogram of a series.
fn decode(series: &ThreadSeries) -> Result<Histogram<u64>, HistogramError> {
    let damaged = |error| HistogramError::Damaged { cpu: series.cpu, error };
    let bytes = STANDARD.decode(&series.histogram).map_err(|e| damaged(e.to_string()))?;
    Deserializer::new().deserialize(&mut bytes.as_slice()).map_err(|e| damaged(format!("{e:?}")))
}

/// Returns the percentiles of several threads together, including missed events.
///
/// # Errors
/// A histogram of the document cannot be decoded.
pub fn percentiles_of(series: &[&ThreadSeries]) -> Result<Vec<Percentile>, HistogramError> {
    let mut whole = empty();
    for one in series {
        let with_missed = with_missed(&decode(one)?, one.period_ns);
        whole.add(with_missed).map_err(|e| too_wide(&e))?;
    }
    let longest = series.iter().filter_map(|series| series.max_ns).max();
    Ok(percentiles(&whole, longest.unwrap_or(0)))
}

/// Returns the latencies of a thread with their counts, ascending, without missed events. The upper
/// end of the last step may be above the longest latency, so values are limited to that.
///
/// # Errors
/// The histogram of the document cannot be decoded.
pub fn counts(series: &ThreadSeries) -> Result<Vec<(u64, u64)>, HistogramError> {
    let longest = series.max_ns.unwrap_or(u64::MAX);
    let histogram = decode(series)?;
    let steps = histogram.iter_recorded();
    Ok(steps.map(|step| (step.value_iterated_to().min(longest), step.count_at_value())).collect())
}

fn too_wide(error: &hdrhistogram::AdditionError) -> HistogramError {
    HistogramError::TooWide { error: format!("{error:?}") }
}

/// Writes all histograms as one HDR log of version 2; each has a tag with its CPU and period.
///
/// # Errors
/// A histogram of the document cannot be decoded.
pub fn hdr_log(latency: &LatencyMeasurement) -> Result<Vec<u8>, HistogramError> {
    let mut log = Vec::new();
    let mut serializer = V2DeflateSerializer::new();
    let mut writer = IntervalLogWriterBuilder::new()
        .add_comment("cpushield latency: nanoseconds")
        .with_start_time(UNIX_EPOCH + Duration::from_secs(latency.began_s))
        .with_max_value_divisor(1000.0)
        .begin_log_with(&mut log, &mut serializer)
        .map_err(|e| log_error(&e))?;
    for series in sorted(latency) {
        let stage = series.stage.as_ref().map_or_else(String::new, |stage| format!("-{stage}"));
        let name = format!("cpu{}-{}ns{stage}", series.cpu, series.period_ns);
        let span = Duration::from_nanos(latency.span_ns);
        writer
            .write_histogram(&decode(series)?, Duration::ZERO, span, Tag::new(&name))
            .map_err(|e| log_error(&e))?;
    }
    Ok(log)
}

fn sorted(latency: &LatencyMeasurement) -> Vec<&ThreadSeries> {
    let mut series: Vec<&ThreadSeries> = latency.series.iter().collect();
    series.sort_by_key(|series| (series.cpu, series.period_ns, series.stage));
    series
}

fn log_error(error: &dyn fmt::Debug) -> HistogramError {
    HistogramError::NoLog { error: format!("{error:?}") }
}

/// Formats all histograms as `cyclictest --histogram` does: a line for each microsecond, a column
/// for each thread.
///
/// # Errors
/// A histogram of the document cannot be decoded.
pub fn cyclictest(latency: &LatencyMeasurement) -> Result<String, HistogramError> {
    let all = sorted(latency);
    let longest = all.iter().filter_map(|series| series.max_ns).max().map_or(0, whole_us);
    let lines = longest.saturating_add(1).min(LINES_MAX);
    let mut columns = Vec::new();
    let mut beyond = Vec::new();
    for series in &all {
        let (mut column, mut overflow) = (vec![0; lines], 0);
        for (ns, count) in counts(series)? {
            match column.get_mut(whole_us(ns)) {
                Some(line) => *line += count,
                None => overflow += count,
            }
        }
        columns.push(column);
        beyond.push(overflow);
    }
    let mut text = String::from("# Histogram\n");
    for line in 0..lines {
        let row = columns.iter().filter_map(|column: &Vec<u64>| column.get(line));
        let row = row.map(|count| format!("{count:06}"));
        // Writing to a string does not fail.
        let _ = writeln!(text, "{line:06} {}", joined(row, "\t"));
    }
    write_summary_line(&mut text, "Total", 9, all.iter().map(|series| series.samples));
    let least = all.iter().map(|series| whole_microseconds(series.min_ns));
    write_summary_line(&mut text, "Min Latencies", 5, least);
    let mean = all.iter().map(|series| whole_microseconds(series.mean_ns));
    write_summary_line(&mut text, "Avg Latencies", 5, mean);
    let worst = all.iter().map(|series| whole_microseconds(series.max_ns));
    write_summary_line(&mut text, "Max Latencies", 5, worst);
    write_summary_line(&mut text, "Histogram Overflows", 5, beyond.into_iter());
    Ok(text)
}

/// Microseconds, rounded down; 0 without a sample, as cyclictest prints it.
fn whole_microseconds(ns: Option<u64>) -> u64 {
    ns.unwrap_or(0) / 1000
}

/// Adds a line of cyclictest's summary, with a number for each thread.
fn write_summary_line(
    text: &mut String,
    name: &str,
    width: usize,
    numbers: impl Iterator<Item = u64>,
) {
    let numbers: String = numbers.map(|number| format!(" {number:0width$}")).collect();
    // Writing to a string does not fail.
    let _ = writeln!(text, "# {name}:{numbers}");
}

fn whole_us(ns: u64) -> usize {
    usize::try_from(ns / 1000).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::measure::tests::{latency, latency_of};
    use super::super::{WorstLatency, WorstTimeline};
    use super::*;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    #[test]
    fn only_percentiles_that_the_samples_support_are_listed() {
        let thousand = collect((1..=1000).map(|ns| (ns, 1)));
        let named = percentiles(&thousand, 1000);
        let named: Vec<(f64, u64)> = named.iter().map(|one| (one.percent, one.ns)).collect();
        // The last is at the 999th or, as a float is not exact, at the next one.
        assert_eq!(named, [(50.0, 500), (90.0, 900), (99.0, 990), (99.9, 1000)]);
        assert_eq!(percentiles(&empty(), 0), []);
        assert_eq!(percentiles(&collect([(123_456, 2)].into_iter()), 123_460)[0].ns, 123_460);
    }

    #[test]
    fn percentiles_include_missed_events() {
        // 100 events on time, and one that hides 9 missed ones.
        let seen = collect([(10, 100), (9_500, 1)].into_iter());
        let whole = with_missed(&seen, 1_000);
        assert_eq!((seen.len(), whole.len()), (101, 110));
        let at = |histogram, percent: f64| {
            let all = percentiles(histogram, 9_500);
            all.iter().find(|one| (one.percent - percent).abs() < 0.1).unwrap().ns
        };
        assert_eq!(at(&seen, 99.0), 10);
        assert!(at(&whole, 99.0) >= 8_490, "{}", at(&whole, 99.0));
        assert_eq!(with_missed(&seen, 0), seen, "without a period nothing is missed");
    }

    #[test]
    fn an_encoded_histogram_decodes_to_the_same_histogram() {
        let given = [(0, 3), (17, 1), (2_048, 9), (3_500_000, 1), (HIGHEST_NS - 1, 1)];
        let histogram = collect(given.into_iter());
        let mut series = latency().series.remove(0);
        series.histogram = encode(&histogram);
        assert_eq!(decode(&series).unwrap(), histogram);
        series.histogram.push('!');
        let error = decode(&series).unwrap_err();
        assert!(matches!(error, HistogramError::Damaged { cpu: 3, .. }), "{error}");
    }

    #[test]
    fn the_exported_files_contain_every_sample_of_every_thread() {
        let latency = latency();
        let text = cyclictest(&latency).unwrap();
        let rows: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        let count = |row: &&str| -> u64 {
            row.split_once(' ').unwrap().1.split('\t').map(|n| n.parse::<u64>().unwrap()).sum()
        };
        assert_eq!(rows.iter().map(count).sum::<u64>(), 5);
        assert_eq!(rows[2], "000002 000003", "{text}");
        assert!(text.contains("# Total: 000000005\n# Min Latencies: 00002\n"), "{text}");
        assert!(text.ends_with("# Max Latencies: 00031\n# Histogram Overflows: 00000\n"));
        let log = hdr_log(&latency).unwrap();
        let entries: Vec<LogEntry<'_>> = IntervalLogIterator::new(&log).flatten().collect();
        let tag = entries.iter().find_map(|entry| match entry {
            LogEntry::Interval(log) => log.tag().map(|tag| tag.as_str().to_owned()),
            _ => None,
        });
        assert_eq!(tag.as_deref(), Some("cpu3-1000000ns"));
    }

    /// A day of 10 kHz on 4 CPUs, with every value that a histogram distinguishes, and counts that
    /// do not compress well.
    #[test]
    fn the_document_of_a_day_is_small() {
        let (mut random, mut counts, mut value): (u64, _, u64) = (7, Vec::new(), 0);
        while value < 1 << 30 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            counts.push((value, 1 + (random >> 33) % 120_000));
            value += (value >> 10).max(1);
        }
        let mut day = latency_of(&counts);
        let one = day.series.remove(0);
        assert!(one.samples > 24 * 3600 * 10_000, "{}", one.samples);
        let mut timeline = WorstTimeline::new(100_000_000);
        (0..24 * 3600 * 10).for_each(|at| timeline.enter(at * 100_000_000, 900_000_000 + at));
        let worst = (0..16).map(|n| WorstLatency { at_ns: n << 46, ..one.worst[0].clone() });
        let one = ThreadSeries { timeline, worst: worst.collect(), ..one };
        day.series = (0..4).map(|cpu| ThreadSeries { cpu, ..one.clone() }).collect();
        let text = crate::json::to_json(&day).unwrap();
        assert!(text.len() < 1 << 20, "{} bytes", text.len());
    }
}
