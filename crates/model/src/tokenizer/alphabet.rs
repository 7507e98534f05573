//! The byte alphabet of GPT-2: every byte written as one printable character, so that a vocabulary of bytes can be
//! stored as text.

/// The character that stands for each byte.
pub(super) fn chars() -> [char; 256] {
    let mut chars = ['\0'; 256];
    let mut stand_ins = (0x100u32..).filter_map(char::from_u32);
    for (byte, slot) in (0u8..=255).zip(&mut chars) {
        let printable = matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
        *slot = if printable { char::from(byte) } else { stand_ins.next().unwrap_or('\0') };
    }
    chars
}

/// Appends the bytes that `text` stands for. False, with nothing appended, when a character is not of the alphabet.
pub(super) fn decode(text: &str, out: &mut Vec<u8>) -> bool {
    let start = out.len();
    for c in text.chars() {
        match byte(c) {
            Some(byte) => out.push(byte),
            None => {
                out.truncate(start);
                return false;
            }
        }
    }
    true
}

/// The byte that `c` stands for.
pub(super) fn byte(c: char) -> Option<u8> {
    match u32::from(c) {
        c @ (0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF) => u8::try_from(c).ok(),
        // The stand-ins, in the order of the bytes they stand for: 0 to 0x20, 0x7F to 0xA0, 0xAD.
        c @ 0x100..=0x120 => u8::try_from(c - 0x100).ok(),
        c @ 0x121..=0x142 => u8::try_from(c - 0x121 + 0x7F).ok(),
        0x143 => Some(0xAD),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_its_own_character_and_comes_back() {
        for (value, c) in (0u8..=255).zip(chars()) {
            assert_eq!(byte(c), Some(value), "{c:?}");
        }
        assert_eq!(chars()[usize::from(b' ')], '\u{120}');
        assert_eq!(chars()[usize::from(b'\n')], '\u{10A}');
    }
}
