//! Any bytes as a safetensors file: read or refused in one line; every tensor lies inside the file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use plimsoll_model::checkpoint::check_safetensors;

fuzz_target!(|bytes: &[u8]| {
    match check_safetensors(bytes.to_vec()) {
        Ok(tensors) => {
            for tensor in tensors {
                let end = tensor.offset + (tensor.rows * tensor.row_bytes()) as u64;
                assert!(end <= bytes.len() as u64, "{tensor:?}");
            }
        }
        Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
    }
});
