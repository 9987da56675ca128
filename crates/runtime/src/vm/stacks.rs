//! Stacks that grow and shrink in every way there is, while collectors of both kinds look at them in parts: nothing
//! that they rely on is missed. The frames carry numbers, one each, in slots that collectors visit.

use std::cell::RefCell;
use std::collections::HashSet;

use legato_compiler::abi::StoreContext;
use legato_heap::{Budget, Done, Reference, RootVisitor};

use crate::vm::barriers::marks;
use crate::vm::{frames, snapshot, watermark};
use crate::{AsContextMut, Caller, Config, Engine, EqRef, Func, Instance, Module, Rooted, Store, Trap};

/// Each frame asks the host again and again what to do.
const PROGRAM: &str = r#"(module
    (import "host" "event" (func $event (param eqref) (result i32)))
    (import "host" "done" (func $done (param eqref)))
    (import "host" "fresh" (func $fresh (result i32)))
    (import "host" "nest" (func $nest))
    (tag $thrown)
    (func $down (param $s eqref) (local $action i32)
        (loop $again
            (local.set $action (call $event (local.get $s)))
            ;; The number is needed behind the call.
            (call $done (local.get $s))
            (block $wide (block $trap (block $leap (block $nested (block $tail (block $throw (block $try (block $call
                (block $return
                    (br_table $return $call $try $throw $tail $nested $leap $trap $wide (local.get $action)))
                (return))
            (call $down (ref.i31 (call $fresh))) (br $again))
            (block $caught (try_table (catch $thrown $caught) (call $down (ref.i31 (call $fresh))))) (br $again))
            (throw $thrown))
            (return_call $down (ref.i31 (call $fresh))))
            (call $nest) (br $again))
            (return_call $nest))
            (unreachable))
            (return_call $wide (ref.i31 (call $fresh)) (i64.const 1) (i64.const 2) (i64.const 3) (i64.const 4)
                (i64.const 5) (i64.const 6) (i64.const 7) (i64.const 8) (i64.const 9))))
    (func (export "start") (param i32) (return_call $down (ref.i31 (local.get 0))))
    ;; Arguments on the stack: its frame lies elsewhere than that of its caller.
    (func $wide (param $s eqref) (param i64 i64 i64 i64 i64 i64 i64 i64 i64) (local $action i32)
        (loop $again
            (local.set $action (call $event (local.get $s)))
            (call $done (local.get $s))
            (if (i32.eq (local.get $action) (i32.const 4)) (then (return_call $down (ref.i31 (call $fresh)))))
            (if (local.get $action) (then (call $down (ref.i31 (call $fresh))) (br $again))))))"#;

/// What frames do when they are told to.
const RETURN: u32 = 0;
const CALLS: [u32; 5] = [1, 1, 1, 1, 2];
const NESTED: u32 = 5;
/// A tail call, to a frame of the same shape, of the host, or of another shape.
const TAILS: [u32; 3] = [4, 6, 8];
const THROW: u32 = 3;
const TRAP: u32 = 7;

/// What a collector has begun.
struct Cycle {
    /// The frames that there were.
    expected: HashSet<u32>,
    visited: HashSet<u32>,
}

#[derive(Default)]
struct State {
    random: u64,
    events: u32,
    /// Events until calls and returns change their shares.
    mood: u32,
    falls: bool,
    last_number: u32,
    /// The frame that runs.
    runs: u32,
    cycle: Option<Cycle>,
    /// Frames that have run since the last nursery collection, or were left with young references.
    young: HashSet<u32>,
    /// How often what happened.
    cycles: u32,
    gone: usize,
    visited_before_they_ran: usize,
    most_at_once: usize,
}

thread_local! {
    static STATE: RefCell<State> = RefCell::default();
}

/// Takes numbers down.
struct Numbers<F>(F);

impl<F: FnMut(u32) -> bool> RootVisitor for Numbers<F> {
    fn visit(&mut self, slot: &mut Reference) -> bool {
        slot.is_i31() && self.0(slot.0 >> 1)
    }
}

