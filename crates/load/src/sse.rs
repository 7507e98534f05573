//! Server-sent events, from bytes that may be cut anywhere (WHATWG HTML, "Interpreting an event stream").

/// The longest event that is taken; a server that sends more is not one we know.
const MAX_EVENT: usize = 4 << 20;

/// Puts events together. Only `data` (and `error`, which old llama-servers send) is kept.
#[derive(Debug, Default)]
pub struct Events {
    /// A line that has not ended.
    line: Vec<u8>,
    /// The data of an event that has not ended; a line feed ends each line of it.
    data: Vec<u8>,
    /// The last byte was a carriage return, which ended its line; a line feed now belongs to it.
    after_return: bool,
}

/// An event grew beyond what is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an event of the stream is longer than {MAX_EVENT} bytes")]
pub struct TooLong;

impl Events {
    /// Takes bytes and hands on the data of every event that they complete.
    ///
    /// # Errors
    /// [`TooLong`]; the stream cannot be read on.
    pub fn push(&mut self, bytes: &[u8], mut event: impl FnMut(&[u8])) -> Result<(), TooLong> {
        let mut rest = bytes;
        if let (true, Some((&first, after))) = (self.after_return, rest.split_first()) {
            self.after_return = false;
            if first == b'\n' {
                rest = after;
            }
        }
        while let Some(end) = rest.iter().position(|&byte| byte == b'\n' || byte == b'\r') {
            self.line.extend_from_slice(&rest[..end]);
            self.end_line(&mut event);
            let returned = rest[end] == b'\r';
            rest = &rest[end + 1..];
            if returned {
                match rest.split_first() {
                    Some((b'\n', after)) => rest = after,
                    Some(_) => {}
                    None => self.after_return = true,
                }
            }
        }
        self.line.extend_from_slice(rest);
        if self.line.len() + self.data.len() > MAX_EVENT { Err(TooLong) } else { Ok(()) }
    }

    fn end_line(&mut self, event: &mut impl FnMut(&[u8])) {
        if self.line.is_empty() {
            if let Some((_, data)) = self.data.split_last() {
                event(data);
            }
            self.data.clear();
        } else if let Some(value) = field(&self.line, b"data").or_else(|| field(&self.line, b"error")) {
            self.data.extend_from_slice(value);
            self.data.push(b'\n');
        }
        self.line.clear();
    }
}

/// The value of a line `name: value`, without the one space that may stand before it.
fn field<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let value = line.strip_prefix(name)?;
    match value {
        [] => Some(value),
        [b':', b' ', value @ ..] | [b':', value @ ..] => Some(value),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(parts: &[&[u8]]) -> Vec<String> {
        let (mut events, mut found) = (Events::default(), Vec::new());
        for part in parts {
            events.push(part, |data| found.push(String::from_utf8_lossy(data).into_owned())).unwrap();
        }
        found
    }

    #[test]
    fn events() {
        let cases: [(&str, &[&str]); 8] = [
            ("data: a\n\ndata: [DONE]\n\n", &["a", "[DONE]"]),
            ("data:a\r\n\r\ndata:  b\r\n\r\n", &["a", " b"]),
            ("data: a\rdata: b\r\r", &["a\nb"]),
            (": ping\n\nevent: x\ndata: a\nid: 7\n\n", &["a"]),
            ("data\n\n", &[""]),
            ("database: no\n\n", &[]),
            ("data: no end", &[]),
            ("error: {\"code\":500}\n\n", &["{\"code\":500}"]),
        ];
        for (text, wanted) in cases {
            assert_eq!(read(&[text.as_bytes()]), wanted, "{text:?}");
        }
    }

    #[test]
    fn an_event_without_end_is_not_kept_for_ever() {
        let mut events = Events::default();
        let chunk = vec![b'x'; 1 << 20];
        let taken = (0..10).take_while(|_| events.push(&chunk, |_| {}).is_ok()).count();
        assert!(taken <= 4);
    }

    #[test]
    fn a_cut_at_any_byte_changes_nothing() {
        let text = "data: {\"a\": \"ü€\"}\r\n\r\n: c\r\rdata: b\ndata: c\n\ndata: [DONE]\r\n\r\n".as_bytes();
        let whole = read(&[text]);
        assert_eq!(whole.len(), 3);
        for first in 0..=text.len() {
            for second in first..=text.len() {
                assert_eq!(
                    read(&[&text[..first], &text[first..second], &text[second..]]),
                    whole,
                    "{first} {second}"
                );
            }
        }
    }

    proptest! {
        #[test]
        fn cuts_never_matter(lines in prop::collection::vec("(data|error|x)?:? ?[a-z]{0,3}", 0..12), ends in prop::collection::vec(0..3_usize, 12), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8)) {
            let text: String = lines.iter().zip(&ends).map(|(line, &end)| format!("{line}{}", ["\n", "\r", "\r\n"][end])).collect();
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let parts: Vec<&[u8]> = cuts.windows(2).map(|pair| &text.as_bytes()[pair[0]..pair[1]]).collect();
            prop_assert_eq!(read(&parts), read(&[text.as_bytes()]));
        }
    }
}
