//! Arguments, environment, streams, clocks, waiting, randomness and the end.

mod support;

use std::time::{Duration, Instant};

use legato_wasi::{Access, ClockId, Clocks, Errno, I32Exit, Input, OFlags, RaisedSignal, Rights};
use support::{Guest, builder, sandbox};

const RESULT: u32 = 0x100;

/// The zero-terminated strings that `count` pointers at `pointers` point to.
fn strings(guest: &Guest, pointers: u32, count: u32) -> Vec<String> {
    (0..count)
        .map(|index| {
            let at = guest.u32(pointers + index * 4) as usize;
            let len = guest.bytes[at..].iter().position(|byte| *byte == 0).unwrap();
            String::from_utf8(guest.bytes[at..at + len].to_vec()).unwrap()
        })
        .collect()
}

#[test]
fn arguments_and_environment() {
    let mut builder = builder();
    builder.arg("program").args(["-v", "größe", ""]).env("HOME", "/home").env("EMPTY", "");
    let mut guest = Guest::new(builder);
    guest.call(|ctx, memory| ctx.args_sizes_get(memory, 0, 4)).unwrap();
    assert_eq!((guest.u32(0), guest.u32(4)), (4, 8 + 3 + 8 + 1));
    guest.call(|ctx, memory| ctx.args_get(memory, 16, 0x1000)).unwrap();
    assert_eq!(strings(&guest, 16, 4), ["program", "-v", "größe", ""]);
    guest.call(|ctx, memory| ctx.environ_sizes_get(memory, 0, 4)).unwrap();
    assert_eq!((guest.u32(0), guest.u32(4)), (2, 11 + 7));
    guest.call(|ctx, memory| ctx.environ_get(memory, 16, 0x1000)).unwrap();
    assert_eq!(strings(&guest, 16, 2), ["HOME=/home", "EMPTY="]);
    let end = guest.bytes.len() as u32;
    assert_eq!(guest.call(|ctx, memory| ctx.args_get(memory, 16, end - 3)), Err(Errno::Fault));
    assert_eq!(guest.call(|ctx, memory| ctx.args_get(memory, u32::MAX - 2, 0)), Err(Errno::Fault));
}

#[test]
fn streams() {
    let mut builder = builder();
    builder.stdin(Input::bytes("line one\nline two"));
    let mut guest = Guest::new(builder);
    // A read fills one piece (three bytes here) and returns.
    assert_eq!(guest.read(0, 100).unwrap(), b"lin");
    let mut rest = Vec::new();
    loop {
        let read = guest.read(0, 100).unwrap();
        if read.is_empty() {
            break;
        }
        rest.extend(read);
    }
    assert_eq!(rest, b"e one\nline two");
    assert_eq!(guest.write(1, b"out\n"), Ok(4));
    assert_eq!(guest.out.contents(), b"out\n");
    guest.write(1, b"unfinished").unwrap();
    guest.write(2, b"error").unwrap();
    guest.ctx.flush().unwrap();
    assert_eq!(guest.out.contents(), b"out\nunfinished");
    assert_eq!(guest.err.contents(), b"error");
    assert_eq!(guest.write(0, b"x"), Err(Errno::Badf));
    assert_eq!(guest.read(1, 1), Err(Errno::Badf));
    assert_eq!(guest.seek(1, 0, 1), Err(Errno::Spipe));
    assert_eq!(guest.pread(0, 1, 0), Err(Errno::Spipe));
    let (kind, flags, rights, _) = guest.fdstat(1).unwrap();
    assert_eq!((kind, flags), (0, 0));
    assert!(rights.contains(Rights::FD_WRITE) && !rights.intersects(Rights::FD_SEEK | Rights::FD_TELL));
    guest.ctx.fd_close(1).unwrap();
    assert_eq!(guest.write(1, b"x"), Err(Errno::Badf));
}

#[test]
fn preopened_directories_introduce_themselves() {
    let root = sandbox();
    let mut builder = builder();
    builder.preopened_dir(root.path(), "/data", Access::ReadWrite).unwrap();
    assert!(builder.preopened_dir(root.path().join("absent"), "/", Access::ReadWrite).is_err());
    let mut guest = Guest::new(builder);
    guest.call(|ctx, memory| ctx.fd_prestat_get(memory, 3, RESULT)).unwrap();
    assert_eq!((guest.u32(RESULT), guest.u32(RESULT + 4)), (0, 5));
    guest.call(|ctx, memory| ctx.fd_prestat_dir_name(memory, 3, RESULT, 5)).unwrap();
    assert_eq!(&guest.bytes[RESULT as usize..][..5], b"/data");
    let short = guest.call(|ctx, memory| ctx.fd_prestat_dir_name(memory, 3, RESULT, 4));
    assert_eq!(short, Err(Errno::Nametoolong));
    for fd in [0, 4] {
        assert_eq!(guest.call(|ctx, memory| ctx.fd_prestat_get(memory, fd, RESULT)), Err(Errno::Badf));
    }
}

