//! The slots that a nursery collection has still to visit.

/// A slot that leads to a young object.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Slot {
    pub(super) offset: u32,
    /// What it leads to.
    pub(super) object: u32,
}

/// A stack of slots. Whether a slot that is pushed is wanted is not branched on: which references lead to young objects
/// cannot be predicted.
#[derive(Debug, Default)]
pub(super) struct SlotStack {
    /// The slots, and room for more above them.
    slots: Vec<Slot>,
    count: usize,
}

/// A stack of so many slots is high.
const HIGH: usize = 1 << 14;

impl SlotStack {
    /// Whether objects should rather wait as a whole: each has fewer bytes to wait in than its slots.
    #[inline(always)]
    pub(super) fn is_high(&self) -> bool {
        self.count >= HIGH
    }

    /// Pushes those of at most `most` slots that are wanted.
    #[inline(always)]
    pub(super) fn push(&mut self, most: usize, slots: impl Iterator<Item = Slot>, is_wanted: impl Fn(Slot) -> bool) {
        if self.count + most > self.slots.len() {
            self.grow(most);
        }
        let (mut count, room) = (self.count, self.slots.as_mut_slice());
        for slot in slots {
            room[count] = slot;
            count += usize::from(is_wanted(slot));
        }
        self.count = count;
    }

    #[cold]
    fn grow(&mut self, more: usize) {
        self.slots.resize((2 * self.slots.len()).max(self.count + more), Slot::default());
    }

    /// Takes the slot that was pushed last.
    #[inline(always)]
    pub(super) fn pop(&mut self) -> Option<Slot> {
        self.count = self.count.checked_sub(1)?;
        Some(self.slots[self.count])
    }

    /// Frees what an unusually large collection has left. The stack is empty.
    pub(super) fn trim(&mut self) {
        self.slots.truncate(2 * HIGH);
        self.slots.shrink_to(2 * HIGH);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slots(offsets: std::ops::Range<u32>) -> impl Iterator<Item = Slot> {
        offsets.map(|offset| Slot { offset, object: 8 * offset })
    }

    #[test]
    fn what_is_wanted_comes_out_last_pushed_first() {
        let mut stack = SlotStack::default();
        let is_even = |slot: Slot| slot.offset.is_multiple_of(2);
        stack.push(3, slots(1..4), is_even);
        // Grows with a slot on it.
        stack.push(100, slots(10..110), is_even);
        assert!(!stack.is_high());
        let mut popped = std::iter::from_fn(|| stack.pop()).map(|slot| (slot.offset, slot.object));
        assert!(popped.by_ref().take(50).eq((10..110).rev().filter(|offset| offset % 2 == 0).map(|it| (it, 8 * it))));
        assert_eq!((popped.next(), popped.next()), (Some((2, 16)), None));
    }

    #[test]
    fn a_high_stack_keeps_little_once_it_is_empty() {
        let mut stack = SlotStack::default();
        stack.push(10 * HIGH, slots(0..10 * HIGH as u32), |_| true);
        // Has no room for another, and needs none.
        stack.push(0, slots(0..0), |_| true);
        assert!(stack.is_high());
        assert_eq!(std::iter::from_fn(|| stack.pop()).count(), 10 * HIGH);
        stack.trim();
        assert!(stack.slots.len() <= 2 * HIGH && !stack.is_high());
        stack.push(5, slots(0..5), |_| true);
        assert_eq!(stack.pop(), Some(Slot { offset: 4, object: 32 }));
    }
}
