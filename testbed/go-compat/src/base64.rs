//! Where Go's base64 decoder stops: bytes in JSON are refused with the offset it names.

/// Checks padded standard base64; line breaks are ignored, as Go ignores them.
pub fn check(text: &str) -> Result<(), String> {
    let bytes: Vec<(usize, u8)> = text
        .bytes()
        .enumerate()
        .filter(|(_, byte)| !matches!(byte, b'\r' | b'\n'))
        .collect();
    let corrupt = |at: usize| Err(format!("illegal base64 data at input byte {at}"));
    for (position, quantum) in bytes.chunks(4).enumerate() {
        let last = (position + 1) * 4 >= bytes.len();
        for (index, (at, byte)) in quantum.iter().enumerate() {
            if byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/') {
                continue;
            }
            if *byte != b'=' || index < 2 {
                return corrupt(*at);
            }
            return padding(text, quantum, index, last);
        }
        if quantum.len() < 4 {
            // Go names where the incomplete quantum began.
            return corrupt(text.len() - quantum.len());
        }
    }
    Ok(())
}

fn padding(text: &str, quantum: &[(usize, u8)], index: usize, last: bool) -> Result<(), String> {
    let corrupt = |at: usize| Err(format!("illegal base64 data at input byte {at}"));
    if index == 2 {
        match quantum.get(3) {
            None => return corrupt(text.len()),
            Some((at, byte)) if *byte != b'=' => return corrupt(*at),
            Some(_) => {}
        }
    }
    if last { Ok(()) } else { corrupt(quantum[3].0 + 1) }
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn errors_name_the_byte_go_stops_at() {
        assert_eq!(check("YQ=="), Ok(()));
        assert_eq!(check(""), Ok(()));
        for (text, at) in [("???", 0), ("YQ", 0), ("YQ=", 3), ("YQ==YQ==", 4), ("YW!h", 2)] {
            assert_eq!(
                check(text),
                Err(format!("illegal base64 data at input byte {at}")),
                "{text}"
            );
        }
    }
}
