//! Where records go: behind the last one, or where released ones have been.

use std::collections::{BTreeMap, BTreeSet};

/// The room in a table's memory. Offsets and sizes are in bytes.
#[derive(Debug)]
pub(super) struct Room {
    /// Behind the last record.
    pub(super) end: u32,
    /// Released room before the end, by its start. No two pieces are neighbours, and none ends at the end.
    free: BTreeMap<u32, u32>,
    /// The same by size.
    by_size: BTreeSet<(u32, u32)>,
    /// Indices of descriptions below the count that are in use no more.
    indices: Vec<u32>,
    /// Descriptions that there have been at most.
    count: u32,
}

impl Room {
    pub(super) fn new(start: u32) -> Room {
        Room { end: start, free: BTreeMap::new(), by_size: BTreeSet::new(), indices: Vec::new(), count: 0 }
    }

    /// Where a record of so many bytes goes: in the smallest piece of released room that is large enough, else behind
    /// the last one.
    pub(super) fn take(&mut self, bytes: u32) -> u32 {
        let Some(&(size, start)) = self.by_size.range((bytes, 0)..).next() else {
            self.end += bytes;
            return self.end - bytes;
        };
        self.remove(start, size);
        if size > bytes {
            self.insert(start + bytes, size - bytes);
        }
        start
    }

    /// Takes back the room of a record.
    pub(super) fn give_back(&mut self, mut start: u32, mut bytes: u32) {
        if let Some((&before, &size)) = self.free.range(..start).next_back()
            && before + size == start
        {
            self.remove(before, size);
            (start, bytes) = (before, size + bytes);
        }
        if let Some(&size) = self.free.get(&(start + bytes)) {
            self.remove(start + bytes, size);
            bytes += size;
        }
        match start + bytes == self.end {
            true => self.end = start,
            false => self.insert(start, bytes),
        }
    }

    /// The index of one more description.
    pub(super) fn take_index(&mut self) -> u32 {
        self.indices.pop().unwrap_or_else(|| {
            self.count += 1;
            self.count - 1
        })
    }

    /// Takes back the index of a description.
    pub(super) fn give_back_index(&mut self, index: u32) {
        self.indices.push(index);
    }

    /// Descriptions in use.
    pub(super) fn in_use(&self) -> usize {
        self.count as usize - self.indices.len()
    }

    fn insert(&mut self, start: u32, bytes: u32) {
        self.free.insert(start, bytes);
        self.by_size.insert((bytes, start));
    }

    fn remove(&mut self, start: u32, bytes: u32) {
        self.free.remove(&start);
        self.by_size.remove(&(bytes, start));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_taken_overlaps_nothing_and_comes_back_whole(
            steps in prop::collection::vec((any::<bool>(), 1u32..40, any::<prop::sample::Index>()), 1..300)
        ) {
            let mut room = Room::new(64);
            let mut taken: Vec<(u32, u32, u32)> = Vec::new();
            for (takes, words, which) in steps {
                if takes || taken.is_empty() {
                    let bytes = 8 * words;
                    let (start, index) = (room.take(bytes), room.take_index());
                    prop_assert!(start >= 64 && start + bytes <= room.end);
                    let is_apart =
                        |&(other, size, i): &(u32, u32, u32)| i != index && (other + size <= start || start + bytes <= other);
                    prop_assert!(taken.iter().all(is_apart));
                    taken.push((start, bytes, index));
                } else {
                    let (start, bytes, index) = taken.swap_remove(which.index(taken.len()));
                    room.give_back(start, bytes);
                    room.give_back_index(index);
                }
                let held: u32 = taken.iter().map(|&(_, bytes, _)| bytes).sum();
                prop_assert_eq!(room.free.values().sum::<u32>() + held, room.end - 64);
                prop_assert_eq!(room.in_use(), taken.len());
                prop_assert!(room.by_size.iter().map(|&(bytes, start)| (start, bytes)).collect::<BTreeMap<_, _>>() == room.free);
            }
            for (start, bytes, index) in taken {
                room.give_back(start, bytes);
                room.give_back_index(index);
            }
            prop_assert_eq!((room.end, room.free.len(), room.in_use()), (64, 0, 0));
        }
    }
}
