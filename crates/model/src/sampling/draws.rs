//! Random numbers that are counted, not carried along.

/// SplitMix64 (Steele, Lea and Flood, 2014): the n-th number is a mix of `start + n * GAMMA`, with no other state, so
/// what one request draws cannot depend on another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draws {
    state: u64,
}

const GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;

impl Draws {
    /// The numbers of `seed`. Neighbouring seeds start far apart.
    pub fn new(seed: u64) -> Self {
        Self { state: mix(seed ^ GAMMA) }
    }

    /// The next 64 bits.
    pub fn next_bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GAMMA);
        mix(self.state)
    }

    /// The next number in `[0, 1)`, in steps of 2^-53.
    pub fn next_unit(&mut self) -> f64 {
        (self.next_bits() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }
}

/// The seed of the `n`-th of several continuations of one request; the first has the request's own.
pub fn seed_of(seed: u64, n: u32) -> u64 {
    if n == 0 { seed } else { mix(seed ^ mix(u64::from(n))) }
}

/// The finalizer of SplitMix64.
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_sequence_of_splitmix64() {
        let mut draws = Draws { state: 1234567 };
        let want = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431];
        assert_eq!(want.map(|_| draws.next_bits()), want);
    }

    #[test]
    fn continuations_differ_and_the_first_is_the_request() {
        let seeds: std::collections::HashSet<_> = (0..100).map(|n| seed_of(7, n)).collect();
        assert_eq!(seeds.len(), 100);
        assert_eq!(seed_of(7, 0), 7);
    }

    #[test]
    fn units_are_even() {
        let mut draws = Draws::new(0);
        let mut buckets = [0u32; 10];
        for _ in 0..100_000 {
            buckets[(draws.next_unit() * 10.0) as usize] += 1;
        }
        assert!(buckets.iter().all(|&count| (9_600..10_400).contains(&count)), "{buckets:?}");
    }
}
