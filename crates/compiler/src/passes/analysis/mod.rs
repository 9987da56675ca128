//! What lowering follows: analyses of a function that is about to be lowered. They change nothing.

mod checks;
mod fused_tests;
mod fused_throws;
mod guards;
mod held;
mod late_values;
mod locations;
mod loop_exits;
mod mid_end;
mod quiet_loops;
mod roots;
mod strips;

pub(crate) use checks::{MergedCheck, MergedChecks, merge_checks};
pub(crate) use fused_tests::fused_tests;
pub(crate) use fused_throws::fused_throws;
pub(crate) use guards::{Guard, Guards, find_guards};
pub(crate) use held::LocationPlan;
pub(crate) use late_values::late_values;
pub(crate) use locations::plan_locations;
pub(crate) use loop_exits::leaves_otherwise;
pub(crate) use mid_end::gains_by_mid_end;
pub(crate) use roots::{Root, RootPlan, SafepointKey, Safepoints, Temperature, plan_roots};
pub(crate) use strips::{LAST, StripPlan, StripUse, plan_strips};
