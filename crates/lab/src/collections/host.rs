//! The host functions of programs.

use ::legato::{AnyRef, Caller, Engine, ExternRef, Linker, OwnedRooted, Result, Rooted, Val};
use anyhow::Context;

/// Calls of the host that may call the module again, one within the other.
const DEEPEST: u32 = 2;
/// The field of the structs that programs have in common to which anything can be stored.
const ANY_FIELD: usize = 2;

/// What the host knows of a program.
#[derive(Default)]
pub struct Host {
    depth: u32,
    kept: Option<OwnedRooted<AnyRef>>,
}

impl Host {
    /// Says that no call is under way any more, however the last one ended.
    pub fn returned(&mut self) {
        self.depth = 0;
    }
}

/// The host functions.
///
/// # Errors
/// None that a caller can bring about.
pub fn linker(engine: &Engine) -> anyhow::Result<Linker<Host>> {
    let mut linker = Linker::new(engine);
    linker.func_wrap("host", "gc", |mut caller: Caller<'_, Host>| caller.gc())?;
    linker.func_wrap("host", "reenter", reenter)?;
    linker.func_wrap("host", "extern-new", |caller: Caller<'_, Host>, number: i32| -> Result<_> {
        Ok(Some(ExternRef::new(caller, number)?))
    })?;
    linker.func_wrap("host", "extern-id", extern_id)?;
    linker.func_wrap("host", "pass", pass)?;
    linker.func_wrap("host", "touch", touch)?;
    Ok(linker)
}

fn reenter(mut caller: Caller<'_, Host>, number: i32) -> Result<()> {
    if caller.data().depth >= DEEPEST {
        return Ok(());
    }
    caller.data_mut().depth += 1;
    let function =
        caller.get_export("reentry").and_then(|export| export.into_func()).context("an exported function")?;
    let result = function.call(&mut caller, &[Val::I32(number)], &mut []);
    caller.data_mut().depth -= 1;
    result
}

fn extern_id(caller: Caller<'_, Host>, reference: Option<Rooted<ExternRef>>) -> Result<i32> {
    let Some(reference) = reference else { return Ok(-1) };
    let number = reference.data(&caller)?.map(|value| value.downcast_ref::<i32>().copied());
    // Another type would be some other object's memory.
    Ok(number.map_or(-2, |number| number.unwrap_or(-3)))
}

type Passed = (Option<Rooted<AnyRef>>, Option<Rooted<ExternRef>>);

fn pass(
    mut caller: Caller<'_, Host>,
    external: Option<Rooted<ExternRef>>,
    any: Option<Rooted<AnyRef>>,
) -> Result<Passed> {
    let first = external.map(|external| AnyRef::convert_extern(&caller, external)).transpose()?;
    caller.gc();
    let kept = any.map(|any| any.to_owned_rooted(&mut caller)).transpose()?;
    let kept = std::mem::replace(&mut caller.data_mut().kept, kept);
    let any = kept.map(|kept| kept.to_rooted(&mut caller));
    let second = any.map(|any| ExternRef::convert_any(&caller, any)).transpose()?;
    Ok((first, second))
}

/// Stores where the types allow it, and says what it saw.
fn touch(mut caller: Caller<'_, Host>, target: Option<Rooted<AnyRef>>, value: Option<Rooted<AnyRef>>) -> Result<i32> {
    let Some(target) = target else { return Ok(-1) };
    if let Some(array) = target.as_array(&caller)? {
        let first = array.with_slice_mut(&mut caller, |bytes: &mut [u8]| {
            let sum = bytes.iter().fold(0u8, |sum, byte| sum.wrapping_mul(3).wrapping_add(*byte));
            if let Some(last) = bytes.last_mut() {
                *last = last.wrapping_add(1);
            }
            sum
        });
        return Ok(match first {
            Ok(sum) => i32::from(sum),
            // Not of bytes.
            Err(_) => 1000 + i32::from(array.set(&mut caller, 0, Val::AnyRef(value)).is_ok()),
        });
    }
    let Some(object) = target.as_struct(&caller)? else { return Ok(-2) };
    let identity = object.field(&mut caller, 0)?.unwrap_i32();
    let stored = object.set_field(&mut caller, ANY_FIELD, Val::AnyRef(value)).is_ok();
    Ok(identity.wrapping_mul(2) + i32::from(stored))
}
