//! The part of the protocol buffers' wire format that a writer needs
//! (protobuf.dev/programming-guides/encoding): numbers, and length-prefixed bytes.

/// A message under construction.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProtoMessage(Vec<u8>);

impl ProtoMessage {
    /// Appends a field with a number.
    #[must_use]
    pub fn number(mut self, field: u32, value: u64) -> ProtoMessage {
        varint(&mut self.0, u64::from(field) << 3);
        varint(&mut self.0, value);
        self
    }

    /// Appends a field with text.
    #[must_use]
    pub fn text(self, field: u32, text: &str) -> ProtoMessage {
        self.bytes(field, text.as_bytes())
    }

    /// Appends a field with a nested message.
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

    /// The encoded bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Appends a varint: seven bits per byte, the lowest first; the highest bit marks a continuation.
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
    fn bytes_match_the_examples_of_the_specification() {
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
