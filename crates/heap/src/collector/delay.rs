//! A short queue between asking for a cache line and looking at it.

/// A queue of at most `N` values, a power of two: what goes in comes out when `N` others have, or when there is nothing
/// better to do than to wait for its cache line.
#[derive(Debug)]
pub(crate) struct Delay<T, const N: usize> {
    waiting: [T; N],
    /// The place of the value that has waited longest, and how many wait.
    first: usize,
    count: usize,
}

impl<T: Copy + Default, const N: usize> Delay<T, N> {
    /// An empty queue.
    pub(crate) fn new() -> Delay<T, N> {
        const { assert!(N.is_power_of_two()) };
        Delay { waiting: [T::default(); N], first: 0, count: 0 }
    }

    /// Puts a value in; where the queue was full, the one that has waited longest comes out.
    #[inline(always)]
    pub(crate) fn push(&mut self, value: T) -> Option<T> {
        if self.count < N {
            self.waiting[self.first.wrapping_add(self.count) % N] = value;
            self.count += 1;
            return None;
        }
        let longest = std::mem::replace(&mut self.waiting[self.first % N], value);
        self.first = self.first.wrapping_add(1);
        Some(longest)
    }

    /// Takes out the value that has waited longest.
    #[inline(always)]
    pub(crate) fn pop(&mut self) -> Option<T> {
        if self.count == 0 {
            return None;
        }
        let longest = self.waiting[self.first % N];
        self.first = self.first.wrapping_add(1);
        self.count -= 1;
        Some(longest)
    }
}

impl<T: Copy + Default, const N: usize> Default for Delay<T, N> {
    fn default() -> Delay<T, N> {
        Delay::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_out_in_the_order_in_which_they_went_in() {
        let mut queue = Delay::<u32, 4>::new();
        for start in [1, 10, 30] {
            let mut out: Vec<u32> = (start..start + 9).filter_map(|value| queue.push(value)).collect();
            assert_eq!(out.len(), 5, "four wait");
            out.extend(std::iter::from_fn(|| queue.pop()));
            assert_eq!(out, Vec::from_iter(start..start + 9));
            // At another place of the ring the next time.
            assert_eq!((queue.push(0), queue.pop(), queue.pop()), (None, Some(0), None));
        }
    }
}
