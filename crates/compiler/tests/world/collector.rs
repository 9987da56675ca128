//! The collector.

use legato_compiler::module::CompositeType;
use legato_heap::layout::COLLECTOR_WORD_OFFSET;
use legato_heap::plan::CollectorWord;
use rustc_hash::{FxHashMap, FxHashSet};

use super::{ENTRY, FIRST_LEAF, World};
use crate::support::{AGES_BELOW, CARDS_BELOW};

/// What collected objects are overwritten with.
const RUBBISH: u8 = 0x5b;

/// Whether a reference leads to an object.
fn is_object(reference: u32) -> bool {
    reference != 0 && reference & 1 == 0
}

impl World {
    /// Marks from the stack, the globals and `kept`, and overwrites what is not reached. Returns where objects have
    /// been moved from and to.
    pub(super) fn collect(&mut self, kept: &[u32]) -> FxHashMap<u32, u32> {
        self.collections += 1;
        self.close_run();
        let maps = &self.module.tables.stack_maps;
        let mut work = Vec::new();
        let mut slots: Vec<*mut u32> = Vec::new();
        // SAFETY: the trampoline that called has just recorded its caller's frame; frames are chained by frame pointers
        // up to the entry trampoline's.
        unsafe {
            let entry_fp = (*ENTRY.get()).fp;
            let (mut fp, mut pc) = ((*self.store).last_exit_fp, (*self.store).last_exit_pc);
            while fp != entry_fp {
                let offset = (pc - self.code as usize) as u32;
                if let Ok(found) = maps.entries.binary_search_by_key(&offset, |entry| entry.offset) {
                    let entry = &maps.entries[found];
                    for &distance in &maps.slots[entry.first as usize..][..entry.count as usize] {
                        let slot = (fp - distance as usize) as *mut u32;
                        work.push(slot.read());
                        slots.push(slot);
                    }
                }
                pc = ((fp + 8) as *const usize).read();
                fp = (fp as *const usize).read();
            }
        }
        self.most_roots = self.most_roots.max(work.len());
        // SAFETY: the context lives as long as the instance.
        work.extend(self.globals.iter().map(|global| unsafe { global.read() }));
        slots.extend(&self.globals);
        work.extend(kept);
        let mut marked = vec![false; self.objects.len()];
        while let Some(reference) = work.pop() {
            if reference == 0 || reference & 1 == 1 {
                continue;
            }
            let number = self
                .objects
                .binary_search_by_key(&reference, |object| object.0)
                .unwrap_or_else(|_| panic!("a root or field holds {reference:#x}, which is no reference"));
            assert!(self.alive[number], "a root or field holds the dead object {number}");
            if std::mem::replace(&mut marked[number], true) {
                continue;
            }
            let (_, object, ty) = self.objects[number];
            work.extend(self.references(ty, object).into_iter().map(|offset| self.read(offset)));
        }
        let mut moved = FxHashMap::default();
        if self.moving {
            self.check_barriers(&marked);
        }
        self.grow_at_collection(&marked);
        if self.moving {
            moved = self.move_objects(&mut marked, &slots);
        } else if self.module.plan.objects_move_at_safepoints {
            let live = marked.iter().enumerate().filter(|(_, marked)| **marked);
            let references: Vec<u32> = live.map(|(number, _)| self.objects[number].0).collect();
            references.into_iter().for_each(|reference| _ = self.move_object(reference));
        }
        for (number, marked) in marked.into_iter().enumerate() {
            if !marked && std::mem::replace(&mut self.alive[number], false) {
                let (_, object, ty) = self.objects[number];
                let bytes = self.size(ty, object);
                // SAFETY: the object lies in the cage.
                unsafe { self.cage.add(object as usize).write_bytes(RUBBISH, bytes as usize) };
            }
        }
        moved
    }
}

impl World {
    /// What compiled code has pushed to the store buffer since the last collection.
    fn stored_slots(&self) -> &[u32] {
        // SAFETY: the mutator context lives as long as the world.
        let cursor = unsafe { (*self.mutator).store_buffer.cursor };
        &self.buffer[..(cursor - self.buffer.as_ptr() as usize) / 4]
    }

    /// Records a reference that is overwritten, as compiled code does.
    pub(super) fn record_overwritten(&self, reference: u32) {
        // SAFETY: the mutator context and the buffer live as long as the world.
        unsafe {
            if (*self.mutator).barrier_state != 0 && is_object(reference) {
                ((*self.mutator).overwritten.cursor as *mut u32).write(reference);
                (*self.mutator).overwritten.cursor += 4;
            }
        }
    }

    /// What has been recorded since the last collection; `None` where nothing is.
    fn recorded(&self) -> Option<FxHashSet<u32>> {
        self.module.plan.store_barrier.before?;
        // SAFETY: the mutator context lives as long as the world.
        let cursor = unsafe { (*self.mutator).overwritten.cursor };
        let count = (cursor - self.overwritten.as_ptr() as usize) / 4;
        Some(self.overwritten[..count].iter().copied().collect())
    }

