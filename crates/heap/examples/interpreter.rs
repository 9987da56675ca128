//! An interpreter on the heap, without any compiled code: `cargo run -p legato-heap --example interpreter --
//! [key=value ...]`, with the keys of the heap's configuration. `docs/code-generator.md` explains it.
//!
//! It is a stack machine with numbers (immediates), pairs, and the empty list (null). Its operand stack is a
//! [`RootStack`]: so whatever an instruction may still need is a root. The heap is verified, and collected at every
//! seventh allocation or poll: a reference that is used without having been a root ends the program.

use legato_heap::layout::{HEADER_BYTES, StorageKind};
use legato_heap::{Heap, HeapConfig, Reference, RootStack, TypeId, TypeInfo, TypeShape, TypeTable};
use std::collections::HashMap;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Offsets of a pair's fields.
const FIRST: u32 = HEADER_BYTES;
const REST: u32 = FIRST + StorageKind::Ref.bytes();

struct Machine<'a> {
    heap: Heap,
    pair: TypeId,
    stack: RootStack,
    words: HashMap<&'a str, &'a [&'a str]>,
}

impl<'a> Machine<'a> {
    fn new(config: &HeapConfig) -> Result<Machine<'a>> {
        let types = TypeTable::new()?;
        let shape = TypeShape::Struct(vec![StorageKind::Ref, StorageKind::Ref]);
        let pair = types.register(TypeInfo { shape, supertype: None })?;
        Ok(Machine { heap: Heap::new(config, types)?, pair, stack: RootStack::new(), words: HashMap::new() })
    }

    /// Pushes a reference that has just been returned, read or popped: no collection has passed it.
    fn push(&mut self, reference: Reference) {
        // SAFETY: it is live, by the contract above; every call of the heap gets this stack.
        unsafe { self.stack.push(reference) };
    }

    fn pop(&mut self) -> Result<Reference> {
        Ok(self.stack.pop().ok_or("the stack is empty")?)
    }

    fn pop_number(&mut self) -> Result<i32> {
        Ok(self.pop()?.i31().ok_or("this is no number")?)
    }

    /// Replaces the pair on top by one of its fields.
    fn field(&mut self, offset: u32) -> Result<()> {
        let pair = self.pop()?;
        self.push(Reference(self.heap.load(pair, offset, StorageKind::Ref) as u32));
        Ok(())
    }

    fn run(&mut self, code: &'a [&'a str]) -> Result<()> {
        self.heap.poll(&mut self.stack); // each call is a safepoint, so that a program without pairs has some
        let mut at = 0;
        while let Some(&word) = code.get(at) {
            at += 1;
            match word {
                ":" => {
                    let end = at + code[at..].iter().position(|&word| word == ";").ok_or("; is missing")?;
                    self.words.insert(code[at], &code[at + 1..end]);
                    at = end + 1;
                }
                "if" if ![Reference::NULL, Reference::from_i31(0)].contains(&self.pop()?) => {}
                "if" | "else" => at = behind(code, at)?,
                "then" => {}
                "nil" => self.push(Reference::NULL),
                "drop" => drop(self.pop()?),
                "dup" | "over" => {
                    let depth = if word == "dup" { 1 } else { 2 };
                    self.push(self.stack.get(self.stack.len() - depth));
                }
                "swap" => {
                    let (top, below) = (self.pop()?, self.pop()?);
                    self.push(top);
                    self.push(below);
                }
                "+" | "-" | "<" => {
                    let (right, left) = (self.pop_number()?, self.pop_number()?);
                    let result = if word == "+" { left + right } else { left - right };
                    self.push(Reference::from_i31(if word == "<" { (left < right).into() } else { result }));
                }
                "car" => self.field(FIRST)?,
                "cdr" => self.field(REST)?,
                "cons" => {
                    // May collect: the operands are still on the stack, and are popped afterwards.
                    let pair = self.heap.allocate_struct(self.pair, &mut self.stack)?;
                    for offset in [REST, FIRST] {
                        let value = self.pop()?;
                        // SAFETY: the pair is new, and the value was a root until now.
                        unsafe { self.heap.store_reference(pair, offset, value) };
                    }
                    self.push(pair);
                }
                "set-cdr" => {
                    let (rest, pair) = (self.pop()?, self.pop()?);
                    // SAFETY: both were roots until now. (An old pair may get a young value: the barrier's case.)
                    unsafe { self.heap.store_reference(pair, REST, rest) };
                    self.push(pair);
                }
                _ => match (word.parse(), self.words.get(word)) {
                    (Ok(number), _) => self.push(Reference::from_i31(number)),
                    (_, Some(code)) => self.run(code)?,
                    _ => return Err(format!("'{word}' is not defined").into()),
                },
            }
        }
        Ok(())
    }
}

/// The position behind the `else` or `then` that belongs to the `if` or `else` before `at`.
fn behind(code: &[&str], at: usize) -> Result<usize> {
    let mut depth = 1;
    for (position, &word) in code.iter().enumerate().skip(at) {
        depth += i32::from(word == "if") - i32::from(word == "then");
        if depth == 0 || depth == 1 && word == "else" {
            return Ok(position + 1);
        }
    }
    Err("then is missing".into())
}

/// What each word takes from the stack, and leaves there: fib (n -- number), range (n -- list), sum (list -- number),
/// insert (pair n -- pair, with a pair of n behind it), fill (pair n -- pair, with n such pairs).
const PROGRAM: &str = "
    : fib       dup 2 < if else dup 1 - fib swap 2 - fib + then ;
    : range     dup if dup 1 - range cons else drop nil then ;
    : sum       dup if dup car swap cdr sum + else drop 0 then ;
    : insert    over cdr cons set-cdr ;
    : fill      dup if swap over insert swap 1 - fill else drop then ;
    12 fib   100 range sum   0 nil cons 100 fill sum   + +";

/// Runs the program under `settings`; returns what it leaves, and the number of collections.
fn run<'a>(settings: impl Iterator<Item = &'a str>) -> Result<(i32, u64)> {
    let mut config = HeapConfig::default();
    for setting in ["verify=on", "stress=7"].into_iter().chain(settings) {
        let (key, value) = setting.split_once('=').ok_or_else(|| format!("'{setting}' is no key=value"))?;
        config.set(key, value)?;
    }
    let code: Vec<&str> = PROGRAM.split_whitespace().collect();
    let mut machine = Machine::new(&config)?;
    machine.run(&code)?;
    machine.heap.verify(Some(&mut machine.stack))?;
    Ok((machine.pop_number()?, machine.heap.stats().collections))
}

fn main() -> Result<()> {
    let settings: Vec<String> = std::env::args().skip(1).collect();
    let (result, collections) = run(settings.iter().map(String::as_str))?;
    println!("{result} after {collections} collections; 10244 is right");
    Ok(())
}

#[test]
fn every_heap_gives_the_same() {
    for settings in ["", "barrier=cards", "collector=mark-sweep", "collector=mark-sweep references=thin-handles"] {
        let (result, collections) = run(settings.split_whitespace()).unwrap();
        assert_eq!(result, 144 + 5050 + 5050, "{settings}");
        assert!(collections > 100, "{settings}: {collections} collections");
    }
}
