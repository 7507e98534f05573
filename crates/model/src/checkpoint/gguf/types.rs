//! The weight types of the format. All are known by size, so that a file is checked whole; few are run.

use crate::checkpoint::DType;

/// For messages: what is run.
pub(crate) const SUPPORTED: &str = "supported weight types are F32, F16, BF16, Q8_0, Q4_0, Q4_1";

/// A weight type of the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kind {
    /// Its name.
    pub(crate) name: &'static str,
    /// Elements of a block.
    pub(crate) elements: u32,
    /// Bytes of a block.
    pub(crate) bytes: u32,
    /// What it is here, if it is run.
    pub(crate) dtype: Option<DType>,
}

const fn run(name: &'static str, dtype: DType) -> Kind {
    let (elements, bytes) = dtype.block();
    Kind { name, elements: elements as u32, bytes: bytes as u32, dtype: Some(dtype) }
}

const fn known(name: &'static str, elements: u32, bytes: u32) -> Kind {
    Kind { name, elements, bytes, dtype: None }
}

/// The type with a number.
pub(crate) const fn kind(number: u32) -> Option<Kind> {
    Some(match number {
        0 => run("F32", DType::F32),
        1 => run("F16", DType::F16),
        2 => run("Q4_0", DType::Q4_0),
        3 => run("Q4_1", DType::Q4_1),
        6 => known("Q5_0", 32, 22),
        7 => known("Q5_1", 32, 24),
        8 => run("Q8_0", DType::Q8_0),
        9 => known("Q8_1", 32, 36),
        10 => known("Q2_K", 256, 84),
        11 => known("Q3_K", 256, 110),
        12 => known("Q4_K", 256, 144),
        13 => known("Q5_K", 256, 176),
        14 => known("Q6_K", 256, 210),
        15 => known("Q8_K", 256, 292),
        16 => known("IQ2_XXS", 256, 66),
        17 => known("IQ2_XS", 256, 74),
        18 => known("IQ3_XXS", 256, 98),
        19 => known("IQ1_S", 256, 50),
        20 => known("IQ4_NL", 32, 18),
        21 => known("IQ3_S", 256, 110),
        22 => known("IQ2_S", 256, 82),
        23 => known("IQ4_XS", 256, 136),
        24 => known("I8", 1, 1),
        25 => known("I16", 1, 2),
        26 => known("I32", 1, 4),
        27 => known("I64", 1, 8),
        28 => known("F64", 1, 8),
        29 => known("IQ1_M", 256, 56),
        30 => run("BF16", DType::BF16),
        34 => known("TQ1_0", 256, 54),
        35 => known("TQ2_0", 256, 66),
        39 => known("MXFP4", 32, 17),
        _ => return None,
    })
}
