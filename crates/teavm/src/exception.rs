//! What an uncaught Java exception says.

use legato::{AnyRef, AsContextMut, ExnRef, FieldType, Instance, Rooted, Val, ValType};

/// How deep a string's characters lie: the string holds an array object, which holds the array.
const DEPTH: u32 = 2;

/// Fields of an object's header: vtable and monitor.
const HEADER: usize = 2;

/// The function with which a program tells the message of an exception.
const MESSAGE: &str = "teavm.exceptionMessage";

/// The message of a Java exception that left the program, if it has one. The program itself is asked, through its
/// export `teavm.exceptionMessage`.
pub fn exception_message(
    mut store: impl AsContextMut,
    instance: &Instance,
    exception: Rooted<ExnRef>,
) -> Option<String> {
    let throwable = exception.field(&mut store, 0).ok()?;
    let message = instance.get_func(&mut store, MESSAGE)?;
    let mut results = [Val::AnyRef(None)];
    message.call(&mut store, &[throwable], &mut results).ok()?;
    let Val::AnyRef(Some(string)) = results[0] else { return None };
    characters(&mut store, string, DEPTH)
}

/// What a Java exception that left the program says: class and message, as `toString` would. Where the program does not
/// keep the names of classes, because nothing in it asks for one, the class is that of the name section, which TeaVM
/// writes unless it obfuscates; without one, the message stands alone. `None` if there is neither.
pub fn exception_text(mut store: impl AsContextMut, instance: &Instance, exception: Rooted<ExnRef>) -> Option<String> {
    let message = exception_message(&mut store, instance, exception);
    let name = class_name(&mut store, instance, exception).or_else(|| type_name(&mut store, instance, exception));
    match (name, message) {
        (Some(name), Some(message)) => Some(format!("{name}: {message}")),
        (name, message) => name.or(message),
    }
}

/// The name of the exception's class: the first string that the class holds, which the object's vtable begins with.
fn class_name(store: &mut impl AsContextMut, instance: &Instance, exception: Rooted<ExnRef>) -> Option<String> {
    let string = instance.get_func(&mut *store, MESSAGE)?.ty(&*store).results().next()?;
    let Val::AnyRef(Some(object)) = exception.field(&mut *store, 0).ok()? else { return None };
    let vtable = first(store, object)?;
    let class = first(store, vtable)?.as_struct(&*store).ok()??;
    let is_string = |field: FieldType| field.element_type().as_val_type().is_some_and(|ty| ValType::eq(ty, &string));
    let name = class.ty(&*store).ok()?.fields().position(is_string)?;
    match class.field(&mut *store, name).ok()? {
        Val::AnyRef(Some(name)) => characters(store, name, DEPTH),
        _ => None,
    }
}

/// The name of the exception's type in the name section.
fn type_name(store: &mut impl AsContextMut, instance: &Instance, exception: Rooted<ExnRef>) -> Option<String> {
    let Val::AnyRef(Some(object)) = exception.field(&mut *store, 0).ok()? else { return None };
    let ty = object.ty(&*store).ok()?;
    instance.module(store.as_context()).type_name(&ty).map(str::to_string)
}

/// The object that a structure's first field refers to.
fn first(store: &mut impl AsContextMut, object: Rooted<AnyRef>) -> Option<Rooted<AnyRef>> {
    match object.as_struct(&*store).ok()??.field(&mut *store, 0).ok()? {
        Val::AnyRef(first) => first,
        _ => None,
    }
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
    fields.into_iter().skip(HEADER).find_map(|field| match field {
        Val::AnyRef(Some(inner)) => characters(store, inner, depth - 1),
        _ => None,
    })
}
