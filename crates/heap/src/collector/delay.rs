//! A short queue between asking for a cache line and looking at it.

/// A queue of fixed length `N`, a power of two: what goes in comes out `N` turns later. The default value stands for
/// nothing.
#[derive(Debug)]
pub(crate) struct Delay<T, const N: usize> {
    waiting: [T; N],
    next: usize,
}

impl<T: Copy + Default, const N: usize> Delay<T, N> {
    /// A queue full of nothing.
    pub(crate) fn new() -> Delay<T, N> {
        Delay { waiting: [T::default(); N], next: 0 }
    }

    /// Puts a value in, and takes the one out that has waited longest.
    #[inline(always)]
    pub(crate) fn exchange(&mut self, value: T) -> T {
        let slot = &mut self.waiting[self.next % N];
        self.next = self.next.wrapping_add(1);
        std::mem::replace(slot, value)
    }
}

impl<T: Copy + Default, const N: usize> Default for Delay<T, N> {
    fn default() -> Delay<T, N> {
        Delay::new()
    }
}
