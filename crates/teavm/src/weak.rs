//! Weak references and reference queues, as TeaVM's JavaScript runtime has them.
//!
//! What Java's `WeakReference` holds is a host value with a weak reference to the target. A dead target is reported by
//! calling an export of the module, which puts the reference into its queue. JavaScript does that between two jobs;
//! here it is done when the program calls a function of the host where it can have no queue half changed.
//!
//! Strings that are interned are held weakly too. TeaVM's table of them does not expect to find a dead one: it calls
//! `equals` on whatever [`string_deref`] returns. In the place of a dead string, it is given an interned one that
//! lives. That one is equal to the string looked for only where it is the right answer.

use std::any::Any;

use anyhow::{Result, bail};
use legato::{
    AnyRef, AsContext, Caller, Extern, ExternRef, FinalizationQueue, HeapType, OwnedRooted, RootScope, Rooted, Val,
    ValType, WeakRooted,
};

use crate::console::TeaVmCtx;

/// The exports that put a reference into its queue, and take an entry out of the table of interned strings.
const REPORT_REFERENCE: &str = "teavm.reportGarbageCollectedValue";
const REPORT_STRING: &str = "teavm.reportGarbageCollectedString";

/// What the program holds for a weak reference, behind an `externref`.
struct Target(WeakRooted<AnyRef>);

/// Who is to hear of a death. Those who have died meanwhile are not.
enum Listener {
    /// A Java reference and its queue.
    Queue { reference: WeakRooted<AnyRef>, queue: WeakRooted<AnyRef> },
    /// An entry of the table of interned strings.
    Table { entry: WeakRooted<AnyRef> },
}

/// The weak references of one Java program.
#[derive(Default)]
pub(crate) struct WeakCtx {
    dead: FinalizationQueue<Listener>,
    /// An interned string that lives as long as the program.
    interned: Option<OwnedRooted<AnyRef>>,
}

/// Creates a weak reference: target, Java reference, queue.
pub(crate) fn create<T>(
    mut caller: Caller<'_, T>,
    get: impl Fn(&mut T) -> &mut TeaVmCtx,
    params: &[Val],
    result: &ValType,
) -> Result<Val> {
    report_the_dead(&mut caller, &get)?;
    let [target, reference, queue] = params else { bail!("it takes three references") };
    let Some(target) = internal(&caller, target)? else { return null(result) };
    let weak = match (internal(&caller, reference)?, internal(&caller, queue)?) {
        (Some(reference), Some(queue)) if caller.get_export(REPORT_REFERENCE).is_some() => {
            let reference = reference.to_weak_rooted(&mut caller)?;
            let queue = queue.to_weak_rooted(&mut caller)?;
            let dead = get(caller.data_mut()).weak.dead.clone();
            dead.register(&mut caller, &target, Listener::Queue { reference, queue })?
        }
        _ => target.to_weak_rooted(&mut caller)?,
    };
    hold(caller, weak, result)
}

/// The target of a weak reference; null where it has died.
pub(crate) fn deref<T>(
    mut caller: Caller<'_, T>,
    get: impl Fn(&mut T) -> &mut TeaVmCtx,
    params: &[Val],
    result: &ValType,
) -> Result<Val> {
    report_the_dead(&mut caller, &get)?;
    match target(&mut caller, params)? {
        Some(Some(target)) => seen_as(&caller, target, result),
        _ => null(result),
    }
}

/// Creates a weak reference to an interned string: string, entry of the table. Nothing is reported here, where the
/// program is about to link the entry to another one.
pub(crate) fn create_string<T>(
    mut caller: Caller<'_, T>,
    get: impl Fn(&mut T) -> &mut TeaVmCtx,
    params: &[Val],
    result: &ValType,
) -> Result<Val> {
    let [string, entry] = params else { bail!("it takes two references") };
    let Some(string) = internal(&caller, string)? else { return null(result) };
    if get(caller.data_mut()).weak.interned.is_none() {
        let kept = string.to_owned_rooted(&mut caller)?;
        get(caller.data_mut()).weak.interned = Some(kept);
    }
    let weak = match internal(&caller, entry)? {
        Some(entry) if caller.get_export(REPORT_STRING).is_some() => {
            let entry = entry.to_weak_rooted(&mut caller)?;
            let dead = get(caller.data_mut()).weak.dead.clone();
            dead.register(&mut caller, &string, Listener::Table { entry })?
        }
        _ => string.to_weak_rooted(&mut caller)?,
    };
    hold(caller, weak, result)
}

