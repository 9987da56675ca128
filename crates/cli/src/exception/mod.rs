//! What an exception that nobody caught says: by the language that threw it, or by its tag and payload.
//!
//! Everything here reads objects of a program that has failed. What is not as expected is left to the next form.

mod kotlin;

use std::fmt;

use legato::{ExnRef, Extern, Instance, Rooted, Store, Tag, ThrownException};

use crate::host::Host;
use crate::invoke;

/// The tag of Java's exceptions in programs of TeaVM.
const JAVA_TAG: &str = "teavm.javaException";
/// What is said of a Java exception that says nothing.
const NAMELESS_JAVA: &str = "a Java exception without a message, whose class the program does not name \
    (TeaVM keeps names with minifying=false)";

/// An uncaught exception, described.
#[derive(Debug)]
pub struct Uncaught(String);

impl fmt::Display for Uncaught {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "uncaught exception: {}", self.0)
    }
}

impl std::error::Error for Uncaught {}

/// Adds what the exception says to an error that is one; other errors stay as they are. `instance` is the program's, if
/// it came so far.
pub fn describe(error: anyhow::Error, store: &mut Store<Host>, instance: Option<&Instance>) -> anyhow::Error {
    if error.downcast_ref::<ThrownException>().is_none() {
        return error;
    }
    let Some(exception) = store.take_pending_exception() else { return error };
    match text(store, instance, exception) {
        Some(text) => error.context(Uncaught(text)),
        None => error,
    }
}

fn text(store: &mut Store<Host>, instance: Option<&Instance>, exception: Rooted<ExnRef>) -> Option<String> {
    if let Some(text) = kotlin::describe(&mut *store, exception) {
        return Some(text);
    }
    if let Some(instance) = instance
        && instance.get_func(&mut *store, "teavm.exceptionMessage").is_some()
    {
        let text = legato_teavm::exception_text(&mut *store, instance, exception);
        // What the program has printed before comes first.
        let _ = store.data_mut().teavm.flush();
        let is_java = exported_name(store, instance, &exception.tag(&*store).ok()?).as_deref() == Some(JAVA_TAG);
        if text.is_some() || is_java {
            return text.or(Some(NAMELESS_JAVA.to_string()));
        }
    }
    let tag = exception.tag(&*store).ok()?;
    let exported = instance.and_then(|instance| exported_name(store, instance, &tag));
    let name = exported.or_else(|| tag.name(&*store).map(str::to_string));
    let payload = exception.fields(&mut *store).ok()?;
    let payload: Vec<_> = payload.iter().map(|value| invoke::show(&*store, value)).collect();
    Some(format!("{}({})", name.unwrap_or_else(|| "tag".into()), payload.join(", ")))
}

/// The name under which an instance exports a tag.
fn exported_name(store: &mut Store<Host>, instance: &Instance, tag: &Tag) -> Option<String> {
    let exports: Vec<_> =
        instance.exports(&mut *store).map(|export| (export.name().to_string(), export.into_extern())).collect();
    exports.into_iter().find_map(|(name, item)| match item {
        Extern::Tag(other) if Tag::eq(&other, tag, &*store) => Some(name),
        _ => None,
    })
}
