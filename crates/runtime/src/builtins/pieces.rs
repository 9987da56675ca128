//! Large ranges, piece by piece, so that an interruption need not wait for the whole.

use std::ops::Range;

use legato_compiler::artifact::TrapCode;

use crate::vm::InterruptState;

/// Bytes of memories and tables that are handled at once: well below a millisecond.
const PIECE_BYTES: usize = 1 << 20;

/// Bytes of arrays that are handled at once. More, since whole leaves and pages can be shared, and a piece may end
/// within one.
const ARRAY_PIECE_BYTES: usize = 16 << 20;

/// The pieces of a range that begins at 0. There is at least one, which may be empty. Most ranges are one short piece,
/// which must cost nothing more.
#[derive(Debug)]
pub(crate) struct Pieces {
    rest: Range<usize>,
    /// Length of a piece.
    length: usize,
    backwards: bool,
    begun: bool,
}

impl Pieces {
    /// `count` elements of `element_bytes` in a memory or table.
    #[inline(always)]
    pub(crate) fn new(count: u64, element_bytes: usize) -> Pieces {
        Pieces::of_length(count, PIECE_BYTES / element_bytes)
    }

    /// `count` elements of `element_bytes` of an array.
    #[inline(always)]
    pub(super) fn of_array(count: u32, element_bytes: usize) -> Pieces {
        Pieces::of_length(count.into(), ARRAY_PIECE_BYTES / element_bytes)
    }

    /// `count` elements at once: for the host's own work, which no interruption of compiled code ends.
    pub(crate) fn whole(count: u64) -> Pieces {
        Pieces::of_length(count, usize::MAX)
    }

    #[inline(always)]
    fn of_length(count: u64, length: usize) -> Pieces {
        Pieces { rest: 0..count as usize, length, backwards: false, begun: false }
    }

    /// The same pieces, the last first where `backwards`: for copies whose target lies behind their source.
    #[inline(always)]
    pub(super) fn backwards_if(self, backwards: bool) -> Pieces {
        Pieces { backwards, ..self }
    }

    /// Elements in all pieces that are left.
    pub(crate) fn count(&self) -> u64 {
        self.rest.len() as u64
    }

    /// Whether there are more pieces than one.
    #[inline(always)]
    pub(super) fn are_several(&self) -> bool {
        self.rest.len() > self.length
    }

    /// Does `work` on each piece.
    ///
    /// # Errors
    /// As for [`next`](Self::next).
    #[inline(always)]
    pub(crate) fn each(self, interrupt: &InterruptState, mut work: impl FnMut(Range<usize>)) -> Result<(), TrapCode> {
        if self.are_several() {
            return self.each_of_several(interrupt, &mut work);
        }
        work(self.rest);
        Ok(())
    }

    #[cold]
    fn each_of_several(
        mut self,
        interrupt: &InterruptState,
        work: &mut dyn FnMut(Range<usize>),
    ) -> Result<(), TrapCode> {
        while let Some(piece) = self.next(interrupt)? {
            work(piece);
        }
        Ok(())
    }

    /// The next piece, if there is one.
    ///
    /// # Errors
    /// [`TrapCode::Interrupt`] where an interruption waits, between two pieces; it is answered then.
    pub(crate) fn next(&mut self, interrupt: &InterruptState) -> Result<Option<Range<usize>>, TrapCode> {
        if self.begun {
            if self.rest.is_empty() {
                return Ok(None);
            }
            if interrupt.answer() {
                return Err(TrapCode::Interrupt);
            }
        }
        self.begun = true;
        let Range { start, end } = self.rest;
        let length = self.length.min(end - start);
        Ok(Some(match self.backwards {
            false => {
                self.rest.start = start + length;
                start..start + length
            }
            true => {
                self.rest.end = end - length;
                end - length..end
            }
        }))
    }
}
