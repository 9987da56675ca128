//! The table that types are registered in, shared by any number of heaps.
//!
//! Records lie in a reservation that is committed as it grows, so that its base address never changes and compiled code
//! may hold it. Registration takes a lock; every look-up is free of locks: a [`TypeId`] is known only to those who
//! learnt it after its record was written. The room of released types is used again.

mod room;
#[cfg(test)]
mod tests;

use self::room::Room;
use crate::error::HeapError;
use crate::layout::{HEADER_BYTES, StorageKind, StructLayout};
use crate::os::Reservation;
use crate::os::limits::AddressSpace;
use crate::types::{MIN_DISPLAY, TypeId, TypeInfo, TypeKind, TypeRecord, TypeShape};
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Address space for records: some 3.5 million types of ordinary depth.
const RESERVED_BYTES: usize = 256 << 20;
/// Where address space is limited, at most one part in so many of what is left, but never less than the second
/// constant.
const RESERVED_PART: u64 = 16;
const LEAST_RESERVED_BYTES: usize = 1 << 20;
/// Records are committed in steps of this many bytes.
const COMMIT_STEP: u32 = 256 << 10;
/// The first record's offset; 0 is no type.
const FIRST: u32 = 64;
/// The largest struct, in bytes: a field's offset stays far below the cage's guard.
const MAX_STRUCT_BYTES: u32 = 16 << 20;
/// Entries of the first chunk of descriptions; each further chunk doubles.
const FIRST_CHUNK: usize = 256;

/// What the table keeps of a type besides its record.
#[derive(Debug)]
struct Entry {
    id: TypeId,
    info: TypeInfo,
    layout: Option<StructLayout>,
    /// Offsets of a struct's traced fields.
    references: Box<[u32]>,
}

/// Descriptions, each a box or null.
type Chunk = OnceLock<Box<[AtomicPtr<Entry>]>>;

/// What a lock guards.
#[derive(Debug)]
struct State {
    room: Room,
    /// Bytes that are accessible.
    committed: u32,
}

/// The registered types.
#[derive(Debug)]
pub struct TypeTable {
    memory: Reservation,
    chunks: [Chunk; 16],
    state: Mutex<State>,
    /// The end of the room, to be read without the lock.
    published: AtomicU32,
}

/// Bytes of address space for records, under this limit.
fn reserved(space: Option<AddressSpace>) -> usize {
    let Some(space) = space else { return RESERVED_BYTES };
    let bytes = (space.left() / RESERVED_PART).min(RESERVED_BYTES as u64) as usize;
    (bytes - bytes % LEAST_RESERVED_BYTES).max(LEAST_RESERVED_BYTES)
}

impl TypeTable {
    /// The built-in type of host values.
    pub const EXTERNAL: TypeId = TypeId(FIRST);

    /// A table that holds [`EXTERNAL`](Self::EXTERNAL) alone.
    ///
    /// # Errors
    /// [`HeapError::System`] where the system refuses address space.
    pub fn new() -> Result<Arc<TypeTable>, HeapError> {
        let table = TypeTable {
            memory: Reservation::new(reserved(AddressSpace::of_process()), "address space for the type table")?,
            chunks: [const { OnceLock::new() }; 16],
            state: Mutex::new(State { room: Room::new(FIRST), committed: 0 }),
            published: AtomicU32::new(FIRST),
        };
        let external = table.register(TypeInfo { shape: TypeShape::External, supertype: None })?;
        assert_eq!(external, TypeTable::EXTERNAL);
        Ok(Arc::new(table))
    }

    /// Registers a type. Every call makes a new type, also for equal descriptions: identity is the embedder's matter.
    ///
    /// # Errors
    /// [`HeapError::InvalidType`] where the supertype is unknown, of another kind or no prefix of the type, or where a
    /// struct is too large; [`HeapError::TypeTableFull`], [`HeapError::System`].
    pub fn register(&self, info: TypeInfo) -> Result<TypeId, HeapError> {
        self.register_with_reference_free(info, &[])
    }

