//! Weights packed for the kernels: panels of 16 outputs, read front to back.
//!
//! One layout serves every instruction set. `k` counts inputs, `c` the 16 outputs of a panel:
//! - **Q4** (from `Q4_1`): per 32 inputs 16 f16 scales, 16 f16 minimums, then four groups of 64 bytes; byte
//!   `4c + o` of group `g` holds inputs `8g + o` (low nibble) and `8g + 4 + o` (high nibble). 5 bits a weight.
//! - **Q4Centered** (from `Q4_0`): per 64 inputs twice 16 f16 scales, then twice four such groups; the nibbles are 8 more
//!   than the weights. 4.5 bits a weight. (Blocks go in twos so that groups stay aligned; half of the last may be unused.)
//! - **Q8** (from `Q8_0`): per 32 inputs eight groups of 64 bytes, byte `4c + o` of group `g` holds input `4g + o` plus
//!   128; the f16 scales lie apart, 16 per 32 inputs. 8.5 bits a weight.
//! - **F32, F16, BF16**: 16 numbers per input.

use half::f16;
use plimsoll_pool::AlignedBuf;
use std::ops::Range;

use crate::simd::LANES;

/// Inputs of a quantization block.
pub const BLOCK: usize = 32;

pub(crate) const Q4_BLOCK_BYTES: usize = 320;
/// Of two blocks.
const Q4_CENTERED_BYTES: usize = 576;
pub(crate) const Q8_BLOCK_BYTES: usize = 512;

/// How weights are stored in a model file, a row (one output) at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stored {
    /// Little-endian f32.
    F32,
    /// Little-endian IEEE halves.
    F16,
    /// Little-endian bfloat16.
    BF16,
    /// Blocks of 32: f16 scale, 32 signed bytes.
    Q8_0,
    /// Blocks of 32: f16 scale, 16 bytes of nibbles (inputs 0..16 low, 16..32 high) less 8.
    Q4_0,
    /// Blocks of 32: f16 scale, f16 minimum, 16 bytes of nibbles as above.
    Q4_1,
}

impl Stored {
    /// Bytes of a row of `inputs` weights.
    pub const fn row_bytes(self, inputs: usize) -> usize {
        match self {
            Self::F32 => inputs * 4,
            Self::F16 | Self::BF16 => inputs * 2,
            Self::Q8_0 => inputs / BLOCK * 34,
            Self::Q4_0 => inputs / BLOCK * 18,
            Self::Q4_1 => inputs / BLOCK * 20,
        }
    }

    /// How it is packed.
    pub const fn packed(self) -> Packed {
        match self {
            Self::F32 => Packed::F32,
            Self::F16 => Packed::F16,
            Self::BF16 => Packed::BF16,
            Self::Q8_0 => Packed::Q8,
            Self::Q4_0 => Packed::Q4Centered,
            Self::Q4_1 => Packed::Q4,
        }
    }
}

/// How weights are packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packed {
    /// 32-bit floats.
    F32,
    /// IEEE halves.
    F16,
    /// bfloat16.
    BF16,
    /// Signed bytes with a scale per 32 inputs.
    Q8,
    /// Nibbles with a scale and a minimum per 32 inputs.
    Q4,
    /// Nibbles less 8 with a scale per 32 inputs.
    Q4Centered,
}

/// Where block `block` of a panel of nibbles begins: its scales, and its four groups.
#[inline(always)]
pub(crate) const fn nibbles_at(minimum: bool, block: usize) -> (usize, usize) {
    if minimum {
        (block * Q4_BLOCK_BYTES, block * Q4_BLOCK_BYTES + 64)
    } else {
        let (both, second) = (block / 2 * Q4_CENTERED_BYTES, block % 2);
        (both + second * 32, both + 64 + second * 256)
    }
}

/// Bytes of a panel of `blocks` blocks of nibbles.
pub(crate) const fn nibbles_bytes(minimum: bool, blocks: usize) -> usize {
    if minimum { blocks * Q4_BLOCK_BYTES } else { blocks.div_ceil(2) * Q4_CENTERED_BYTES }
}

impl Packed {
    /// Whether a product takes its activations quantized ([`crate::Activations`] has both forms).
    pub const fn is_quantized(self) -> bool {
        matches!(self, Self::Q8 | Self::Q4 | Self::Q4Centered)
    }
}

/// A packed matrix, `[outputs, inputs]`.
pub struct Matrix {
    outputs: usize,
    inputs: usize,
    packed: Packed,
    pub(crate) weights: AlignedBuf<u8>,
    /// f16 scales of Q8, two bytes each.
    scales: AlignedBuf<u8>,
}