/// An interned string; where it has died, another one.
pub(crate) fn string_deref<T>(
    mut caller: Caller<'_, T>,
    get: impl Fn(&mut T) -> &mut TeaVmCtx,
    params: &[Val],
    result: &ValType,
) -> Result<Val> {
    report_the_dead(&mut caller, &get)?;
    let Some(string) = target(&mut caller, params)? else { return null(result) };
    match (string, get(caller.data_mut()).weak.interned.clone()) {
        (Some(string), _) => seen_as(&caller, string, result),
        (None, Some(interned)) => {
            let interned = interned.to_rooted(&mut caller);
            seen_as(&caller, interned, result)
        }
        (None, None) => null(result),
    }
}

/// Tells the program's queues, and its table of interned strings, who has died. To be called where the program is in
/// the middle of neither.
pub(crate) fn report_the_dead<T>(caller: &mut Caller<'_, T>, get: &impl Fn(&mut T) -> &mut TeaVmCtx) -> Result<()> {
    let dead = get(caller.data_mut()).weak.dead.clone();
    while let Some(listener) = dead.next(&mut *caller) {
        let (name, listeners) = match listener {
            Listener::Queue { reference, queue } => (REPORT_REFERENCE, vec![queue, reference]),
            Listener::Table { entry } => (REPORT_STRING, vec![entry]),
        };
        let Some(Extern::Func(report)) = caller.get_export(name) else { continue };
        let mut scope = RootScope::new(&mut *caller);
        let living: Vec<_> = listeners.iter().map(|listener| listener.to_rooted(&mut scope)).collect::<Result<_>>()?;
        if living.iter().all(Option::is_some) {
            let params: Vec<_> = living.into_iter().map(Val::AnyRef).collect();
            report.call(&mut scope, &params, &mut [])?;
        }
    }
    Ok(())
}

/// Puts a weak reference where the program finds it.
fn hold<T>(mut caller: Caller<'_, T>, weak: WeakRooted<AnyRef>, result: &ValType) -> Result<Val> {
    let held = ExternRef::new(&mut caller, Target(weak))?;
    let held = AnyRef::convert_extern(&caller, held)?;
    seen_as(&caller, held, result)
}

/// What a weak reference that the program holds leads to, if that has not died; `None` for null.
fn target<T>(caller: &mut Caller<'_, T>, params: &[Val]) -> Result<Option<Option<Rooted<AnyRef>>>> {
    let [weak] = params else { bail!("it takes one reference") };
    let Some(weak) = internal(&caller, weak)? else { return Ok(None) };
    let weak = ExternRef::convert_any(&caller, weak)?;
    let held = weak.data(&*caller)?.and_then(|value: &(dyn Any + Send + Sync)| value.downcast_ref::<Target>());
    let Some(Target(target)) = held else { bail!("what it was given is no weak reference") };
    let target = target.clone();
    target.to_rooted(caller).map(Some)
}

/// A reference from either side of the border between internal and external ones, as an internal one.
fn internal(store: impl AsContext, value: &Val) -> Result<Option<Rooted<AnyRef>>> {
    match *value {
        Val::AnyRef(reference) => Ok(reference),
        Val::ExternRef(reference) => reference.map(|reference| AnyRef::convert_extern(store, reference)).transpose(),
        ref other => bail!("a reference was expected, not {other:?}"),
    }
}

/// A reference as a value of `ty`.
fn seen_as(store: impl AsContext, reference: Rooted<AnyRef>, ty: &ValType) -> Result<Val> {
    Ok(match is_external(ty)? {
        true => Val::ExternRef(Some(ExternRef::convert_any(store, reference)?)),
        false => Val::AnyRef(Some(reference)),
    })
}

fn null(ty: &ValType) -> Result<Val> {
    Ok(if is_external(ty)? { Val::ExternRef(None) } else { Val::AnyRef(None) })
}

fn is_external(ty: &ValType) -> Result<bool> {
    let ValType::Ref(ty) = ty else { bail!("a weak reference of TeaVM has the type {ty}, but should be a reference") };
    Ok(matches!(ty.heap_type(), HeapType::Extern | HeapType::NoExtern))
}
