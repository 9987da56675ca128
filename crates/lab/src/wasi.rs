//! The little of WASI preview 1 that a program needs which computes and prints.
//!
//! Both engines of a comparison are given these very functions, so that the host's share is the same and no engine's
//! own WASI enters the figures. Output is collected, random numbers come from a fixed seed; all else is an import that
//! traps.

use crate::random::Random;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Name of the module that the functions are imported from.
pub const MODULE: &str = "wasi_snapshot_preview1";

/// "Success".
const OK: i32 = 0;
/// "Bad address".
const FAULT: i32 = 21;
/// "Bad file descriptor".
const BADF: i32 = 8;
/// "Invalid argument".
const INVAL: i32 = 28;

/// The state behind the functions. Every function takes the caller's memory and returns an errno.
#[derive(Debug)]
pub struct Wasi {
    /// What the program has written to standard output and standard error.
    pub output: Vec<u8>,
    arguments: Vec<String>,
    random: Random,
    start: Instant,
}

/// The guest's call of `proc_exit`, as an error that unwinds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit(pub i32);

impl std::fmt::Display for Exit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "exit with code {}", self.0)
    }
}

impl std::error::Error for Exit {}

impl Wasi {
    /// A fresh state. `arguments` starts with the program's name.
    pub fn new(arguments: &[String]) -> Wasi {
        Wasi { output: Vec::new(), arguments: arguments.to_vec(), random: Random::new(42), start: Instant::now() }
    }

    /// `fd_write`.
    pub fn fd_write(&mut self, memory: &mut [u8], fd: i32, vectors: i32, count: i32, written: i32) -> i32 {
        if fd != 1 && fd != 2 {
            return BADF;
        }
        let mut total = 0u32;
        for i in 0..count as u32 {
            let vector = (vectors as u32).wrapping_add(i.wrapping_mul(8));
            let (Some(start), Some(length)) = (load(memory, vector), load(memory, vector.wrapping_add(4))) else {
                return FAULT;
            };
            let Some(bytes) = slice(memory, start, length) else {
                return FAULT;
            };
            self.output.extend_from_slice(bytes);
            total = total.wrapping_add(length);
        }
        store(memory, written, total)
    }

    /// `random_get`.
    pub fn random_get(&mut self, memory: &mut [u8], start: i32, length: i32) -> i32 {
        let Some(bytes) = slice(memory, start as u32, length as u32) else {
            return FAULT;
        };
        bytes.copy_from_slice(&self.random.bytes(length as u32 as usize));
        OK
    }

    /// `clock_time_get`. Clock 0 is the system's, 1 is monotonic and begins with this state, 2 and 3 are the processor
    /// time of the process and of the thread.
    pub fn clock_time_get(&mut self, memory: &mut [u8], clock: i32, _precision: i64, result: i32) -> i32 {
        let now = match clock {
            0 => SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64),
            1 => self.start.elapsed().as_nanos() as u64,
            2 => processor_time(libc::CLOCK_PROCESS_CPUTIME_ID),
            3 => processor_time(libc::CLOCK_THREAD_CPUTIME_ID),
            _ => return INVAL,
        };
        let Some(bytes) = slice(memory, result as u32, 8) else {
            return FAULT;
        };
        bytes.copy_from_slice(&now.to_le_bytes());
        OK
    }

    /// `args_sizes_get`.
    pub fn args_sizes_get(&mut self, memory: &mut [u8], count: i32, bytes: i32) -> i32 {
        let total: usize = self.arguments.iter().map(|argument| argument.len() + 1).sum();
        match store(memory, count, self.arguments.len() as u32) {
            OK => store(memory, bytes, total as u32),
            error => error,
        }
    }

    /// `args_get`.
    pub fn args_get(&mut self, memory: &mut [u8], pointers: i32, bytes: i32) -> i32 {
        let mut end = bytes as u32;
        for (i, argument) in self.arguments.iter().enumerate() {
            let length = argument.len() as u32 + 1;
            let Some(place) = slice(memory, end, length) else {
                return FAULT;
            };
            place[..argument.len()].copy_from_slice(argument.as_bytes());
            place[argument.len()] = 0;
            if store(memory, pointers + 4 * i as i32, end) != OK {
                return FAULT;
            }
            end += length;
        }
        OK
    }

    /// `environ_sizes_get`: the environment is empty.
    pub fn environ_sizes_get(&mut self, memory: &mut [u8], count: i32, bytes: i32) -> i32 {
        match store(memory, count, 0) {
            OK => store(memory, bytes, 0),
            error => error,
        }
    }

    /// `environ_get`.
    pub fn environ_get(&mut self, _memory: &mut [u8], _pointers: i32, _bytes: i32) -> i32 {
        OK
    }
}

