//! A guest's context, and how it is made.

use std::io;
use std::path::Path;

use anyhow::{Context, ensure};
use cap_std::ambient_authority;
use cap_std::fs::Dir;
use legato::InterruptHandle;

use crate::clocks::{Clocks, HostClocks};
use crate::dir::OpenDir;
use crate::errno::Errno;
use crate::interrupts::Interrupts;
use crate::os::Source;
use crate::plain::components;
use crate::stdio::{Console, Input, Output, Stream};
use crate::table::{Descriptor, FdTable, Object};
use crate::types::Rights;

/// What a guest may do in a directory that it is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Look and read.
    ReadOnly,
    /// Change too.
    ReadWrite,
}

/// Fills a buffer with random bytes.
pub type RandomSource = Box<dyn FnMut(&mut [u8]) -> io::Result<()> + Send>;

/// Everything that one guest has of its host: arguments, environment, open descriptors, clocks, randomness.
///
/// The calls of preview 1 are methods named as there; they take the guest's memory and raw arguments and answer with an
/// [`Errno`](crate::Errno). Pending output is flushed when the context is dropped.
///
/// ```
/// use legato::{Engine, Linker, Module, Store};
/// use legato_wasi::{Output, OutputPipe, WasiCtx, WasiCtxBuilder};
///
/// let pipe = OutputPipe::new();
/// let wasi = WasiCtxBuilder::new().arg("guest").env("LANG", "C").stdout(Output::Pipe(pipe.clone())).build();
///
/// let engine = Engine::default();
/// let mut linker = Linker::<WasiCtx>::new(&engine);
/// legato_wasi::add_to_linker(&mut linker, |wasi| wasi)?;
/// let module = Module::new(
///     &engine,
///     r#"(module
///         (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
///         (memory (export "memory") 1)
///         (data (i32.const 0) "\10\00\00\00\06\00\00\00")
///         (data (i32.const 16) "Hello\n")
///         (func (export "_start") (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 64)))))"#,
/// )?;
/// let mut store = Store::new(&engine, wasi);
/// let instance = linker.instantiate(&mut store, &module)?;
/// instance.get_typed_func::<(), ()>(&mut store, "_start")?.call(&mut store, ())?;
/// assert_eq!(pipe.contents(), b"Hello\n");
/// # Ok::<(), anyhow::Error>(())
/// ```
pub struct WasiCtx {
    pub(crate) args: Vec<String>,
    /// As `KEY=VALUE`.
    pub(crate) env: Vec<String>,
    pub(crate) table: FdTable,
    pub(crate) input: Input,
    pub(crate) console: Console,
    pub(crate) clocks: Box<dyn Clocks>,
    pub(crate) random: RandomSource,
    /// A broken pipe ends the guest, as it ends a process on Unix.
    pub(crate) pipe_ends_guest: bool,
    /// What ends a call that waits.
    pub(crate) interrupts: Interrupts,
}

impl WasiCtx {
    /// Begins a context.
    pub fn builder() -> WasiCtxBuilder {
        WasiCtxBuilder::new()
    }

    /// Has calls that wait, `poll_oneoff` and `fd_read` of the host's standard input, fail with
    /// [`Errno::Intr`](crate::Errno::Intr) soon after an interruption has been asked for. What
    /// [`add_to_linker`](crate::add_to_linker) links does that for its store.
    pub fn interrupted_by(&mut self, handle: InterruptHandle) {
        self.interrupts = Interrupts(Some(handle));
    }

    /// Waits until there is something in standard input, or its end, where it is the host's: also where that does not
    /// wait itself, as a guest expects.
    pub(crate) fn await_input(&self) -> Result<(), Errno> {
        match self.input {
            Input::Inherit => self.interrupts.wait_to_read(Source::stdin()),
            _ => Ok(()),
        }
    }

    /// Lets out gathered output.
    ///
    /// # Errors
    ///
    /// The host's, such as a closed pipe.
    pub fn flush(&mut self) -> io::Result<()> {
        self.console.flush()
    }
}

/// Makes a [`WasiCtx`]. At first there is nothing: no arguments, no environment, empty input, output to nowhere, no
/// directory; the clocks and randomness are the host's.
///
/// ```
/// use legato_wasi::{Access, Input, WasiCtxBuilder};
///
/// let mut builder = WasiCtxBuilder::new();
/// builder.args(["guest", "--fast"]).env("HOME", "/data").stdin(Input::bytes("what it reads"));
/// builder.preopened_dir(std::env::temp_dir(), "/data", Access::ReadOnly)?;
/// let wasi = builder.build();
/// # Ok::<(), anyhow::Error>(())
/// ```
pub struct WasiCtxBuilder {
    args: Vec<String>,
    env: Vec<String>,
    stdin: Input,
    stdout: Output,
    stderr: Output,
    dirs: Vec<Descriptor>,
    clocks: Box<dyn Clocks>,
    random: RandomSource,
    pipe_ends_guest: bool,
    max_descriptors: u32,
}

/// Of a context whose builder was not told of another number: as many as a process of Linux's may have open.
const MOST_DESCRIPTORS: u32 = 1024;

impl Default for WasiCtxBuilder {
    fn default() -> Self {
        Self::new()
    }
}

impl WasiCtxBuilder {
    /// A context with nothing in it.
    pub fn new() -> Self {
        WasiCtxBuilder {
            args: Vec::new(),
            env: Vec::new(),
            stdin: Input::Null,
            stdout: Output::Null,
            stderr: Output::Null,
            dirs: Vec::new(),
            clocks: Box::new(HostClocks::new()),
            random: Box::new(|buffer| getrandom::fill(buffer).map_err(io::Error::other)),
            pipe_ends_guest: false,
            max_descriptors: MOST_DESCRIPTORS,
        }
    }