#[test]
fn bad_pointers_are_faults_and_consume_nothing() {
    let mut builder = builder();
    builder.stdin(Input::bytes("abc"));
    let mut guest = Guest::new(builder);
    let end = guest.bytes.len() as u32;
    // The list of pieces, a piece, the result: each in turn beyond the end.
    guest.put(0, &end.to_le_bytes());
    guest.put(4, &1u32.to_le_bytes());
    let mut read = |pieces, count, result| guest.call(|ctx, memory| ctx.fd_read(memory, 0, pieces, count, result));
    assert_eq!(read(end - 4, 1, RESULT), Err(Errno::Fault));
    assert_eq!(read(0, 1, RESULT), Err(Errno::Fault));
    assert_eq!(read(0, 0, end - 3), Err(Errno::Fault));
    assert_eq!(read(0, u32::MAX, RESULT), Err(Errno::Inval));
    assert_eq!(read(0, 1 << 28, RESULT), Err(Errno::Fault));
    assert_eq!(guest.read(0, 3).unwrap(), b"abc");
    // Lengths that overflow together.
    for index in 0..3 {
        guest.put(index * 8, &0u32.to_le_bytes());
        guest.put(index * 8 + 4, &(end / 2).to_le_bytes());
    }
    assert_eq!(guest.call(|ctx, memory| ctx.random_get(memory, end - 1, 2)), Err(Errno::Fault));
}

/// Clocks that stand still except when someone sleeps.
struct Still(u64);

impl Clocks for Still {
    fn now(&mut self, clock: ClockId) -> Result<u64, Errno> {
        Ok(self.0 + clock as u64)
    }

    fn resolution(&mut self, _clock: ClockId) -> Result<u64, Errno> {
        Ok(7)
    }

    fn sleep(&mut self, duration: Duration) {
        self.0 += duration.as_nanos() as u64;
    }
}

fn now(guest: &mut Guest, clock: u32) -> Result<u64, Errno> {
    guest.call(|ctx, memory| ctx.clock_time_get(memory, clock, 0, RESULT))?;
    Ok(guest.u64(RESULT))
}

#[test]
fn clocks() {
    let mut guest = Guest::new(builder());
    for clock in 0..4 {
        let first = now(&mut guest, clock).unwrap();
        assert!(now(&mut guest, clock).unwrap() >= first);
        guest.call(|ctx, memory| ctx.clock_res_get(memory, clock, RESULT)).unwrap();
        assert!((1..=1_000_000_000).contains(&guest.u64(RESULT)));
    }
    // 2020 to 2100.
    assert!((1_577_836_800..4_102_444_800).contains(&(now(&mut guest, 0).unwrap() / 1_000_000_000)));
    assert_eq!(now(&mut guest, 4), Err(Errno::Inval));

    let mut builder = builder();
    builder.clocks(Still(100));
    let mut guest = Guest::new(builder);
    assert_eq!(now(&mut guest, 1), Ok(101));
    let events = poll(&mut guest, &[clock(5, 1, 1000, false), clock(6, 1, 2000, false)]).unwrap();
    assert_eq!(events, [(5, 0, 0, 0, 0)]);
    assert_eq!(now(&mut guest, 1), Ok(1101));
    let events = poll(&mut guest, &[clock(5, 1, 1000, true), clock(6, 9, 0, false)]).unwrap();
    assert_eq!(events, [(5, 0, 0, 0, 0), (6, Errno::Inval.raw(), 0, 0, 0)]);
}

fn clock(userdata: u64, clock: u32, timeout: u64, absolute: bool) -> [u8; 48] {
    let mut raw = [0; 48];
    raw[..8].copy_from_slice(&userdata.to_le_bytes());
    raw[16..20].copy_from_slice(&clock.to_le_bytes());
    raw[24..32].copy_from_slice(&timeout.to_le_bytes());
    raw[40] = absolute.into();
    raw
}

fn descriptor(userdata: u64, fd: u32, write: bool) -> [u8; 48] {
    let mut raw = [0; 48];
    raw[..8].copy_from_slice(&userdata.to_le_bytes());
    raw[8] = 1 + u8::from(write);
    raw[16..20].copy_from_slice(&fd.to_le_bytes());
    raw
}

/// (userdata, error, kind, bytes, flags) of each event.
type Events = Vec<(u64, u16, u8, u64, u8)>;