    /// As [`register`](Self::register), of a struct (or an array, whose element has index 0) some of whose fields, by
    /// their indices, only ever lead to objects without references of their own: to final types of numbers, like a
    /// string's characters. Such objects are marked without being looked at. What is said of other fields than
    /// references, and of exceptions, changes nothing.
    ///
    /// # Errors
    /// As for [`register`](Self::register).
    pub fn register_with_reference_free(&self, info: TypeInfo, fields: &[usize]) -> Result<TypeId, HeapError> {
        let mut described = describe(&info)?;
        described.record.reference_free = described.reference_free(&info, fields);
        if let Some(supertype) = info.supertype {
            self.check_supertype(&info, supertype)?;
        }
        // A panic while the lock is held leaves at worst unused room: the state is good.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let depth = info.supertype.map_or(0, |supertype| self.record(supertype).display_length);
        let display_length = depth + 1;
        let bytes = record_bytes(display_length);
        let (id, index) = self.take(&mut state, bytes)?;
        let record = TypeRecord { display_length, info: index, ..described.record };
        let address = self.memory.base().wrapping_add(id.0 as usize);
        // SAFETY: the record's range is committed, nobody knows its id, or knows it any more, and the lock is held. A
        // supertype's display is complete. Casts read the first entries of any display: those that it has not are 0.
        unsafe {
            address.write_bytes(0, bytes as usize);
            address.cast::<TypeRecord>().write(record);
            let display = address.add(TypeRecord::DISPLAY_OFFSET as usize).cast::<u32>();
            if let Some(supertype) = info.supertype {
                std::ptr::copy_nonoverlapping(self.display(supertype), display, depth as usize);
            }
            display.add(depth as usize).write(id.0);
        }
        let entry = Entry { id, info, layout: described.layout, references: described.references };
        let (chunk, index) = chunk_of(index as usize);
        let chunk =
            self.chunks[chunk].get_or_init(|| (0..FIRST_CHUNK << chunk).map(|_| AtomicPtr::default()).collect());
        let before = chunk[index].swap(Box::into_raw(Box::new(entry)), Ordering::Release);
        assert!(before.is_null(), "a record describes one type at a time");
        self.published.store(state.room.end, Ordering::Release);
        Ok(id)
    }

    /// Takes room for one more record: the result has its id, and the index of its description.
    fn take(&self, state: &mut State, bytes: u32) -> Result<(TypeId, u32), HeapError> {
        let (start, index) = (state.room.take(bytes), state.room.take_index());
        let end = start + bytes;
        let made = if end as usize > self.memory.bytes() || chunk_of(index as usize).0 >= self.chunks.len() {
            Err(HeapError::TypeTableFull(state.room.in_use() - 1))
        } else if end > state.committed {
            let step = (end - state.committed).next_multiple_of(COMMIT_STEP);
            let step = step.min(self.memory.bytes() as u32 - state.committed);
            self.memory.commit(state.committed as usize, step as usize).map(|()| state.committed += step)
        } else {
            Ok(())
        };
        if let Err(error) = made {
            state.room.give_back(start, bytes);
            state.room.give_back_index(index);
            return Err(error);
        }
        Ok((TypeId(start), index))
    }

    /// Forgets a type. Its id, and the memory of its record and description, may become another type's.
    ///
    /// # Safety
    /// Nobody uses `id` any more, nor what this table has lent of it: no heap has objects of the type, no registered
    /// type is below it, and no compiled code, nor any other thread, asks for it. Nor does another thread ask meanwhile
    /// for an id that this table has not given to it. It is not [`EXTERNAL`](Self::EXTERNAL).
    ///
    /// # Panics
    /// If `id` is not of this table.
    pub unsafe fn release(&self, id: TypeId) {
        let record = *self.record(id);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (chunk, index) = chunk_of(record.info as usize);
        let chunk = self.chunks[chunk].get().expect("a registered type has a description");
        let entry = chunk[index].swap(std::ptr::null_mut(), Ordering::Relaxed);
        assert!(!entry.is_null(), "{id:?} is released once");
        // SAFETY: the table's own box, which nobody else frees; by the caller's promise nobody borrows it.
        drop(unsafe { Box::from_raw(entry) });
        state.room.give_back(id.0, record_bytes(record.display_length));
        state.room.give_back_index(record.info);
        self.published.store(state.room.end, Ordering::Release);
    }

