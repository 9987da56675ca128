//! Runs lists. A call in tail position takes no stack and leaves no handles behind: form and environment are variables,
//! and each step has a scope of its own.

use super::{Lisp, Result, builtins};
use legato_heap::embed::{Local, Scope, Var};

/// How deep calls may be nested that are not in tail position.
const MOST_DEPTH: u32 = 2_000;

/// What comes after a step.
enum Next {
    /// The form variable holds the result.
    Done,
    /// Both variables hold what is to be evaluated next.
    Again,
}

/// The value of a form. An environment is a list of pairs of symbol and value.
pub(super) fn evaluate<'s>(
    lisp: &mut Lisp,
    scope: &mut Scope<'s>,
    form: Local<'_>,
    environment: Local<'_>,
) -> Result<Local<'s>> {
    if lisp.depth == MOST_DEPTH {
        return Err("calls are nested too deep".into());
    }
    lisp.depth += 1;
    let result = scope.scope_to(|scope| {
        let (form, environment) = (scope.variable(form)?, scope.variable(environment)?);
        while let Next::Again = scope.scope(|scope| step(lisp, scope, form, environment))? {}
        Ok(scope.read(form))
    });
    lisp.depth -= 1;
    result
}

fn step(lisp: &mut Lisp, scope: &mut Scope<'_>, form: Var<'_>, environment: Var<'_>) -> Result<Next> {
    let (this, around) = (scope.read(form), scope.read(environment));
    if scope.is(this, &lisp.types.symbol)? {
        let value = look_up(lisp, scope, this, around)?;
        scope.assign(form, value)?;
        return Ok(Next::Done);
    }
    if !scope.is(this, &lisp.types.pair)? {
        return Ok(Next::Done); // it stands for itself
    }
    let (head, rest) = (lisp.first(scope, this)?, lisp.rest(scope, this)?);
    if scope.is(head, &lisp.types.symbol)? {
        let name = scope.get(head, lisp.types.name)?;
        match lisp.text(scope, name)?.as_str() {
            "quote" => {
                let quoted = lisp.first(scope, rest)?;
                scope.assign(form, quoted)?;
                return Ok(Next::Done);
            }
            "if" => {
                let (condition, branches) = (lisp.first(scope, rest)?, lisp.rest(scope, rest)?);
                let holds = !evaluate(lisp, scope, condition, around)?.is_null();
                let others = lisp.rest(scope, branches)?;
                let chosen = match holds {
                    true => lisp.first(scope, branches)?,
                    false if others.is_null() => others,
                    false => lisp.first(scope, others)?,
                };
                scope.assign(form, chosen)?;
                return Ok(Next::Again);
            }
            "define" => {
                let value = define(lisp, scope, rest, around)?;
                scope.assign(form, value)?;
                return Ok(Next::Done);
            }
            "lambda" => {
                let (parameters, body) = (lisp.first(scope, rest)?, lisp.rest(scope, rest)?);
                let closure = closure(lisp, scope, parameters, body, around)?;
                scope.assign(form, closure)?;
                return Ok(Next::Done);
            }
            "begin" => {
                let last = all_but_last(lisp, scope, rest, around)?;
                scope.assign(form, last)?;
                return Ok(Next::Again);
            }
            "let" => {
                let (bindings, body) = (lisp.first(scope, rest)?, lisp.rest(scope, rest)?);
                let inner = bind(lisp, scope, bindings, around)?;
                let last = all_but_last(lisp, scope, body, inner)?;
                scope.assign(environment, inner)?;
                scope.assign(form, last)?;
                return Ok(Next::Again);
            }
            _ => {}
        }
    }
    let function = evaluate(lisp, scope, head, around)?;
    let arguments = arguments(lisp, scope, rest, around)?;
    if scope.is(function, &lisp.types.builtin)? {
        let number = scope.get(function, lisp.types.number)?;
        let value = builtins::call(lisp, scope, number, &arguments)?;
        scope.assign(form, value)?;
        return Ok(Next::Done);
    }
    if !scope.is(function, &lisp.types.closure)? {
        return Err(format!("{} is no function", builtins::show(lisp, scope, function)?).into());
    }
    let mut inner = scope.get(function, lisp.types.environment)?;
    let mut parameters = scope.get(function, lisp.types.parameters)?;
    for argument in arguments {
        let binding = lisp.first(scope, parameters)?;
        let binding = lisp.cons(scope, binding, argument)?;
        inner = lisp.cons(scope, binding, inner)?;
        parameters = lisp.rest(scope, parameters)?;
    }
    if !parameters.is_null() {
        return Err("an argument is missing".into());
    }
    let body = scope.get(function, lisp.types.body)?;
    let last = all_but_last(lisp, scope, body, inner)?;
    scope.assign(environment, inner)?;
    scope.assign(form, last)?;
    Ok(Next::Again)
}