    /// How many descriptors the guest may have open at once, those of its streams and directories among them: 1024
    /// unless told here. Beyond, opening fails with [`Errno::Mfile`](crate::Errno::Mfile). What the builder has been
    /// given there is always room for; 2^31 - 1 are the most.
    pub fn max_descriptors(&mut self, count: u32) -> &mut Self {
        self.max_descriptors = count;
        self
    }

    /// Adds an argument. The first is by custom the program's name.
    pub fn arg(&mut self, arg: impl Into<String>) -> &mut Self {
        self.args.push(arg.into());
        self
    }

    /// Adds arguments.
    pub fn args<A: Into<String>>(&mut self, args: impl IntoIterator<Item = A>) -> &mut Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Adds the host process's arguments, its name first.
    ///
    /// # Panics
    ///
    /// If one is not UTF-8.
    pub fn inherit_args(&mut self) -> &mut Self {
        self.args(std::env::args())
    }

    /// Adds an environment variable.
    pub fn env(&mut self, key: impl AsRef<str>, value: impl AsRef<str>) -> &mut Self {
        self.env.push(format!("{}={}", key.as_ref(), value.as_ref()));
        self
    }

    /// Chooses standard input.
    pub fn stdin(&mut self, input: Input) -> &mut Self {
        self.stdin = input;
        self
    }

    /// Chooses standard output.
    pub fn stdout(&mut self, output: Output) -> &mut Self {
        self.stdout = output;
        self
    }

    /// Chooses standard error.
    pub fn stderr(&mut self, output: Output) -> &mut Self {
        self.stderr = output;
        self
    }

    /// Gives the guest the host process's standard streams.
    pub fn inherit_stdio(&mut self) -> &mut Self {
        self.stdin(Input::Inherit).stdout(Output::Inherit).stderr(Output::Inherit)
    }

    /// Opens the host's directory `host` for the guest, which knows it as `guest`. The guest gets at what lies below it
    /// and at nothing else. Descriptors are numbered from 3 in the order of these calls.
    ///
    /// # Errors
    ///
    /// If `host` cannot be opened as a directory, or the guest has a directory of that name.
    pub fn preopened_dir(
        &mut self,
        host: impl AsRef<Path>,
        guest: impl Into<String>,
        access: Access,
    ) -> anyhow::Result<&mut Self> {
        let (host, guest) = (host.as_ref(), guest.into());
        let is_same = |other: &Descriptor| match &other.object {
            Object::Dir(dir) => dir.preopen.as_deref().is_some_and(|other| components(other) == components(&guest)),
            _ => false,
        };
        ensure!(!self.dirs.iter().any(is_same), "two directories are given as {guest}");
        let dir = Dir::open_ambient_dir(host, ambient_authority())
            .with_context(|| format!("cannot open the directory {}", host.display()))?;
        let denied = match access {
            Access::ReadOnly => Rights::MUTATING,
            Access::ReadWrite => Rights::empty(),
        };
        self.dirs.push(Descriptor {
            object: Object::Dir(OpenDir::new(dir, Some(guest), access == Access::ReadOnly)),
            rights: Rights::DIRECTORY - denied,
            inheriting: (Rights::DIRECTORY | Rights::FILE) - denied,
        });
        Ok(self)
    }

    /// Replaces the clocks.
    pub fn clocks(&mut self, clocks: impl Clocks + 'static) -> &mut Self {
        self.clocks = Box::new(clocks);
        self
    }

    /// Replaces the source of randomness.
    pub fn random(&mut self, source: RandomSource) -> &mut Self {
        self.random = source;
        self
    }

    /// Whether a write to standard output or error whose reader is gone ends the guest, with
    /// [`RaisedSignal`](crate::RaisedSignal) 13, as it ends a process on Unix. By default the guest is told: `EPIPE`.
    pub fn end_by_broken_pipe(&mut self, end: bool) -> &mut Self {
        self.pipe_ends_guest = end;
        self
    }

    /// As [`build`](Self::build), by the name that users of wasmtime know.
    pub fn build_p1(&mut self) -> WasiCtx {
        self.build()
    }

    /// The context. The builder is as new afterwards.
    pub fn build(&mut self) -> WasiCtx {
        let this = std::mem::take(self);
        let stream = |object, right| Descriptor { object, rights: Rights::STREAM | right, inheriting: Rights::empty() };
        let standard = [
            stream(Object::Input, Rights::FD_READ),
            stream(Object::Output(Stream::Out), Rights::FD_WRITE),
            stream(Object::Output(Stream::Err), Rights::FD_WRITE),
        ];
        let given = u32::try_from(standard.len() + this.dirs.len()).expect("fewer than 2^32 directories");
        // Numbers are non-negative 32-bit integers in guests' C.
        let mut table = FdTable::new(this.max_descriptors.min(i32::MAX as u32).max(given));
        for descriptor in standard.into_iter().chain(this.dirs) {
            table.insert(descriptor).expect("there is room for what was given");
        }
        WasiCtx {
            args: this.args,
            env: this.env,
            table,
            input: this.stdin,
            console: Console::new(this.stdout, this.stderr),
            clocks: this.clocks,
            random: this.random,
            pipe_ends_guest: this.pipe_ends_guest,
            interrupts: Interrupts::default(),
        }
    }
}