fn poll(guest: &mut Guest, subscriptions: &[[u8; 48]]) -> Result<Events, Errno> {
    let (input, output) = (0x1000, 0x2000);
    guest.put(input, subscriptions.as_flattened());
    let count = subscriptions.len() as u32;
    guest.call(|ctx, memory| ctx.poll_oneoff(memory, input, output, count, RESULT))?;
    Ok((0..guest.u32(RESULT))
        .map(|index| {
            let at = output + index * 32;
            let byte = |offset: u32| guest.bytes[(at + offset) as usize];
            let error = u16::from_le_bytes([byte(8), byte(9)]);
            (guest.u64(at), error, byte(10), guest.u64(at + 16), byte(24))
        })
        .collect())
}

#[test]
fn waiting() {
    let root = sandbox();
    let mut builder = builder();
    builder.stdin(Input::bytes("abc"));
    builder.preopened_dir(root.path().join("inside"), "/", Access::ReadWrite).unwrap();
    let mut guest = Guest::new(builder);
    assert_eq!(poll(&mut guest, &[]), Err(Errno::Inval));

    let started = Instant::now();
    let pause = 30_000_000;
    let events = poll(&mut guest, &[clock(1, 1, pause, false), clock(2, 1, u64::MAX, false)]);
    assert_eq!(events.unwrap(), [(1, 0, 0, 0, 0)]);
    assert!(started.elapsed() >= Duration::from_nanos(pause));

    let file = guest.open(3, "file", OFlags::empty()).unwrap();
    guest.seek(file, 2, 0).unwrap();
    let events = poll(
        &mut guest,
        &[
            descriptor(1, 0, false),
            descriptor(2, 1, true),
            descriptor(3, file, false),
            descriptor(4, file, true),
            descriptor(5, 55, true),
            descriptor(6, 3, false),
            clock(7, 1, 1_000_000_000, false),
        ],
    );
    assert_eq!(
        events.unwrap(),
        [
            (1, 0, 1, 3, 0),
            (2, 0, 2, 0, 0),
            (3, 0, 1, 6, 0),
            (4, 0, 2, 0, 0),
            (5, Errno::Badf.raw(), 2, 0, 0),
            (6, Errno::Isdir.raw(), 1, 0, 0),
        ]
    );
}

#[test]
fn waiting_for_a_pipe() {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    let root = sandbox();
    let inside = root.path().join("inside");
    mknodat(CWD, inside.join("fifo"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let mut guest = Guest::in_dir(&inside);
    // Open for both, so that neither opening waits for the other end.
    let fifo = guest.open_as(3, "fifo", true, OFlags::empty(), Rights::FILE, 4).unwrap();
    let short = clock(9, 1, 1_000_000, false);
    let events = poll(&mut guest, &[descriptor(1, fifo, false), short]).unwrap();
    assert_eq!(events, [(9, 0, 0, 0, 0)]);
    guest.write(fifo, b"four").unwrap();
    let long = clock(9, 1, 60_000_000_000, false);
    let events = poll(&mut guest, &[long, descriptor(1, fifo, false)]).unwrap();
    assert_eq!(events, [(1, 0, 1, 4, 0)]);
    assert_eq!(guest.read(fifo, 9).unwrap(), b"four");
    assert_eq!(guest.read(fifo, 9), Err(Errno::Again));
}

#[test]
fn randomness() {
    let mut guest = Guest::new(builder());
    guest.call(|ctx, memory| ctx.random_get(memory, 0, 64)).unwrap();
    let first = guest.bytes[..64].to_vec();
    guest.call(|ctx, memory| ctx.random_get(memory, 0, 64)).unwrap();
    assert_ne!(first, &guest.bytes[..64]);
    let mut builder = builder();
    builder.random(Box::new(|buffer| {
        buffer.fill(4);
        Ok(())
    }));
    let mut guest = Guest::new(builder);
    guest.call(|ctx, memory| ctx.random_get(memory, 8, 8)).unwrap();
    assert_eq!(guest.bytes[..24], [[0u8; 8], [4; 8], [0; 8]].concat());
}

#[test]
fn ending() {
    let mut guest = Guest::new(builder());
    guest.write(1, b"last words").unwrap();
    assert_eq!(guest.ctx.proc_exit(3), I32Exit(3));
    assert_eq!(guest.out.contents(), b"last words");
    assert_eq!(guest.ctx.proc_raise(6), Ok(Some(RaisedSignal(6))));
    assert_eq!(RaisedSignal(6).process_exit_code(), 134);
    assert_eq!(guest.ctx.proc_raise(0), Ok(None));
    assert_eq!(guest.ctx.proc_raise(18), Err(Errno::Notsup));
    assert_eq!(guest.ctx.proc_raise(31), Err(Errno::Inval));
    guest.ctx.sched_yield().unwrap();
}
