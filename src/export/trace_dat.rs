//! `trace.dat` of version 6, which `trace-cmd report` and KernelShark open: the texts that explain
//! the pages, then the pages as the kernel wrote them. The form is that of trace-cmd.dat.v6(5)
//! (Documentation/trace-cmd/trace-cmd.dat.v6.5.txt of trace-cmd 3.4); what that page leaves out is
//! said where it is written.

use crate::verify::trace::recording::TraceRecording;
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
    // One entry for every number up to the highest: the number of a CPU is its place here.
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
    // Not in the page, but read where the option is there (`init_data_v6()`, trace-input.c).
    sized(&mut head, &clock);
    head.resize(usize::try_from(first).unwrap_or(table), 0);
    out.write_all(&head)?;
    for cpu in 0..lanes {
        recording.spool.each(cpu, page, &mut |page| out.write_all(page))?;
    }
    Ok(())
}

/// Everything before the places of the pages.
fn head(recording: &TraceRecording) -> io::Result<Vec<u8>> {
    let mut head = b"\x17\x08\x44tracing6\0".to_vec();
    // Little-endian (others are not traced), and the size of `long`.
    head.push(0);
    head.push(if recording.layout.long_is_64_bits() { 8 } else { 4 });
    head.extend(word(recording.layout.page_size())?);
    let texts = &recording.texts;
    head.extend(b"header_page\0");
    sized(&mut head, &texts.header_page);
    head.extend(b"header_event\0");
    sized(&mut head, &texts.header_event);
    head.extend(word(texts.ftrace.len())?);
    texts.ftrace.iter().for_each(|text| sized(&mut head, text));
    events(&mut head, recording)?;
    for text in [&recording.kallsyms, &texts.printk_formats] {
        head.extend(word(text.len())?);
        head.extend(text.as_bytes());
    }
    sized(&mut head, &names(recording));
    let lanes = recording.cpus.iter().map(|(cpu, _)| cpu + 1).max().unwrap_or(0);
    head.extend(word(lanes)?);
    options(&mut head, recording)?;
    head.extend(b"flyrecord\0");
    Ok(head)
}

/// The forms of the events, by system.
fn events(head: &mut Vec<u8>, recording: &TraceRecording) -> io::Result<()> {
    let known = |(_, text): &&(String, String)| !text.is_empty();
    let mut systems: Vec<&str> =
        recording.events.iter().filter(known).map(|(system, _)| system.as_str()).collect();
    systems.sort_unstable();
    systems.dedup();
    head.extend(word(systems.len())?);
    for system in systems {
        let of = |(name, _): &&(String, String)| name == system;
        let texts: Vec<&str> =
            recording.events.iter().filter(known).filter(of).map(|(_, t)| t.as_str()).collect();
        head.extend(system.as_bytes());
        head.push(0);
        head.extend(word(texts.len())?);
        texts.iter().for_each(|text| sized(head, text));
    }
    Ok(())
}

/// `number name` of every task that is known: those the kernel saved, and those looked up.
fn names(recording: &TraceRecording) -> String {
    let mut text = recording.texts.saved_cmdlines.clone();
    let number = |line: &str| -> Option<i32> { line.split_whitespace().next()?.parse().ok() };
    let saved: Vec<i32> = text.lines().filter_map(number).collect();
    let mut others: Vec<_> =
        recording.tasks.iter().filter(|(tid, _)| !saved.contains(tid)).collect();
    others.sort_by_key(|(tid, _)| **tid);
    for (tid, task) in others.into_iter().filter(|(_, task)| !task.comm.is_empty()) {
        // /proc says more of a kworker's name than fits into the kernel's 15 characters.
        text.push_str(&format!("{tid} {}\n", task.comm));
    }
    text
}

fn options(head: &mut Vec<u8>, recording: &TraceRecording) -> io::Result<()> {
    head.extend(b"options  \0");
    let mut option = |number: u16, data: &[u8]| -> io::Result<()> {
        head.extend(number.to_le_bytes());
        head.extend(word(data.len())?);
        head.extend(data);
        Ok(())
    };
    // Before the clock: a reader that does not know the rate yet takes that clock for a mere
    // counter (`extract_trace_clock()`, trace-input.c).
    if recording.clock == "x86-tsc" {
        let (mult, shift) = ratio(recording.scale.ns_per_tick);
        let mut data = mult.to_le_bytes().to_vec();
        data.extend(shift.to_le_bytes());
        // An offset, which readers up to 3.1 subtract and later ones do not.
        data.extend(0_u64.to_le_bytes());
        option(TSC2NSEC, &data)?;
    }
    option(TRACECLOCK, format!("[{}]\0", recording.clock).as_bytes())?;
    if !recording.kernel.is_empty() {
        option(UNAME, format!("{}\0", recording.kernel).as_bytes())?;
    }
    option(VERSION, format!("cpushield {}\0", env!("CARGO_PKG_VERSION")).as_bytes())?;
    for (cpu, stats) in &recording.cpus {
        option(CPUSTAT, format!("CPU: {cpu}\n{stats}\0").as_bytes())?;
    }
    option(0, &[])?;
    // The end is a number without a size.
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

/// A text behind its length in 8 bytes.
fn sized(head: &mut Vec<u8>, text: &str) {
    head.extend((text.len() as u64).to_le_bytes());
    head.extend(text.as_bytes());
}

/// A length in 4 bytes.
fn word(length: usize) -> io::Result<[u8; 4]> {
    let word = u32::try_from(length);
    word.map(u32::to_le_bytes)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "a text of more than 4 GiB"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_exact_to_a_billionth_for_every_clock_there_is() {
        for factor in [0.1, 0.25, 0.333_333_333, 0.999_9, 1.0, 41.666_666, 1000.0] {
            let (mult, shift) = ratio(factor);
            let back = f64::from(mult) / f64::from(1_u32 << shift);
            assert!((back / factor - 1.0).abs() < 1e-8, "{factor}: {back}");
        }
        assert_eq!(ratio(1e12), (u32::MAX, 0));
    }
}
