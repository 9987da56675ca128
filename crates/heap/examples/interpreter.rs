//! A small Lisp on the heap, without any compiled code: `cargo run -p legato-heap --example interpreter --
//! [key=value ...]`, with the keys of the heap's configuration. `docs/code-generator.md` explains it.
//!
//! Lists are pairs, symbols are arrays of bytes, numbers are immediates, the empty list is null and false. Everything
//! that lives over an allocation lies in a [`RootStack`]. The heap is verified, and collected at every seventh
//! allocation or poll: a reference that is used without having been a root ends the program.

use legato_heap::layout::{HEADER_BYTES, StorageKind};
use legato_heap::{Heap, HeapConfig, Reference, RootStack, TypeId, TypeInfo, TypeShape, TypeTable};
use std::iter::Peekable;
use std::str::SplitWhitespace;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

struct Lisp {
    heap: Heap,
    /// Slot 0 holds a pair whose first field is the list of global bindings.
    roots: RootStack,
    symbol: TypeId,
    pair: TypeId,
    closure: TypeId,
}

impl Lisp {
    fn new(config: &HeapConfig) -> Result<Lisp> {
        let types = TypeTable::new()?;
        let symbol = types.register(TypeInfo { shape: TypeShape::Array(StorageKind::I8), supertype: None })?;
        let references = |count| TypeInfo { shape: TypeShape::Struct(vec![StorageKind::Ref; count]), supertype: None };
        let (pair, closure) = (types.register(references(2))?, types.register(references(3))?);
        let mut lisp = Lisp { heap: Heap::new(config, types)?, roots: RootStack::new(), symbol, pair, closure };
        let globals = lisp.make(pair, &[Reference::NULL, Reference::NULL])?;
        lisp.root(globals);
        Ok(lisp)
    }

    /// Keeps a reference, which no collection has passed since it was returned or read, on top of the roots.
    fn root(&mut self, reference: Reference) {
        // SAFETY: it is live, as every caller has just got it; all calls of the heap get these roots.
        unsafe { self.roots.push(reference) };
    }

    /// Replaces a root by a reference that no collection has passed either.
    fn set_root(&mut self, slot: usize, reference: Reference) {
        // SAFETY: it is live, as every caller has just got it; all calls of the heap get these roots.
        unsafe { self.roots.set(slot, reference) };
    }

    fn field(&self, object: Reference, index: u32) -> Reference {
        Reference(self.heap.load(object, HEADER_BYTES + 4 * index, StorageKind::Ref) as u32)
    }

    fn nth(&self, list: Reference, index: u32) -> Reference {
        if index == 0 { self.field(list, 0) } else { self.nth(self.field(list, 1), index - 1) }
    }

    fn name(&self, reference: Reference) -> Option<String> {
        let is_symbol = reference.is_object() && self.heap.type_of(reference) == self.symbol;
        let mut bytes = vec![0; if is_symbol { self.heap.array_length(reference) as usize } else { return None }];
        self.heap.array_read_bytes(reference, 0, &mut bytes);
        String::from_utf8(bytes).ok()
    }

    /// A new struct. May collect: the fields are roots meanwhile, and are read again from there.
    fn make(&mut self, id: TypeId, fields: &[Reference]) -> Result<Reference> {
        let base = self.roots.len();
        fields.iter().for_each(|&field| self.root(field));
        let new = self.heap.allocate_struct(id, &mut self.roots)?;
        for (slot, offset) in (base..self.roots.len()).zip((HEADER_BYTES..).step_by(4)) {
            // SAFETY: the object is new, and the value has been a root while it was allocated.
            unsafe { self.heap.store_reference(new, offset, self.roots.get(slot)) };
        }
        self.roots.truncate(base);
        Ok(new)
    }

    fn read(&mut self, tokens: &mut Peekable<SplitWhitespace>) -> Result<Reference> {
        let token = tokens.next().ok_or("the program ends within a list")?;
        if let Ok(number) = token.parse() {
            return Ok(Reference::from_i31(number));
        } else if token != "(" {
            let new = self.heap.allocate_array(self.symbol, token.len() as u32, &mut self.roots)?;
            // SAFETY: the array is new.
            unsafe { self.heap.array_write_bytes(new, 0, token.as_bytes())? };
            return Ok(new);
        }
        let base = self.roots.len();
        while tokens.next_if_eq(&")").is_none() {
            let item = self.read(tokens)?;
            self.root(item);
        }
        let mut list = Reference::NULL;
        while self.roots.len() > base {
            let item = self.roots.pop().unwrap_or_default();
            list = self.make(self.pair, &[item, list])?;
        }
        Ok(list)
    }

    /// Evaluates. May collect: both arguments become roots first; the result is good up to the next allocation.
    fn eval(&mut self, expression: Reference, environment: Reference) -> Result<Reference> {
        let base = self.roots.len();
        self.root(expression);
        self.root(environment);
        self.heap.poll(&mut self.roots);
        let result = self.eval_roots(base);
        self.roots.truncate(base);
        result
    }

