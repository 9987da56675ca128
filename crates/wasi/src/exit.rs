//! The two ways in which a guest ends itself.

/// The guest called `proc_exit`. Surfaces as the error of the call into the guest; zero means success.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the guest exited with status {0}")]
pub struct I32Exit(
    /// The exit status that the guest gave.
    pub i32,
);

impl I32Exit {
    /// The status as a process can report it, 0 to 255: a status beyond that keeps its low byte as on Unix, but never
    /// turns into success.
    pub fn process_exit_code(self) -> i32 {
        match self.0 & 0xff {
            0 if self.0 != 0 => 1,
            code => code,
        }
    }
}

/// The guest raised a signal (`proc_raise`) whose default action ends a process. Surfaces as the error of the call into
/// the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the guest raised signal {0}")]
pub struct RaisedSignal(
    /// The signal's number in preview 1.
    pub u8,
);

impl RaisedSignal {
    /// A pipe without a reader was written to.
    pub const PIPE: RaisedSignal = RaisedSignal(13);

    /// The status with which a shell reports such an end: 128 plus the signal's number on Linux, which knows one signal
    /// (16) that preview 1 leaves out.
    pub fn process_exit_code(self) -> i32 {
        128 + i32::from(self.0) + i32::from(self.0 >= 16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failure_never_becomes_success() {
        let code = |status| I32Exit(status).process_exit_code();
        assert_eq!(code(0), 0);
        assert_eq!(code(7), 7);
        assert_eq!(code(-1), 255);
        assert_eq!(code(256), 1);
    }
}
