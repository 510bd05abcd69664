//! Histograms: from counted values to HDR, and from documents to files that other programs read.
//! Pure.

use super::{LatencyMeasurement, Percentile, ThreadSeries};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};
use std::fmt::Write;
use std::time::{Duration, UNIX_EPOCH};

/// Values up to here are told apart: what a tally can count (18 minutes).
const HIGHEST_NS: u64 = 1 << 40;
/// Digits that are kept.
const DIGITS: u8 = 3;
/// Which percentiles are named.
const PERCENTS: [f64; 6] = [50.0, 90.0, 99.0, 99.9, 99.99, 99.999];
/// Lines of cyclictest's histogram at most: 100 ms.
const LINES_MAX: usize = 100_000;

/// A histogram of values and how often each came.
pub(super) fn collect(counts: impl Iterator<Item = (u64, u64)>) -> Histogram<u64> {
    let mut histogram = empty();
    for (value, count) in counts {
        // The bounds are those of the tally, so that no value is outside.
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

/// The same with what was missed: an event that came late by more than a period hides those that
/// were due meanwhile, each late by a period less than the one before.
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

/// Percentiles as far as so many values can tell them: of a thousand values none is at 99.99 %.
/// A step's upper end may be above everything that was seen, so the longest is given.
pub(super) fn percentiles(histogram: &Histogram<u64>, longest_ns: u64) -> Vec<Percentile> {
    #[expect(clippy::cast_precision_loss, reason = "a share is not exact")]
    let known = |percent: &f64| histogram.len() as f64 * (100.0 - percent) > 99.9;
    let at = |percent: f64| {
        let ns = histogram.value_at_percentile(percent).min(longest_ns);
        Percentile { percent, ns }
    };
    PERCENTS.iter().copied().filter(known).map(at).collect()
}

/// The text form inside documents.
pub(super) fn encode(histogram: &Histogram<u64>) -> String {
    let mut bytes = Vec::new();
    match V2DeflateSerializer::new().serialize(histogram, &mut bytes) {
        Ok(_) => STANDARD.encode(bytes),
        Err(_) => unreachable!("writing to memory does not fail"),
    }
}

/// The histogram of a series.
fn decode(series: &ThreadSeries) -> Result<Histogram<u64>, String> {
    let wrong = |why: String| format!("the histogram of CPU {} is none: {why}", series.cpu);
    let bytes = STANDARD.decode(&series.histogram).map_err(|e| wrong(e.to_string()))?;
    Deserializer::new().deserialize(&mut bytes.as_slice()).map_err(|e| wrong(format!("{e:?}")))
}

/// Percentiles of several threads together, missed events among them.
///
/// # Errors
/// A histogram of the document is none.
pub fn percentiles_of(series: &[&ThreadSeries]) -> Result<Vec<Percentile>, String> {
    let mut whole = empty();
    for one in series {
        let with_missed = with_missed(&decode(one)?, one.period_ns);
        whole.add(with_missed).map_err(|e| wide(&e))?;
    }
    let longest = series.iter().filter_map(|one| one.max_ns).max();
    Ok(percentiles(&whole, longest.unwrap_or(0)))
}

/// The latencies of a thread and how often each came, ascending, without missed events. The upper
/// end of the last step may be above what was seen, so the longest is given.
///
/// # Errors
/// The histogram of the document is none.
pub fn counts(series: &ThreadSeries) -> Result<Vec<(u64, u64)>, String> {
    let longest = series.max_ns.unwrap_or(u64::MAX);
    let histogram = decode(series)?;
    let steps = histogram.iter_recorded();
    Ok(steps.map(|step| (step.value_iterated_to().min(longest), step.count_at_value())).collect())
}

/// All latencies of several threads, without missed events.
pub(super) fn sum(series: &[&ThreadSeries]) -> Result<Histogram<u64>, String> {
    let mut whole = empty();
    for one in series {
        whole.add(decode(one)?).map_err(|e| wide(&e))?;
    }
    Ok(whole)
}

fn wide(error: &hdrhistogram::AdditionError) -> String {
    format!("a histogram is too wide: {error:?}")
}

/// All histograms as one HDR log of version 2; each has a tag with its CPU and period.
///
/// # Errors
/// A histogram of the document is none.
pub fn hdr_log(latency: &LatencyMeasurement) -> Result<Vec<u8>, String> {
    let mut log = Vec::new();
    let mut serializer = V2DeflateSerializer::new();
    let wrong = |why: &dyn std::fmt::Debug| format!("the log cannot be made: {why:?}");
    let mut writer = IntervalLogWriterBuilder::new()
        .add_comment("cpushield latency: nanoseconds")
        .with_start_time(UNIX_EPOCH + Duration::from_secs(latency.began_s))
        .with_max_value_divisor(1000.0)
        .begin_log_with(&mut log, &mut serializer)
        .map_err(|e| wrong(&e))?;
    let mut series: Vec<&ThreadSeries> = latency.series.iter().collect();
    series.sort_by_key(|series| (series.cpu, series.period_ns, &series.stage));
    for series in series {
        let stage = series.stage.as_ref().map_or_else(String::new, |stage| format!("-{stage}"));
        let name = format!("cpu{}-{}ns{stage}", series.cpu, series.period_ns);
        let span = Duration::from_nanos(latency.span_ns);
        writer
            .write_histogram(&decode(series)?, Duration::ZERO, span, Tag::new(&name))
            .map_err(|e| wrong(&e))?;
    }
    Ok(log)
}

/// All histograms as cyclictest prints them with `--histogram`: a line for each microsecond, a
/// column for each thread.
///
/// # Errors
/// A histogram of the document is none.
pub fn cyclictest(latency: &LatencyMeasurement) -> Result<String, String> {
    let mut all: Vec<&ThreadSeries> = latency.series.iter().collect();
    all.sort_by_key(|series| (series.cpu, series.period_ns, &series.stage));
    let us = |ns: u64| usize::try_from(ns / 1000).unwrap_or(usize::MAX);
    let longest = all.iter().filter_map(|series| series.max_ns).max().map_or(0, us);
    let lines = longest.saturating_add(1).min(LINES_MAX);
    let mut columns = Vec::new();
    let mut beyond = Vec::new();
    for series in &all {
        let (mut column, mut overflow) = (vec![0; lines], 0);
        for step in decode(series)?.iter_recorded() {
            let count = step.count_at_value();
            // The upper end of the last step may be above what was seen.
            let ns = step.value_iterated_to().min(series.max_ns.unwrap_or(u64::MAX));
            match column.get_mut(us(ns)) {
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
        let row: Vec<String> = row.map(|count| format!("{count:06}")).collect();
        // Writing to a string does not fail.
        let _ = writeln!(text, "{line:06} {}", row.join("\t"));
    }
    let mut tell = |name: &str, width: usize, number: &dyn Fn(usize, &ThreadSeries) -> u64| {
        let _ = write!(text, "# {name}:");
        for (i, series) in all.iter().enumerate() {
            let _ = write!(text, " {:0width$}", number(i, series));
        }
        text.push('\n');
    };
    let in_us = |ns: Option<u64>| ns.unwrap_or(0) / 1000;
    tell("Total", 9, &|_, series| series.samples);
    tell("Min Latencies", 5, &|_, series| in_us(series.min_ns));
    tell("Avg Latencies", 5, &|_, series| in_us(series.mean_ns));
    tell("Max Latencies", 5, &|_, series| in_us(series.max_ns));
    tell("Histogram Overflows", 5, &|i, _| beyond.get(i).copied().unwrap_or(0));
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::super::measure::tests::latency;
    use super::*;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    #[test]
    fn percentiles_are_named_as_far_as_the_values_reach() {
        let thousand = collect((1..=1000).map(|ns| (ns, 1)));
        let named = percentiles(&thousand, 1000);
        let named: Vec<(f64, u64)> = named.iter().map(|one| (one.percent, one.ns)).collect();
        // The last is at the 999th or, as a float is not exact, at the next one.
        assert_eq!(named, [(50.0, 500), (90.0, 900), (99.0, 990), (99.9, 1000)]);
        assert_eq!(percentiles(&empty(), 0), []);
        assert_eq!(percentiles(&collect([(123_456, 2)].into_iter()), 123_460)[0].ns, 123_460);
    }

    #[test]
    fn percentiles_know_of_the_events_that_nobody_waited_for() {
        // 100 events in time, and one that 9 others were missed behind.
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
    fn a_histogram_comes_back_from_its_text_as_it_was() {
        let given = [(0, 3), (17, 1), (2_048, 9), (3_500_000, 1), (HIGHEST_NS - 1, 1)];
        let histogram = collect(given.into_iter());
        let mut series = latency().series.remove(0);
        series.histogram = encode(&histogram);
        assert_eq!(decode(&series).unwrap(), histogram);
        series.histogram.push('!');
        assert!(decode(&series).unwrap_err().starts_with("the histogram of CPU 3 is none"));
    }

    #[test]
    fn the_files_hold_every_sample_of_every_thread() {
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
}
