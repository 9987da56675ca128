//! Exceptions of Kotlin programs (Kotlin/Wasm 2.x).
//!
//! Every object begins with its vtable, its table of interfaces, what is known of its class at run time (RTTI) and its
//! hash. A `Throwable` has its message, its cause and a list of what was suppressed behind that. A vtable holds those
//! methods of `Any` that the program calls somewhere, `equals`, `hashCode` and `toString` in this order, and those of
//! the class behind them. So `toString` is the first function that takes an object alone and returns one.

use legato::{AnyRef, AsContext, AsContextMut, ExnRef, Func, Rooted, Val, ValType};

/// Where things lie among the fields of an object, and of a throwable.
const VTABLE: usize = 0;
const RTTI: usize = 2;
const CAUSE: usize = 5;
const SUPPRESSED: usize = 6;

/// Causes of causes that are told, and suppressed exceptions of each.
const MOST_TOLD: usize = 16;

/// Pieces that a string is put together from, at most: a longer one is cut at its beginning.
const MOST_PIECES: usize = 4096;

/// Class and message of an exception, of its causes, and of what was suppressed for them; `None` if it is not Kotlin's.
pub fn describe(mut store: impl AsContextMut, exception: Rooted<ExnRef>) -> Option<String> {
    let payload = exception.fields(&mut store).ok()?;
    let [Val::AnyRef(Some(mut throwable))] = payload[..] else { return None };
    let mut text = said(&mut store, throwable)?;
    for told in 0.. {
        let suppressed = suppressed(&mut store, throwable).unwrap_or_default();
        for &other in suppressed.iter().take(MOST_TOLD) {
            text.push_str("\n  suppressed: ");
            text.push_str(said(&mut store, other).as_deref().unwrap_or("something that cannot be told"));
        }
        if suppressed.len() > MOST_TOLD {
            text.push_str(&format!("\n  and {} more that were suppressed", suppressed.len() - MOST_TOLD));
        }
        let Some(cause) = cause(&mut store, throwable) else { break };
        if told == MOST_TOLD {
            text.push_str("\n  and more causes");
            break;
        }
        let Some(said) = said(&mut store, cause) else { break };
        text.push_str("\n  caused by: ");
        text.push_str(&said);
        throwable = cause;
    }
    Some(text)
}

/// What an exception's `toString` says, or where that fails its class.
fn said(store: &mut impl AsContextMut, throwable: Rooted<AnyRef>) -> Option<String> {
    to_string(store, throwable).or_else(|| {
        let name = class_name(store, throwable)?;
        Some(format!("{name} (it cannot be told what it says)"))
    })
}

/// The name of an object's class, without its package: the last function of the RTTI loads it by its number.
fn class_name(store: &mut impl AsContextMut, object: Rooted<AnyRef>) -> Option<String> {
    let rtti = fields(store, object)?.into_iter().nth(RTTI).filter(|rtti| is_rtti(store, rtti))?;
    let Val::AnyRef(Some(rtti)) = rtti else { return None };
    let rtti = fields(store, rtti)?;
    let [_, _, _, name, .., Val::FuncRef(Some(load))] = &rtti[..] else { return None };
    call(store, load, &[*name])
}

/// Calls a function that returns a string.
fn call(store: &mut impl AsContextMut, function: &Func, arguments: &[Val]) -> Option<String> {
    let mut results = [Val::AnyRef(None)];
    function.call(&mut *store, arguments, &mut results).ok()?;
    match results {
        [Val::AnyRef(Some(said))] => string(store, said),
        _ => None,
    }
}

/// What an exception's list of suppressed ones holds. A list has its elements and how many they are, behind what every
/// object begins with; the elements are an object with an array.
fn suppressed(store: &mut impl AsContextMut, throwable: Rooted<AnyRef>) -> Option<Vec<Rooted<AnyRef>>> {
    let Some(&Val::AnyRef(Some(list))) = fields(store, throwable)?.get(SUPPRESSED) else { return None };
    for field in fields(store, list)?.into_iter().skip(RTTI + 1) {
        let Val::AnyRef(Some(elements)) = field else { continue };
        for held in fields(store, elements).unwrap_or_default().into_iter().skip(RTTI + 1) {
            let Val::AnyRef(Some(array)) = held else { continue };
            let Some(array) = array.as_array(&*store).ok()? else { continue };
            let elements = array.elems(&mut *store).ok()?;
            // Behind the last one there is nothing yet.
            let held = elements.into_iter().map_while(|element| match element {
                Val::AnyRef(element) => element,
                _ => None,
            });
            return Some(held.collect());
        }
    }
    None
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
    call(store, method?, &[Val::AnyRef(Some(object))])
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
