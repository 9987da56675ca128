//! Modules in the shape that TeaVM gives them.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use anyhow::Result;
use legato::{Compilation, Config, Engine, Instance, Linker, Module, Store, Val};
use legato_teavm::TeaVmCtx;

#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Program {
    store: Store<TeaVmCtx>,
    instance: Instance,
    out: Shared,
    err: Shared,
}

fn start(text: &str) -> Result<Program> {
    let engine = Engine::default();
    let module = Module::new(&engine, text)?;
    assert!(legato_teavm::is_teavm_module(&module));
    let (out, err) = (Shared::default(), Shared::default());
    let mut store = Store::new(&engine, TeaVmCtx::new(out.clone(), err.clone()));
    let mut linker = Linker::new(&engine);
    legato_teavm::add_to_linker(&mut linker, &mut store, &module, |ctx: &mut TeaVmCtx| ctx)?;
    let instance = linker.instantiate(&mut store, &module)?;
    Ok(Program { store, instance, out, err })
}

impl Program {
    fn call(&mut self, name: &str, args: &[Val]) -> Result<Val> {
        let function = self.instance.get_func(&mut self.store, name).unwrap();
        let mut results = vec![Val::I32(0); function.ty(&self.store).results().len()];
        function.call(&mut self.store, args, &mut results)?;
        Ok(results.first().copied().unwrap_or(Val::I32(0)))
    }
}

#[test]
fn memory_and_console() {
    let mut program = start(
        r#"(module
          (import "env" "memory" (memory 2 100))
          (import "teavmMemory" "notifyHeapResized" (func $resized))
          (import "teavmMemory" "heapOffset" (global $offset i32))
          (import "teavmMemory" "maxSize" (global $max i32))
          (import "teavmConsole" "putcharStdout" (func $out (param i32)))
          (import "teavmConsole" "putcharStderr" (func $err (param i32)))
          (import "teavmDate" "currentTimeMillis" (func $now (result f64)))
          (func (export "run")
            (call $resized)
            (call $out (i32.const 0xd83c)) (call $out (i32.const 0xdfbc)) (call $out (i32.const 10))
            (call $err (i32.const 33)))
          (func (export "offset") (result i32) (global.get $offset))
          (func (export "max") (result i32) (global.get $max))
          (func (export "pages") (result i32) (memory.size))
          (func (export "now") (result f64) (call $now))
          (@custom "teavm.memoryRequirements" "{\"min\":2, \"dataSize\":70, \"shared\": false}"))"#,
    )
    .unwrap();
    program.call("run", &[]).unwrap();
    assert_eq!(program.call("offset", &[]).unwrap().i32(), Some(80));
    assert_eq!(program.call("max", &[]).unwrap().i32(), Some(6_553_600));
    assert_eq!(program.call("pages", &[]).unwrap().i32(), Some(2));
    assert!(program.call("now", &[]).unwrap().f64().unwrap() > 1.5e12);
    program.store.data_mut().flush().unwrap();
    assert_eq!(*program.out.0.lock().unwrap(), "🎼\n".as_bytes());
    assert_eq!(*program.err.0.lock().unwrap(), b"!");
}

#[test]
fn mathematics() {
    let mut program = start(
        r#"(module
          (import "teavmMath" "sqrt" (func $sqrt (param f64) (result f64)))
          (import "teavmMath" "pow" (func $pow (param f64 f64) (result f64)))
          (import "teavmMath" "random" (func $random (result f64)))
          (export "sqrt" (func $sqrt)) (export "pow" (func $pow)) (export "random" (func $random)))"#,
    )
    .unwrap();
    let float = |value: f64| Val::F64(value.to_bits());
    assert_eq!(program.call("sqrt", &[float(2.25)]).unwrap().f64(), Some(1.5));
    assert_eq!(program.call("pow", &[float(2.0), float(-1.0)]).unwrap().f64(), Some(0.5));
    let first = program.call("random", &[]).unwrap().f64();
    assert_ne!(program.call("random", &[]).unwrap().f64(), first);
}

