//! Varints, tags and lengths: the wire format, which knows no message.

/// What stands on the wire under a field number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Wire<'a> {
    Varint(u64),
    Fixed64(u64),
    Bytes(&'a [u8]),
    Fixed32(u32),
    /// A group or a kind there is none of: not read yet, see [`Fields::skip`].
    Unread(u8),
}

impl Wire<'_> {
    /// Its number in the format.
    pub(super) fn number(self) -> u8 {
        match self {
            Self::Varint(_) => 0,
            Self::Fixed64(_) => 1,
            Self::Bytes(_) => 2,
            Self::Fixed32(_) => 5,
            Self::Unread(number) => number,
        }
    }
}

/// Why bytes are not a message, in the words of Go's generated readers.
pub(super) type Broken = String;

fn cut_short() -> Broken {
    "unexpected EOF".to_owned()
}

/// The fields of one message, one after the other.
pub(super) struct Fields<'a> {
    /// The message's name, which two of the errors mention.
    pub(super) name: &'a str,
    pub(super) bytes: &'a [u8],
}

impl<'a> Fields<'a> {
    /// The next field. What nobody knows has to be given to [`Fields::skip`].
    pub(super) fn next(&mut self) -> Result<Option<(u64, Wire<'a>)>, Broken> {
        if self.bytes.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        // Go reads field numbers as signed 32-bit numbers.
        let number = (tag >> 3) & 0xffff_ffff;
        if tag & 7 == 4 {
            let name = self.name;
            return Err(format!("proto: {name}: wiretype end group for non-group"));
        }
        if number == 0 || number > 0x7fff_ffff {
            let (name, wire) = (self.name, tag & 7);
            let number = u32::try_from(number).unwrap_or_default().cast_signed();
            return Err(format!("proto: {name}: illegal tag {number} (wire type {wire})"));
        }
        Ok(Some((number, self.value(tag & 7)?)))
    }

    /// Passes over a field nobody knows: only a group has not been read yet.
    pub(super) fn skip(&mut self, wire: Wire<'a>) -> Result<(), Broken> {
        match wire {
            Wire::Unread(3) => self.skip_group(),
            Wire::Unread(other) => Err(format!("proto: illegal wireType {other}")),
            _ => Ok(()),
        }
    }

    fn value(&mut self, wire: u64) -> Result<Wire<'a>, Broken> {
        Ok(match wire {
            0 => Wire::Varint(self.varint()?),
            1 => Wire::Fixed64(u64::from_le_bytes(self.array()?)),
            2 => {
                let length = self.varint()?;
                let length = usize::try_from(length)
                    .ok()
                    .filter(|length| isize::try_from(*length).is_ok())
                    .ok_or("proto: negative length found during unmarshaling")?;
                Wire::Bytes(self.take(length)?)
            }
            5 => Wire::Fixed32(u32::from_le_bytes(self.array()?)),
            other => Wire::Unread(u8::try_from(other).unwrap_or(7)),
        })
    }

    fn skip_group(&mut self) -> Result<(), Broken> {
        let mut depth = 1_usize;
        while depth > 0 {
            match self.varint()? & 7 {
                3 => depth += 1,
                4 => depth -= 1,
                wire => {
                    let read = self.value(wire)?;
                    self.skip(read)?;
                }
            }
        }
        Ok(())
    }

    fn varint(&mut self) -> Result<u64, Broken> {
        varint(&mut self.bytes)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], Broken> {
        let (head, tail) = self.bytes.split_at_checked(length).ok_or_else(cut_short)?;
        self.bytes = tail;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Broken> {
        self.take(N)?.try_into().map_err(|_| cut_short())
    }
}

/// Reads a varint off the front.
pub(super) fn varint(bytes: &mut &[u8]) -> Result<u64, Broken> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first().ok_or_else(cut_short)?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err("proto: integer overflow".to_owned())
}

/// Writes a varint.
pub(super) fn put_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    out.push((number & 0x7f) as u8);
}

/// Writes the number of a field and the kind of what follows.
pub(super) fn put_tag(out: &mut Vec<u8>, number: u64, wire: u8) {
    put_varint(out, number << 3 | u64::from(wire));
}

/// Writes a field that is a number.
pub(super) fn put_number(out: &mut Vec<u8>, number: u64, value: u64) {
    put_tag(out, number, 0);
    put_varint(out, value);
}

/// Writes a field that is bytes.
pub(super) fn put_bytes(out: &mut Vec<u8>, number: u64, content: &[u8]) {
    put_tag(out, number, 2);
    put_varint(out, content.len() as u64);
    out.extend_from_slice(content);
}

/// Writes a field whose length is known only when it is written. The length is put in afterwards,
/// which moves the content once for each message around it.
pub(super) fn put_nested(out: &mut Vec<u8>, number: u64, content: impl FnOnce(&mut Vec<u8>)) {
    put_tag(out, number, 2);
    let start = out.len();
    out.push(0);
    content(out);
    let mut length = Vec::with_capacity(10);
    put_varint(&mut length, (out.len() - start - 1) as u64);
    out.splice(start..=start, length);
}
