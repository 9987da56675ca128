//! A small Lisp on `legato_heap::embed`, in safe Rust: `cargo run -p legato-heap --example lisp -- [key=value ...]
//! [FILE]`, with the keys of the heap's configuration. Without a file it runs `examples/lisp/script.lisp`, in a
//! heap of 512 KiB.
//!
//! `reader.rs` makes lists of text, `evaluator.rs` runs them, `builtins.rs` has the functions that are not written in
//! Lisp. What all of them need of the heap is here.

mod builtins;
mod evaluator;
mod reader;

use legato_heap::embed::{Any, ArrayType, Field, Local, ObjectHeap, Root, Scope, StructType, Type};
use legato_heap::{HeapConfig, HeapStats};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// The types of objects, and their fields. Numbers are small integers, the empty list and false are null.
struct Types {
    pair: Type,
    first: Field<Any>,
    rest: Field<Any>,
    symbol: Type,
    name: Field<Any>,
    value: Field<Any>,
    closure: Type,
    parameters: Field<Any>,
    body: Field<Any>,
    environment: Field<Any>,
    builtin: Type,
    number: Field<i32>,
    string: ArrayType<u8>,
}

impl Types {
    fn new(heap: &mut ObjectHeap) -> Result<Types> {
        let pair = heap.define(StructType::new("pair").field::<Any>("first").field::<Any>("rest"))?;
        let symbol = heap.define(StructType::new("symbol").field::<Any>("name").field::<Any>("value"))?;
        let closure = StructType::new("closure").field::<Any>("parameters").field::<Any>("body");
        let closure = heap.define(closure.field::<Any>("environment"))?;
        let builtin = heap.define(StructType::new("builtin").field::<i32>("number"))?;
        Ok(Types {
            first: pair.field("first")?,
            rest: pair.field("rest")?,
            name: symbol.field("name")?,
            value: symbol.field("value")?,
            parameters: closure.field("parameters")?,
            body: closure.field("body")?,
            environment: closure.field("environment")?,
            number: builtin.field("number")?,
            string: heap.define_array("string")?,
            pair,
            symbol,
            closure,
            builtin,
        })
    }
}

/// What an interpreter has beside its heap.
struct Lisp {
    types: Types,
    /// Each symbol, for as long as the interpreter lives.
    symbols: HashMap<String, Root>,
    /// What has been printed.
    output: String,
    /// What finalisers have said.
    deaths: Arc<Mutex<Vec<String>>>,
    depth: u32,
}

impl Lisp {
    fn new(heap: &mut ObjectHeap) -> Result<Lisp> {
        let types = Types::new(heap)?;
        let mut lisp = Lisp { types, symbols: HashMap::new(), output: String::new(), deaths: Arc::default(), depth: 0 };
        heap.scope(|scope| builtins::define(&mut lisp, scope))?;
        Ok(lisp)
    }

    /// The symbol of this name.
    fn symbol<'s>(&mut self, scope: &mut Scope<'s>, name: &str) -> Result<Local<'s>> {
        if let Some(symbol) = self.symbols.get(name) {
            return Ok(scope.rooted(symbol)?);
        }
        let symbol = scope.new_struct(&self.types.symbol)?;
        let text = self.string(scope, name)?;
        scope.set(symbol, self.types.name, text)?;
        self.symbols.insert(name.to_owned(), scope.root(symbol)?);
        Ok(symbol)
    }

    fn string<'s>(&self, scope: &mut Scope<'s>, text: &str) -> Result<Local<'s>> {
        let string = scope.new_array(self.types.string, text.len() as u32)?;
        scope.write_bytes(string, 0, text.as_bytes())?;
        Ok(string)
    }

    fn text(&self, scope: &Scope<'_>, string: Local<'_>) -> Result<String> {
        let mut bytes = vec![0; scope.length(string)? as usize];
        scope.read_bytes(string, 0, &mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn cons<'s>(&self, scope: &mut Scope<'s>, first: Local<'_>, rest: Local<'_>) -> Result<Local<'s>> {
        let pair = scope.new_struct(&self.types.pair)?;
        scope.set(pair, self.types.first, first)?;
        scope.set(pair, self.types.rest, rest)?;
        Ok(pair)
    }

    fn first<'s>(&self, scope: &mut Scope<'s>, pair: Local<'_>) -> Result<Local<'s>> {
        Ok(scope.get(pair, self.types.first)?)
    }

    fn rest<'s>(&self, scope: &mut Scope<'s>, pair: Local<'_>) -> Result<Local<'s>> {
        Ok(scope.get(pair, self.types.rest)?)
    }

    /// Evaluates all forms of a text. Whatever a form has made can be collected after it, but for what symbols hold.
    fn run(&mut self, heap: &mut ObjectHeap, text: &str) -> Result<()> {
        let mut reader = reader::Reader::new(text);
        while !reader.is_at_end() {
            heap.scope(|scope| -> Result<()> {
                let form = reader.read(self, scope)?;
                let environment = scope.null();
                evaluator::evaluate(self, scope, form, environment)?;
                Ok(())
            })?;
        }
        Ok(())
    }
}

