//! Positioned reads: a weight file is never read into memory nor mapped, only the rows that are asked for.

use std::{fs::File, io, path::Path};

/// Bytes that can be read at any offset.
pub(crate) trait Source: Send + Sync {
    /// Length in bytes.
    fn size(&self) -> u64;

    /// Fills `out` from `offset` on.
    fn read_exact_at(&self, out: &mut [u8], offset: u64) -> io::Result<()>;
}

/// A file on disk.
pub(crate) struct DiskFile {
    #[cfg(unix)]
    file: File,
    #[cfg(not(unix))]
    file: std::sync::Mutex<File>,
    size: u64,
}

impl DiskFile {
    /// Opens a regular file.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let meta = file.metadata()?;
        if !meta.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is a folder, a device or a pipe"));
        }
        #[cfg(not(unix))]
        let file = std::sync::Mutex::new(file);
        Ok(Self { file, size: meta.len() })
    }
}

impl Source for DiskFile {
    fn size(&self) -> u64 {
        self.size
    }

    #[cfg(unix)]
    fn read_exact_at(&self, out: &mut [u8], offset: u64) -> io::Result<()> {
        std::os::unix::fs::FileExt::read_exact_at(&self.file, out, offset)
    }

    #[cfg(not(unix))]
    fn read_exact_at(&self, out: &mut [u8], offset: u64) -> io::Result<()> {
        use std::io::{Read, Seek, SeekFrom};
        let mut file = self.file.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        file.seek(SeekFrom::Start(offset))?;
        file.read_exact(out)
    }
}

impl Source for Vec<u8> {
    fn size(&self) -> u64 {
        self.len() as u64
    }

    fn read_exact_at(&self, out: &mut [u8], offset: u64) -> io::Result<()> {
        let bytes = usize::try_from(offset)
            .ok()
            .and_then(|start| self.get(start..start.checked_add(out.len())?))
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(bytes);
        Ok(())
    }
}
