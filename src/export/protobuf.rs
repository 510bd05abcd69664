//! The little of the protocol buffers' wire format that a writer needs
//! (protobuf.dev/programming-guides/encoding): numbers, and bytes behind their length.

/// A message that grows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProtoMessage(Vec<u8>);

impl ProtoMessage {
    /// A field with a number.
    #[must_use]
    pub fn number(mut self, field: u32, value: u64) -> ProtoMessage {
        varint(&mut self.0, u64::from(field) << 3);
        varint(&mut self.0, value);
        self
    }

    /// A field with text.
    #[must_use]
    pub fn text(self, field: u32, text: &str) -> ProtoMessage {
        self.bytes(field, text.as_bytes())
    }

    /// A field that is a message.
    #[must_use]
    pub fn message(self, field: u32, inner: &ProtoMessage) -> ProtoMessage {
        self.bytes(field, &inner.0)
    }

    fn bytes(mut self, field: u32, bytes: &[u8]) -> ProtoMessage {
        varint(&mut self.0, u64::from(field) << 3 | 2);
        varint(&mut self.0, bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    /// Its bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Seven bits at a time, the lowest first; the highest bit says that more follow.
fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value > 0x7f {
        out.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    out.push(value.to_le_bytes()[0]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_those_of_the_examples_in_the_definition() {
        assert_eq!(ProtoMessage::default().number(1, 150).as_bytes(), [0x08, 0x96, 0x01]);
        let text = ProtoMessage::default().text(2, "testing");
        assert_eq!(text.as_bytes(), b"\x12\x07testing");
        let inner = ProtoMessage::default().number(1, 150);
        let outer = ProtoMessage::default().message(3, &inner);
        assert_eq!(outer.as_bytes(), [0x1a, 0x03, 0x08, 0x96, 0x01]);
        let most = ProtoMessage::default().number(1, u64::MAX);
        assert_eq!(most.as_bytes()[1..], [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]);
    }
}
