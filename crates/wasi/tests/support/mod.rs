//! A guest by hand: memory, and calls with text and lists instead of pointers.

#![allow(dead_code, reason = "each test file uses its part")]

use std::fs;
use std::path::Path;

use legato_wasi::{
    Access, Errno, FILESTAT_SIZE, GuestMemory, LookupFlags, OFlags, Output, OutputPipe, Rights, WasiCtx, WasiCtxBuilder,
};
use tempfile::TempDir;

/// Where the support puts results, paths and data in the guest's memory.
const RESULT: u32 = 0x100;
const PATH: u32 = 0x1000;
const SECOND_PATH: u32 = 0x2000;
const PIECES: u32 = 0x3000;
const DATA: u32 = 0x4000;

pub struct Guest {
    pub ctx: WasiCtx,
    pub bytes: Vec<u8>,
    pub out: OutputPipe,
    pub err: OutputPipe,
}

/// What `path_filestat_get` told.
#[derive(Debug)]
pub struct Stat {
    pub ino: u64,
    pub filetype: u8,
    pub nlink: u64,
    pub size: u64,
    pub atim: u64,
    pub mtim: u64,
}

/// Entries as (next cookie, type, name), and bytes used.
pub type Listing = (Vec<(u64, u8, String)>, u32);

pub fn builder() -> WasiCtxBuilder {
    WasiCtxBuilder::new()
}

impl Guest {
    pub fn new(mut builder: WasiCtxBuilder) -> Self {
        let (out, err) = (OutputPipe::new(), OutputPipe::new());
        builder.stdout(Output::Pipe(out.clone())).stderr(Output::Pipe(err.clone()));
        Guest { ctx: builder.build(), bytes: vec![0; 0x20000], out, err }
    }

    /// A guest with one directory, `/`, as descriptor 3.
    pub fn in_dir(host: &Path) -> Self {
        let mut builder = builder();
        builder.preopened_dir(host, "/", Access::ReadWrite).unwrap();
        Self::new(builder)
    }

