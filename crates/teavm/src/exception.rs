//! What an uncaught Java exception says.

use legato::{AnyRef, AsContextMut, ExnRef, FieldType, Instance, Rooted, Val, ValType};

/// How deep a string's characters lie: the string holds an array object, which holds the array.
const DEPTH: u32 = 2;

/// Fields of an object's header: vtable and monitor.
const HEADER: usize = 2;

/// The function with which a program tells the message of an exception.
const MESSAGE: &str = "teavm.exceptionMessage";

/// Causes of causes that are told.
const MOST_CAUSES: usize = 16;

/// The message of a Java exception that left the program, if it has one. The program itself is asked, through its
/// export `teavm.exceptionMessage`.
pub fn exception_message(
    mut store: impl AsContextMut,
    instance: &Instance,
    exception: Rooted<ExnRef>,
) -> Option<String> {
    let throwable = throwable(&mut store, exception)?;
    message(&mut store, instance, throwable)
}

/// What a Java exception that left the program says, and its causes: class and message, as `toString` would. Where the
/// program does not keep the names of classes, because nothing in it asks for one, the class is that of the name
/// section, which TeaVM writes unless it obfuscates; without one, the message stands alone. `None` if there is neither.
pub fn exception_text(mut store: impl AsContextMut, instance: &Instance, exception: Rooted<ExnRef>) -> Option<String> {
    let mut throwable = throwable(&mut store, exception)?;
    let mut cause = cause_of(&mut store, exception, throwable);
    let nameless = || "an exception without a name and message".to_string();
    // What has a cause is told because of that.
    let mut text = said(&mut store, instance, throwable).or_else(|| cause.is_some().then(nameless))?;
    for told in 0.. {
        let Some(next) = cause else { break };
        if told == MOST_CAUSES {
            text.push_str("\n  and more causes");
            break;
        }
        text.push_str("\n  caused by: ");
        text.push_str(&said(&mut store, instance, next).unwrap_or_else(nameless));
        throwable = next;
        cause = cause_of(&mut store, exception, throwable);
    }
    Some(text)
}

fn throwable(store: &mut impl AsContextMut, exception: Rooted<ExnRef>) -> Option<Rooted<AnyRef>> {
    match exception.field(store, 0).ok()? {
        Val::AnyRef(throwable) => throwable,
        _ => None,
    }
}

fn message(store: &mut impl AsContextMut, instance: &Instance, throwable: Rooted<AnyRef>) -> Option<String> {
    let message = instance.get_func(&mut *store, MESSAGE)?;
    let mut results = [Val::AnyRef(None)];
    message.call(&mut *store, &[Val::AnyRef(Some(throwable))], &mut results).ok()?;
    let Val::AnyRef(Some(string)) = results[0] else { return None };
    characters(store, string, DEPTH)
}

/// Class and message.
fn said(store: &mut impl AsContextMut, instance: &Instance, throwable: Rooted<AnyRef>) -> Option<String> {
    let message = message(store, instance, throwable);
    let name = class_name(store, instance, throwable).or_else(|| type_name(store, instance, throwable));
    match (name, message) {
        (Some(name), Some(message)) => Some(format!("{name}: {message}")),
        (name, message) => name.or(message),
    }
}

/// The cause of a throwable: its field whose type is that of throwables, which exceptions hold. One that is its own
/// cause has none.
fn cause_of(
    store: &mut impl AsContextMut,
    exception: Rooted<ExnRef>,
    throwable: Rooted<AnyRef>,
) -> Option<Rooted<AnyRef>> {
    let held = exception.tag(&*store).ok()?.ty(&*store).ty().params().next()?;
    let object = throwable.as_struct(&*store).ok()??;
    let is_throwable = |field: FieldType| field.element_type().as_val_type().is_some_and(|ty| ValType::eq(ty, &held));
    let place = object.ty(&*store).ok()?.fields().position(is_throwable)?;
    match object.field(&mut *store, place).ok()? {
        Val::AnyRef(Some(cause)) if !Rooted::ref_eq(&*store, &cause, &throwable).ok()? => Some(cause),
        _ => None,
    }
}

/// The name of an object's class: the first string that the class holds, which the object's vtable begins with.
fn class_name(store: &mut impl AsContextMut, instance: &Instance, object: Rooted<AnyRef>) -> Option<String> {
    let string = instance.get_func(&mut *store, MESSAGE)?.ty(&*store).results().next()?;
    let vtable = first(store, object)?;
    let class = first(store, vtable)?.as_struct(&*store).ok()??;
    let is_string = |field: FieldType| field.element_type().as_val_type().is_some_and(|ty| ValType::eq(ty, &string));
    let name = class.ty(&*store).ok()?.fields().position(is_string)?;
    match class.field(&mut *store, name).ok()? {
        Val::AnyRef(Some(name)) => characters(store, name, DEPTH),
        _ => None,
    }
}

/// The name of an object's type in the name section.
fn type_name(store: &mut impl AsContextMut, instance: &Instance, object: Rooted<AnyRef>) -> Option<String> {
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
