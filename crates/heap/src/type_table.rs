//! The table that types are registered in: append-only memory shared by any number of heaps.
//!
//! Records lie in a reservation that is committed as it grows, so that its base address never changes and compiled code
//! may hold it. Registration takes a lock; every look-up is free of locks: a [`TypeId`] is known only to those who
//! learnt it after its record was written.

use crate::error::HeapError;
use crate::layout::{HEADER_BYTES, StorageKind, StructLayout};
use crate::os::Reservation;
use crate::os::limits::AddressSpace;
use crate::types::{MIN_DISPLAY, TypeId, TypeInfo, TypeKind, TypeRecord, TypeShape};
use std::sync::atomic::{AtomicU32, Ordering};
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

type Chunk = OnceLock<Box<[OnceLock<Entry>]>>;

/// Where the next record goes.
#[derive(Debug)]
struct End {
    offset: u32,
    committed: u32,
    count: usize,
}

/// The registered types.
#[derive(Debug)]
pub struct TypeTable {
    memory: Reservation,
    chunks: [Chunk; 16],
    end: Mutex<End>,
    /// `End::offset`, to be read without the lock.
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
            end: Mutex::new(End { offset: FIRST, committed: 0, count: 0 }),
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
        // A panic while the lock is held leaves at worst an unused gap: the state is good.
        let mut end = self.end.lock().unwrap_or_else(PoisonError::into_inner);
        let id = TypeId(end.offset);
        let depth = info.supertype.map_or(0, |supertype| self.record(supertype).display_length);
        let display_length = depth + 1;
        let bytes = TypeRecord::DISPLAY_OFFSET + 4 * display_length.max(MIN_DISPLAY).next_multiple_of(2);
        let (chunk, index) = chunk_of(end.count);
        if chunk >= self.chunks.len() || end.offset as usize + bytes as usize > self.memory.bytes() {
            return Err(HeapError::TypeTableFull(end.count));
        }
        if end.offset + bytes > end.committed {
            let step = (end.offset + bytes - end.committed).next_multiple_of(COMMIT_STEP);
            let step = step.min(self.memory.bytes() as u32 - end.committed);
            self.memory.commit(end.committed as usize, step as usize)?;
            end.committed += step;
        }
        let record = TypeRecord { display_length, info: end.count as u32, ..described.record };
        let address = self.memory.base().wrapping_add(end.offset as usize);
        // SAFETY: the record's range has just been committed, nobody knows its id yet, and the lock is held. A
        // supertype's display is complete, and fresh memory is zero beyond the entries written.
        unsafe {
            address.cast::<TypeRecord>().write(record);
            let display = address.add(TypeRecord::DISPLAY_OFFSET as usize).cast::<u32>();
            if let Some(supertype) = info.supertype {
                std::ptr::copy_nonoverlapping(self.display(supertype), display, depth as usize);
            }
            display.add(depth as usize).write(id.0);
        }
        let entry = Entry { id, info, layout: described.layout, references: described.references };
        let chunk = self.chunks[chunk].get_or_init(|| (0..FIRST_CHUNK << chunk).map(|_| OnceLock::new()).collect());
        chunk[index].set(entry).expect("a description is written once");
        end.count += 1;
        end.offset += bytes;
        self.published.store(end.offset, Ordering::Release);
        Ok(id)
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
        // SAFETY: the display has `display_length` entries at least, and none changes after registration.
        self.record(a).display_length > depth && unsafe { *self.display(a).add(depth as usize) } == b.0
    }

    /// A type's record, unchecked: one addition.
    ///
    /// # Safety
    /// `id` is registered in this table.
    #[inline(always)]
    pub(crate) unsafe fn record_unchecked(&self, id: TypeId) -> &TypeRecord {
        // SAFETY: records are committed, initialised and never written again once their id is known.
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
        // An id that names the middle of a record reads some other word as the index; the entry's own id then
        // disagrees. SAFETY: the range lies below the published end, so it is committed and constant.
        let index = unsafe { self.record_unchecked(id) }.info;
        let (chunk, index) = chunk_of(index as usize);
        let entry = self.chunks.get(chunk)?.get()?.get(index)?.get()?;
        (entry.id == id).then_some(entry)
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn structure(fields: &[StorageKind], supertype: Option<TypeId>) -> TypeInfo {
        TypeInfo { shape: TypeShape::Struct(fields.to_vec()), supertype }
    }

    #[test]
    fn displays_answer_subtyping_at_any_depth() {
        let table = TypeTable::new().unwrap();
        let mut chain = vec![table.register(structure(&[], None)).unwrap()];
        for _ in 0..20 {
            chain.push(table.register(structure(&[StorageKind::Ref], chain.last().copied())).unwrap());
        }
        let stranger = table.register(structure(&[StorageKind::Ref], Some(chain[0]))).unwrap();
        for (i, &a) in chain.iter().enumerate() {
            for (j, &b) in chain.iter().enumerate() {
                assert_eq!(table.is_subtype(a, b), i >= j);
            }
            assert_eq!(table.is_subtype(stranger, a), i == 0);
            assert!(!table.is_subtype(a, stranger));
        }
    }

    #[test]
    fn records_tell_where_the_references_are() {
        use StorageKind::{I8, I32, I64, Ref};
        let table = TypeTable::new().unwrap();
        let id = table.register(structure(&[I8, Ref, I64, Ref], None)).unwrap();
        assert_eq!(table.record(id).reference_map, 0b1_0010);
        assert_eq!(table.reference_offsets(id), [12, 24]);
        let exception = TypeInfo { shape: TypeShape::Exception(vec![Ref]), supertype: None };
        let exception = table.register(exception).unwrap();
        assert_eq!(table.layout(exception).unwrap().offsets, [8, 12]);
        assert_eq!(table.record(exception).reference_map, 0b10);
        let many = table.register(structure(&[[I32; 70].as_slice(), &[Ref]].concat(), None)).unwrap();
        assert_eq!((table.record(many).many_references, table.reference_offsets(many)), (1, [288].as_slice()));
    }

    #[test]
    fn records_tell_what_need_not_be_looked_at() {
        use StorageKind::{I32, I64, Ref};
        let table = TypeTable::new().unwrap();
        let reference_free = |shape, fields: &[usize]| {
            let id = table.register_with_reference_free(TypeInfo { shape, supertype: None }, fields).unwrap();
            table.record(id).reference_free
        };
        let fields = vec![Ref, I64, Ref, Ref];
        assert_eq!(reference_free(TypeShape::Struct(fields.clone()), &[]), 0);
        assert_eq!(reference_free(TypeShape::Struct(fields.clone()), &[0, 1, 3, 7]), 0b10_0001);
        assert_eq!(reference_free(TypeShape::Array(Ref), &[0]), 1);
        assert_eq!(reference_free(TypeShape::Array(I32), &[0]), 0);
        let far = [[I32; 31].as_slice(), &[Ref, Ref]].concat();
        assert_eq!(reference_free(TypeShape::Struct(far), &[31, 32]), 1 << 31);
        let many = [[I32; 70].as_slice(), &[Ref]].concat();
        assert_eq!(reference_free(TypeShape::Struct(many), &[70]), 0);
        assert_eq!(reference_free(TypeShape::Exception(fields), &[0]), 0);
    }

    #[test]
    fn wrong_descriptions_are_refused() {
        let table = TypeTable::new().unwrap();
        let base = table.register(structure(&[StorageKind::I32], None)).unwrap();
        assert!(table.register(structure(&[StorageKind::Ref], Some(base))).is_err());
        assert!(table.register(structure(&[], Some(TypeId(base.0 + 8)))).is_err());
        assert!(table.register(structure(&[], Some(TypeId(1 << 20)))).is_err());
        let array = TypeInfo { shape: TypeShape::Array(StorageKind::I32), supertype: Some(base) };
        assert!(table.register(array).is_err());
        assert!(!table.contains(TypeId(0)) && table.contains(TypeTable::EXTERNAL));
    }

    #[test]
    fn a_table_takes_a_small_part_of_a_limited_address_space() {
        let left = |left: u64| reserved(Some(AddressSpace { limit_bytes: left + 7, used_bytes: 7 }));
        assert_eq!(
            (reserved(None), left(u64::MAX - 7), left(4 << 30)),
            (RESERVED_BYTES, RESERVED_BYTES, RESERVED_BYTES)
        );
        assert_eq!((left((1 << 30) - 1), left(0)), (63 << 20, 1 << 20));
    }

    #[test]
    fn only_the_ids_of_records_are_known() {
        let table = TypeTable::new().unwrap();
        let mut known: Vec<TypeId> = (0..50).map(|_| table.register(structure(&[], None)).unwrap()).collect();
        known.push(TypeTable::EXTERNAL);
        let end = known.iter().map(|id| id.0).max().unwrap() + 4096;
        let tops = (0..4096).map(|below| u32::MAX - below);
        for id in (0..end).chain(tops).map(TypeId) {
            assert_eq!(table.contains(id), known.contains(&id), "{id:?}");
        }
        proptest!(|(id: u32)| prop_assert_eq!(table.contains(TypeId(id)), known.contains(&TypeId(id))));
    }

    #[test]
    fn threads_register_and_read_at_once() {
        let table = TypeTable::new().unwrap();
        let threads = (0..4).map(|_| {
            let table = table.clone();
            std::thread::spawn(move || {
                let mut last = None;
                for _ in 0..3000 {
                    let supertype =
                        if last.is_some_and(|id| table.record(id).display_length < 10) { last } else { None };
                    let id = table.register(structure(&[], supertype)).unwrap();
                    assert!(supertype.is_none_or(|above| table.is_subtype(id, above)));
                    assert_eq!(table.info(id).supertype, supertype);
                    last = Some(id);
                }
            })
        });
        threads.collect::<Vec<_>>().into_iter().for_each(|thread| thread.join().unwrap());
    }
}
