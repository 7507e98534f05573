//! Instruction sets and the processor's name, for people to read. Kernels ask the processor themselves.

use crate::{Host, field};

macro_rules! detected {
    ($is_detected:ident: $($name:tt)*) => {
        [$(($name, std::arch::$is_detected!($name))),*]
    };
}

/// The instruction sets of this processor that inference cares about, by the names the Rust compiler has for them.
pub fn features() -> Vec<&'static str> {
    #[cfg(target_arch = "x86_64")]
    let known = detected!(is_x86_feature_detected: "sse4.2" "avx" "avx2" "fma" "f16c" "avx512f" "avx512bw" "avx512vl" "avx512vnni" "avx512bf16" "avxvnni");
    #[cfg(target_arch = "aarch64")]
    let known = detected!(is_aarch64_feature_detected: "neon" "fp16" "dotprod" "i8mm" "bf16" "sve" "sve2");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let known: [(&str, bool); 0] = [];
    known.into_iter().filter_map(|(name, is_there)| is_there.then_some(name)).collect()
}

pub(crate) fn model(host: &Host) -> Option<String> {
    let cpuinfo = host.read("proc/cpuinfo")?;
    let name = field(&cpuinfo, "model name").or_else(|| field(&cpuinfo, "Model"))?;
    Some(name.split_whitespace().collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::machine;

    #[test]
    fn the_model_is_named_once() {
        let cases = [
            (
                "processor\t: 0\nmodel\t\t: 85\nmodel name\t: Some  CPU @ 2 GHz\n\nmodel name\t: other\n",
                Some("Some CPU @ 2 GHz"),
            ),
            ("processor: 0\n\nModel\t\t: Some Board\n", Some("Some Board")),
            ("", None),
        ];
        for (cpuinfo, expected) in cases {
            let (_folder, host) = machine(&[("proc/cpuinfo", cpuinfo)]);
            assert_eq!(host.cpu_model().as_deref(), expected);
        }
    }

    #[test]
    fn every_x86_64_or_aarch64_has_a_base() {
        let features = features();
        assert!(!cfg!(target_arch = "aarch64") || features.contains(&"neon"), "{features:?}");
    }
}