    pub fn call<T>(&mut self, call: impl FnOnce(&mut WasiCtx, &mut GuestMemory<'_>) -> T) -> T {
        call(&mut self.ctx, &mut GuestMemory::new(&mut self.bytes))
    }

    pub fn put(&mut self, pointer: u32, bytes: &[u8]) -> (u32, u32) {
        let at = pointer as usize;
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        (pointer, bytes.len() as u32)
    }

    pub fn u32(&self, pointer: u32) -> u32 {
        let at = pointer as usize;
        u32::from_le_bytes(self.bytes[at..at + 4].try_into().unwrap())
    }

    pub fn u64(&self, pointer: u32) -> u64 {
        let at = pointer as usize;
        u64::from_le_bytes(self.bytes[at..at + 8].try_into().unwrap())
    }

    pub fn open_as(
        &mut self,
        dir: u32,
        path: &str,
        follow: bool,
        oflags: OFlags,
        rights: Rights,
        fdflags: u32,
    ) -> Result<u32, Errno> {
        let (path, len) = self.put(PATH, path.as_bytes());
        let all = Rights::all().bits();
        self.call(|ctx, memory| {
            ctx.path_open(
                memory,
                dir,
                follow.into(),
                path,
                len,
                oflags.bits().into(),
                rights.bits(),
                all,
                fdflags,
                RESULT,
            )
        })?;
        Ok(self.u32(RESULT))
    }

    pub fn open(&mut self, dir: u32, path: &str, oflags: OFlags) -> Result<u32, Errno> {
        self.open_as(dir, path, true, oflags, Rights::FILE, 0)
    }

    pub fn open_dir(&mut self, dir: u32, path: &str) -> Result<u32, Errno> {
        self.open_as(dir, path, true, OFlags::DIRECTORY, Rights::DIRECTORY, 0)
    }

    /// Writes in pieces of three bytes, to exercise gathering.
    pub fn write(&mut self, fd: u32, data: &[u8]) -> Result<u32, Errno> {
        let (pieces, count) = self.pieces(data.len() as u32);
        self.put(DATA, data);
        self.call(|ctx, memory| ctx.fd_write(memory, fd, pieces, count, RESULT))?;
        Ok(self.u32(RESULT))
    }

    pub fn pwrite(&mut self, fd: u32, data: &[u8], offset: u64) -> Result<u32, Errno> {
        let (pieces, count) = self.pieces(data.len() as u32);
        self.put(DATA, data);
        self.call(|ctx, memory| ctx.fd_pwrite(memory, fd, pieces, count, offset, RESULT))?;
        Ok(self.u32(RESULT))
    }

    pub fn read(&mut self, fd: u32, len: u32) -> Result<Vec<u8>, Errno> {
        let (pieces, count) = self.pieces(len);
        self.call(|ctx, memory| ctx.fd_read(memory, fd, pieces, count, RESULT))?;
        Ok(self.data(self.u32(RESULT)))
    }

    pub fn pread(&mut self, fd: u32, len: u32, offset: u64) -> Result<Vec<u8>, Errno> {
        let (pieces, count) = self.pieces(len);
        self.call(|ctx, memory| ctx.fd_pread(memory, fd, pieces, count, offset, RESULT))?;
        Ok(self.data(self.u32(RESULT)))
    }

    fn data(&self, len: u32) -> Vec<u8> {
        self.bytes[DATA as usize..(DATA + len) as usize].to_vec()
    }

    fn pieces(&mut self, len: u32) -> (u32, u32) {
        let mut count = 0;
        let mut at = 0;
        while at < len {
            let piece = 3.min(len - at);
            self.put(PIECES + count * 8, &(DATA + at).to_le_bytes());
            self.put(PIECES + count * 8 + 4, &piece.to_le_bytes());
            at += piece;
            count += 1;
        }
        (PIECES, count)
    }

    pub fn stat(&mut self, dir: u32, path: &str, follow: bool) -> Result<Stat, Errno> {
        let (path, len) = self.put(PATH, path.as_bytes());
        self.call(|ctx, memory| ctx.path_filestat_get(memory, dir, follow.into(), path, len, RESULT))?;
        Ok(self.stat_result())
    }

    pub fn fd_stat(&mut self, fd: u32) -> Result<Stat, Errno> {
        self.call(|ctx, memory| ctx.fd_filestat_get(memory, fd, RESULT))?;
        Ok(self.stat_result())
    }

    fn stat_result(&self) -> Stat {
        const { assert!(FILESTAT_SIZE == 64) };
        Stat {
            ino: self.u64(RESULT + 8),
            filetype: self.bytes[RESULT as usize + 16],
            nlink: self.u64(RESULT + 24),
            size: self.u64(RESULT + 32),
            atim: self.u64(RESULT + 40),
            mtim: self.u64(RESULT + 48),
        }
    }

    /// Type, flags, rights and inheriting rights.
    pub fn fdstat(&mut self, fd: u32) -> Result<(u8, u8, Rights, Rights), Errno> {
        self.call(|ctx, memory| ctx.fd_fdstat_get(memory, fd, RESULT))?;
        let rights = |at| Rights::from_bits(self.u64(at)).unwrap();
        let at = RESULT as usize;
        Ok((self.bytes[at], self.bytes[at + 2], rights(RESULT + 8), rights(RESULT + 16)))
    }

    pub fn seek(&mut self, fd: u32, delta: i64, whence: u32) -> Result<u64, Errno> {
        self.call(|ctx, memory| ctx.fd_seek(memory, fd, delta, whence, RESULT))?;
        Ok(self.u64(RESULT))
    }

    pub fn tell(&mut self, fd: u32) -> Result<u64, Errno> {
        self.call(|ctx, memory| ctx.fd_tell(memory, fd, RESULT))?;
        Ok(self.u64(RESULT))
    }

    pub fn mkdir(&mut self, dir: u32, path: &str) -> Result<(), Errno> {
        let (path, len) = self.put(PATH, path.as_bytes());
        self.call(|ctx, memory| ctx.path_create_directory(memory, dir, path, len))
    }

    pub fn rmdir(&mut self, dir: u32, path: &str) -> Result<(), Errno> {
        let (path, len) = self.put(PATH, path.as_bytes());
        self.call(|ctx, memory| ctx.path_remove_directory(memory, dir, path, len))
    }

    pub fn unlink(&mut self, dir: u32, path: &str) -> Result<(), Errno> {
        let (path, len) = self.put(PATH, path.as_bytes());
        self.call(|ctx, memory| ctx.path_unlink_file(memory, dir, path, len))
    }

    pub fn rename(&mut self, from: u32, old: &str, to: u32, new: &str) -> Result<(), Errno> {
        let (old, old_len) = self.put(PATH, old.as_bytes());
        let (new, new_len) = self.put(SECOND_PATH, new.as_bytes());
        self.call(|ctx, memory| ctx.path_rename(memory, from, old, old_len, to, new, new_len))
    }

    pub fn link(&mut self, from: u32, old: &str, follow: LookupFlags, to: u32, new: &str) -> Result<(), Errno> {
        let (old, old_len) = self.put(PATH, old.as_bytes());
        let (new, new_len) = self.put(SECOND_PATH, new.as_bytes());
        self.call(|ctx, memory| ctx.path_link(memory, from, follow.bits(), old, old_len, to, new, new_len))
    }

    pub fn symlink(&mut self, target: &str, dir: u32, path: &str) -> Result<(), Errno> {
        let (target, target_len) = self.put(PATH, target.as_bytes());
        let (path, len) = self.put(SECOND_PATH, path.as_bytes());
        self.call(|ctx, memory| ctx.path_symlink(memory, target, target_len, dir, path, len))
    }

    pub fn readlink(&mut self, dir: u32, path: &str, room: u32) -> Result<String, Errno> {
        let (path, len) = self.put(PATH, path.as_bytes());
        self.call(|ctx, memory| ctx.path_readlink(memory, dir, path, len, DATA, room, RESULT))?;
        Ok(String::from_utf8(self.data(self.u32(RESULT))).unwrap())
    }

    pub fn set_times(
        &mut self,
        dir: u32,
        path: &str,
        follow: bool,
        atim: u64,
        mtim: u64,
        flags: u32,
    ) -> Result<(), Errno> {
        let (path, len) = self.put(PATH, path.as_bytes());
        self.call(|ctx, memory| ctx.path_filestat_set_times(memory, dir, follow.into(), path, len, atim, mtim, flags))
    }

    /// One call of `fd_readdir`: the entries that fit whole, as (next cookie, type, name), and the bytes used.
    pub fn readdir(&mut self, fd: u32, room: u32, cookie: u64) -> Result<Listing, Errno> {
        self.call(|ctx, memory| ctx.fd_readdir(memory, fd, DATA, room, cookie, RESULT))?;
        let used = self.u32(RESULT);
        let mut entries = Vec::new();
        let mut at = DATA;
        while at + 24 <= DATA + used {
            let len = self.u32(at + 16);
            if at + 24 + len > DATA + used {
                break;
            }
            let name = &self.bytes[(at + 24) as usize..(at + 24 + len) as usize];
            entries.push((self.u64(at), self.bytes[at as usize + 20], String::from_utf8(name.to_vec()).unwrap()));
            at += 24 + len;
        }
        Ok((entries, used))
    }
}

/// Two directories: `inside`, which guests get, with a file, a directory and ways out of it; and `outside` beside it.
pub fn sandbox() -> TempDir {
    let root = tempfile::tempdir().unwrap();
    let at = |path: &str| root.path().join(path);
    fs::create_dir_all(at("inside/sub/deep")).unwrap();
    fs::create_dir(at("outside")).unwrap();
    fs::write(at("outside/secret"), "secret").unwrap();
    fs::write(at("inside/file"), "contents").unwrap();
    fs::write(at("inside/sub/other"), "more").unwrap();
    let link = |target: &str, name: &str| std::os::unix::fs::symlink(target, at(name)).unwrap();
    link("../outside/secret", "inside/to-secret");
    link("../outside", "inside/to-outside");
    link("to-outside", "inside/to-link");
    link("../../outside/secret", "inside/sub/to-secret");
    std::os::unix::fs::symlink(at("outside/secret"), at("inside/absolute")).unwrap();
    std::os::unix::fs::symlink("/", at("inside/host-root")).unwrap();
    link("file", "inside/to-file");
    link("sub", "inside/to-sub");
    link("../file", "inside/sub/to-file");
    link("loop", "inside/loop");
    root
}
