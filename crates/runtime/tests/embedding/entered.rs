//! Loops within others that optimised code begins with, in random functions: wherever it takes over, whichever way
//! leads on from there, and whatever lies on the operand stack below, a function means the same.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use legato::{Compilation, CompileCause, Config, Engine, Instance, Module, Result, Store};

const PROGRAMS: u32 = 250;

struct Random(u32);

impl Random {
    fn below(&mut self, end: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 17;
        self.0 ^= self.0 << 5;
        self.0 % end
    }
}

/// Writes a function. Its loops end together when the fuel is used up, if not before.
struct Writer {
    random: Random,
    /// The labels that may be branched to without operands, and how many there have been.
    labels: Vec<String>,
    count: usize,
    /// Whether there are operands below loops, and loops with parameters. Longer functions with such are not entered.
    has_operands: bool,
}

impl Writer {
    fn label(&mut self, prefix: &str) -> String {
        self.count += 1;
        format!("${prefix}{}", self.count)
    }

    /// Some bits of what has been computed so far, at most so many: mostly not all 0.
    fn condition(&mut self, most: u32) -> String {
        let (shift, mask) = (self.random.below(40), (2 << self.random.below(most)) - 1);
        format!("(i32.and (i32.wrap_i64 (i64.shr_u (local.get $s) (i64.const {shift}))) (i32.const {mask}))")
    }

    fn mix(&mut self) -> String {
        let add = match self.random.below(4) {
            0 => "(i64.extend_i32_s (local.get $x))",
            1 => "(i64.extend_i32_s (struct.get $node 0 (local.get $n)))",
            2 => "(i64.extend_i32_s (local.get $fuel))",
            _ => "(i64.const 0x9e3779b97f4a7c15)",
        };
        let mixed = format!("(i64.add (i64.mul (local.get $s) (i64.const 0x5851f42d4c957f2d)) {add})");
        format!("(local.set $s (i64.xor {mixed} (i64.shr_u (local.get $s) (i64.const 29))))")
    }

    fn branch(&mut self) -> String {
        let label = self.labels[self.random.below(self.labels.len() as u32) as usize].clone();
        format!("(br_if {label} (i32.eqz {}))", self.condition(2))
    }

    fn body(&mut self, label: &str, depth: u32) -> String {
        self.labels.push(label.to_string());
        let body = self.statements(depth);
        self.labels.pop();
        body
    }

    /// A loop, some of which take operands.
    fn repeat(&mut self, depth: u32) -> String {
        let label = self.label("loop");
        let burn = "(local.set $fuel (i32.sub (local.get $fuel) (i32.const 1)))
            (br_if $end (i32.lt_s (local.get $fuel) (i32.const 0)))";
        let again = self.condition(5);
        match self.random.below(if self.has_operands { 3 } else { 1 }) {
            0 => {
                let body = self.body(&label, depth);
                format!("(loop {label} {burn} {body} (br_if {label} {again}))")
            }
            1 => {
                let body = self.statements(depth);
                format!(
                    "local.get $x (loop {label} (param i32) {burn} {body} local.get $x i32.add local.set $x
                    (i32.mul (local.get $x) (i32.const 3)) {again} br_if {label} drop)"
                )
            }
            _ => {
                let body = self.statements(depth);
                format!(
                    "(ref.as_non_null (local.get $n)) (loop {label} (param (ref $node)) {burn} {body}
                    struct.get $node 1 local.set $n
                    (local.set $n (struct.new $node (local.get $x) (local.get $n)))
                    (ref.as_non_null (local.get $n)) {again} br_if {label} drop)"
                )
            }
        }
    }

    fn statement(&mut self, depth: u32) -> String {
        match self.random.below(if depth == 0 { 4 } else { 11 + u32::from(self.has_operands) }) {
            0..2 => self.mix(),
            2 => self.branch(),
            3 => "(local.set $x (i32.xor (local.get $x) (i32.wrap_i64 (local.get $s))))".to_string(),
            4..8 => self.repeat(depth - 1),
            8 => {
                let label = self.label("block");
                format!("(block {label} {})", self.body(&label, depth - 1))
            }
            9..11 => {
                let (condition, then, other) =
                    (self.condition(2), self.statements(depth - 1), self.statements(depth - 1));
                format!("(if {condition} (then {then}) (else {other}))")
            }
            // What lies below is used behind it.
            _ => {
                let inner = self.statements(depth - 1);
                format!(
                    "(i64.extend_i32_s (local.get $x)) (ref.as_non_null (local.get $n))
                    (block {inner}) local.set $n local.get $s i64.add local.set $s"
                )
            }
        }
    }

    fn statements(&mut self, depth: u32) -> String {
        (0..1 + self.random.below(3)).map(|_| self.statement(depth)).collect::<Vec<_>>().join("\n")
    }
}

fn program(seed: u32) -> String {
    let labels = vec!["$end".to_string()];
    let (random, has_operands) = (Random(seed.wrapping_mul(0x9e37_79b9) | 1), seed.is_multiple_of(2));
    let mut writer = Writer { random, labels, count: 0, has_operands };
    let body = if has_operands { writer.repeat(2) } else { writer.repeat(3) + &writer.repeat(2) };
    format!(
        "(module
        (type $node (struct (field i32) (field (mut (ref null $node)))))
        (func (export \"run\") (param $s i64) (result i64 i32)
            (local $x i32) (local $fuel i32) (local $n (ref null $node))
            (local.set $fuel (i32.const 2000))
            (local.set $n (struct.new $node (i32.const 7) (struct.new $node (i32.const 9) (ref.null $node))))
            (block $end {body})
            (local.get $s) (local.get $x)))"
    )
}

/// What the function returns for some arguments, or its trap, each in an instance of its own.
fn outcomes(engine: &Engine, text: &str) -> Result<Vec<String>> {
    let module = Module::new(engine, text)?;
    let outcome = |argument: i64| {
        let mut store = Store::new(engine, ());
        let instance = Instance::new(&mut store, &module, &[])?;
        let run = instance.get_typed_func::<i64, (i64, i32)>(&mut store, "run")?;
        Ok(match run.call(&mut store, argument) {
            Ok(results) => format!("{results:?}"),
            Err(error) => error.root_cause().to_string(),
        })
    };
    (1..4).map(|number: i64| outcome(number.wrapping_mul(0x2545_f491_4f6c_dd1d))).collect()
}

#[test]
fn random_loops_mean_the_same_wherever_they_are_entered() -> Result<()> {
    let entered = Arc::new(AtomicUsize::new(0));
    let eager = Engine::new(Config::new().compiler_verifier(true))?;
    let mut returned = 0;
    for seed in 1..=PROGRAMS {
        let text = program(seed);
        let counted = Arc::clone(&entered);
        let mut config = Config::new();
        config.compiler_verifier(true).compilation(Compilation::Lazy).parallel_compilation(false);
        config.compile_observer(Arc::new(move |compiled| {
            counted.fetch_add(usize::from(matches!(compiled.cause, CompileCause::Loop(_))), Ordering::Relaxed);
        }));
        let (actual, expected) = (outcomes(&Engine::new(&config)?, &text)?, outcomes(&eager, &text)?);
        assert_eq!(actual, expected, "program {seed}: {text}");
        returned += expected.iter().filter(|outcome| outcome.starts_with('(')).count();
    }
    let entered = entered.load(Ordering::Relaxed);
    assert!(entered > PROGRAMS as usize / 2 && returned > PROGRAMS as usize, "{entered} loops, {returned} results");
    Ok(())
}
