//! Which instruction set computes: chosen at run time, each forceable, each tested against the portable one.

#[cfg(target_arch = "x86_64")]
use crate::simd::{Avx2, Avx512};
use crate::simd::{Portable, Simd};
use std::fmt;
use std::str::FromStr;

/// An instruction set this crate has kernels for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Isa {
    /// AVX-512 with VNNI (`vpdpbusd`).
    Avx512,
    /// AVX2 with FMA and F16C.
    Avx2,
    /// Plain Rust, whatever the compiler makes of it.
    Portable,
}

impl Isa {
    /// All of them, best first.
    pub const ALL: [Self; 3] = [Self::Avx512, Self::Avx2, Self::Portable];

    /// The best one this machine has.
    pub fn detect() -> Self {
        Self::ALL.into_iter().find(|isa| isa.is_available()).unwrap_or(Self::Portable)
    }

    /// Whether this machine has it.
    pub fn is_available(self) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => Avx512::new().is_some(),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => Avx2::new().is_some(),
            #[cfg(not(target_arch = "x86_64"))]
            Self::Avx512 | Self::Avx2 => false,
            Self::Portable => true,
        }
    }

    /// Its name, as [`Isa::from_str`] takes it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Avx512 => "avx512",
            Self::Avx2 => "avx2",
            Self::Portable => "portable",
        }
    }

    /// Runs `kernel` compiled for this instruction set; for the portable one if the machine lacks it.
    #[inline]
    pub(crate) fn run<K: Kernel>(self, kernel: K) {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => match Avx512::new() {
                Some(token) => token.run(kernel),
                None => kernel.run(Portable),
            },
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => match Avx2::new() {
                Some(token) => token.run(kernel),
                None => kernel.run(Portable),
            },
            _ => kernel.run(Portable),
        }
    }
}

/// A computation written once over [`Simd`]. `run` and all it calls must be `#[inline(always)]`, so that the whole of it
/// is compiled inside one function that has the instruction set enabled.
pub(crate) trait Kernel {
    /// Does it.
    fn run<S: Simd>(self, simd: S);
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Isa {
    type Err = String;

    /// Takes a name and refuses instruction sets that this machine lacks.
    fn from_str(name: &str) -> Result<Self, String> {
        let isa = Self::ALL
            .into_iter()
            .find(|isa| isa.name() == name)
            .ok_or_else(|| format!("unknown kernel {name:?}: use avx512, avx2 or portable"))?;
        if isa.is_available() {
            return Ok(isa);
        }
        Err(format!("this machine has no {isa}: the best it has is {}", Self::detect()))
    }
}
