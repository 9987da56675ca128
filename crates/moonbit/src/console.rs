//! Characters: UTF-16 code units out, code points in.

use std::io;

use legato_wasi::WasiCtx;

/// The state between two characters.
#[derive(Default)]
pub(crate) struct Console {
    /// The first half of a surrogate pair, waiting for the second.
    high: Option<u16>,
}

impl Console {
    /// Prints a code unit, or a whole code point.
    pub fn print(&mut self, wasi: &mut WasiCtx, code: u32) -> io::Result<()> {
        let mut text = String::new();
        match (self.high.take(), u16::try_from(code)) {
            (Some(high), Ok(low @ 0xdc00..0xe000)) => text.extend(char::decode_utf16([high, low]).flatten()),
            (high, Ok(next @ 0xd800..0xdc00)) => {
                text.extend(high.map(|_| char::REPLACEMENT_CHARACTER));
                self.high = Some(next);
            }
            (high, _) => {
                text.extend(high.map(|_| char::REPLACEMENT_CHARACTER));
                text.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
        }
        wasi.write_stdout(text.as_bytes())
    }
}

/// Reads a character in UTF-8; `None` at the end. What is no UTF-8 becomes a replacement character for each byte.
pub(crate) fn read(wasi: &mut WasiCtx) -> io::Result<Option<char>> {
    let mut bytes = [0; 4];
    if wasi.read_stdin(&mut bytes[..1])? == 0 {
        return Ok(None);
    }
    let length = match bytes[0] {
        0xc2..0xe0 => 2,
        0xe0..0xf0 => 3,
        0xf0..0xf5 => 4,
        _ => 1,
    };
    let mut known = 1;
    while known < length {
        match wasi.read_stdin(&mut bytes[known..known + 1])? {
            0 => break,
            count => known += count,
        }
    }
    let text = String::from_utf8_lossy(&bytes[..known]);
    Ok(text.chars().next())
}