    /// Each reference that was stored into an object older than the last collection has marked a card, and each that
    /// was overwritten since has been recorded.
    fn check_barriers(&self, marked: &[bool]) {
        let recorded = self.recorded();
        let check_overwritten = |place: &str, at: usize, before: u32, value: u32| {
            if let Some(recorded) = &recorded
                && value != before
                && is_object(before)
            {
                assert!(recorded.contains(&before), "{before:#x} was overwritten in the {place} at {at:#x} unseen");
            }
        };
        for (global, &before) in self.globals.iter().zip(&self.globals_before) {
            // SAFETY: the context lives as long as the instance.
            check_overwritten("global", *global as usize, before, unsafe { global.read() });
        }
        for (&(_, object, ty), _) in self.objects.iter().zip(marked).filter(|(_, marked)| **marked) {
            let is_struct = matches!(self.module.info.types[ty].composite, CompositeType::Struct(_));
            for field in self.references(ty, object) {
                let value = self.read(field);
                let Some(&before) = self.fields_before.get(&field) else { continue };
                check_overwritten("field", field as usize, before, value);
                if self.module.plan.store_barrier.after.is_none() {
                    continue;
                }
                // SAFETY: the table of ages lies below the cage.
                if value == before || value == 0 || value & 1 == 1 || unsafe { *self.age(value) } == 0 {
                    continue;
                }
                if is_struct && self.module.plan.store_barrier.after.is_some_and(|plan| plan.store_buffer.is_some()) {
                    assert!(
                        self.stored_slots().contains(&field),
                        "a store into the field at {field:#x} is not buffered"
                    );
                    continue;
                }
                let card = self.card(if is_struct { object } else { field });
                // SAFETY: the card table lies below the cage.
                assert_eq!(unsafe { *card }, 1, "a store into the field at {field:#x} has marked no card");
            }
        }
    }

    /// Moves every marked object, updates all references to it, and cleans the cards.
    fn move_objects(&mut self, marked: &mut Vec<bool>, slots: &[*mut u32]) -> FxHashMap<u32, u32> {
        let mut moved = FxHashMap::default();
        let mut copies = Vec::new();
        let mut staying = Vec::new();
        for (number, _) in marked.iter().enumerate().filter(|(_, marked)| **marked) {
            let (_, object, ty) = self.objects[number];
            let bytes = self.size(ty, object);
            if self.has_homes(ty, object) {
                staying.push(number);
                continue;
            }
            let copy = self.next_object;
            self.next_object += bytes;
            // SAFETY: both ranges lie in the cage, the copy's behind every object.
            unsafe {
                let to = self.cage.add(copy as usize);
                to.copy_from_nonoverlapping(self.cage.add(object as usize), bytes as usize);
            }
            self.point_to_remainder(ty, copy);
            if self.module.plan.references.collector_word == CollectorWord::Reference {
                self.write(copy + COLLECTOR_WORD_OFFSET, copy);
            }
            moved.insert(object, copy);
            copies.push((copy, copy, ty));
        }
        marked.fill(false);
        self.fields_before.clear();
        // SAFETY: the mutator context and the buffer live as long as the world.
        unsafe {
            (*self.mutator).store_buffer.cursor = self.buffer.as_ptr() as usize;
            (*self.mutator).overwritten.cursor = self.overwritten.as_ptr() as usize;
        }
        let stayed = staying.iter().map(|&number| self.objects[number]);
        for (_, copy, ty) in copies.iter().copied().chain(stayed).collect::<Vec<_>>() {
            for field in self.references(ty, copy) {
                let value = self.read(field);
                let value = moved.get(&value).copied().unwrap_or(value);
                self.write(field, value);
                self.fields_before.insert(field, value);
            }
        }
        for &slot in slots {
            // SAFETY: the frames still stand. Slots named by two maps are updated once: a copy is no moved object.
            unsafe { slot.write(moved.get(&slot.read()).copied().unwrap_or(slot.read())) };
        }
        // SAFETY: the context lives as long as the instance.
        self.globals_before = self.globals.iter().map(|global| unsafe { global.read() }).collect();
        // What is allocated from now on is young, in blocks of its own.
        self.next_object = self.next_object.next_multiple_of(1 << 15);
        // SAFETY: the table of ages lies below the cage.
        unsafe { self.age(0).write_bytes(0, (AGES_BELOW - CARDS_BELOW) as usize) };
        // Leaves stay where they are, and so do spines with room.
        let cards = (self.next_leaf - FIRST_LEAF).div_ceil(512) as usize;
        // SAFETY: the card table lies below the cage.
        unsafe { self.card(FIRST_LEAF).write_bytes(0, cards) };
        for &number in &staying {
            let (_, object, ty) = self.objects[number];
            let cards = (self.size(ty, object) / 512 + 1) as usize;
            // SAFETY: the card table lies below the cage.
            unsafe { self.card(object).write_bytes(0, cards) };
            marked[number] = true;
        }
        marked.extend(copies.iter().map(|_| true));
        self.alive.extend(copies.iter().map(|_| true));
        self.objects.extend(copies);
        moved
    }
}