impl State {
    fn below(&mut self, bound: u32) -> u32 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 33) as u32 % bound
    }

    /// The frames that wait, innermost first.
    fn stack(store: *mut StoreContext) -> Vec<u32> {
        let mut numbers = Vec::new();
        let mut visitor = Numbers(|number| {
            numbers.push(number);
            false
        });
        // SAFETY: in a host function.
        unsafe { frames::visit_stack_roots(store, &mut visitor) };
        numbers
    }

    /// Has a cycle under way visit frames.
    fn visit(&mut self, visit: impl FnOnce(&mut dyn RootVisitor) -> Done) -> (Done, usize) {
        let Some(cycle) = &mut self.cycle else { return (Done::Yes, 0) };
        let before = cycle.visited.len();
        let done = visit(&mut Numbers(|number| {
            assert!(cycle.expected.contains(&number), "frame {number} is new");
            assert!(cycle.visited.insert(number), "frame {number} has been visited before");
            false
        }));
        let count = cycle.visited.len() - before;
        self.most_at_once = self.most_at_once.max(count);
        (done, count)
    }

    fn begin_cycle(&mut self, store: *mut StoreContext) {
        let expected = State::stack(store).into_iter().collect();
        self.cycle = Some(Cycle { expected, visited: HashSet::new() });
        let _ = self.visit(|visitor| {
            // SAFETY: in a host function.
            unsafe { snapshot::visit_newest(store, visitor) };
            Done::No
        });
        self.cycles += 1;
    }

    fn end_cycle(&mut self, store: *mut StoreContext) {
        let most_at_once = self.most_at_once;
        // SAFETY: in a host function.
        let (done, _) =
            self.visit(|visitor| unsafe { snapshot::visit_older(store, visitor, &mut Budget::unlimited()) });
        assert_eq!(done, Done::Yes);
        self.most_at_once = most_at_once;
        let Some(cycle) = self.cycle.take() else { return };
        let stack: HashSet<u32> = State::stack(store).into_iter().collect();
        for missing in cycle.expected.difference(&cycle.visited) {
            assert!(!stack.contains(missing), "frame {missing} has not been visited");
            self.gone += 1;
        }
    }

    fn collect_nursery(&mut self, store: *mut StoreContext) {
        let mut seen = HashSet::new();
        let mut still = HashSet::new();
        let mut random = u64::from(self.below(1 << 30)) | 1;
        let mut visitor = Numbers(|number| {
            seen.insert(number);
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let is_young = random >> 60 == 0;
            if is_young {
                still.insert(number);
            }
            is_young
        });
        // SAFETY: in a host function.
        unsafe { watermark::visit_young_stack_roots(store, &mut visitor) };
        for number in State::stack(store) {
            assert!(seen.contains(&number) || !self.young.contains(&number), "frame {number} has run");
        }
        self.young = still;
    }

    /// A frame runs: checks that it may, collects perhaps, and says what it is to do next.
    fn event(&mut self, store: *mut StoreContext, number: u32) -> u32 {
        if let Some(cycle) = &self.cycle {
            let is_visited = cycle.visited.contains(&number) || !cycle.expected.contains(&number);
            assert!(is_visited, "frame {number} runs before it has been visited");
        }
        self.young.insert(number);
        self.runs = number;
        match self.below(60) {
            0 => self.collect_nursery(store),
            1 if self.cycle.is_none() || self.below(8) == 0 => self.begin_cycle(store),
            2 | 3 => {
                let units = self.below(30).into();
                // SAFETY: in a host function.
                let _ =
                    self.visit(|visitor| unsafe { snapshot::visit_older(store, visitor, &mut Budget::units(units)) });
            }
            4 if self.below(6) == 0 => self.end_cycle(store),
            _ => (),
        }
        self.events += 1;
        if self.mood == 0 {
            self.mood = 20 + self.below(1500);
            self.falls = !self.falls;
        }
        self.mood -= 1;
        if self.events > 40_000 {
            return RETURN;
        }
        match self.below(1000) {
            0..5 => THROW,
            5 if self.below(3) == 0 => TRAP,
            6..10 => NESTED,
            10..30 => TAILS[self.below(3) as usize],
            other if (other % 10 < 8) != self.falls => CALLS[self.below(5) as usize],
            _ => RETURN,
        }
    }
}

