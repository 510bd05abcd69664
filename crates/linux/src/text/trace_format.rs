//! `events/<system>/<event>/format` of tracefs: the fields of an event in its raw record.

use super::TextError;

/// The record format of one event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventFormat {
    /// The `common_type` in a record of this event. It differs from boot to boot.
    pub id: u16,
    fields: Vec<(String, EventField)>,
}

/// One field of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventField {
    /// Offset in the record, in bytes.
    pub offset: usize,
    /// Size in bytes; for [`EventField::dynamic`] that of the reference, not that of the data.
    pub size: usize,
    /// `__data_loc`: the field holds offset and length of the data, 16 bits each.
    pub dynamic: bool,
}

impl EventFormat {
    /// Parses a `format` file.
    ///
    /// # Errors
    /// There is no ID, or the line of a field is malformed.
    pub fn parse(text: &str) -> Result<EventFormat, TextError> {
        let (mut id, mut fields) = (None, Vec::new());
        for (i, line) in text.lines().enumerate() {
            if let Some(number) = line.strip_prefix("ID:") {
                let malformed = TextError::new(i + 1, "a number up to 65535", line);
                id = Some(number.trim().parse().map_err(|_| malformed)?);
            } else if let Some(rest) = line.trim_start().strip_prefix("field:") {
                let malformed = TextError::new(i + 1, "a field with offset and size", line);
                fields.push(parse_field(rest).ok_or(malformed)?);
            }
        }
        let id = id.ok_or_else(|| TextError::new(0, "a line `ID:`", text))?;
        Ok(EventFormat { id, fields })
    }

    /// The field with this name.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<EventField> {
        self.fields.iter().find(|(known, _)| known == name).map(|(_, field)| *field)
    }
}

/// Parses `pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;`.
fn parse_field(rest: &str) -> Option<(String, EventField)> {
    let mut parts = rest.split(';').map(str::trim);
    let declaration = parts.next()?;
    let (mut offset, mut size) = (None, None);
    for part in parts {
        match part.split_once(':') {
            Some(("offset", number)) => offset = number.parse().ok(),
            Some(("size", number)) => size = number.parse().ok(),
            _ => {}
        }
    }
    // The last word is the name, perhaps followed by the length of an array.
    let name = declaration.split_whitespace().next_back()?.trim_start_matches('*');
    let name = name.split('[').next()?;
    // Records are smaller than the largest sub-buffer; no kernel has a field beyond that.
    let (offset, size): (u16, u16) = (offset?, size?);
    let dynamic = declaration.starts_with("__data_loc");
    (!name.is_empty() && (!dynamic || size == 4)).then(|| {
        (name.to_owned(), EventField { offset: offset.into(), size: size.into(), dynamic })
    })
}

impl EventField {
    /// The field's bytes in a record; `None` if the record is too short.
    #[must_use]
    pub fn bytes<'a>(&self, record: &'a [u8]) -> Option<&'a [u8]> {
        record.get(self.offset..self.offset + self.size)
    }

    /// The value of an unsigned integer or pointer of 1, 2, 4 or 8 bytes.
    #[must_use]
    pub fn unsigned(&self, record: &[u8]) -> Option<u64> {
        let bytes = self.bytes(record)?;
        match self.size {
            1 => bytes.first().map(|byte| u64::from(*byte)),
            2 => bytes.first_chunk().map(|chunk| u64::from(u16::from_le_bytes(*chunk))),
            4 => bytes.first_chunk().map(|chunk| u64::from(u32::from_le_bytes(*chunk))),
            8 => bytes.first_chunk().map(|chunk| u64::from_le_bytes(*chunk)),
            _ => None,
        }
    }

    /// The value of a signed integer of 4 or 8 bytes.
    #[must_use]
    pub fn signed(&self, record: &[u8]) -> Option<i64> {
        let bytes = self.bytes(record)?;
        match self.size {
            4 => bytes.first_chunk().map(|chunk| i64::from(i32::from_le_bytes(*chunk))),
            8 => bytes.first_chunk().map(|chunk| i64::from_le_bytes(*chunk)),
            _ => None,
        }
    }

    /// The text of a `char` array or of a `__data_loc` string, up to its first NUL.
    #[must_use]
    pub fn text<'a>(&self, record: &'a [u8]) -> Option<&'a [u8]> {
        let bytes = if self.dynamic {
            let location = u32::from_le_bytes(*self.bytes(record)?.first_chunk()?);
            let (offset, length) = ((location & 0xffff) as usize, (location >> 16) as usize);
            record.get(offset..offset + length)?
        } else {
            self.bytes(record)?
        };
        bytes.split(|byte| *byte == 0).next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Linux 6.12, x86-64; `print fmt` shortened.
    const IRQ_HANDLER_ENTRY: &str = "name: irq_handler_entry