    /// Evaluates the expression in root slot `base` in the environment behind it. Whatever is used after a call that
    /// may collect is read from its slot again.
    fn eval_roots(&mut self, base: usize) -> Result<Reference> {
        let (form, environment) = (self.roots.get(base), self.roots.get(base + 1));
        if !form.is_object() {
            return Ok(form);
        } else if let Some(name) = self.name(form) {
            return Ok(self.lookup(&name, environment).unwrap_or(form));
        }
        match self.name(self.field(form, 0)).as_deref() {
            Some("if") => {
                let condition = self.eval(self.nth(form, 1), environment)?;
                let branch = self.nth(self.roots.get(base), if condition.is_null() { 3 } else { 2 });
                self.eval(branch, self.roots.get(base + 1))
            }
            Some("lambda") => self.make(self.closure, &[self.nth(form, 1), self.nth(form, 2), environment]),
            Some("define") => {
                let value = self.eval(self.nth(form, 2), environment)?;
                let binding = self.make(self.pair, &[self.nth(self.roots.get(base), 1), value])?;
                let bindings = self.make(self.pair, &[binding, self.field(self.roots.get(0), 0)])?;
                // SAFETY: the pair is a root, and the list is new. An old object gets a young one: the barrier's case.
                unsafe { self.heap.store_reference(self.roots.get(0), HEADER_BYTES, bindings) };
                Ok(Reference::NULL)
            }
            _ => self.apply(base),
        }
    }

    /// A name's value; none for the built-in functions, whose symbols stand for themselves.
    fn lookup(&self, name: &str, environment: Reference) -> Option<Reference> {
        for mut list in [environment, self.field(self.roots.get(0), 0)] {
            while list.is_object() {
                let binding = self.field(list, 0);
                if self.name(self.field(binding, 0)).as_deref() == Some(name) {
                    return Some(self.field(binding, 1));
                }
                list = self.field(list, 1);
            }
        }
        None
    }

    /// Calls a function: evaluates the form's parts onto the roots first.
    fn apply(&mut self, base: usize) -> Result<Reference> {
        while self.roots.get(base).is_object() {
            let part = self.eval(self.field(self.roots.get(base), 0), self.roots.get(base + 1))?;
            self.root(part);
            self.set_root(base, self.field(self.roots.get(base), 1));
        }
        let (function, arguments) = (self.roots.get(base + 2), base + 3);
        let argument = |lisp: &Lisp, index| lisp.roots.get(arguments + index);
        let number = |lisp: &Lisp, index| argument(lisp, index).i31().ok_or("no number");
        if let Some(name) = self.name(function) {
            return Ok(match name.as_str() {
                "+" => Reference::from_i31(number(self, 0)? + number(self, 1)?),
                "-" => Reference::from_i31(number(self, 0)? - number(self, 1)?),
                "<" if number(self, 0)? < number(self, 1)? => Reference::from_i31(1),
                "<" => Reference::NULL,
                "cons" => self.make(self.pair, &[argument(self, 0), argument(self, 1)])?,
                "car" => self.field(argument(self, 0), 0),
                "cdr" => self.field(argument(self, 0), 1),
                _ => return Err(format!("{name} is not defined").into()),
            });
        }
        self.set_root(base, self.field(function, 0));
        self.set_root(base + 1, self.field(function, 2));
        for slot in arguments..self.roots.len() {
            let binding = self.make(self.pair, &[self.field(self.roots.get(base), 0), self.roots.get(slot)])?;
            let environment = self.make(self.pair, &[binding, self.roots.get(base + 1)])?;
            self.set_root(base + 1, environment);
            self.set_root(base, self.field(self.roots.get(base), 1));
        }
        self.eval(self.field(self.roots.get(base + 2), 1), self.roots.get(base + 1))
    }
}

const PROGRAM: &str = "
    (define fib (lambda (n) (if (< n 2) n (+ (fib (- n 1)) (fib (- n 2))))))
    (define range (lambda (n) (if (< 0 n) (cons n (range (- n 1))) ())))
    (define sum (lambda (list) (if list (+ (car list) (sum (cdr list))) 0)))
    (define adder (lambda (n) (lambda (m) (+ n m))))
    (+ ((adder 1000) (fib 10)) (sum (range 60)))";

/// Runs the program under `settings`; returns its last value, and the number of collections.
fn run<'a>(settings: impl Iterator<Item = &'a str>) -> Result<(Option<i32>, u64)> {
    let mut config = HeapConfig::default();
    for setting in ["verify=on", "stress=7"].into_iter().chain(settings) {
        let (key, value) = setting.split_once('=').ok_or_else(|| format!("'{setting}' is no key=value"))?;
        config.set(key, value)?;
    }
    let mut lisp = Lisp::new(&config)?;
    let text = PROGRAM.replace('(', " ( ").replace(')', " ) ");
    let (mut tokens, mut value) = (text.split_whitespace().peekable(), Reference::NULL);
    while tokens.peek().is_some() {
        let form = lisp.read(&mut tokens)?;
        value = lisp.eval(form, Reference::NULL)?;
    }
    lisp.heap.verify(Some(&mut lisp.roots))?;
    Ok((value.i31(), lisp.heap.stats().collections))
}

fn main() -> Result<()> {
    let settings: Vec<String> = std::env::args().skip(1).collect();
    let (value, collections) = run(settings.iter().map(String::as_str))?;
    println!("{value:?} after {collections} collections (2885 is right)");
    Ok(())
}

#[test]
fn every_heap_gives_the_same() {
    for settings in ["", "collector=mark-sweep", "collector=mark-sweep references=thin-handles", "arrays=zrays"] {
        let (value, collections) = run(settings.split_whitespace()).unwrap();
        assert_eq!(value, Some(1000 + 55 + 1830), "{settings}");
        assert!(collections > 100, "{settings}: {collections} collections");
    }
}
