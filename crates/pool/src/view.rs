//! The same memory as numbers of another type.

use crate::Number;

/// Why memory cannot be seen as numbers of the wanted type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ViewError {
    /// The first byte is not where such a number may lie.
    #[error(
        "the memory starts {off} bytes past a multiple of {align}, which the wanted numbers must start at"
    )]
    Misaligned {
        /// Bytes past the last allowed start.
        off: usize,
        /// Alignment of the wanted type in bytes.
        align: usize,
    },
    /// The memory is not a whole number of such numbers.
    #[error("{bytes} bytes are not a whole number of {size}-byte numbers")]
    Length {
        /// Bytes there are.
        bytes: usize,
        /// Size of the wanted type in bytes.
        size: usize,
    },
}

/// `numbers` as numbers of type `U`, in the machine's byte order, without copying. None are none, wherever they lie.
///
/// # Errors
/// When the memory is not aligned for `U` or not a multiple of its size.
///
/// ```
/// let words = plimsoll_pool::AlignedBuf::<u32>::from(&[1, 2][..]);
/// let bytes: &[u8] = plimsoll_pool::view(&words).unwrap();
/// assert_eq!(bytes.len(), 8);
/// ```
pub fn view<T: Number, U: Number>(numbers: &[T]) -> Result<&[U], ViewError> {
    if numbers.is_empty() {
        return Ok(&[]);
    }
    let count = fit::<T, U>(numbers)?;
    // SAFETY: `fit` checked alignment and that `count` numbers of `U` cover exactly the bytes of `numbers`; every bit
    // pattern is a `U` (`Number`).
    Ok(unsafe { std::slice::from_raw_parts(numbers.as_ptr().cast(), count) })
}

/// [`view()`], to write through.
///
/// # Errors
/// As [`view()`].
pub fn view_mut<T: Number, U: Number>(numbers: &mut [T]) -> Result<&mut [U], ViewError> {
    if numbers.is_empty() {
        return Ok(&mut []);
    }
    let count = fit::<T, U>(numbers)?;
    // SAFETY: as in `view`, and whatever is written as a `U` is a `T` too (`Number`).
    Ok(unsafe { std::slice::from_raw_parts_mut(numbers.as_mut_ptr().cast(), count) })
}

/// How many `U` lie in `numbers`.
fn fit<T: Number, U: Number>(numbers: &[T]) -> Result<usize, ViewError> {
    let (bytes, size, align) = (size_of_val(numbers), size_of::<U>(), align_of::<U>());
    let off = numbers.as_ptr().addr() % align;
    if off != 0 {
        return Err(ViewError::Misaligned { off, align });
    }
    if bytes % size != 0 {
        return Err(ViewError::Length { bytes, size });
    }
    Ok(bytes / size)
}
