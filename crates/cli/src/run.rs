//! `legato run`.

use std::panic::{self, AssertUnwindSafe};
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use legato::{
    Compilation, Config, Engine, ExternType, HeapStats, Instance, InterruptHandle, LimitExceeded, Linker, Module,
    ProfilingStrategy, Store, ThrownException, Val,
};

use crate::args::{CompilationTime, RunArgs};
use crate::exit::{self, UsageError};
use crate::gc::Watch;
use crate::host::Host;
use crate::load::{self, Content};
use crate::{cache, compile, compile_log, exception, imports, invoke, report, signals};

/// Stack of the guest's thread beyond what the guest may use: for the host functions that it calls, and the engine.
const HOST_STACK: usize = 4 << 20;

/// How long a guest that was told to stop may take, if it sits in a call of the host, before the process ends without
/// it.
const GRACE: Duration = Duration::from_millis(500);

/// What the thread that waits for the guest is told.
enum Event {
    /// The guest begins to run.
    Started(InterruptHandle, Watch),
    /// It has ended, and left the heap so.
    Ended(Result<()>, Option<Box<HeapStats>>),
    /// Its thread panicked, and has said so on standard error.
    Panicked,
    /// This signal asks for its end.
    Signal(i32),
}

/// Why a guest is stopped.
enum Stop {
    Timeout(Duration),
    Signal(i32),
}

