//! Writes sound files into `corpus/`, for the fuzzer to start from.

use plimsoll_model::checkpoint::DType;
use plimsoll_testkit::tiny::{self, Sizes, gguf_writer::Value, hf::safetensors};
use std::{fs, io, path::Path};

fn main() -> io::Result<()> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let (gguf, tensors) = (corpus.join("gguf"), corpus.join("safetensors"));
    fs::create_dir_all(&gguf)?;
    fs::create_dir_all(&tensors)?;
    let sizes = Sizes { layers: 1, width: 32, heads: 2, kv_heads: 1, head_dim: 16, ffn: 32, context: 64, tied: true };
    for dtype in [DType::F16, DType::Q8_0, DType::Q4_1] {
        let model = tiny::Gguf { sizes: sizes.clone(), dtype, ..tiny::Gguf::default() };
        fs::write(gguf.join(format!("{dtype:?}")), model.bytes())?;
    }
    let factors = tiny::Gguf { sizes: sizes.clone(), rope_factors: Some(vec![1.0; 8]), ..tiny::Gguf::default() };
    fs::write(gguf.join("factors"), factors.bytes())?;
    let metadata = vec![
        ("llama.rope.scaling.type".to_owned(), Value::Text("yarn".into())),
        ("llama.rope.scaling.factor".to_owned(), Value::F32(2.0)),
    ];
    let yarn = tiny::Gguf { sizes, metadata, dtype: DType::Q4_0, ..tiny::Gguf::default() };
    fs::write(gguf.join("yarn"), yarn.bytes())?;

    let header = r#"{"__metadata__":{"format":"pt"},"a":{"dtype":"BF16","shape":[4,2],"data_offsets":[0,16]},"b":{"dtype":"F32","shape":[4],"data_offsets":[16,32]}}"#;
    fs::write(tensors.join("two"), safetensors(header, &[0; 32]))
}