/// A clock of processor time, in nanoseconds.
pub(crate) fn processor_time(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a `timespec` of ours.
    let result = unsafe { libc::clock_gettime(clock, &mut time) };
    assert_eq!(result, 0, "POSIX has this clock");
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn slice(memory: &mut [u8], start: u32, length: u32) -> Option<&mut [u8]> {
    memory.get_mut(start as usize..(start as usize).checked_add(length as usize)?)
}

fn load(memory: &mut [u8], address: u32) -> Option<u32> {
    slice(memory, address, 4).map(|bytes| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
}

fn store(memory: &mut [u8], address: i32, value: u32) -> i32 {
    match slice(memory, address as u32, 4) {
        Some(bytes) => {
            bytes.copy_from_slice(&value.to_le_bytes());
            OK
        }
        None => FAULT,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fd_write_gathers() {
        let mut wasi = Wasi::new(&[]);
        let mut memory = vec![0; 64];
        memory[0..16].copy_from_slice(&[32, 0, 0, 0, 2, 0, 0, 0, 40, 0, 0, 0, 3, 0, 0, 0]);
        memory[32..34].copy_from_slice(b"ab");
        memory[40..43].copy_from_slice(b"cde");
        assert_eq!(wasi.fd_write(&mut memory, 1, 0, 2, 60), OK);
        assert_eq!((wasi.output.as_slice(), memory[60]), (b"abcde".as_slice(), 5));
        assert_eq!(wasi.fd_write(&mut memory, 1, 62, 2, 60), FAULT);
        assert_eq!(wasi.fd_write(&mut memory, 9, 0, 2, 60), BADF);
    }

    #[test]
    fn clocks_differ() {
        let mut wasi = Wasi::new(&[]);
        let mut memory = vec![0; 8];
        let mut now = |clock| {
            assert_eq!(wasi.clock_time_get(&mut memory, clock, 1, 0), OK);
            u64::from_le_bytes(memory.clone().try_into().unwrap())
        };
        let before = [now(1), now(3)];
        std::thread::sleep(std::time::Duration::from_millis(20));
        let (wall, processor) = (now(1) - before[0], now(3) - before[1]);
        assert!(wall >= 20_000_000 && processor < wall / 2, "{wall} {processor}");
        // Today, not the time since something began.
        assert!(now(0) > 1_700_000_000_000_000_000 && now(2) >= now(3));
        assert_eq!(wasi.clock_time_get(&mut memory, 4, 1, 0), INVAL);
        assert_eq!(wasi.clock_time_get(&mut memory, 1, 1, 4), FAULT);
    }

    #[test]
    fn arguments_are_zero_terminated() {
        let mut wasi = Wasi::new(&["p".into(), "12".into()]);
        let mut memory = vec![0xff; 64];
        assert_eq!(wasi.args_sizes_get(&mut memory, 0, 4), OK);
        assert_eq!((memory[0], memory[4]), (2, 5));
        assert_eq!(wasi.args_get(&mut memory, 0, 32), OK);
        assert_eq!(&memory[32..37], b"p\x0012\0");
        assert_eq!((memory[0], memory[4]), (32, 34));
    }
}