/// The value of a symbol: in the environment, else the global one.
fn look_up<'s>(lisp: &Lisp, scope: &mut Scope<'s>, symbol: Local<'_>, environment: Local<'_>) -> Result<Local<'s>> {
    let found = scope.scope_to(|scope| -> Result<Local<'_>> {
        let bindings = scope.variable(environment)?;
        loop {
            // A long environment is walked without a handle for each binding.
            let found = scope.scope_to(|scope| -> Result<Local<'_>> {
                let list = scope.read(bindings);
                if list.is_null() {
                    return Ok(list);
                }
                let (binding, rest) = (lisp.first(scope, list)?, lisp.rest(scope, list)?);
                scope.assign(bindings, rest)?;
                let name = lisp.first(scope, binding)?;
                Ok(if scope.same(name, symbol)? { binding } else { scope.small(0) })
            })?;
            if found.small().is_none() {
                return Ok(found);
            }
        }
    })?;
    if !found.is_null() {
        return lisp.rest(scope, found);
    }
    // Defined symbols hold a list of one value, so that null can be a value, too.
    let held = scope.get(symbol, lisp.types.value)?;
    if held.is_null() {
        let name = scope.get(symbol, lisp.types.name)?;
        return Err(format!("{} is not defined", lisp.text(scope, name)?).into());
    }
    lisp.first(scope, held)
}

/// `(define name form)` or `(define (name parameters...) body...)`.
fn define<'s>(lisp: &mut Lisp, scope: &mut Scope<'s>, rest: Local<'_>, around: Local<'_>) -> Result<Local<'s>> {
    let (target, body) = (lisp.first(scope, rest)?, lisp.rest(scope, rest)?);
    let (symbol, value) = if scope.is(target, &lisp.types.pair)? {
        let (name, parameters) = (lisp.first(scope, target)?, lisp.rest(scope, target)?);
        (name, closure(lisp, scope, parameters, body, around)?)
    } else {
        let form = lisp.first(scope, body)?;
        (target, evaluate(lisp, scope, form, around)?)
    };
    let held = lisp.cons(scope, value, scope.null())?;
    scope.set(symbol, lisp.types.value, held)?;
    Ok(value)
}

fn closure<'s>(
    lisp: &Lisp,
    scope: &mut Scope<'s>,
    parameters: Local<'_>,
    body: Local<'_>,
    environment: Local<'_>,
) -> Result<Local<'s>> {
    let closure = scope.new_struct(&lisp.types.closure)?;
    scope.set(closure, lisp.types.parameters, parameters)?;
    scope.set(closure, lisp.types.body, body)?;
    scope.set(closure, lisp.types.environment, environment)?;
    Ok(closure)
}

/// Evaluates all forms of a list but for the last, which is returned.
fn all_but_last<'s>(
    lisp: &mut Lisp,
    scope: &mut Scope<'s>,
    forms: Local<'_>,
    environment: Local<'_>,
) -> Result<Local<'s>> {
    let mut form = lisp.first(scope, forms)?;
    let mut rest = lisp.rest(scope, forms)?;
    while !rest.is_null() {
        evaluate(lisp, scope, form, environment)?;
        form = lisp.first(scope, rest)?;
        rest = lisp.rest(scope, rest)?;
    }
    Ok(form)
}

/// The environment with the bindings of a `let`.
fn bind<'s>(lisp: &mut Lisp, scope: &mut Scope<'s>, mut bindings: Local<'s>, around: Local<'s>) -> Result<Local<'s>> {
    let mut inner = around;
    while !bindings.is_null() {
        let binding = lisp.first(scope, bindings)?;
        let (symbol, form) = (lisp.first(scope, binding)?, lisp.rest(scope, binding)?);
        let form = lisp.first(scope, form)?;
        let value = evaluate(lisp, scope, form, around)?;
        let pair = lisp.cons(scope, symbol, value)?;
        inner = lisp.cons(scope, pair, inner)?;
        bindings = lisp.rest(scope, bindings)?;
    }
    Ok(inner)
}

/// The values of a list of forms.
fn arguments<'s>(
    lisp: &mut Lisp,
    scope: &mut Scope<'s>,
    mut forms: Local<'s>,
    environment: Local<'_>,
) -> Result<Vec<Local<'s>>> {
    let mut values = Vec::new();
    while !forms.is_null() {
        let form = lisp.first(scope, forms)?;
        values.push(evaluate(lisp, scope, form, environment)?);
        forms = lisp.rest(scope, forms)?;
    }
    Ok(values)
}