ID: 225
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;
\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

\tfield:int irq;\toffset:8;\tsize:4;\tsigned:1;
\tfield:__data_loc char[] name;\toffset:12;\tsize:4;\tsigned:0;

print fmt: \"irq=%d name=%s\", REC->irq, __get_str(name)
";

    /// The lines of `sched_switch` that have other formats.
    const SCHED_SWITCH: &str = "ID: 372
format:
\tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;
\tfield:long prev_state;\toffset:32;\tsize:8;\tsigned:1;
\tfield:void *function;\toffset:40;\tsize:8;\tsigned:0;
";

    fn at(offset: usize, size: usize) -> Option<EventField> {
        Some(EventField { offset, size, dynamic: false })
    }

    #[test]
    fn numbers_pointers_and_both_kinds_of_text_are_decoded() {
        let entry = EventFormat::parse(IRQ_HANDLER_ENTRY).unwrap();
        assert_eq!((entry.id, entry.field("irq")), (225, at(8, 4)));
        assert_eq!(entry.field("nothing"), None);
        let mut record = vec![0; 16];
        record[8..12].copy_from_slice(&(-3i32).to_le_bytes());
        record[12..16].copy_from_slice(&(5u32 << 16 | 16).to_le_bytes());
        record.extend(b"eth0\0");
        assert_eq!(entry.field("irq").unwrap().signed(&record), Some(-3));
        assert_eq!(entry.field("name").unwrap().text(&record), Some(&b"eth0"[..]));
        assert_eq!(entry.field("name").unwrap().text(&record[..18]), None);
        assert_eq!(entry.field("irq").unwrap().signed(&record[..11]), None);

        let switch = EventFormat::parse(SCHED_SWITCH).unwrap();
        assert_eq!(switch.field("prev_comm"), at(8, 16));
        assert_eq!(switch.field("function"), at(40, 8));
    }

    #[test]
    fn a_malformed_text_is_refused_with_its_line() {
        let line = |text: &str| EventFormat::parse(text).unwrap_err().line;
        assert_eq!(line(""), 0);
        assert_eq!(line("name: x\nID: x\n"), 2);
        assert_eq!(line("ID: 1\n\tfield:int a;\toffset:x;\tsize:4;"), 2);
        assert_eq!(line("ID: 1\n\tfield:int a;\toffset:70000;\tsize:4;"), 2);
        assert_eq!(line("ID: 1\n\tfield:;\toffset:7;\tsize:4;"), 2);
    }

    proptest! {
        #[test]
        fn no_text_and_no_record_make_it_panic(
            text in "(ID: [0-9]{1,6}\n|\tfield:(__data_loc )?[a-z \\[\\]*]{0,9};( |\t)?offset:[0-9]{1,5};\tsize:[0-9]{1,5};\n|.{0,9}\n){0,9}",
            record in prop::collection::vec(any::<u8>(), 0..80),
        ) {
            if let Ok(format) = EventFormat::parse(&text) {
                for (_, field) in &format.fields {
                    let _ = (field.unsigned(&record), field.signed(&record), field.text(&record));
                }
            }
        }
    }
}
