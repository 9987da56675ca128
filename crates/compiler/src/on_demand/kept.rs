//! What functions are compiled with, as bytes: kept, so that the module need not be validated and looked through again.

use serde::{Deserialize, Serialize};

use super::profile::{Profile, Sites};
use super::scan::Loops;
use super::{Function, OnDemand};
use crate::emit::CodeGenerator;
use crate::module::{ModuleInfo, ParsedModule};
use crate::passes::{Fields, Never, Settled};
use crate::{CompileError, CompileOptions};

/// Of a function: where its body begins and ends, whether it may be inlined, its loops.
type KeptFunction = (u32, u32, bool, Loops);

#[derive(Serialize)]
struct Borrowed<'a> {
    info: &'a ModuleInfo,
    functions: Vec<KeptFunction>,
    fields: &'a Fields,
    settled: &'a Settled,
    never: Vec<u32>,
    sites: &'a Sites,
}

#[derive(Deserialize)]
struct Owned {
    info: ModuleInfo,
    functions: Vec<KeptFunction>,
    fields: Fields,
    settled: Settled,
    never: Vec<u32>,
    sites: Sites,
}

impl OnDemand {
    /// All that is known of the module, for [`from_bytes`](Self::from_bytes). `None` if it has no such form.
    pub fn to_bytes(&self) -> Option<Vec<u8>> {
        let kept = |function: &Function| {
            (function.range.start, function.range.end, function.inlined.is_some(), function.loops)
        };
        let functions = self.functions.iter().map(kept).collect();
        let (fields, settled, sites) = (&self.fields, &self.settled, self.profile.sites());
        let never = self.never.list();
        postcard::to_stdvec(&Borrowed { info: self.info(), functions, fields, settled, never, sites }).ok()
    }

    /// As [`new`](Self::new), from what [`to_bytes`](Self::to_bytes) has made of the same module with the same options.
    /// That is trusted: nothing is validated. `None` where the bytes are nothing of the kind.
    ///
    /// Errors: the host's processor is not supported.
    pub fn from_bytes(bytes: &[u8], wasm: &[u8], options: &CompileOptions) -> Result<Option<OnDemand>, CompileError> {
        let Ok(Owned { info, functions, fields, settled, never, sites }) = postcard::from_bytes(bytes) else {
            return Ok(None);
        };
        let is_inside = |&(start, end, ..): &KeptFunction| start <= end && end as usize <= wasm.len();
        let defined = info.functions.len().checked_sub(info.imported_functions as usize);
        if defined != Some(functions.len()) || !functions.iter().all(is_inside) {
            return Ok(None);
        }
        let functions = functions
            .into_iter()
            .map(|(start, end, is_small, loops)| Function::new(start..end, is_small, loops))
            .collect();
        let features = ParsedModule::accepted(options.features);
        let defined_and_imported = info.functions.len();
        let generator = CodeGenerator::new(info, options)?;
        let (profile, never) = (Profile::new(sites), Never::from_list(&never, defined_and_imported));
        Ok(Some(OnDemand { wasm: wasm.into(), features, functions, fields, settled, never, profile, generator }))
    }
}