/// Calls of these do not leave compiled code, and what is called is compiled once for an engine.
#[test]
fn instructions_of_wasm_are_compiled_when_they_are_called_and_once() -> Result<()> {
    let compiled = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&compiled);
    let mut config = Config::new();
    config.compilation(Compilation::Lazy).parallel_compilation(false).compile_observer(Arc::new(move |function| {
        seen.lock().unwrap().extend(function.name.map(str::to_owned));
    }));
    let engine = Engine::new(&config)?;
    let module = Module::new(
        &engine,
        r#"(module
          (import "teavmMath" "floor" (func $floor (param f64) (result f64)))
          (import "teavmMath" "sqrt" (func $sqrt (param f64) (result f64)))
          (func $run (export "run") (param f64) (result f64) (call $sqrt (local.get 0)))
          (export "floor" (func $floor)))"#,
    )?;
    for _ in 0..3 {
        let mut store = Store::new(&engine, TeaVmCtx::new(io::sink(), io::sink()));
        let mut linker = Linker::new(&engine);
        legato_teavm::add_to_linker(&mut linker, &mut store, &module, |ctx: &mut TeaVmCtx| ctx)?;
        let instance = linker.instantiate(&mut store, &module)?;
        let run = instance.get_typed_func::<f64, f64>(&mut store, "run")?;
        assert_eq!(run.call(&mut store, 2.25)?, 1.5);
    }
    let expected: &[&str] = if cfg!(target_arch = "x86_64") { &["run", "teavmMath.sqrt"] } else { &[] };
    assert_eq!(*compiled.lock().unwrap(), expected);
    Ok(())
}

/// A list of what dies: its queue is told of references by their numbers.
const QUEUE: &str = r#"(module
  (type $object (sub (struct (field i32))))
  (type $weak (sub $object (struct (field i32) (field $target (mut externref)))))
  (import "teavm" "createWeakRef"
    (func $create (param (ref null $object) (ref null $weak) (ref null $object)) (result externref)))
  (import "teavm" "deref" (func $deref (param externref) (result (ref null $object))))
  (table $targets 10 (ref null $object))
  (table $held 10 (ref null $weak))
  (global $queue (mut (ref null $object)) (struct.new $object (i32.const 77)))
  (global $told (mut i32) (i32.const 0))
  (func (export "make") (param $number i32) (local $new (ref $weak))
    (table.set $targets (local.get $number) (struct.new $object (local.get $number)))
    (local.set $new (struct.new $weak (local.get $number) (ref.null extern)))
    (table.set $held (local.get $number) (local.get $new))
    (struct.set $weak $target (local.get $new)
      (call $create (table.get $targets (local.get $number)) (local.get $new) (global.get $queue))))
  (func (export "letGo") (param $number i32) (table.set $targets (local.get $number) (ref.null $object)))
  (func (export "forget") (param $number i32) (table.set $held (local.get $number) (ref.null $weak)))
  (func (export "forgetQueue") (global.set $queue (ref.null $object)))
  (func (export "get") (param $number i32) (result i32) (local $target (ref null $object))
    (local.set $target (call $deref (struct.get $weak $target (table.get $held (local.get $number)))))
    (if (result i32) (ref.is_null (local.get $target))
      (then (i32.const -1)) (else (struct.get $object 0 (local.get $target)))))
  (func (export "told") (result i32)
    (drop (call $deref (call $create (ref.null $object) (ref.null $weak) (ref.null $object))))
    (global.get $told))
  (func (export "teavm.reportGarbageCollectedValue") (param $queue (ref null $object)) (param $dead (ref null $weak))
    (if (i32.ne (struct.get $object 0 (local.get $queue)) (i32.const 77)) (then (unreachable)))
    (global.set $told (i32.add (i32.mul (global.get $told) (i32.const 10))
      (struct.get $weak 0 (local.get $dead))))))"#;

#[test]
fn queues_are_told_of_the_dead_as_long_as_anybody_listens() {
    let mut program = start(QUEUE).unwrap();
    let mut call = |name: &str, args: &[i32]| {
        let args: Vec<_> = args.iter().map(|&arg| Val::I32(arg)).collect();
        match name {
            "gc" => program.store.gc(),
            name => return program.call(name, &args).unwrap().i32().unwrap(),
        }
        0
    };
    (1..8).for_each(|number| _ = call("make", &[number]));
    call("letGo", &[3]);
    assert_eq!((call("get", &[3]), call("told", &[])), (3, 0), "nothing has been collected");
    call("gc", &[]);
    assert_eq!((call("get", &[3]), call("get", &[4]), call("told", &[])), (-1, 4, 3));
    // A reference that has died itself is not told of, be it before its target or with it.
    call("forget", &[4]);
    call("letGo", &[5]);
    call("forget", &[5]);
    call("gc", &[]);
    call("letGo", &[4]);
    call("letGo", &[6]);
    call("gc", &[]);
    assert_eq!((call("told", &[]), call("get", &[7])), (36, 7));
    call("letGo", &[7]);
    call("forgetQueue", &[]);
    call("gc", &[]);
    assert_eq!((call("told", &[]), call("get", &[7])), (36, -1), "nobody could ask that queue");
}

