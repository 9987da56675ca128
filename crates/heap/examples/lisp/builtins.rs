//! Functions that are not written in Lisp.

use super::{Lisp, Result};
use legato_heap::embed::{Local, Scope, Weak};
use std::fmt::Write;
use std::sync::Arc;

const NAMES: [&str; 17] = [
    "+", "-", "*", "<", "=", "cons", "car", "cdr", "set-cdr!", "null?", "pair?", "eq?", "print", "weak", "alive?",
    "on-death", "collect",
];

/// Makes them the values of their names.
pub(super) fn define(lisp: &mut Lisp, scope: &mut Scope<'_>) -> Result<()> {
    for (number, name) in NAMES.iter().enumerate() {
        let builtin = scope.new_struct(&lisp.types.builtin)?;
        scope.set(builtin, lisp.types.number, number as i32)?;
        set(lisp, scope, name, builtin)?;
    }
    let t = lisp.symbol(scope, "t")?;
    set(lisp, scope, "t", t)
}

fn set(lisp: &mut Lisp, scope: &mut Scope<'_>, name: &str, value: Local<'_>) -> Result<()> {
    let symbol = lisp.symbol(scope, name)?;
    let held = lisp.cons(scope, value, scope.null())?;
    Ok(scope.set(symbol, lisp.types.value, held)?)
}

/// Calls the one of this number.
pub(super) fn call<'s>(
    lisp: &mut Lisp,
    scope: &mut Scope<'s>,
    number: i32,
    arguments: &[Local<'s>],
) -> Result<Local<'s>> {
    let name = NAMES[number as usize];
    let argument = |index: usize| arguments.get(index).copied().ok_or(format!("{name} lacks an argument"));
    let integer = |index| -> Result<i32> { Ok(argument(index)?.small().ok_or("this is no number")?) };
    let truth = |lisp: &mut Lisp, scope: &mut Scope<'s>, holds: bool| match holds {
        true => lisp.symbol(scope, "t"),
        false => Ok(scope.null()),
    };
    match name {
        "+" | "-" | "*" => {
            let (left, right) = (i64::from(integer(0)?), i64::from(integer(1)?));
            let result = match name {
                "+" => left + right,
                "-" => left - right,
                _ => left * right,
            };
            let small = scope.small(result as i32);
            if small.small().map(i64::from) == Some(result) { Ok(small) } else { Err("a number is too large".into()) }
        }
        "<" => truth(lisp, scope, integer(0)? < integer(1)?),
        "=" => truth(lisp, scope, integer(0)? == integer(1)?),
        "cons" => lisp.cons(scope, argument(0)?, argument(1)?),
        "car" => lisp.first(scope, argument(0)?),
        "cdr" => lisp.rest(scope, argument(0)?),
        "set-cdr!" => {
            scope.set(argument(0)?, lisp.types.rest, argument(1)?)?;
            Ok(argument(1)?)
        }
        "null?" => truth(lisp, scope, argument(0)?.is_null()),
        "pair?" => {
            let is_pair = scope.is(argument(0)?, &lisp.types.pair)?;
            truth(lisp, scope, is_pair)
        }
        "eq?" => {
            let same = scope.same(argument(0)?, argument(1)?)?;
            truth(lisp, scope, same)
        }
        "print" => {
            let line = show(lisp, scope, argument(0)?)?;
            writeln!(lisp.output, "{line}")?;
            Ok(argument(0)?)
        }
        "weak" => {
            let weak = scope.weak(argument(0)?)?;
            Ok(scope.new_host(weak)?)
        }
        "alive?" => {
            let is_alive = match scope.host::<Weak>(argument(0)?) {
                Some(weak) => scope.is_alive(weak)?,
                None => return Err("this is no weak reference".into()),
            };
            truth(lisp, scope, is_alive)
        }
        "on-death" => {
            let (deaths, text) = (Arc::clone(&lisp.deaths), lisp.text(scope, argument(1)?)?);
            scope.on_death(argument(0)?, move || deaths.lock().unwrap().push(text))?;
            Ok(argument(0)?)
        }
        "collect" => {
            scope.collect();
            let count = scope.run_finalisers();
            for text in lisp.deaths.lock().unwrap().drain(..) {
                writeln!(lisp.output, "{text}")?;
            }
            Ok(scope.small(count as i32))
        }
        _ => unreachable!("all names have been looked at"),
    }
}

/// As it would be read.
pub(super) fn show(lisp: &Lisp, scope: &mut Scope<'_>, value: Local<'_>) -> Result<String> {
    if let Some(number) = value.small() {
        return Ok(number.to_string());
    }
    if value.is_null() {
        return Ok("()".to_owned());
    }
    if scope.is_array(value, lisp.types.string)? {
        return lisp.text(scope, value);
    }
    scope.scope(|scope| {
        if scope.is(value, &lisp.types.symbol)? {
            let name = scope.get(value, lisp.types.name)?;
            return lisp.text(scope, name);
        }
        if !scope.is(value, &lisp.types.pair)? {
            return Ok("#".to_owned());
        }
        let mut text = "(".to_owned();
        let list = scope.variable(value)?;
        loop {
            let pair = scope.read(list);
            let (first, rest) = (lisp.first(scope, pair)?, lisp.rest(scope, pair)?);
            text += &show(lisp, scope, first)?;
            if rest.is_null() {
                return Ok(text + ")");
            }
            if !scope.is(rest, &lisp.types.pair)? {
                return Ok(format!("{text} . {})", show(lisp, scope, rest)?));
            }
            scope.assign(list, rest)?;
            text += " ";
        }
    })
}
