//! Typed views against the bytes they are made of.

use plimsoll_pool::{AlignedBuf, view, view_mut};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 3 } else { 256 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_view_is_the_bytes(bytes in prop::collection::vec(any::<u8>(), 0..100), start in 0..16_usize) {
        let buffer = AlignedBuf::from(bytes.as_slice());
        let part = buffer.get(start..).unwrap_or_default();
        let words = view::<u8, u32>(part);
        let is_fit = part.is_empty() || start % 4 == 0 && part.len() % 4 == 0;
        prop_assert_eq!(words.is_ok(), is_fit);
        if let Ok(words) = words {
            let expected: Vec<_> = part.as_chunks::<4>().0.iter().map(|word| u32::from_ne_bytes(*word)).collect();
            prop_assert_eq!(words, expected);
            prop_assert_eq!(view::<u32, u8>(words), Ok(part));
        }
    }

    #[test]
    fn what_is_written_through_a_view_is_there(floats in prop::collection::vec(any::<f32>(), 0..40)) {
        let mut buffer = AlignedBuf::<u8>::zeroed(floats.len() * 4);
        view_mut::<u8, f32>(&mut buffer).expect("aligned and whole").copy_from_slice(&floats);
        let expected: Vec<_> = floats.iter().flat_map(|float| float.to_ne_bytes()).collect();
        prop_assert_eq!(&*buffer, expected.as_slice());
    }
}
