//! What an uncaught Java exception says.

use legato::{AnyRef, AsContextMut, ExnRef, Instance, Rooted, Val};

/// How deep a string's characters lie: the string holds an array object, which holds the array.
const DEPTH: u32 = 2;

/// The message of a Java exception that left the program, if it has one. The program itself is asked, through its
/// export `teavm.exceptionMessage`.
pub fn exception_message(
    mut store: impl AsContextMut,
    instance: &Instance,
    exception: Rooted<ExnRef>,
) -> Option<String> {
    let throwable = exception.field(&mut store, 0).ok()?;
    let message = instance.get_func(&mut store, "teavm.exceptionMessage")?;
    let mut results = [Val::AnyRef(None)];
    message.call(&mut store, &[throwable], &mut results).ok()?;
    let Val::AnyRef(Some(string)) = results[0] else { return None };
    characters(&mut store, string, DEPTH)
}

/// The text of the first array of 16-bit elements at or below `object`.
fn characters(store: &mut impl AsContextMut, object: Rooted<AnyRef>, depth: u32) -> Option<String> {
    if let Ok(Some(array)) = object.as_array(&mut *store) {
        return array.with_slice::<u16, _>(&mut *store, String::from_utf16_lossy).ok();
    }
    let structure = object.as_struct(&mut *store).ok()??;
    if depth == 0 {
        return None;
    }
    let fields = structure.fields(&mut *store).ok()?;
    // The first two are the header: vtable and monitor.
    fields.into_iter().skip(2).find_map(|field| match field {
        Val::AnyRef(Some(inner)) => characters(store, inner, depth - 1),
        _ => None,
    })
}