const SCRIPT: &str = include_str!("script.lisp");

/// Stack for calls that are nested as deep as may be, in bytes.
const STACK: usize = 64 << 20;

/// Runs a script on a thread of its own; returns what it has printed, and what that took.
fn run(config: &HeapConfig, script: &str) -> Result<(String, HeapStats)> {
    std::thread::scope(|threads| {
        let interpret = || interpret(config, script).map_err(|error| error.to_string());
        let thread = std::thread::Builder::new().stack_size(STACK).spawn_scoped(threads, interpret)?;
        Ok(thread.join().expect("the interpreter does not panic")?)
    })
}

fn interpret(config: &HeapConfig, script: &str) -> Result<(String, HeapStats)> {
    let mut heap = ObjectHeap::new(config)?;
    let mut lisp = Lisp::new(&mut heap)?;
    lisp.run(&mut heap, script)?;
    heap.verify()?;
    Ok((lisp.output, heap.stats()))
}

fn main() -> Result<()> {
    let (mut config, mut script) = (HeapConfig::default(), SCRIPT.to_owned());
    config.set("max", "512K")?;
    for argument in std::env::args().skip(1) {
        match argument.split_once('=') {
            Some((key, value)) => config.set(key, value)?,
            None => script = std::fs::read_to_string(&argument)?,
        }
    }
    let (output, stats) = run(&config, &script)?;
    print!("{output}");
    println!(
        "{} MiB allocated in a heap of at most {} KiB; {} collections, {} of them of everything",
        stats.allocated_bytes >> 20,
        config.max_bytes.unwrap_or(0) >> 10,
        stats.collections,
        stats.full_collections,
    );
    Ok(())
}

#[test]
fn every_heap_prints_the_same() {
    let expected = include_str!("expected.txt");
    for settings in [
        "max=512K",
        "max=512K collector=mark-sweep references=thin-handles",
        "max=2M collector=realtime references=brooks",
    ] {
        let mut config = HeapConfig::default();
        for setting in settings.split(' ') {
            let (key, value) = setting.split_once('=').unwrap();
            config.set(key, value).unwrap();
        }
        let (output, stats) = run(&config, SCRIPT).unwrap();
        assert_eq!(output, expected, "{settings}");
        assert!(stats.collections > 3, "{settings}: {stats:?}");
    }
}

#[test]
fn a_reference_that_is_missed_would_show() {
    let mut config = HeapConfig::default();
    for (key, value) in [("verify", "on"), ("stress", "23"), ("max", "4M")] {
        config.set(key, value).unwrap();
    }
    let script = "(define (down n) (if (= n 0) '() (cons n (down (- n 1))))) (print (down 40))";
    assert!(run(&config, script).unwrap().0.starts_with("(40 39 38 "));
}

#[test]
fn what_is_wrong_is_an_error() {
    for (script, says) in [
        ("(car 5)", "a small integer"),
        ("(car (lambda (x) x))", "closure"),
        ("(nothing)", "nothing is not defined"),
        ("(define (deep n) (+ 1 (deep n))) (deep 1)", "too deep"),
        ("(define (long l) (long (cons 1 l))) (long '())", "out of memory"),
        ("(print (+ 1073741823 1))", "too large"),
        ("(1 2", "ends"),
        ("(\"text\" 2)", "no function"),
    ] {
        let mut config = HeapConfig::default();
        config.set("max", "1M").unwrap();
        let error = run(&config, script).unwrap_err().to_string();
        assert!(error.contains(says), "{script}: {error}");
    }
}
