//! Whether compiled code can run on this machine.

use legato_compiler::artifact::TargetInfo;

use crate::vm::Error;

/// Checks architecture, operating system and CPU features. The error names the first thing that is missing.
pub(crate) fn check(target: &TargetInfo) -> Result<(), Error> {
    let wrong = |reason: String| Err(Error::WrongTarget { compiled: target.triple.clone(), reason });
    let mut parts = target.triple.split('-');
    let architecture = parts.next().unwrap_or_default();
    if architecture != std::env::consts::ARCH {
        return wrong(format!("the processor is {}", std::env::consts::ARCH));
    }
    let system = if cfg!(target_os = "macos") { "darwin" } else { std::env::consts::OS };
    if !parts.any(|part| part.starts_with(system)) {
        return wrong(format!("the operating system is {}", std::env::consts::OS));
    }
    for feature in &target.features {
        // Flags that only choose among instructions which every processor of the architecture has need no check.
        let Some(name) = feature.strip_prefix("has_") else {
            continue;
        };
        match has_feature(name) {
            Some(true) => {}
            Some(false) => return wrong(format!("the processor lacks {name}")),
            None => return wrong(format!("it needs {name}, which this version does not know")),
        }
    }
    Ok(())
}

/// Whether the processor has the feature of Cranelift's name (without `has_`); `None` where the name is unknown.
#[cfg(target_arch = "x86_64")]
fn has_feature(name: &str) -> Option<bool> {
    use std::arch::is_x86_feature_detected as has;
    Some(match name {
        "sse3" => has!("sse3"),
        "ssse3" => has!("ssse3"),
        "sse41" => has!("sse4.1"),
        "sse42" => has!("sse4.2"),
        "cmpxchg16b" => has!("cmpxchg16b"),
        "popcnt" => has!("popcnt"),
        "lzcnt" => has!("lzcnt"),
        "bmi1" => has!("bmi1"),
        "bmi2" => has!("bmi2"),
        "fma" => has!("fma"),
        "avx" => has!("avx"),
        "avx2" => has!("avx2"),
        "avx_vnni" => has!("avxvnni"),
        "avx512f" => has!("avx512f"),
        "avx512dq" => has!("avx512dq"),
        "avx512vl" => has!("avx512vl"),
        "avx512vbmi" => has!("avx512vbmi"),
        "avx512vnni" => has!("avx512vnni"),
        "avx512bitalg" => has!("avx512bitalg"),
        _ => return None,
    })
}

/// Whether the processor has the feature of Cranelift's name (without `has_`); `None` where the name is unknown.
#[cfg(target_arch = "aarch64")]
fn has_feature(name: &str) -> Option<bool> {
    use std::arch::is_aarch64_feature_detected as has;
    Some(match name {
        "lse" => has!("lse"),
        "pauth" => has!("paca"),
        "fp16" => has!("fp16"),
        "dotprod" => has!("dotprod"),
        "i8mm" => has!("i8mm"),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(triple: &str, features: &[&str]) -> TargetInfo {
        TargetInfo { triple: triple.into(), features: features.iter().map(|f| f.to_string()).collect() }
    }

    #[test]
    fn what_is_missing_is_named() {
        let host = format!("{}-unknown-{}-gnu", std::env::consts::ARCH, std::env::consts::OS);
        assert!(check(&target(&host, &["use_egraphs"])).is_ok());
        let message = |t| check(&t).unwrap_err().to_string();
        assert!(message(target("riscv64gc-unknown-linux-gnu", &[])).contains("the processor is"));
        assert!(message(target(&format!("{}-pc-plan9", std::env::consts::ARCH), &[])).contains("operating system"));
        assert!(message(target(&host, &["has_telepathy"])).contains("telepathy"));
    }
}
