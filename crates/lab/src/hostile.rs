//! What gets bytes from strangers, as functions of those bytes: they return, whatever the bytes are. The test `hostile`
//! calls them with mutations of good inputs, the manifests in `fuzz/` with whatever `cargo fuzz` comes upon.

use legato::{Engine, Module, Precompiled};
use legato_wasi::{Access, Errno, GuestMemory, Rights, WasiCtx, WasiCtxBuilder};
use std::fs;
use std::hint::black_box;
use std::path::Path;

/// Where paths, results and what is read lie in the guest's memory.
const FIRST: u32 = 0x1000;
const SECOND: u32 = 0x8000;
const RESULT: u32 = 0x100;
const PIECE: u32 = 0x200;
const READ: u32 = 0x10000;
const MEMORY: usize = 0x12000;
/// Bytes of a file that no guest may come to see.
const SECRET_BYTES: usize = 4711;
const SECRET: u8 = b'#';

/// Loads a precompiled file, and drops it. Its code never runs. The checksum is as it is, then made right.
pub fn loader(data: &[u8]) {
    load(data);
    load(&resealed(data));
}

fn load(data: &[u8]) {
    let engine = Engine::default();
    // SAFETY: what is loaded is described and dropped: no code of it runs. That its data is not trusted is what is
    // tested.
    if let Ok(module) = unsafe { Module::deserialize(&engine, data) } {
        module.imports().for_each(|import| _ = black_box(import.ty().to_string()));
        module.exports().for_each(|export| _ = black_box(export.ty().to_string()));
    }
}

/// Describes a precompiled file as `legato inspect` does. The checksum is as it is, then made right.
pub fn inspect(data: &[u8]) {
    for data in [data, &resealed(data)] {
        if let Ok(module) = Precompiled::read(&Engine::default(), data) {
            module.imports().for_each(|import| _ = black_box(import.ty().to_string()));
            module.exports().for_each(|export| _ = black_box(export.ty().to_string()));
            black_box(module.code_size());
        }
    }
}

fn resealed(data: &[u8]) -> Vec<u8> {
    let mut data = data.to_vec();
    Precompiled::reseal(&mut data);
    data
}

/// Calls what WASI does with paths, one call for each line: a digit that chooses the call, a byte of flags, and one or
/// two paths with a tabulator between them. The guest has one directory, with links in it that lead out and in circles.
///
/// # Panics
/// If the guest has seen or changed anything outside of its directory; or where the system gives no temporary
/// directory.
pub fn wasi_paths(data: &[u8]) {
    let outside = tempfile::tempdir().expect("a temporary directory");
    furnish(outside.path()).expect("files in a temporary directory");
    let mut builder = WasiCtxBuilder::new();
    builder.preopened_dir(outside.path().join("inside"), "/", Access::ReadWrite).expect("the directory is there");
    let mut guest = builder.build();
    let mut bytes = vec![0; MEMORY];
    for line in data.split(|&byte| byte == b'\n').take(32) {
        let [call, flags, paths @ ..] = line else { continue };
        let mut paths = paths.splitn(2, |&byte| byte == b'\t');
        let mut put = |at: u32, path: Option<&[u8]>| {
            let path = path.unwrap_or(b".");
            let path = &path[..path.len().min((SECOND - FIRST) as usize)];
            bytes[at as usize..][..path.len()].copy_from_slice(path);
            (at, path.len() as u32)
        };
        let (first, second) = (put(FIRST, paths.next()), put(SECOND, paths.next()));
        // An error is as good as a result here.
        let _ = path_call(&mut guest, &mut bytes, *call, *flags, first, second);
    }
    let names = |path: &Path| {
        let mut names: Vec<_> =
            fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.file_name()).collect();
        names.sort();
        names
    };
    assert_eq!(names(outside.path()), ["inside", "secret"], "something has been made, renamed or removed outside");
    assert_eq!(names(&outside.path().join("secret")), ["file"], "something has been changed in a directory outside");
    let secret = fs::read(outside.path().join("secret/file")).unwrap_or_default();
    assert!(secret == [SECRET; SECRET_BYTES], "a file outside has been written to");
}

fn furnish(outside: &Path) -> std::io::Result<()> {
    fs::create_dir_all(outside.join("inside/dir/deep"))?;
    fs::create_dir(outside.join("secret"))?;
    fs::write(outside.join("secret/file"), [SECRET; SECRET_BYTES])?;
    fs::write(outside.join("inside/file"), "contents")?;
    #[cfg(unix)]
    for (target, link) in [
        (Path::new("../secret"), "out"),
        (Path::new("../secret/file"), "out-file"),
        (&outside.join("secret/file"), "absolute"),
        (Path::new("circle"), "circle"),
        (Path::new("dir/deep/../../file"), "in"),
        (Path::new("."), "dir/here"),
    ] {
        std::os::unix::fs::symlink(target, outside.join("inside").join(link))?;
    }
    Ok(())
}

/// One call, and what follows from it.
fn path_call(
    guest: &mut WasiCtx,
    bytes: &mut [u8],
    call: u8,
    flags: u8,
    (first, first_len): (u32, u32),
    (second, second_len): (u32, u32),
) -> Result<(), Errno> {
    // The guest's directory.
    const DIR: u32 = 3;
    let follow = u32::from(flags & 1);
    let memory = &mut GuestMemory::new(bytes);
    match call.wrapping_sub(b'0') % 9 {
        0 => {
            let (rights, all) = (Rights::from_bits_truncate(u64::MAX).bits(), Rights::all().bits());
            let oflags = u32::from(flags >> 1 & 15);
            guest.path_open(memory, DIR, follow, first, first_len, oflags, rights, all, 0, RESULT)?;
            let word =
                |bytes: &[u8], at: u32| u32::from_le_bytes(std::array::from_fn(|byte| bytes[at as usize + byte]));
            let fd = word(bytes, RESULT);
            bytes[PIECE as usize..][..4].copy_from_slice(&READ.to_le_bytes());
            bytes[PIECE as usize + 4..][..4].copy_from_slice(&64u32.to_le_bytes());
            bytes[READ as usize..][..64].fill(0);
            let read = guest.fd_read(&mut GuestMemory::new(bytes), fd, PIECE, 1, RESULT);
            assert!(!bytes[READ as usize..][..64].contains(&SECRET), "a file outside has been read");
            if read.is_err() {
                let _ = guest.fd_write(&mut GuestMemory::new(bytes), fd, PIECE, 1, RESULT);
            }
            guest.fd_close(fd)
        }
        1 => guest.path_create_directory(memory, DIR, first, first_len),
        2 => {
            guest.path_filestat_get(memory, DIR, follow, first, first_len, RESULT)?;
            let size: [u8; 8] = std::array::from_fn(|byte| bytes[RESULT as usize + 32 + byte]);
            assert!(u64::from_le_bytes(size) != SECRET_BYTES as u64, "a file outside has been looked at");
            Ok(())
        }
        3 => guest.path_link(memory, DIR, follow, first, first_len, DIR, second, second_len),
        4 => guest.path_readlink(memory, DIR, first, first_len, READ, 64, RESULT),
        5 => guest.path_remove_directory(memory, DIR, first, first_len),
        6 => guest.path_rename(memory, DIR, first, first_len, DIR, second, second_len),
        7 => guest.path_symlink(memory, first, first_len, DIR, second, second_len),
        _ => guest.path_unlink_file(memory, DIR, first, first_len),
    }
}
