//! Text to lists.

use super::{Lisp, Result};
use legato_heap::embed::{Local, Scope};

/// A place in a text.
pub(super) struct Reader<'a> {
    rest: &'a str,
}

impl<'a> Reader<'a> {
    pub(super) fn new(text: &'a str) -> Reader<'a> {
        let mut reader = Reader { rest: text };
        reader.skip();
        reader
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    /// Moves on to the next thing that is neither space nor a comment.
    fn skip(&mut self) {
        loop {
            self.rest = self.rest.trim_start();
            match self.rest.strip_prefix(';') {
                Some(comment) => self.rest = comment.split_once('\n').map_or("", |(_, rest)| rest),
                None => return,
            }
        }
    }

    fn take(&mut self, token: char) -> bool {
        let rest = self.rest.strip_prefix(token);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// Reads one form, and moves on to the next.
    pub(super) fn read<'s>(&mut self, lisp: &mut Lisp, scope: &mut Scope<'s>) -> Result<Local<'s>> {
        let form = if self.take('(') {
            self.skip();
            self.list(lisp, scope)?
        } else if self.take('\'') {
            let quoted = self.read(lisp, scope)?;
            let (list, quote) = (lisp.cons(scope, quoted, scope.null())?, lisp.symbol(scope, "quote")?);
            lisp.cons(scope, quote, list)?
        } else if self.take('"') {
            let (text, rest) = self.rest.split_once('"').ok_or("the text ends within a string")?;
            self.rest = rest;
            lisp.string(scope, text)?
        } else {
            let end = self.rest.find(|c: char| c.is_whitespace() || "();'\"".contains(c)).unwrap_or(self.rest.len());
            let (token, rest) = self.rest.split_at(end);
            self.rest = rest;
            match token.parse() {
                Ok(number) => scope.small(number),
                Err(_) if token.is_empty() => return Err("the text ends within a list, or begins with ')'".into()),
                Err(_) => lisp.symbol(scope, token)?,
            }
        };
        self.skip();
        Ok(form)
    }

    /// Reads what is left of a list.
    fn list<'s>(&mut self, lisp: &mut Lisp, scope: &mut Scope<'s>) -> Result<Local<'s>> {
        if self.take(')') {
            return Ok(scope.null());
        }
        let first = self.read(lisp, scope)?;
        let rest = self.list(lisp, scope)?;
        lisp.cons(scope, first, rest)
    }
}
