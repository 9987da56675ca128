//! The error numbers of preview 1, and how the host's errors map to them.

use std::io;

macro_rules! errnos {
    ($($(#[$doc:meta])* $name:ident = $value:literal,)*) => {
        /// An error number of WASI preview 1. Success, number 0, is `Ok` here.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u16)]
        pub enum Errno {
            $($(#[$doc])* $name = $value,)*
        }
    };
}

errnos! {
    /// Argument list too long.
    TooBig = 1,
    /// Permission denied by the host's file modes.
    Acces = 2,
    /// Resource unavailable, or the operation would block.
    Again = 6,
    /// Bad file descriptor.
    Badf = 8,
    /// Device or resource busy.
    Busy = 10,
    /// Connection reset.
    Connreset = 15,
    /// Resource deadlock would occur.
    Deadlk = 16,
    /// Disk quota exceeded.
    Dquot = 19,
    /// File exists.
    Exist = 20,
    /// A pointer outside the guest's memory.
    Fault = 21,
    /// File too large.
    Fbig = 22,
    /// Illegal byte sequence: a path that is not UTF-8.
    Ilseq = 25,
    /// Interrupted.
    Intr = 27,
    /// Invalid argument.
    Inval = 28,
    /// Input/output error.
    Io = 29,
    /// Is a directory.
    Isdir = 31,
    /// Too many levels of symbolic links.
    Loop = 32,
    /// Too many open files in this process.
    Mfile = 33,
    /// Too many links.
    Mlink = 34,
    /// File name too long.
    Nametoolong = 37,
    /// Too many open files in the system.
    Nfile = 41,
    /// No such device.
    Nodev = 43,
    /// No such file or directory.
    Noent = 44,
    /// No locks available.
    Nolck = 46,
    /// Not enough memory.
    Nomem = 48,
    /// No space left on device.
    Nospc = 51,
    /// Function not supported.
    Nosys = 52,
    /// Not a directory.
    Notdir = 54,
    /// Directory not empty.
    Notempty = 55,
    /// Not a socket.
    Notsock = 57,
    /// Not supported.
    Notsup = 58,
    /// Inappropriate input/output control operation.
    Notty = 59,
    /// No such device or address.
    Nxio = 60,
    /// Value too large.
    Overflow = 61,
    /// Operation not permitted: among others, a path that leads out of its directory.
    Perm = 63,
    /// Broken pipe.
    Pipe = 64,
    /// Result out of range.
    Range = 68,
    /// Read-only file system.
    Rofs = 69,
    /// Seek on something that has no position.
    Spipe = 70,
    /// Stale file handle.
    Stale = 72,
    /// Timed out.
    Timedout = 73,
    /// Text file busy.
    Txtbsy = 74,
    /// Link across file systems.
    Xdev = 75,
    /// The descriptor lacks the right that the call needs.
    Notcapable = 76,
}

impl Errno {
    /// The number as it crosses to the guest.
    pub fn raw(self) -> u16 {
        self as u16
    }
}

impl From<io::Error> for Errno {
    fn from(error: io::Error) -> Self {
        if let Some(errno) = crate::os::errno(&error) {
            return errno;
        }
        match error.kind() {
            io::ErrorKind::NotFound => Errno::Noent,
            // cap-std reports a path that would lead out of its directory as this kind, without a number.
            io::ErrorKind::PermissionDenied => Errno::Perm,
            io::ErrorKind::AlreadyExists => Errno::Exist,
            io::ErrorKind::InvalidInput | io::ErrorKind::InvalidFilename => Errno::Inval,
            io::ErrorKind::InvalidData => Errno::Ilseq,
            io::ErrorKind::WouldBlock => Errno::Again,
            io::ErrorKind::TimedOut => Errno::Timedout,
            io::ErrorKind::Interrupted => Errno::Intr,
            io::ErrorKind::BrokenPipe => Errno::Pipe,
            io::ErrorKind::NotADirectory => Errno::Notdir,
            io::ErrorKind::IsADirectory => Errno::Isdir,
            io::ErrorKind::DirectoryNotEmpty => Errno::Notempty,
            io::ErrorKind::ReadOnlyFilesystem => Errno::Rofs,
            io::ErrorKind::StorageFull => Errno::Nospc,
            io::ErrorKind::FileTooLarge => Errno::Fbig,
            io::ErrorKind::CrossesDevices => Errno::Xdev,
            io::ErrorKind::Unsupported => Errno::Notsup,
            io::ErrorKind::OutOfMemory => Errno::Nomem,
            _ => Errno::Io,
        }
    }
}

impl From<std::num::TryFromIntError> for Errno {
    fn from(_: std::num::TryFromIntError) -> Self {
        Errno::Overflow
    }
}
