//! Baseline code against Cranelift's: random functions are compiled by both, and leave the same memory behind.

mod encodings;
mod generate;

use cranelift_codegen::ir::Function;
use cranelift_codegen::verify_function;

use self::generate::{HELPER_AT, Kind, MEMORY, Random, far_load, generate};
use super::compile;
use crate::CompileOptions;
use crate::emit::code::{FunctionCode, Scratch, with_scratch};
use crate::emit::target::Target;

/// Functions that are compared: a second's work.
const SEEDS: u64 = 1500;

/// What compiles a function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Back {
    Baseline,
    Cranelift,
}

fn target() -> Target {
    let options = CompileOptions {
        plan: legato_heap::HeapConfig::default().access_plan(),
        features: Default::default(),
        checked_memories: false,
        optimize: true,
        parallel: false,
        verify: true,
    };
    Target::host(&options).unwrap()
}

fn code(target: &Target, function: &Function, back: Back) -> FunctionCode {
    match back {
        Back::Baseline => compile(function, target.baseline.unwrap())
            .unwrap_or_else(|| panic!("no baseline code for {}", function.display())),
        Back::Cranelift => with_scratch(|scratch: &mut Scratch| {
            scratch.context.func = function.clone();
            scratch.compile(&*target.final_code, false)
        })
        .unwrap(),
    }
}

/// Code in memory that can be run.
struct Executable {
    start: *mut u8,
    bytes: usize,
}

impl Executable {
    fn new(code: &FunctionCode) -> Executable {
        assert!(code.relocations.is_empty(), "calls are by address");
        let bytes = code.bytes.len();
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: fresh memory is mapped, written to within its length, and made executable.
        unsafe {
            let start = libc::mmap(std::ptr::null_mut(), bytes, access, flags, -1, 0).cast::<u8>();
            assert_ne!(start.cast(), libc::MAP_FAILED);
            start.copy_from_nonoverlapping(code.bytes.as_ptr(), bytes);
            assert_eq!(libc::mprotect(start.cast(), bytes, libc::PROT_READ | libc::PROT_EXEC), 0);
            Executable { start, bytes }
        }
    }
}

impl Drop for Executable {
    fn drop(&mut self) {
        // SAFETY: the mapping is this one's, and nothing runs in it.
        unsafe { libc::munmap(self.start.cast(), self.bytes) };
    }
}

/// Calls `main`, which may call `helper` and the function that this one jumps to; what is left in memory, and returned.
fn run(seed: u64, [main, helper, last]: [&Executable; 3]) -> (i64, Vec<u8>) {
    let mut random = Random::new(seed ^ 0x5eed);
    // Aligned for all that is stored.
    let mut memory: Vec<u64> = (0..MEMORY / 8).map(|_| random.number() as u64).collect();
    for (number, code) in [helper, last].into_iter().enumerate() {
        memory[HELPER_AT as usize / 8 + number] = code.start as u64;
    }
    type Main = extern "C" fn(*mut u64, i32, i64, i32, i64, f64, f32) -> i64;
    // SAFETY: the function is of this type: Cranelift's convention for tail calls passes in registers what that of C
    // does. It touches nothing but the memory.
    let main: Main = unsafe { std::mem::transmute(main.start) };
    let (x, y) = (random.number(), random.number());
    let (f, g) = (f64::from_bits(random.number() as u64), f32::from_bits(random.number() as u32));
    let result = main(memory.as_mut_ptr(), x as i32, y, y as i32, x, f, g);
    for number in 0..2 {
        memory[HELPER_AT as usize / 8 + number] = 0;
    }
    (result, memory.iter().flat_map(|word| word.to_le_bytes()).collect())
}

/// The distance of an address from its base may be more than an instruction holds, in parts that are not.
#[test]
fn addresses_may_be_far_from_their_parts() {
    let target = target();
    let function = far_load();
    let (memory, expected) = ([7_u64, 8, 9], 9);
    for back in [Back::Baseline, Back::Cranelift] {
        let code = Executable::new(&code(&target, &function, back));
        // SAFETY: the function is of this type, and loads the third word.
        let load: extern "C" fn(*const u64) -> i64 = unsafe { std::mem::transmute(code.start) };
        assert_eq!(load(memory.as_ptr()), expected, "{back:?}");
    }
}

#[test]
fn random_functions_do_what_cranelift_has_them_do() {
    let target = target();
    for seed in 0..SEEDS {
        let functions = [Kind::Main, Kind::Helper, Kind::Last].map(|kind| generate(seed, kind));
        for function in &functions {
            if let Err(errors) = verify_function(function, &*target.final_code) {
                panic!("seed {seed}: {errors}\n{}", function.display());
            }
        }
        let [baseline, cranelift] = [Back::Baseline, Back::Cranelift]
            .map(|back| functions.each_ref().map(|function| Executable::new(&code(&target, function, back))));
        let expected = run(seed, cranelift.each_ref());
        // All of one, and calls from each to the other.
        for from_baseline in 1..8_usize {
            let chosen = [0, 1, 2]
                .map(|number| if from_baseline & 1 << number != 0 { &baseline[number] } else { &cranelift[number] });
            let found = run(seed, chosen);
            if found != expected {
                let at = found.1.iter().zip(&expected.1).position(|(left, right)| left != right);
                let text = functions.each_ref().map(|function| function.display().to_string()).join("\n");
                panic!("seed {seed}, {from_baseline:03b}: differs at {at:?}, {} for {}\n{text}", found.0, expected.0);
            }
        }
    }
}