/// A table of interned strings like TeaVM's: every entry has the same hash, and `equals` takes no null.
const STRINGS: &str = r#"(module
  (type $string (sub (struct (field $letter i32))))
  (rec (type $entry (sub (struct (field $next (mut (ref null $entry))) (field $value (mut externref))))))
  (import "teavm" "createStringWeakRef" (func $create (param (ref null $string) (ref null $entry)) (result externref)))
  (import "teavm" "stringDeref" (func $deref (param externref) (result (ref null $string))))
  (global $first (mut (ref null $entry)) (ref.null $entry))
  (global $kept (mut (ref null $string)) (ref.null $string))
  (func $equals (param $left (ref null $string)) (param $right (ref null $string)) (result i32)
    (i32.eq (struct.get $string $letter (local.get $left)) (struct.get $string $letter (local.get $right))))
  (func $intern (param $string (ref null $string)) (result (ref null $string))
    (local $entry (ref null $entry)) (local $value (ref null $string))
    (local.set $entry (global.get $first))
    (block $missing (loop $next
      (br_if $missing (ref.is_null (local.get $entry)))
      (local.set $value (call $deref (struct.get $entry $value (local.get $entry))))
      (if (call $equals (local.get $value) (local.get $string)) (then (return (local.get $value))))
      (local.set $entry (struct.get $entry $next (local.get $entry)))
      (br $next)))
    (local.set $entry (struct.new $entry (global.get $first) (ref.null extern)))
    (struct.set $entry $value (local.get $entry) (call $create (local.get $string) (local.get $entry)))
    (global.set $first (local.get $entry))
    (local.get $string))
  (func (export "intern") (param $letter i32) (result i32)
    (struct.get $string $letter (call $intern (struct.new $string (local.get $letter)))))
  (func (export "keep") (param $letter i32)
    (global.set $kept (call $intern (struct.new $string (local.get $letter)))))
  (func (export "isKept") (param $letter i32) (result i32)
    (ref.eq (global.get $kept) (call $intern (struct.new $string (local.get $letter)))))
  (func (export "entries") (result i32) (local $entry (ref null $entry)) (local $count i32)
    (local.set $entry (global.get $first))
    (block $end (loop $next
      (br_if $end (ref.is_null (local.get $entry)))
      (local.set $count (i32.add (local.get $count) (i32.const 1)))
      (local.set $entry (struct.get $entry $next (local.get $entry)))
      (br $next)))
    (local.get $count))
  (func (export "teavm.reportGarbageCollectedString") (param $dead (ref null $entry))
    (local $entry (ref null $entry)) (local $before (ref null $entry))
    (local.set $entry (global.get $first))
    (block $end (loop $next
      (br_if $end (ref.is_null (local.get $entry)))
      (if (ref.eq (local.get $entry) (local.get $dead))
        (then
          (if (ref.is_null (local.get $before))
            (then (global.set $first (struct.get $entry $next (local.get $entry))))
            (else (struct.set $entry $next (local.get $before) (struct.get $entry $next (local.get $entry)))))
          (br $end)))
      (local.set $before (local.get $entry))
      (local.set $entry (struct.get $entry $next (local.get $entry)))
      (br $next)))))"#;

#[test]
fn interned_strings_die_and_are_interned_anew() {
    let mut program = start(STRINGS).unwrap();
    let mut call = |name: &str, args: &[i32]| {
        let args: Vec<_> = args.iter().map(|&arg| Val::I32(arg)).collect();
        program.store.gc();
        program.call(name, &args).unwrap().i32().unwrap()
    };
    call("keep", &[50]);
    for _ in 0..3 {
        for letter in 0..30 {
            assert_eq!(call("intern", &[letter]), letter);
            assert_eq!(call("isKept", &[50]), 1);
            assert!(call("entries", &[]) <= 3, "the first, the kept and the last one");
        }
    }
    // The first one of all is the same for ever, though the program lets go of it.
    call("keep", &[60]);
    assert_eq!((call("isKept", &[60]), call("isKept", &[50]), call("isKept", &[0])), (1, 0, 0));
    call("keep", &[50]);
    assert_eq!(call("isKept", &[50]), 1);
}