/// What the heap does when a frame is about to run.
///
/// # Safety
/// Any store's.
unsafe fn visit_older(store: *mut StoreContext) {
    STATE.with_borrow_mut(|state| {
        // SAFETY: a return barrier has been met, or an activation left.
        let (_, count) =
            state.visit(|visitor| unsafe { snapshot::visit_older(store, visitor, &mut Budget::units(20)) });
        state.visited_before_they_ran += count;
    });
}

/// The words of the store whose code calls.
fn words(caller: &mut Caller<'_, ()>) -> *mut StoreContext {
    caller.as_context_mut().0.opaque.words()
}

/// A frame's number.
fn number(caller: &Caller<'_, ()>, s: Option<Rooted<EqRef>>) -> anyhow::Result<u32> {
    Ok(s.unwrap().unwrap_i31(caller)?.get_u32())
}

/// The number of a new frame.
fn next() -> i32 {
    STATE.with_borrow_mut(|state| {
        state.last_number += 1;
        state.last_number as i32
    })
}

fn run(seed: u64) -> State {
    STATE.set(State { random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1, ..State::default() });
    let engine = Engine::new(Config::new().max_wasm_stack(512 << 10)).unwrap();
    let mut store = Store::new(&engine, ());
    let event = Func::wrap(&mut store, |mut caller: Caller<'_, ()>, s: Option<Rooted<EqRef>>| -> anyhow::Result<i32> {
        let number = number(&caller, s)?;
        let words = words(&mut caller);
        Ok(STATE.with_borrow_mut(|state| state.event(words, number)) as i32)
    });
    let done = Func::wrap(&mut store, |caller: Caller<'_, ()>, s: Option<Rooted<EqRef>>| -> anyhow::Result<()> {
        STATE.with_borrow(|state| assert_eq!(Some(state.runs), number(&caller, s).ok()));
        Ok(())
    });
    let fresh = Func::wrap(&mut store, next);
    let nest = Func::wrap(&mut store, |mut caller: Caller<'_, ()>| -> anyhow::Result<()> {
        let start = caller.get_export("start").unwrap().into_func().unwrap().typed::<i32, ()>(&caller)?;
        // What has happened within goes on to the frames of this activation, or does not.
        let Err(error) = start.call(&mut caller, next()) else { return Ok(()) };
        let is_full = error.downcast_ref::<Trap>() == Some(&Trap::StackOverflow);
        if is_full || STATE.with_borrow_mut(|state| state.below(2)) == 0 { Err(error) } else { Ok(()) }
    });
    let module = Module::new(&engine, PROGRAM).unwrap();
    let imports = [event, done, fresh, nest].map(Into::into);
    let instance = Instance::new(&mut store, &module, &imports).unwrap();
    let start = instance.get_typed_func::<i32, ()>(&mut store, "start").unwrap();
    let words = store.as_context_mut().0.opaque.words();
    // SAFETY: the store's own words.
    unsafe { marks(words).visit_older = visit_older };
    while STATE.with_borrow(|state| state.events) < 40_000 {
        let _ = start.call(&mut store, next());
        STATE.with_borrow_mut(|state| state.end_cycle(words));
    }
    STATE.take()
}

#[test]
fn frames_are_visited_before_they_run_and_once() {
    let (mut cycles, mut gone, mut before, mut most) = (0, 0, 0, 0);
    for seed in 1..=20 {
        let state = run(seed);
        cycles += state.cycles;
        gone += state.gone;
        before += state.visited_before_they_ran;
        most = most.max(state.most_at_once);
    }
    assert!(cycles > 500 && gone > 1000 && before > 5000, "{cycles} cycles, {gone} frames gone, {before} visited");
    // Each has one slot.
    assert!(most <= 64, "{most} frames at once");
}