    /// The address of record 0: a record lies at `base + id`. Constant for the table's life.
    pub fn base(&self) -> *const u8 {
        self.memory.base()
    }

    /// Whether `id` names a registered type.
    pub fn contains(&self, id: TypeId) -> bool {
        self.entry(id).is_some()
    }

    /// The full description of a type. Panics where `id` is not of this table.
    pub fn info(&self, id: TypeId) -> &TypeInfo {
        &self.known(id).info
    }

    /// A type's record. Panics where `id` is not of this table.
    pub fn record(&self, id: TypeId) -> &TypeRecord {
        self.known(id);
        // SAFETY: the id is registered.
        unsafe { self.record_unchecked(id) }
    }

    /// A type's record, and its [`reference_offsets`](Self::reference_offsets); `None` where `id` is not of this table.
    pub(crate) fn find(&self, id: TypeId) -> Option<(&TypeRecord, &[u32])> {
        let entry = self.entry(id)?;
        // SAFETY: the id is registered.
        Some((unsafe { self.record_unchecked(id) }, &entry.references))
    }

    /// Where the fields of a struct, exception (the tag's id first) or external lie; `None` for other types. Panics
    /// where `id` is not of this table.
    pub fn layout(&self, id: TypeId) -> Option<&StructLayout> {
        self.known(id).layout.as_ref()
    }

    /// Offsets in bytes of a struct's or exception's traced fields, ascending; empty for other types.
    pub fn reference_offsets(&self, id: TypeId) -> &[u32] {
        &self.known(id).references
    }

    /// Whether `a` is `b` or a subtype of it. Panics where either is not of this table.
    pub fn is_subtype(&self, a: TypeId, b: TypeId) -> bool {
        let depth = self.record(b).display_length - 1;
        // SAFETY: the display has `display_length` entries at least, and none changes while the type is registered.
        self.record(a).display_length > depth && unsafe { *self.display(a).add(depth as usize) } == b.0
    }

    /// A type's record, unchecked: one addition.
    ///
    /// # Safety
    /// `id` is registered in this table.
    #[inline(always)]
    pub(crate) unsafe fn record_unchecked(&self, id: TypeId) -> &TypeRecord {
        // SAFETY: the record is committed and initialised, and nobody writes to it while its type is registered.
        unsafe { &*self.memory.base().add(id.0 as usize).cast::<TypeRecord>() }
    }

    fn display(&self, id: TypeId) -> *const u32 {
        self.memory.base().wrapping_add((id.0 + TypeRecord::DISPLAY_OFFSET) as usize).cast()
    }

    fn known(&self, id: TypeId) -> &Entry {
        self.entry(id).unwrap_or_else(|| panic!("{id:?} is not a type of this table"))
    }

    fn entry(&self, id: TypeId) -> Option<&Entry> {
        let end = self.published.load(Ordering::Acquire);
        let record_end = id.0.checked_add(size_of::<TypeRecord>() as u32)?;
        if id.0 < FIRST || !id.0.is_multiple_of(8) || record_end > end {
            return None;
        }
        // An id that names no record reads some other word as the index; the entry's own id then disagrees.
        // SAFETY: the range lies below a published end, so it is committed, and is written to by those alone who
        // register or release the type, if there is one, that another id names: whoever asks for this one has it.
        let index = unsafe { self.record_unchecked(id) }.info;
        let (chunk, index) = chunk_of(index as usize);
        let entry = self.chunks.get(chunk)?.get()?.get(index)?.load(Ordering::Acquire);
        // SAFETY: null, or a box that lives until its type is released, which waits until nobody asks for it.
        unsafe { entry.as_ref() }.filter(|entry| entry.id == id)
    }

    fn check_supertype(&self, info: &TypeInfo, supertype: TypeId) -> Result<(), HeapError> {
        let Some(above) = self.entry(supertype) else {
            return Err(HeapError::InvalidType(format!("the supertype {supertype:?} is not registered")));
        };
        let extends = match (&info.shape, &above.info.shape) {
            (TypeShape::Struct(fields), TypeShape::Struct(above))
            | (TypeShape::Exception(fields), TypeShape::Exception(above)) => fields.starts_with(above),
            (TypeShape::Array(element), TypeShape::Array(above)) => element == above,
            (TypeShape::Function, TypeShape::Function) => true,
            _ => false,
        };
        if extends {
            return Ok(());
        }
        Err(HeapError::InvalidType(format!("{:?} does not extend its supertype {:?}", info.shape, above.info.shape)))
    }
}

