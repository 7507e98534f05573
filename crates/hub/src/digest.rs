//! SHA-256 of what is written and of what lies on disk.

use crate::error::HubError;
use crate::progress::Progress;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

const CHUNK: usize = 256 << 10;

/// Writes through and digests on the way.
pub(crate) struct DigestWriter<W> {
    inner: W,
    digest: Sha256,
}

impl<W> DigestWriter<W> {
    pub(crate) fn new(inner: W) -> Self {
        Self { inner, digest: Sha256::new() }
    }

    /// The writer, and the hex digest of all that went through.
    pub(crate) fn finish(self) -> (W, String) {
        (self.inner, hex(&self.digest.finalize()))
    }
}

impl<W: Write> Write for DigestWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.digest.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// Hex digest of a file.
pub(crate) fn of_file(path: &Path, label: &str, progress: &dyn Progress) -> Result<String, HubError> {
    let mut file = File::open(path).map_err(HubError::io("open", path))?;
    let total = file.metadata().map_err(HubError::io("read", path))?.len();
    progress.begin(&format!("verify {label}"), 0, Some(total));
    let mut digest = Sha256::new();
    let mut chunk = vec![0; CHUNK];
    let mut done = 0;
    let result = loop {
        match file.read(&mut chunk) {
            Ok(0) => break Ok(hex(&digest.finalize())),
            Ok(read) => digest.update(&chunk[..read]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => break Err(HubError::io("read", path)(error)),
        }
        done += CHUNK as u64;
        progress.at(done.min(total));
    };
    progress.end();
    result
}

/// Hex digest of a text.
pub(crate) fn of_text(text: &str) -> String {
    hex(&Sha256::digest(text.as_bytes()))
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut out, byte| {
        // Writing to a string cannot fail.
        let _ = write!(out, "{byte:02x}");
        out
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn digests_are_those_of_the_standard() {
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(super::of_text("abc"), abc);
        let mut writer = super::DigestWriter::new(Vec::new());
        std::io::Write::write_all(&mut writer, b"abc").unwrap();
        assert_eq!(writer.finish(), (b"abc".to_vec(), abc.to_owned()));
    }
}
