//! A stack in chunks: growing copies nothing, so that no push takes long, however deep the stack is.

/// Entries of a chunk: pages of memory that the allocator maps at once.
const ENTRIES: usize = 4096;
/// Empty chunks that are kept for the next use.
const KEPT: usize = 16;

/// A stack of `T`.
#[derive(Debug)]
pub(crate) struct ChunkedStack<T> {
    /// The entries on top; those from `length` on mean nothing.
    top: Box<[T]>,
    length: usize,
    /// Full chunks below, and empty ones, each with what is linked behind it.
    below: List<T>,
    empty: List<T>,
    empty_count: usize,
}

/// A list of chunks.
type List<T> = Option<Box<Link<T>>>;

#[derive(Debug)]
struct Link<T> {
    chunk: Box<[T]>,
    next: List<T>,
}

impl<T: Copy + Default> ChunkedStack<T> {
    /// An empty stack. Takes no memory yet.
    pub(crate) fn new() -> ChunkedStack<T> {
        ChunkedStack { top: Box::default(), length: 0, below: None, empty: None, empty_count: 0 }
    }

    /// Puts a value on top.
    #[inline(always)]
    pub(crate) fn push(&mut self, value: T) {
        match self.top.get_mut(self.length) {
            Some(slot) => {
                *slot = value;
                self.length += 1;
            }
            None => self.push_to_new_chunk(value),
        }
    }

    #[cold]
    #[inline(never)]
    fn push_to_new_chunk(&mut self, value: T) {
        let mut link = match self.empty.take() {
            Some(link) => link,
            None => Box::new(Link { chunk: vec![T::default(); ENTRIES].into(), next: None }),
        };
        self.empty = link.next.take();
        self.empty_count = self.empty_count.saturating_sub(1);
        std::mem::swap(&mut self.top, &mut link.chunk);
        // The very first chunk has nothing below it.
        if !link.chunk.is_empty() {
            link.next = self.below.take();
            self.below = Some(link);
        }
        self.top[0] = value;
        self.length = 1;
    }

    /// Takes the topmost value off.
    #[inline(always)]
    pub(crate) fn pop(&mut self) -> Option<T> {
        let index = self.length.wrapping_sub(1);
        match self.top.get(index) {
            Some(&value) => {
                self.length = index;
                Some(value)
            }
            None => self.pop_from_chunk_below(),
        }
    }

    #[cold]
    #[inline(never)]
    fn pop_from_chunk_below(&mut self) -> Option<T> {
        let mut link = self.below.take()?;
        self.below = link.next.take();
        std::mem::swap(&mut self.top, &mut link.chunk);
        link.next = self.empty.take();
        self.empty = Some(link);
        self.empty_count += 1;
        self.length = ENTRIES - 1;
        Some(self.top[self.length])
    }

    /// Frees an empty chunk if there are more than are kept for the next use; returns whether there were.
    pub(crate) fn free_one(&mut self) -> bool {
        let is_over = self.empty_count > KEPT;
        if is_over && let Some(mut link) = self.empty.take() {
            self.empty = link.next.take();
            self.empty_count -= 1;
        }
        is_over
    }
}

impl<T> Drop for ChunkedStack<T> {
    fn drop(&mut self) {
        // One after the other: a list that drops itself recurses.
        for list in [&mut self.below, &mut self.empty] {
            while let Some(mut link) = list.take() {
                *list = link.next.take();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_pushed_last_is_popped_first() {
        let mut stack = ChunkedStack::new();
        assert_eq!(stack.pop(), None);
        for count in [1, ENTRIES - 1, ENTRIES, ENTRIES + 1, 40 * ENTRIES] {
            (0..count as u32).for_each(|value| stack.push(value));
            assert!((0..count as u32).rev().all(|value| stack.pop() == Some(value)));
            assert_eq!(stack.pop(), None);
        }
        // To and fro over the edge of a chunk.
        (0..ENTRIES as u32).for_each(|value| stack.push(value));
        for _ in 0..3 {
            stack.push(7);
            assert_eq!((stack.pop(), stack.pop()), (Some(7), Some(ENTRIES as u32 - 1)));
            stack.push(ENTRIES as u32 - 1);
        }
        while stack.free_one() {}
        assert_eq!(stack.empty_count, KEPT);
    }

    #[test]
    fn a_deep_stack_is_dropped_without_recursion() {
        let mut stack = ChunkedStack::new();
        (0..2_000 * ENTRIES as u64).for_each(|value| stack.push(value));
        drop(stack);
    }
}
