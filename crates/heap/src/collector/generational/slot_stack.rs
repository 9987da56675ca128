//! The slots that a nursery collection has still to visit.

/// A slot that leads to a young object.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Slot {
    pub(super) offset: u32,
    /// What it leads to.
    pub(super) object: u32,
}

/// A stack of slots onto which pushing branches nowhere: which references lead to young objects cannot be predicted.
#[derive(Debug, Default)]
pub(super) struct SlotStack {
    /// The slots, and room for more above them.
    slots: Vec<Slot>,
    count: usize,
}

/// Slots whose room is kept between collections.
const KEPT: usize = 1 << 16;

impl SlotStack {
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
        self.slots.resize((self.count + more).next_power_of_two(), Slot::default());
    }

    /// Takes the slot that was pushed last.
    #[inline(always)]
    pub(super) fn pop(&mut self) -> Option<Slot> {
        self.count = self.count.checked_sub(1)?;
        Some(self.slots[self.count])
    }

    /// Frees what an unusually large collection has left. The stack is empty.
    pub(super) fn trim(&mut self) {
        self.slots.truncate(KEPT);
        self.slots.shrink_to(KEPT);
    }
}