impl Drop for TypeTable {
    fn drop(&mut self) {
        for entry in self.chunks.iter_mut().filter_map(OnceLock::take).flatten() {
            let entry = entry.into_inner();
            if !entry.is_null() {
                // SAFETY: the table's own box, and nobody borrows from the table any more.
                drop(unsafe { Box::from_raw(entry) });
            }
        }
    }
}

/// Bytes of a record whose display has this many entries.
fn record_bytes(display_length: u32) -> u32 {
    TypeRecord::DISPLAY_OFFSET + 4 * display_length.max(MIN_DISPLAY).next_multiple_of(2)
}

/// The chunk and the index in it of description `index`.
fn chunk_of(index: usize) -> (usize, usize) {
    let chunk = (index / FIRST_CHUNK + 1).ilog2() as usize;
    (chunk, index - FIRST_CHUNK * ((1 << chunk) - 1))
}

/// What follows from a description alone.
struct Described {
    record: TypeRecord,
    layout: Option<StructLayout>,
    references: Box<[u32]>,
}

impl Described {
    /// The bits of the fields with these indices, as far as they are references that the map shows.
    fn reference_free(&self, info: &TypeInfo, fields: &[usize]) -> u32 {
        if self.record.many_references == 1 {
            return 0;
        }
        let offset = |&field: &usize| match (&info.shape, &self.layout) {
            (TypeShape::Array(_), _) if field == 0 => Some(HEADER_BYTES),
            (TypeShape::Struct(_), Some(layout)) => layout.offsets.get(field).copied(),
            _ => None,
        };
        let bits = fields.iter().filter_map(offset).map(|offset| (offset - HEADER_BYTES) / 4);
        bits.filter(|&bit| bit < u32::BITS).fold(0, |map, bit| map | 1 << bit) & self.record.reference_map as u32
    }
}

fn describe(info: &TypeInfo) -> Result<Described, HeapError> {
    let with_tag;
    let (kind, fields): (TypeKind, Option<&[StorageKind]>) = match &info.shape {
        TypeShape::Struct(fields) => (TypeKind::Struct, Some(fields)),
        TypeShape::Exception(payload) => {
            with_tag = [&[StorageKind::I32], payload.as_slice()].concat();
            (TypeKind::Exception, Some(&with_tag))
        }
        TypeShape::External => (TypeKind::External, Some(&[StorageKind::I32])),
        TypeShape::Array(_) => (TypeKind::Array, None),
        TypeShape::Function => (TypeKind::Function, None),
    };
    let mut record = TypeRecord {
        kind: kind as u32,
        display_length: 0,
        info: 0,
        bytes: 0,
        reference_map: 0,
        many_references: 0,
        reference_free: 0,
    };
    if let TypeShape::Array(element) = &info.shape {
        record.bytes = element.bytes();
        record.reference_map = (*element == StorageKind::Ref) as u64;
    }
    let Some(fields) = fields else { return Ok(Described { record, layout: None, references: Box::default() }) };
    if fields.len() as u64 * 16 + HEADER_BYTES as u64 > MAX_STRUCT_BYTES as u64 {
        return Err(HeapError::InvalidType(format!("a struct of {} fields is too large", fields.len())));
    }
    let layout = StructLayout::new(fields.iter().copied());
    record.bytes = layout.bytes;
    let traced = fields.iter().zip(&layout.offsets).filter(|(kind, _)| **kind == StorageKind::Ref);
    let references: Box<[u32]> = traced.map(|(_, &offset)| offset).collect();
    for &offset in &references {
        match (offset - HEADER_BYTES) / 4 {
            word @ 0..64 => record.reference_map |= 1 << word,
            _ => record.many_references = 1,
        }
    }
    if record.many_references == 1 {
        record.reference_map = u64::MAX;
    }
    Ok(Described { record, layout: Some(layout), references })
}