impl Matrix {
    /// Bytes that a matrix takes of an arena, padding included.
    pub const fn arena_bytes(outputs: usize, inputs: usize, packed: Packed) -> usize {
        let (weights, scales) = sizes(outputs, inputs, packed);
        weights.next_multiple_of(64) + scales.next_multiple_of(64)
    }

    /// A matrix of zeros to fill with [`Matrix::set_row`], in memory carved from `arena`: the matrices of a model lie in
    /// one allocation, on huge pages, or a pass over them would miss the TLB at every page.
    ///
    /// # Panics
    /// When a quantized matrix has inputs that are no multiple of [`BLOCK`], or the arena is too small.
    pub fn new(outputs: usize, inputs: usize, packed: Packed, arena: &mut AlignedBuf<u8>) -> Self {
        assert!(
            !packed.is_quantized() || inputs.is_multiple_of(BLOCK),
            "{inputs} inputs in blocks of {BLOCK}"
        );
        let (weights, scales) = sizes(outputs, inputs, packed);
        Self { outputs, inputs, packed, weights: arena.carve(weights), scales: arena.carve(scales) }
    }

    /// Outputs: the length of a row of the product.
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// Inputs: the length of a row of activations.
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// How it is packed.
    pub fn packed(&self) -> Packed {
        self.packed
    }

    /// Bytes it takes.
    pub fn bytes(&self) -> usize {
        self.weights.len() + self.scales.len()
    }

    /// The f16 scales of Q8, 16 per panel and block.
    pub(crate) fn scales(&self) -> *const u16 {
        self.scales.as_ptr().cast()
    }

    /// The weights and the scales of `panels`, as many of them as there are.
    pub(crate) fn of_panels(&self, panels: Range<usize>) -> [&[u8]; 2] {
        let most = self.panels();
        let (start, end) = (panels.start.min(most), panels.end.min(most));
        [&self.weights, &self.scales].map(|bytes| {
            let each = bytes.len() / most.max(1);
            &bytes[start * each..end * each]
        })
    }

    pub(crate) fn panels(&self) -> usize {
        self.outputs.div_ceil(LANES)
    }

    pub(crate) fn blocks(&self) -> usize {
        self.inputs / BLOCK
    }

    /// Packs the weights of one output, `row` as a file stores it.
    ///
    /// # Panics
    /// When `output` is none, `row` has not the length of a row, or `stored` packs otherwise than this matrix.
    pub fn set_row(&mut self, output: usize, stored: Stored, row: &[u8]) {
        assert!(output < self.outputs, "output {output} of {}", self.outputs);
        assert!(stored.packed() == self.packed, "{stored:?} into {:?}", self.packed);
        assert!(
            row.len() == stored.row_bytes(self.inputs),
            "{} bytes in a row of {}",
            row.len(),
            self.inputs
        );
        match stored {
            Stored::F32 => self.set_floats::<4>(output, row),
            Stored::F16 | Stored::BF16 => self.set_floats::<2>(output, row),
            Stored::Q8_0 => self.set_q8(output, row),
            Stored::Q4_0 => self.set_q4::<2>(output, row),
            Stored::Q4_1 => self.set_q4::<4>(output, row),
        }
    }

    fn set_floats<const BYTES: usize>(&mut self, output: usize, row: &[u8]) {
        let (panel, column) = (output / LANES, output % LANES);
        let first = panel * self.inputs * LANES * BYTES + column * BYTES;
        let slots = self.weights[first..].chunks_mut(LANES * BYTES);
        for (slot, number) in slots.zip(row.chunks_exact(BYTES)) {
            let mut native: [u8; BYTES] = std::array::from_fn(|i| number[i]);
            if cfg!(target_endian = "big") {
                native.reverse();
            }
            slot[..BYTES].copy_from_slice(&native);
        }
    }

    fn set_q8(&mut self, output: usize, row: &[u8]) {
        let (panel, column) = (output / LANES, output % LANES);
        let first = panel * self.blocks();
        for (b, block) in row.chunks_exact(34).enumerate() {
            let scale = u16::from_le_bytes([block[0], block[1]]);
            self.scales[2 * ((first + b) * LANES + column)..][..2].copy_from_slice(&scale.to_ne_bytes());
            let to = &mut self.weights[(first + b) * Q8_BLOCK_BYTES..][..Q8_BLOCK_BYTES];
            for (i, &q) in block[2..].iter().enumerate() {
                to[i / 4 * 64 + column * 4 + i % 4] = q.wrapping_add(128);
            }
        }
    }

