//! `args_*` and `environ_*`: lists of zero-terminated strings.

use crate::ctx::WasiCtx;
use crate::errno::Errno;
use crate::memory::GuestMemory;

impl WasiCtx {
    /// Writes the number of arguments and the bytes that they take with their terminators.
    pub fn args_sizes_get(&mut self, memory: &mut GuestMemory<'_>, count: u32, bytes: u32) -> Result<(), Errno> {
        write_sizes(&self.args, memory, count, bytes)
    }

    /// Writes the arguments to `buffer` and their addresses to `pointers`.
    pub fn args_get(&mut self, memory: &mut GuestMemory<'_>, pointers: u32, buffer: u32) -> Result<(), Errno> {
        write_strings(&self.args, memory, pointers, buffer)
    }

    /// Writes the number of environment variables and the bytes that they take with their terminators.
    pub fn environ_sizes_get(&mut self, memory: &mut GuestMemory<'_>, count: u32, bytes: u32) -> Result<(), Errno> {
        write_sizes(&self.env, memory, count, bytes)
    }

    /// Writes the environment, as `KEY=VALUE`, to `buffer` and the variables' addresses to `pointers`.
    pub fn environ_get(&mut self, memory: &mut GuestMemory<'_>, pointers: u32, buffer: u32) -> Result<(), Errno> {
        write_strings(&self.env, memory, pointers, buffer)
    }
}

fn write_sizes(strings: &[String], memory: &mut GuestMemory<'_>, count: u32, bytes: u32) -> Result<(), Errno> {
    let total: usize = strings.iter().map(|string| string.len() + 1).sum();
    memory.write_u32(count, u32::try_from(strings.len())?)?;
    memory.write_u32(bytes, u32::try_from(total)?)
}

fn write_strings(
    strings: &[String],
    memory: &mut GuestMemory<'_>,
    mut pointer: u32,
    mut buffer: u32,
) -> Result<(), Errno> {
    for string in strings {
        memory.write_u32(pointer, buffer)?;
        memory.write(buffer, string.as_bytes())?;
        let end = buffer.checked_add(u32::try_from(string.len())?).ok_or(Errno::Fault)?;
        memory.write_u8(end, 0)?;
        buffer = end.checked_add(1).ok_or(Errno::Fault)?;
        pointer = pointer.checked_add(4).ok_or(Errno::Fault)?;
    }
    Ok(())
}
