//! The host's processor, as Cranelift sees it.

use std::sync::Arc;

use cranelift_codegen::isa::{OwnedTargetIsa, TargetIsa};
use cranelift_codegen::settings::{self, Configurable, SettingKind};

use super::baseline;
use crate::artifact::TargetInfo;
use crate::error::CompileError;
use crate::options::CompileOptions;

/// Code generators for the host.
#[derive(Clone)]
pub(super) struct Target {
    /// For speed.
    pub(super) fast_code: Arc<dyn TargetIsa>,
    /// The same without the mid-end: for functions in which that finds nothing to do, and for quick code with large
    /// frames.
    pub(super) final_code: Arc<dyn TargetIsa>,
    /// For compile time: functions of extraordinary size, and most of the quick tier.
    pub(super) fast_compile: Arc<dyn TargetIsa>,
    /// What baseline code may use, if there is such code for the processor.
    pub(super) baseline: Option<baseline::Features>,
    /// Whether the processor rounds floats in one instruction.
    pub(super) rounds: bool,
    /// Whether the processor multiplies and adds in one instruction.
    pub(super) fuses: bool,
}

impl Target {
    /// The host, with these options.
    pub(super) fn host(options: &CompileOptions) -> Result<Target, CompileError> {
        let level = if options.optimize { "speed" } else { "none" };
        let fast_code = isa(level, "backtracking", options.verify)?;
        let final_code = isa("none", "backtracking", options.verify)?;
        let fast_compile = isa("none", "single_pass", options.verify)?;
        let features = features(&*fast_code);
        let has = |name: &str| fast_code.name() != "x64" || features.iter().any(|feature| feature == name);
        let (rounds, fuses) = (has("has_sse41"), has("has_fma") && has("has_avx"));
        let baseline = baseline::Features::of(&*fast_code);
        Ok(Target { fast_code, final_code, fast_compile, baseline, rounds, fuses })
    }

    /// What the code needs.
    pub(super) fn info(&self) -> TargetInfo {
        TargetInfo { triple: self.fast_code.triple().to_string(), features: features(&*self.fast_code) }
    }
}

impl TargetInfo {
    /// Whether the host can run code compiled for this target. Returns `CompileError::Target` with what is missing.
    pub fn check_host(&self) -> Result<(), CompileError> {
        let host = isa("none", "single_pass", false)?;
        let triple = host.triple().to_string();
        if triple != self.triple {
            return Err(CompileError::Target(format!("the code is for {}, the host is {triple}", self.triple)));
        }
        let present = features(&*host);
        let missing: Vec<_> = self.features.iter().filter(|feature| !present.contains(feature)).cloned().collect();
        if missing.is_empty() {
            return Ok(());
        }
        Err(CompileError::Target(format!("the host's processor lacks {}", missing.join(", "))))
    }
}

/// Names of the processor features that are enabled.
fn features(isa: &dyn TargetIsa) -> Vec<String> {
    let enabled = |flag: &settings::Value| flag.kind() == SettingKind::Bool && flag.as_bool() == Some(true);
    isa.isa_flags().into_iter().filter(enabled).map(|flag| flag.name.to_owned()).collect()
}

fn isa(opt_level: &str, regalloc: &str, verify: bool) -> Result<OwnedTargetIsa, CompileError> {
    let mut flags = settings::builder();
    let mut set = |name: &str, value: &str| {
        flags.set(name, value).map_err(|error| CompileError::Target(format!("setting {name}: {error}")))
    };
    set("opt_level", opt_level)?;
    set("regalloc_algorithm", regalloc)?;
    set("enable_verifier", if verify { "true" } else { "false" })?;
    // Frames are walked by their frame pointers.
    set("preserve_frame_pointers", "true")?;
    set("unwind_info", "false")?;
    // The stack is checked explicitly, see `lower/poll.rs`.
    set("enable_probestack", "false")?;
    set("enable_multi_ret_implicit_sret", "true")?;
    set("is_pic", "true")?;
    let builder = cranelift_native::builder().map_err(|error| CompileError::Target(error.to_owned()))?;
    builder.finish(settings::Flags::new(flags)).map_err(|error| CompileError::Target(error.to_string()))
}