    /// Blocks begin with `HALVES` bytes: a scale, or a scale and a minimum.
    fn set_q4<const HALVES: usize>(&mut self, output: usize, row: &[u8]) {
        let (panel, column, minimum) = (output / LANES, output % LANES, HALVES == 4);
        let first = panel * nibbles_bytes(minimum, self.blocks());
        for (b, block) in row.chunks_exact(HALVES + BLOCK / 2).enumerate() {
            let to = &mut self.weights[first..];
            let ((scales, groups), (halves, nibbles)) = (nibbles_at(minimum, b), block.split_at(HALVES));
            for (i, half) in halves.chunks_exact(2).enumerate() {
                let half = u16::from_le_bytes([half[0], half[1]]);
                to[scales + 32 * i + 2 * column..][..2].copy_from_slice(&half.to_ne_bytes());
            }
            for i in 0..BLOCK {
                let nibble = if i < 16 { nibbles[i] & 15 } else { nibbles[i - 16] >> 4 };
                let (group, within) = (i / 8, i % 8);
                let at = &mut to[groups + group * 64 + column * 4 + within % 4];
                *at = if within < 4 { *at & 0xf0 | nibble } else { *at & 0x0f | nibble << 4 };
            }
        }
    }

    /// The weights of one output as f32: a row of an embedding table.
    ///
    /// # Panics
    /// When `output` is none, or `row` is not [`Matrix::inputs`] long.
    pub fn row(&self, output: usize, row: &mut [f32]) {
        assert!(output < self.outputs, "output {output} of {}", self.outputs);
        assert!(row.len() == self.inputs, "a row of {} into {}", self.inputs, row.len());
        let (panel, column) = (output / LANES, output % LANES);
        match self.packed {
            Packed::F32 => self.floats::<4>(panel, column, row, f32::from_ne_bytes),
            Packed::F16 => self.floats::<2>(panel, column, row, |b| f16::from_ne_bytes(b).to_f32()),
            Packed::BF16 => self.floats::<2>(panel, column, row, |b| half::bf16::from_ne_bytes(b).to_f32()),
            Packed::Q8 => self.row_q8(panel, column, row),
            Packed::Q4 => self.row_q4(panel, column, row, true),
            Packed::Q4Centered => self.row_q4(panel, column, row, false),
        }
    }

    fn floats<const BYTES: usize>(
        &self,
        panel: usize,
        column: usize,
        row: &mut [f32],
        read: impl Fn([u8; BYTES]) -> f32,
    ) {
        let first = panel * self.inputs * LANES * BYTES + column * BYTES;
        for (x, slot) in row.iter_mut().zip(self.weights[first..].chunks(LANES * BYTES)) {
            *x = read(std::array::from_fn(|i| slot[i]));
        }
    }

    fn row_q8(&self, panel: usize, column: usize, row: &mut [f32]) {
        for (b, out) in row.chunks_exact_mut(BLOCK).enumerate() {
            let at = panel * self.blocks() + b;
            let scale = &self.scales[2 * (at * LANES + column)..];
            let scale = f16::from_ne_bytes([scale[0], scale[1]]).to_f32();
            let block = &self.weights[at * Q8_BLOCK_BYTES..][..Q8_BLOCK_BYTES];
            for (i, x) in out.iter_mut().enumerate() {
                *x = scale * (f32::from(block[i / 4 * 64 + column * 4 + i % 4]) - 128.0);
            }
        }
    }

    fn row_q4(&self, panel: usize, column: usize, row: &mut [f32], minimum: bool) {
        let packed = &self.weights[panel * nibbles_bytes(minimum, self.blocks())..];
        for (b, out) in row.chunks_exact_mut(BLOCK).enumerate() {
            let (scales, groups) = nibbles_at(minimum, b);
            let half = |at: usize| f16::from_ne_bytes([packed[at], packed[at + 1]]).to_f32();
            let scale = half(scales + 2 * column);
            let least = if minimum { half(scales + 32 + 2 * column) } else { -8.0 * scale };
            for (i, x) in out.iter_mut().enumerate() {
                let byte = packed[groups + i / 8 * 64 + column * 4 + i % 4];
                let nibble = if i % 8 < 4 { byte & 15 } else { byte >> 4 };
                *x = scale * f32::from(nibble) + least;
            }
        }
    }
}

/// Bytes of weights and of scales.
const fn sizes(outputs: usize, inputs: usize, packed: Packed) -> (usize, usize) {
    let (panels, blocks) = (outputs.div_ceil(LANES), inputs / BLOCK);
    match packed {
        Packed::F32 => (panels * LANES * inputs * 4, 0),
        Packed::F16 | Packed::BF16 => (panels * LANES * inputs * 2, 0),
        Packed::Q8 => (panels * blocks * Q8_BLOCK_BYTES, panels * blocks * LANES * 2),
        Packed::Q4 => (panels * nibbles_bytes(true, blocks), 0),
        Packed::Q4Centered => (panels * nibbles_bytes(false, blocks), 0),
    }
}