/// Runs a program and returns the exit status. Errors have been printed by then.
pub fn run(args: RunArgs) -> i32 {
    let timeout = args.timeout;
    let file = args.file().display().to_string();
    let (sender, receiver) = mpsc::channel();
    let signals = sender.clone();
    // If nobody listens any more, the guest has ended.
    let listening = signals::listen(move |signal| signals.send(Event::Signal(signal)).unwrap_or_default());
    if let Err(error) = listening {
        log::info!("signals end the program without statistics: {error}");
    }
    let stack = args.stack.saturating_add(HOST_STACK);
    // The guest's calls lie on a stack of a size that we choose.
    let spawned = thread::Builder::new().name("guest".into()).stack_size(stack).spawn(move || {
        let lived = panic::catch_unwind(AssertUnwindSafe(|| guest(&args, &sender)));
        // If nobody listens any more, the time was over.
        let _ = sender.send(match lived {
            Ok((result, heap)) => Event::Ended(result, heap.map(Box::new)),
            Err(_) => Event::Panicked,
        });
    });
    if let Err(error) = spawned {
        report::complain(format_args!(
            "legato: error: cannot make a thread with a stack of {stack} bytes (--stack): {error}"
        ));
        return exit::FAILURE;
    }
    let mut started: Option<(InterruptHandle, Watch)> = None;
    let stop = loop {
        let event = match (&started, timeout) {
            (Some(_), Some(timeout)) => receiver.recv_timeout(timeout),
            _ => receiver.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match event {
            Ok(Event::Started(interrupt, watch)) => started = Some((interrupt, watch)),
            Ok(Event::Ended(result, heap)) => {
                let heap = heap.map(|heap| *heap);
                let outcome = report::outcome(&result);
                let status = report::status(result);
                return tell(started, &outcome, heap, status);
            }
            Ok(Event::Signal(signal)) => break Stop::Signal(signal),
            Err(RecvTimeoutError::Timeout) => break Stop::Timeout(timeout.unwrap_or_default()),
            Ok(Event::Panicked) | Err(RecvTimeoutError::Disconnected) => {
                return tell(started, "failed", None, exit::FAILURE);
            }
        }
    };
    // Before it has begun there is nothing to be told.
    let last = started.as_ref().and_then(|(handle, _)| {
        handle.interrupt();
        receiver.recv_timeout(GRACE).ok()
    });
    let (result, heap) = match last {
        Some(Event::Ended(result, heap)) => (result, heap.map(|heap| *heap)),
        _ => (Ok(()), None),
    };
    match stop {
        Stop::Signal(signal) => {
            tell(started, &format!("stopped by {}", signals::name(signal)), heap, exit::SIGNAL + signal)
        }
        Stop::Timeout(shown) => {
            report::complain(format_args!("legato: error: {file} did not end within {shown:?} (--timeout)"));
            if let Err(error) = result {
                report::backtrace(&error);
            }
            tell(started, &format!("did not end within {shown:?}"), heap, exit::TIMEOUT)
        }
    }
}

/// Tells what was asked about the collector, if the program started, and returns the exit status.
fn tell(started: Option<(InterruptHandle, Watch)>, outcome: &str, heap: Option<HeapStats>, status: i32) -> i32 {
    let told = started.map_or(0, |(_, watch)| watch.finish(outcome, heap));
    if status == 0 { told } else { status }
}

/// The guest's life, on its own thread. Returns how it left the heap, too, if it came so far.
fn guest(args: &RunArgs, events: &Sender<Event>) -> (Result<()>, Option<HeapStats>) {
    match prepare(args, events) {
        Ok((mut store, module)) => {
            let result = live(args, &mut store, &module);
            let heap = store.heap_stats();
            (result, Some(heap))
        }
        Err(error) => (Err(error), None),
    }
}

/// All that can fail before there is something to run. From here on the time counts.
fn prepare(args: &RunArgs, events: &Sender<Event>) -> Result<(Store<Host>, Module)> {
    let mut config = Config::new();
    config.max_wasm_stack(args.stack).cache(cache::for_run(&args.cache)?);
    config.compilation(match args.compilation {
        CompilationTime::Lazy => Compilation::Lazy,
        CompilationTime::Eager => Compilation::Eager,
    });
    if args.perf_map {
        config.profiler(ProfilingStrategy::PerfMap);
    }
    if let Some(file) = &args.compile_log {
        config.compile_observer(compile_log::observer(file.as_deref())?);
    }
    let engine = compile::engine(&mut config, &args.engine)?;
    let module = module(args, &engine)?;
    let mut store = Store::try_new(&engine, Host::new(args)?)?;
    store.limiter(|host| &mut host.limit);
    let mut watch = Watch::new(&args.gc, args.file(), config.heap_config())?;
    if let Some(observer) = watch.observer() {
        store.set_gc_observer(observer);
    }
    // If nobody listens any more, this thread's days are over too.
    let _ = events.send(Event::Started(store.interrupt_handle(), watch));
    Ok((store, module))
}

/// The program, compiled now or, where that was asked for, long ago. Its file is not kept: large programs are large.
fn module(args: &RunArgs, engine: &Engine) -> Result<Module> {
    let file = args.file();
    match (load::read(file)?, args.precompiled) {
        (Content::Wasm(wasm), false) => load::compile(engine, file, &wasm),
        // SAFETY: whoever says --precompiled trusts the file, as the help says.
        (Content::Precompiled(code), true) => unsafe { load::precompiled(engine, file, &code) },
        (Content::Precompiled(_), false) => {
            let text = format!(
                "{} holds machine code, which would run unchecked: run it with --precompiled if you trust it",
                file.display()
            );
            Err(UsageError(text).into())
        }
        (Content::Wasm(_), true) => {
            let text = format!(
                "{} is not precompiled: run it without --precompiled, or compile it first with `legato compile`",
                file.display()
            );
            Err(UsageError(text).into())
        }
    }
}

/// Links, runs, and prints the results.
fn live(args: &RunArgs, store: &mut Store<Host>, module: &Module) -> Result<()> {
    let linker = imports::linker(args, store, module)?;
    let result = start(args, store, &linker, module);
    let flushed = store.data_mut().teavm.flush().and(store.data_mut().wasi.flush());
    let flushed = flushed.context("cannot write the program's output");
    let results = match result {
        // A program that says that all went well does not know that its last lines went nowhere.
        Err(error)
            if error.downcast_ref::<legato_wasi::I32Exit>().is_some_and(|exit| exit.process_exit_code() == 0) =>
        {
            flushed?;
            return Err(error);
        }
        result => result?,
    };
    flushed?;
    report::print(&results)
}

/// Instantiates and calls; returns what is to be printed as the results.
fn start(args: &RunArgs, store: &mut Store<Host>, linker: &Linker<Host>, module: &Module) -> Result<String> {
    let instance = linker.instantiate(&mut *store, module);
    let instance = instance.map_err(|error| during_instantiation(exception::describe(error, store, None), args))?;
    let result = match &args.invoke {
        Some(name) => invoke::invoke(store, &instance, name, &args.args()?),
        None => call_entry(args.file(), store, &instance, module).map(|()| String::new()),
    };
    result.map_err(|error| exception::describe(error, store, Some(&instance)))
}

/// Says of a failed instantiation what failed, unless it was the guest's start function that ended.
fn during_instantiation(error: anyhow::Error, args: &RunArgs) -> anyhow::Error {
    let guests_own = error.downcast_ref::<legato::Trap>().is_some()
        || error.downcast_ref::<ThrownException>().is_some()
        || error.downcast_ref::<legato_wasi::I32Exit>().is_some()
        || error.downcast_ref::<legato_wasi::RaisedSignal>().is_some();
    if guests_own {
        return error;
    }
    let context = format!("cannot instantiate {}", args.file().display());
    match (error.downcast_ref(), args.max_memory) {
        (Some(LimitExceeded::MemoryBytes(_) | LimitExceeded::TableElements(_)), Some(bytes)) => {
            error.context(format!("{context}, as --max-memory is {bytes} bytes"))
        }
        _ => error.context(context),
    }
}

/// Calls what the module offers as its entry.
fn call_entry(file: &Path, store: &mut Store<Host>, instance: &Instance, module: &Module) -> Result<()> {
    let entries: &[&str] = if legato_teavm::is_teavm_module(module) { &["run"] } else { &["_start", "_initialize"] };
    let found = entries.iter().find_map(|name| instance.get_func(&mut *store, name).map(|function| (name, function)));
    let Some((name, function)) = found else { return no_entry(file, module, entries) };
    let ty = function.ty(&*store);
    if ty.params().len() > 0 {
        let text = format!(
            "`{name}` of {} takes parameters, so it is no entry: call it with --invoke {name} ARGS",
            file.display()
        );
        return Err(UsageError(text).into());
    }
    let mut results = vec![Val::I32(0); ty.results().len()];
    function.call(store, &[], &mut results)
}

/// A module without an entry: fine if it exports nothing to call, so that its start function was all of it.
fn no_entry(file: &Path, module: &Module, entries: &[&str]) -> Result<()> {
    let functions: Vec<_> = module
        .exports()
        .filter(|export| matches!(export.ty(), ExternType::Func(_)))
        .map(|export| format!("`{}`", export.name()))
        .collect();
    if functions.is_empty() {
        return Ok(());
    }
    let wanted: Vec<_> = entries.iter().map(|name| format!("`{name}`")).collect();
    let shown = functions.iter().take(10).cloned().collect::<Vec<_>>().join(", ");
    let more = if functions.len() > 10 { " and more" } else { "" };
    let text = format!(
        "{} exports no {}: choose a function with --invoke NAME; it exports {shown}{more}",
        file.display(),
        wanted.join(" or ")
    );
    Err(UsageError(text).into())
}
