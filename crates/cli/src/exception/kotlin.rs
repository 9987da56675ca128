//! Exceptions of Kotlin programs (Kotlin/Wasm 2.x).
//!
//! Every object begins with its vtable, its table of interfaces, what is known of its class at run time (RTTI) and its
//! hash. A `Throwable` has its message, its cause and a list behind that. A vtable holds those methods of `Any` that
//! the program calls somewhere, `equals`, `hashCode` and `toString` in this order, and those of the class behind them.
//! So `toString` is the first function that takes an object alone and returns one.

use legato::{AnyRef, AsContext, AsContextMut, ExnRef, Func, Rooted, Val, ValType};

/// Where things lie among the fields of an object, and of a throwable.
const VTABLE: usize = 0;
const RTTI: usize = 2;
const CAUSE: usize = 5;

/// Causes of causes that are told.
const MOST_CAUSES: usize = 16;

/// Pieces that a string is put together from, at most: a longer one is cut at its beginning.
const MOST_PIECES: usize = 4096;

/// Class and message of an exception, and of its causes; `None` if it is not Kotlin's.
pub fn describe(mut store: impl AsContextMut, exception: Rooted<ExnRef>) -> Option<String> {
    let payload = exception.fields(&mut store).ok()?;
    let [Val::AnyRef(Some(mut throwable))] = payload[..] else { return None };
    let mut text = to_string(&mut store, throwable)?;
    for _ in 0..MOST_CAUSES {
        let Some(cause) = cause(&mut store, throwable) else { break };
        let Some(said) = to_string(&mut store, cause) else { break };
        text.push_str("\n  caused by: ");
        text.push_str(&said);
        throwable = cause;
    }
    Some(text)
}

fn cause(store: &mut impl AsContextMut, throwable: Rooted<AnyRef>) -> Option<Rooted<AnyRef>> {
    match fields(store, throwable)?.get(CAUSE) {
        Some(Val::AnyRef(cause)) => *cause,
        _ => None,
    }
}

/// What an object's `toString` says.
fn to_string(store: &mut impl AsContextMut, object: Rooted<AnyRef>) -> Option<String> {
    let fields_of_object = fields(store, object)?;
    if !is_rtti(store, fields_of_object.get(RTTI)?) {
        return None;
    }
    let Val::AnyRef(Some(vtable)) = fields_of_object.get(VTABLE)? else { return None };
    let methods = fields(store, *vtable)?;
    let method = methods.iter().find_map(|method| match method {
        Val::FuncRef(Some(method)) if is_to_string(&*store, method) => Some(method),
        _ => None,
    });
    let mut results = [Val::AnyRef(None)];
    method?.call(&mut *store, &[Val::AnyRef(Some(object))], &mut results).ok()?;
    match results {
        [Val::AnyRef(Some(said))] => string(store, said),
        _ => None,
    }
}

/// Whether a method takes its object alone, and returns one.
fn is_to_string(store: impl AsContext, method: &Func) -> bool {
    let ty = method.ty(store);
    let is_object = |ty: ValType| ty.matches(&ValType::ANYREF);
    ty.params().len() == 1 && ty.results().len() == 1 && ty.params().chain(ty.results()).all(is_object)
}

/// Whether a value is what Kotlin knows of a class: interfaces, the class above, three numbers of names and the class,
/// flags, and two functions that load names. Nothing else looks so.
fn is_rtti(store: &mut impl AsContextMut, value: &Val) -> bool {
    let Val::AnyRef(Some(rtti)) = value else { return false };
    matches!(
        fields(store, *rtti).as_deref(),
        Some([
            Val::AnyRef(_),
            Val::AnyRef(_),
            Val::I32(_),
            Val::I32(_),
            Val::I64(_),
            Val::I32(_),
            Val::FuncRef(_),
            Val::FuncRef(_)
        ])
    )
}

fn fields(store: &mut impl AsContextMut, object: Rooted<AnyRef>) -> Option<Vec<Val>> {
    object.as_struct(&*store).ok()??.fields(store).ok()
}

/// A string's characters. The last three fields of a string are the string before it, if it has been appended to one,
/// the length of both, and its own characters.
fn string(store: &mut impl AsContextMut, object: Rooted<AnyRef>) -> Option<String> {
    let mut pieces = Vec::new();
    let mut next = Some(object);
    while let Some(piece) = next.take_if(|_| pieces.len() < MOST_PIECES) {
        let fields = fields(store, piece)?;
        let [.., Val::AnyRef(before), Val::I32(_), Val::AnyRef(Some(characters))] = fields[..] else { return None };
        let characters = characters.as_array(&*store).ok()??;
        pieces.push(characters.with_slice::<u16, _>(&mut *store, <[u16]>::to_vec).ok()?);
        next = before;
    }
    let units: Vec<u16> = pieces.into_iter().rev().flatten().collect();
    Some(String::from_utf16_lossy(&units))
}
