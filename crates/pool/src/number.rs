//! The types a buffer may hold.

/// A plain number: every bit pattern is a value, all zeros is zero, and there is no padding.
///
/// Sealed: the unsafe code of this crate rests on the three promises above.
pub trait Number:
    sealed::Sealed + Copy + Default + PartialEq + std::fmt::Debug + Send + Sync + 'static
{
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! numbers {
    ($($number:ty)*) => {$(
        impl sealed::Sealed for $number {}
        impl Number for $number {}
    )*};
}

numbers!(u8 i8 u16 i16 u32 i32 u64 i64 f32 f64);
