//! One case under one heap: the program, its host functions, and what is seen of its stops.

use super::cases::{Case, DEEP};
use super::{STACK, THREAD_STACK};
use crate::engines::legato_config;
use crate::wasi::processor_time;
use anyhow::Context;
use legato::{
    AnyRef, Caller, Engine, ExternRef, GcEvent, GcObserver, GcSlice, GcStop, Linker, Module, Phase, Result, Rooted,
    StopKind, Store, Trap, TypedFunc,
};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What was seen.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stops {
    /// The largest gap between the ends of two steps.
    pub(super) largest: Duration,
    /// The largest one in processor time of the thread.
    pub(super) largest_cpu: Duration,
    /// The longest slice.
    pub(super) slice: Duration,
    /// The longest slice in processor time.
    pub(super) slice_cpu: Duration,
    /// Its phase.
    pub(super) phase: Option<Phase>,
    /// Slices that the collector has told of.
    pub(super) slices: u64,
    /// Slices that came earlier than the schedule says, as memory was short.
    pub(super) early: u64,
    /// Cycles and full collections that were made in one stop.
    pub(super) at_once: u64,
}

/// The collector's view.
#[derive(Clone)]
struct Watcher(Arc<Mutex<Stops>>);

impl GcObserver for Watcher {
    fn event(&mut self, _event: &GcEvent) {}

    fn stop(&mut self, stop: &GcStop) {
        let mut stops = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        stops.early += u64::from(stop.kind == StopKind::ShrunkGap);
        stops.at_once += u64::from(matches!(stop.kind, StopKind::MissedDeadline | StopKind::Full));
    }

    fn slice(&mut self, slice: &GcSlice) {
        let mut stops = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        stops.slices += 1;
        stops.slice = stops.slice.max(slice.wall);
        if slice.cpu >= stops.slice_cpu {
            (stops.slice_cpu, stops.phase) = (slice.cpu, Some(slice.phase));
        }
    }
}

/// The program's view: what its host functions work on.
struct Host {
    stops: Arc<Mutex<Stops>>,
    /// When the measurement ends; `None` while none is under way.
    end: Option<Instant>,
    /// Steps until it ends all the same.
    left: u64,
    /// The end of the last step; `None` before the first: the way down into a recursion is no gap between two steps.
    last: Option<(Instant, u64)>,
}

fn cpu() -> u64 {
    processor_time(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Called after each step.
fn tick(mut caller: Caller<'_, Host>) -> i32 {
    let (now, now_cpu) = (Instant::now(), cpu());
    let host = caller.data_mut();
    let Some(end) = host.end else { return 0 };
    if let Some((last, last_cpu)) = host.last.replace((now, now_cpu)) {
        let mut stops = host.stops.lock().unwrap_or_else(PoisonError::into_inner);
        stops.largest = stops.largest.max(now - last);
        stops.largest_cpu = stops.largest_cpu.max(Duration::from_nanos(now_cpu - last_cpu));
    }
    host.left -= 1;
    i32::from(now < end && host.left > 0)
}

/// A host value with a destructor.
fn value(caller: Caller<'_, Host>) -> Result<Option<Rooted<ExternRef>>> {
    Ok(Some(ExternRef::new(caller, Box::new(1u64))?))
}

/// Has an array's leaves mapped a second time.
fn view(mut caller: Caller<'_, Host>, array: Option<Rooted<AnyRef>>) -> Result<()> {
    let array = array.context("an array")?.unwrap_array(&caller)?;
    array.with_slice_mut(&mut caller, |elements: &mut [i64]| elements[1] = 1)
}

/// Runs a case for some time, or so many steps if that is not 0.
///
/// # Errors
/// If an option of the heap is unknown, or the program fails: there is no memory for it, for instance.
pub(super) fn run(
    case: &Case,
    count: u32,
    ring: u32,
    heap: &[String],
    time: Duration,
    steps: u64,
) -> anyhow::Result<Stops> {
    let options: Vec<String> = heap.iter().cloned().chain(case.heap.iter().map(|option| option.to_string())).collect();
    let mut config = legato_config(&options)?;
    let stack = if case.name == DEEP { count } else { STACK };
    config.max_wasm_stack(stack as usize).wasm_backtrace(false);
    const { assert!((STACK as usize) < THREAD_STACK) };
    let engine = Engine::new(&config)?;
    let module = Module::new(&engine, case.module(count))?;
    let mut linker = Linker::new(&engine);
    linker.func_wrap("lab", "tick", tick)?;
    linker.func_wrap("lab", "value", value)?;
    linker.func_wrap("lab", "view", view)?;

    let stops = Arc::new(Mutex::new(Stops::default()));
    let host = Host { stops: stops.clone(), end: None, left: 0, last: None };
    let mut store = Store::try_new(&engine, host)?;
    let instance = linker.instantiate(&mut store, &module)?;
    instance.get_typed_func::<i32, ()>(&mut store, "prepare")?.call(&mut store, ring as i32).context("prepare")?;
    let run = instance.get_typed_func::<i32, ()>(&mut store, "run")?;
    let depth = if case.name == DEEP { depth(&mut store, &run)? } else { 0 };

    store.set_gc_observer(Box::new(Watcher(stops.clone())));
    let left = if steps == 0 { u64::MAX } else { steps };
    *store.data_mut() = Host { stops: stops.clone(), end: Some(Instant::now() + time), left, last: None };
    run.call(&mut store, depth).context("run")?;
    drop(store);
    let stops = *stops.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(stops)
}

/// As many frames as the stack has room for, to within an eighth.
fn depth(store: &mut Store<Host>, run: &TypedFunc<i32, ()>) -> anyhow::Result<i32> {
    let mut depth = 64;
    loop {
        let next = depth + depth / 8;
        match run.call(&mut *store, next) {
            Ok(()) => depth = next,
            Err(error) if error.downcast_ref::<Trap>() == Some(&Trap::StackOverflow) => return Ok(depth),
            Err(error) => return Err(error),
        }
    }
}
