//! Reads files of trace-cmd, as far as the tests need them.

use cpushield_linux::text::trace_format::EventFormat;
use cpushield_linux::trace::ring_buffer::PageLayout;
use cpushield_linux::trace::tracefs::TraceTexts;

/// The parts of a trace.dat file of version 6 (trace-cmd.dat.v6(5)) that the tests need.
pub struct TraceDat {
    /// The layout of the pages.
    pub layout: PageLayout,
    /// System, name and format of each event.
    pub events: Vec<(String, String, EventFormat)>,
    /// The text of `/proc/kallsyms`, or empty.
    pub kallsyms: String,
    /// The pages of each CPU.
    pub pages: Vec<Vec<u8>>,
}

/// The unread rest of a file.
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn take(&mut self, n: usize) -> &'a [u8] {
        let (piece, rest) = self.0.split_at(n);
        self.0 = rest;
        piece
    }

    fn text(&mut self) -> String {
        let n = self.0.iter().position(|byte| *byte == 0).unwrap();
        let text = String::from_utf8(self.take(n).to_vec()).unwrap();
        self.take(1);
        text
    }

    fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.take(2).try_into().unwrap())
    }

    fn u32(&mut self) -> usize {
        u32::from_le_bytes(self.take(4).try_into().unwrap()) as usize
    }

    fn u64(&mut self) -> usize {
        usize::try_from(u64::from_le_bytes(self.take(8).try_into().unwrap())).unwrap()
    }

    fn long_text(&mut self) -> String {
        let n = self.u64();
        String::from_utf8(self.take(n).to_vec()).unwrap()
    }
}

impl TraceDat {
    /// Reads a whole file. Also returns its texts, and the system and format of each event except
    /// those of ftrace itself.
    pub fn read(file: &[u8]) -> (TraceDat, TraceTexts, Vec<(String, String)>) {
        let mut at = Cursor(file);
        assert_eq!(at.take(10), b"\x17\x08\x44tracing");
        assert_eq!(at.text(), "6");
        assert_eq!(at.take(2), [0, 8], "little-endian, 64 bits");
        assert_eq!(at.u32(), 4096);
        assert_eq!(at.text(), "header_page");
        let header_page = at.long_text();
        let layout = PageLayout::parse(&header_page).unwrap();
        assert_eq!(at.text(), "header_event");
        let header_event = at.long_text();
        let (mut events, mut formats, mut ftrace) = (Vec::new(), Vec::new(), Vec::new());
        let mut add = |system: &str, text: &str| {
            let name = text.lines().find_map(|line| line.strip_prefix("name: ")).unwrap();
            let format = EventFormat::parse(text).unwrap();
            events.push((system.to_owned(), name.to_owned(), format));
        };
        for _ in 0..at.u32() {
            ftrace.push(at.long_text());
            add("ftrace", &ftrace[ftrace.len() - 1]);
        }
        for _ in 0..at.u32() {
            let system = at.text();
            for _ in 0..at.u32() {
                let text = at.long_text();
                add(&system, &text);
                formats.push((system.clone(), text));
            }
        }
        let n = at.u32();
        let kallsyms = String::from_utf8_lossy(at.take(n)).into_owned();
        let n = at.u32();
        let printk_formats = String::from_utf8_lossy(at.take(n)).into_owned();
        let saved_cmdlines = at.long_text();
        let texts =
            TraceTexts { header_page, header_event, ftrace, printk_formats, saved_cmdlines };
        let cpus = at.u32();
        assert_eq!(at.take(10), b"options  \0");
        while at.u16() != 0 {
            let n = at.u32();
            at.take(n);
        }
        assert_eq!(at.take(10), b"flyrecord\0");
        let places: Vec<(usize, usize)> = (0..cpus).map(|_| (at.u64(), at.u64())).collect();
        let pages = places.into_iter().map(|(from, n)| file[from..from + n].to_vec()).collect();
        (TraceDat { layout, events, kallsyms, pages }, texts, formats)
    }
}
