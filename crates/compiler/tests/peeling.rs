//! Loops whose first iteration has code of its own do what they do without: random ones, with several ways out, behind
//! each of which what they have computed is used; compared with what is not optimised.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

mod support;
mod world;

use std::fmt::Write;

use legato_compiler::artifact::TrapCode;
use legato_heap::references::References;
use world::{Instance, Polls};

/// Programs, and calls of each.
const PROGRAMS: u32 = 150;
const CALLS: i32 = 24;
const LOCALS: [&str; 4] = ["$x", "$y", "$i", "$n"];

struct Random(u32);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (self.0 >> 8) as usize % end
    }

    fn local(&mut self) -> &'static str {
        LOCALS[self.below(LOCALS.len())]
    }

    /// A number, most of which a loop loads or checks, and many of which it finds each time.
    fn number(&mut self, depth: usize) -> String {
        let local = self.local();
        if depth == 0 {
            return format!("(local.get {local})");
        }
        match self.below(9) {
            0 => format!("(i32.const {})", self.below(7)),
            1 => format!("(i32.add {} {})", self.number(depth - 1), self.number(depth - 1)),
            2 => format!("(i32.xor {} (local.get {local}))", self.number(depth - 1)),
            3 => "(struct.get $box 0 (local.get $box))".into(),
            4 => "(array.len (struct.get $box 1 (local.get $box)))".into(),
            5 => format!("(array.get $a (struct.get $box 1 (local.get $box)) {})", self.index()),
            6 => format!("(array.get $a (local.get $a) {})", self.index()),
            7 => "(struct.get $more 2 (ref.cast (ref $more) (local.get $box)))".into(),
            _ => format!("(array.get $a (array.get $rows (local.get $rows) (i32.const 1)) {})", self.index()),
        }
    }

    fn index(&mut self) -> String {
        match self.below(4) {
            0 => "(i32.const 2)".into(),
            1 => "(local.get $n)".into(),
            _ => format!("(i32.and (local.get {}) (i32.const 7))", self.local()),
        }
    }

    fn statement(&mut self, depth: usize) -> String {
        let local = LOCALS[self.below(2)];
        match self.below(if depth == 0 { 7 } else { 10 }) {
            0..3 => format!("(local.set {local} {})", self.number(2)),
            3 => format!("(array.set $a (local.get $a) {} {})", self.index(), self.number(1)),
            4 => format!("(struct.set $box 0 (local.get $box) {})", self.number(1)),
            5 => format!("(global.set $effects (i32.add (global.get $effects) {}))", self.number(1)),
            6 => format!("(br_if $out{} (i32.eq (local.get {local}) {}))", self.below(3), self.number(1)),
            7 => {
                let (condition, then, other) = (self.number(1), self.statements(depth - 1), self.statements(depth - 1));
                format!("(if {condition} (then {then}) (else {other}))")
            }
            8 => format!("(br_table $out0 $on $out1 $on (i32.and {} (i32.const 31)))", self.number(1)),
            _ => format!("(block $skip (br_if $skip {}) {})", self.number(1), self.statements(depth - 1)),
        }
    }

    fn statements(&mut self, depth: usize) -> String {
        (0..1 + self.below(3)).map(|_| self.statement(depth)).collect()
    }
}

/// A module with one loop, perhaps in another one, and what it does behind each way out.
fn program(seed: u32) -> String {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9));
    let body: Vec<String> = (0..2 + random.below(3)).map(|_| random.statement(2)).collect();
    let (body, again) = (body.concat(), random.below(2) == 0);
    let mut text = String::from(
        "(module
        (type $a (array (mut i32)))
        (type $rows (array (mut (ref null $a))))
        (rec (type $box (sub (struct (field (mut i32)) (field (mut (ref null $a))))))
             (type $more (sub $box (struct (field (mut i32)) (field (mut (ref null $a))) (field (mut i32))))))
        (global $effects (mut i32) (i32.const 0))
        (func (export \"run\") (param $n i32) (param $kind i32) (result i32 i32 i32 i32 i32)
          (local $x i32) (local $y i32) (local $i i32) (local $rounds i32)
          (local $a (ref null $a)) (local $box (ref null $box)) (local $rows (ref null $rows))
          (local.set $a (array.new $a (local.get $kind) (i32.const 8)))
          (local.set $rows (array.new $rows (local.get $a) (i32.const 2)))
          (local.set $box (struct.new $more (i32.const 3) (local.get $a) (local.get $n)))
          (if (i32.eq (local.get $kind) (i32.const 1)) (then (local.set $box (ref.null $box))))
          (if (i32.eq (local.get $kind) (i32.const 2)) (then
            (local.set $box (struct.new $box (i32.const 4) (ref.null $a)))))
          (if (i32.eq (local.get $kind) (i32.const 3)) (then (local.set $rows (ref.null $rows))))
          (block $all (loop $again
            (block $out2 (block $out1 (block $out0
              (loop $on
                (br_if $all (i32.gt_s (local.get $i) (i32.const 60)))
                (local.set $i (i32.add (local.get $i) (i32.const 1)))\n",
    );
    let next = if again { "(br_if $again (i32.lt_s (local.get $i) (i32.const 40)))" } else { "" };
    write!(
        text,
        "       {body}
                (br_if $on (i32.lt_s (local.get $i) (local.get $n))))
              (local.set $y (i32.add (local.get $y) (local.get $i))))
              (local.set $x (i32.mul (local.get $x) (i32.const 3))))
              (local.set $y (i32.sub (local.get $y) (local.get $x))))
            {next}))
          (local.get $x) (local.get $y) (local.get $i) (array.get $a (local.get $a) (i32.const 2))
          (global.get $effects)))"
    )
    .expect("a string takes everything");
    text
}

type Outcomes = Vec<Result<Vec<i32>, TrapCode>>;

fn outcomes(text: &str, optimize: bool) -> Outcomes {
    let mut instance = Instance::compiled(text, support::plan(References::Direct), Polls::Never, optimize);
    let args = (0..CALLS).map(|number| [number / 4 * 3, number % 4]);
    args.map(|args| instance.call(0, &args, 5)).collect()
}

#[test]
fn random_loops_do_what_they_do_unoptimized() {
    let (mut ended, mut trapped) = (0, 0);
    for seed in 0..PROGRAMS {
        let text = program(seed);
        let (actual, expected) = (outcomes(&text, true), outcomes(&text, false));
        assert_eq!(actual, expected, "program {seed}: {text}");
        ended += expected.iter().filter(|outcome| outcome.is_ok()).count();
        trapped += expected.iter().filter(|outcome| outcome.is_err()).count();
    }
    assert!(ended > 500 && trapped > 500, "{ended} calls end, {trapped} trap");
}