#[test]
fn weak_references_give_back_a_target_that_lives() {
    let mut program = start(
        r#"(module
          (type $object (sub (struct (field i32))))
          (type $weak (sub $object (struct (field i32) (field $target (mut externref)))))
          (import "teavm" "createWeakRef"
            (func $create (param (ref null $object) (ref null $weak) (ref null $object)) (result externref)))
          (import "teavm" "deref" (func $deref (param externref) (result (ref null $object))))
          (global $kept (mut (ref null $object)) (ref.null $object))
          (global $held (mut (ref null $weak)) (ref.null $weak))
          (func (export "make") (param i32)
            (global.set $held (struct.new $weak (i32.const 0) (ref.null extern)))
            (global.set $kept (struct.new $object (local.get 0)))
            (struct.set $weak $target (global.get $held)
              (call $create (global.get $kept) (global.get $held) (ref.null $object))))
          (func (export "get") (result i32)
            (struct.get $object 0 (call $deref (struct.get $weak $target (global.get $held)))))
          (func (export "null") (result i32)
            (ref.is_null (call $deref (call $create (ref.null $object) (ref.null $weak) (ref.null $object))))))"#,
    )
    .unwrap();
    program.call("make", &[Val::I32(42)]).unwrap();
    program.store.gc();
    assert_eq!(program.call("get", &[]).unwrap().i32(), Some(42));
    assert_eq!(program.call("null", &[]).unwrap().i32(), Some(1));
}

/// A program that throws; beside the exception's type there is `MORE`.
const THROWS: &str = r#"(module
    (type $units (array (mut i16)))
    (type $object (sub (struct (field (mut eqref)) (field (mut eqref)))))
    (type $chars (sub $object (struct (field (mut eqref)) (field (mut eqref)) (field (ref $units)))))
    (type $string (sub $object (struct (field (mut eqref)) (field (mut eqref)) (field (ref null $chars)) (field i32))))
    (type $java.lang.Oops (sub $object (struct (field (mut eqref)) (field (mut eqref)) (field (ref null $string)))))
    MORE
    (import "teavmMemory" "notifyHeapResized" (func))
    (tag $java (param (ref null $java.lang.Oops)))
    (func (export "run")
      (throw $java (struct.new $java.lang.Oops (ref.null eq) (ref.null eq)
        (struct.new $string (ref.null eq) (ref.null eq)
          (struct.new $chars (ref.null eq) (ref.null eq)
            (array.new_fixed $units 3 (i32.const 111) (i32.const 0xf6) (i32.const 33)))
          (i32.const 0)))))
    (func (export "teavm.exceptionMessage") (param (ref null $java.lang.Oops)) (result (ref null $string))
      (struct.get $java.lang.Oops 2 (local.get 0))))"#;

/// Its message, and all that it says.
fn thrown(more: &str) -> [Option<String>; 2] {
    let mut program = start(&THROWS.replace("MORE", more)).unwrap();
    let error = program.call("run", &[]).unwrap_err();
    assert!(error.downcast_ref::<legato::ThrownException>().is_some(), "{error:?}");
    let exception = program.store.take_pending_exception().unwrap();
    let message = legato_teavm::exception_message(&mut program.store, &program.instance, exception);
    [message, legato_teavm::exception_text(&mut program.store, &program.instance, exception)]
}

#[test]
fn uncaught_exceptions_have_a_message_and_a_class() {
    // The object tells no class, but its type has a name.
    let [message, text] = thrown("").map(Option::unwrap);
    assert_eq!((message.as_str(), text.as_str()), ("oö!", "java.lang.Oops: oö!"));
    // An equal type has another name.
    let equal = "(type $java.lang.Other
        (sub $object (struct (field (mut eqref)) (field (mut eqref)) (field (ref null $string)))))";
    assert_eq!(thrown(equal)[1].as_deref(), Some("oö!"));
}

#[test]
fn wrong_imports_are_errors() {
    let wrong = [
        (r#"(module (import "teavmMemory" "heapOffset" (func)))"#, "it should be a global"),
        (r#"(module (import "teavm" "deref" (func)))"#, "it should take a reference"),
        (r#"(module (import "teavmMath" "sqrt" (func)))"#, "incompatible import type"),
        (r#"(module (import "teavmMath" "max" (func (param f64) (result f64))))"#, "incompatible import type"),
        (r#"(module (import "teavmMath" "floor" (global f64)))"#, "incompatible import type"),
        (r#"(module (import "teavmMath" "pow" (func)))"#, "incompatible import type"),
        (r#"(module (import "teavmMath" "frobnicate" (func)))"#, "unknown import"),
        (
            r#"(module (import "teavmMemory" "heapOffset" (global i32)) (@custom "teavm.memoryRequirements" "{"))"#,
            "is broken",
        ),
    ];
    for (text, says) in wrong {
        let Err(error) = start(text) else { panic!("{text} was accepted") };
        assert!(format!("{error:#}").contains(says), "{text}: {error:#}");
    }
}
