//! `trace.dat` version 6 for `trace-cmd report` and KernelShark: the metadata that describes the
//! pages, then the pages as the kernel wrote them. The format is that of trace-cmd.dat.v6(5)
//! (Documentation/trace-cmd/trace-cmd.dat.v6.5.txt of trace-cmd 3.4). Comments give the source for
//! what that page omits.

use crate::trace::recording::TraceRecording;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Options, by number (`TRACECMD_OPTION_…`, trace-cmd-private.h of trace-cmd 3.4).
const CPUSTAT: u16 = 2;
const TRACECLOCK: u16 = 4;
const UNAME: u16 = 5;
const VERSION: u16 = 9;
const TSC2NSEC: u16 = 14;

/// Writes the whole file.
///
/// # Errors
/// Pages could not be kept or read back, a text is too long for the format, or the writer failed.
pub fn write(recording: &mut TraceRecording, out: &mut dyn Write) -> io::Result<()> {
    let page = recording.layout.page_size();
    let mut head = head(recording)?;
    // One entry for every CPU up to the highest: the index is the number of the CPU.
    let lanes = recording.cpus.iter().map(|(cpu, _)| cpu + 1).max().unwrap_or(0);
    let clock = format!("[{}]\n", recording.clock);
    let table = head.len() + 16 * lanes + 8 + clock.len();
    let mut at = table.next_multiple_of(page) as u64;
    let first = at;
    for cpu in 0..lanes {
        let bytes = recording.spool.bytes(cpu);
        head.extend(at.to_le_bytes());
        head.extend(bytes.to_le_bytes());
        at += bytes;
    }
    // Undocumented, but read when the option is present (`init_data_v6()`, trace-input.c).
    push_sized(&mut head, &clock);
    head.resize(usize::try_from(first).unwrap_or(table), 0);
    out.write_all(&head)?;
    for cpu in 0..lanes {
        recording.spool.each(cpu, page, &mut |page| out.write_all(page))?;
    }
    Ok(())
}

/// Everything before the offsets of the pages.
fn head(recording: &TraceRecording) -> io::Result<Vec<u8>> {
    let mut head = b"\x17\x08\x44tracing6\0".to_vec();
    // Little-endian (tracing supports no other), and the size of `long`.
    head.push(0);
    head.push(if recording.layout.long_is_64_bits() { 8 } else { 4 });
    head.extend(length_bytes(recording.layout.page_size())?);
    let texts = &recording.texts;
    head.extend(b"header_page\0");
    push_sized(&mut head, &texts.header_page);
    head.extend(b"header_event\0");
    push_sized(&mut head, &texts.header_event);
    head.extend(length_bytes(texts.ftrace.len())?);
    texts.ftrace.iter().for_each(|text| push_sized(&mut head, text));
    events(&mut head, recording)?;
    for text in [&recording.kallsyms, &texts.printk_formats] {
        head.extend(length_bytes(text.len())?);
        head.extend(text.as_bytes());
    }
    push_sized(&mut head, &names(recording));
    let lanes = recording.cpus.iter().map(|(cpu, _)| cpu + 1).max().unwrap_or(0);
    head.extend(length_bytes(lanes)?);
    options(&mut head, recording)?;
    head.extend(b"flyrecord\0");
    Ok(head)
}

/// The formats of the events, by system.
fn events(head: &mut Vec<u8>, recording: &TraceRecording) -> io::Result<()> {
    let mut systems: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (system, text) in recording.events.iter().filter(|(_, text)| !text.is_empty()) {
        systems.entry(system).or_default().push(text);
    }
    head.extend(length_bytes(systems.len())?);
    for (system, texts) in systems {
        head.extend(system.as_bytes());
        head.push(0);
        head.extend(length_bytes(texts.len())?);
        texts.iter().for_each(|text| push_sized(head, text));
    }
    Ok(())
}

/// `number name` of every known task: those that the kernel saved, and those from /proc.
fn names(recording: &TraceRecording) -> String {
    let mut text = recording.texts.saved_cmdlines.clone();
    let numbers = text.lines().filter_map(|line| line.split_whitespace().next()?.parse().ok());
    let saved: Vec<i32> = numbers.collect();
    let mut others: Vec<_> =
        recording.tasks.iter().filter(|(tid, _)| !saved.contains(tid)).collect();
    others.sort_by_key(|(tid, _)| **tid);
    for (tid, task) in others {
        // /proc has more of a kworker's name than the kernel's 15 characters.
        text.extend(task.iter().map(|task| format!("{tid} {}\n", task.comm)));
    }
    text
}

fn write_option(head: &mut Vec<u8>, number: u16, data: &[u8]) -> io::Result<()> {
    head.extend(number.to_le_bytes());
    head.extend(length_bytes(data.len())?);
    head.extend(data);
    Ok(())
}

fn options(head: &mut Vec<u8>, recording: &TraceRecording) -> io::Result<()> {
    head.extend(b"options  \0");
    // It precedes the clock: a reader that does not know the rate yet treats that clock as a plain
    // counter (`extract_trace_clock()`, trace-input.c).
    if recording.clock == "x86-tsc" {
        let (mult, shift) = ratio(recording.scale.ns_per_tick);
        let mut data = mult.to_le_bytes().to_vec();
        data.extend(shift.to_le_bytes());
        // An offset, which readers up to 3.1 subtract and later ones do not.
        data.extend(0_u64.to_le_bytes());
        write_option(head, TSC2NSEC, &data)?;
    }
    write_option(head, TRACECLOCK, format!("[{}]\0", recording.clock).as_bytes())?;
    if !recording.kernel.is_empty() {
        write_option(head, UNAME, format!("{}\0", recording.kernel).as_bytes())?;
    }
    write_option(head, VERSION, format!("cpushield {}\0", env!("CARGO_PKG_VERSION")).as_bytes())?;
    for (cpu, stats) in &recording.cpus {
        write_option(head, CPUSTAT, format!("CPU: {cpu}\n{stats}\0").as_bytes())?;
    }
    write_option(head, 0, &[])?;
    // The end marker is a number without a size.
    head.truncate(head.len() - 4);
    Ok(())
}

/// A factor as `mult >> shift`, as exact as 32 bits allow.
fn ratio(factor: f64) -> (u32, u32) {
    for shift in (0..=31_u32).rev() {
        let mult = (factor * f64::from(1_u32 << shift)).round();
        if mult <= f64::from(u32::MAX) {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "fits")]
            return (mult as u32, shift);
        }
    }
    (u32::MAX, 0)
}

/// Appends a text with its length in 8 bytes before it.
fn push_sized(head: &mut Vec<u8>, text: &str) {
    head.extend((text.len() as u64).to_le_bytes());
    head.extend(text.as_bytes());
}

/// A length as 4 bytes.
fn length_bytes(length: usize) -> io::Result<[u8; 4]> {
    let word = u32::try_from(length);
    word.map(u32::to_le_bytes)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "a text of more than 4 GiB"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_exact_to_a_hundred_millionth_for_every_clock_rate() {
        for factor in [0.1, 0.25, 0.333_333_333, 0.999_9, 1.0, 41.666_666, 1000.0] {
            let (mult, shift) = ratio(factor);
            let back = f64::from(mult) / f64::from(1_u32 << shift);
            assert!((back / factor - 1.0).abs() < 1e-8, "{factor}: {back}");
        }
        assert_eq!(ratio(1e12), (u32::MAX, 0));
    }
}
