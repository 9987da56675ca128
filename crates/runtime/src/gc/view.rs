//! Arrays of numbers as slices of host code, whatever their layout (heap option `native-views`).

use std::fmt;
use std::mem::MaybeUninit;
use std::ptr::NonNull;

use anyhow::{Context, Result, ensure};
use legato_heap::layout::StorageKind;

use crate::gc::rooted::Sealed;
use crate::store::StoreOpaque;
use crate::{ArrayRef, AsContextMut, Rooted, StoreContextMut};

/// What the elements of an array can be seen as: `i8`, `u8`, `i16`, `u16`, `i32`, `u32`, `i64`, `u64`, `f32`, `f64`.
pub trait ViewElement: Sealed + Copy + fmt::Debug + Send + Sync + 'static {
    /// The elements of such arrays.
    #[doc(hidden)]
    const KIND: StorageKind;
}

macro_rules! elements {
    ($($element:ident $kind:ident,)*) => { $(
        impl Sealed for $element {}
        impl ViewElement for $element {
            const KIND: StorageKind = StorageKind::$kind;
        }
    )* };
}

elements! {
    i8 I8, u8 I8, i16 I16, u16 I16, i32 I32, u32 I32, i64 I64, u64 I64, f32 F32, f64 F64,
}

/// Where the elements are.
enum Backing<T> {
    /// In one piece in the heap, or in a view of it, until the next safepoint.
    Heap(NonNull<T>, usize),
    /// In a copy.
    Copy(Vec<T>),
    /// Somewhere else than before: the store is being used.
    Unknown,
}

impl<T: ViewElement> Backing<T> {
    /// Finds the elements of an array of `T`. May collect. A copy is made in the memory of `spare`.
    fn find(store: &mut StoreOpaque, array: Rooted<ArrayRef>, writable: bool, mut spare: Vec<T>) -> Result<Backing<T>> {
        let object = array.reference(store)?;
        let length = store.heap.array_length(object) as usize;
        // SAFETY: the array is rooted.
        if let Some(address) = unsafe { store.array_view(object, writable) } {
            return Ok(Backing::Heap(address.cast(), length));
        }
        // The array may have been moved.
        let object = array.reference(store)?;
        spare.clear();
        let bytes = length * size_of::<T>();
        spare
            .try_reserve_exact(length)
            .with_context(|| format!("no memory for a copy of an array of {bytes} bytes"))?;
        let room = &mut spare.spare_capacity_mut()[..length];
        // SAFETY: the same memory; unwritten bytes have no alignment.
        let room = unsafe { std::slice::from_raw_parts_mut(room.as_mut_ptr().cast::<MaybeUninit<u8>>(), bytes) };
        store.heap.array_copy_out(object, room);
        // SAFETY: all of it has been written, and any bits are a `T`.
        unsafe { spare.set_len(length) };
        Ok(Backing::Copy(spare))
    }

    /// # Safety
    /// Since the elements were found, nothing has happened to the heap that may collect or write, nor does it while the
    /// slice lives.
    unsafe fn slice(&self) -> &[T] {
        match self {
            // SAFETY: by the contract; so many elements lie there, aligned to their size.
            Backing::Heap(address, length) => unsafe { std::slice::from_raw_parts(address.as_ptr(), *length) },
            Backing::Copy(copy) => copy,
            Backing::Unknown => panic!("a view whose array was not found again"),
        }
    }

    /// # Safety
    /// As for [`slice`](Self::slice), and the elements were found to be written.
    unsafe fn slice_mut(&mut self) -> &mut [T] {
        match self {
            // SAFETY: as for `slice`; nobody else has a slice of them.
            Backing::Heap(address, length) => unsafe { std::slice::from_raw_parts_mut(address.as_ptr(), *length) },
            Backing::Copy(copy) => copy,
            Backing::Unknown => panic!("a view whose array was not found again"),
        }
    }

    /// Writes a copy back.
    fn write_back(&self, store: &mut StoreOpaque, array: Rooted<ArrayRef>) -> Result<()> {
        let Backing::Copy(copy) = self else { return Ok(()) };
        let object = array.reference(store)?;
        // SAFETY: numbers are bytes.
        let bytes = unsafe { std::slice::from_raw_parts(copy.as_ptr().cast(), size_of_val(&copy[..])) };
        // SAFETY: the array is rooted.
        unsafe { store.array_copy_back(object, bytes) }
    }
}

/// Fails where an array cannot be seen as a slice of `T`; says whether it is mutable.
fn check<T: ViewElement>(store: &StoreOpaque, array: Rooted<ArrayRef>) -> Result<bool> {
    let object = array.reference(store)?;
    let kind = store.heap.array_element_kind(object);
    let wanted = std::any::type_name::<T>();
    ensure!(
        !matches!(kind, StorageKind::Ref | StorageKind::Immortal),
        "an array of references cannot be seen as a slice of {wanted}"
    );
    let held = format!("{kind:?}").to_lowercase();
    ensure!(kind == T::KIND, "an array of {held} cannot be seen as a slice of {wanted}");
    Ok(store.engine.types().get(store.heap.type_of(object)).element().expect("an array type").mutable)
}

fn check_mutable(is_mutable: bool) -> Result<()> {
    ensure!(is_mutable, "an array of immutable elements cannot be seen as a mutable slice");
    Ok(())
}

/// All elements of an array as one slice, and the store at hand. See [`Rooted::with_view`].
pub struct ArrayView<'a, T: ViewElement, D: 'static> {
    store: StoreContextMut<'a, D>,
    array: Rooted<ArrayRef>,
    is_mutable: bool,
    backing: Backing<T>,
    /// Whether a copy may differ from the array.
    is_written: bool,
}

impl<T: ViewElement, D: 'static> ArrayView<'_, T, D> {
    /// The elements.
    ///
    /// # Panics
    /// If the array was not found again after [`with_store`](Self::with_store), which said so.
    pub fn as_slice(&self) -> &[T] {
        // SAFETY: they were found when the store was last used, and it cannot be used while `self` is borrowed.
        unsafe { self.backing.slice() }
    }

    /// The elements, to be written.
    ///
    /// # Errors
    /// If they are immutable.
    ///
    /// # Panics
    /// As for [`as_slice`](Self::as_slice).
    pub fn as_mut_slice(&mut self) -> Result<&mut [T]> {
        check_mutable(self.is_mutable)?;
        self.is_written = true;
        // SAFETY: as for `as_slice`; elements that are mutable are found to be written.
        Ok(unsafe { self.backing.slice_mut() })
    }

    /// Uses the store: calls the guest, collects, looks at other objects. What was written to the slice is in the array
    /// before, and what is written to the array meanwhile is in the slice afterwards.
    ///
    /// # Errors
    /// [`Trap::AllocationFailure`](crate::Trap::AllocationFailure) where a copy cannot be written back for lack of
    /// memory: `f` is not called then. If the scope of the array's reference has ended afterwards, or there is no
    /// memory for a copy.
    pub fn with_store<R>(&mut self, f: impl FnOnce(StoreContextMut<'_, D>) -> R) -> Result<R> {
        self.write_back()?;
        // Until the array has been found again, be it that `f` panics.
        let spare = match std::mem::replace(&mut self.backing, Backing::Unknown) {
            Backing::Copy(copy) => copy,
            Backing::Heap(..) | Backing::Unknown => Vec::new(),
        };
        let result = f(self.store.as_context_mut());
        self.backing = Backing::find(&mut self.store.0.opaque, self.array, self.is_mutable, spare)?;
        Ok(result)
    }

    fn write_back(&mut self) -> Result<()> {
        if std::mem::take(&mut self.is_written) {
            self.backing.write_back(&mut self.store.0.opaque, self.array)?;
        }
        Ok(())
    }
}

impl<T: ViewElement, D: 'static> fmt::Debug for ArrayView<'_, T, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ArrayView")
            .field("array", &self.array)
            .field("is_mutable", &self.is_mutable)
            .finish_non_exhaustive()
    }
}

impl Rooted<ArrayRef> {
    /// Calls `f` with all elements as one slice. An array that lies in one piece is not copied; any other is, or mapped
    /// a second time, as the heap's option `native-views` says.
    ///
    /// ```
    /// use legato::{ArrayRef, ArrayRefPre, ArrayType, Engine, FieldType, Mutability, StorageType, Store, Val, ValType};
    ///
    /// let engine = Engine::default();
    /// let mut store = Store::new(&engine, ());
    /// let doubles = ArrayType::new(&engine, FieldType::new(Mutability::Var, StorageType::ValType(ValType::F64)));
    /// let allocator = ArrayRefPre::new(&store, doubles);
    /// let array = ArrayRef::new(&mut store, &allocator, &Val::F64(1.5f64.to_bits()), 100)?;
    /// array.with_slice_mut(&mut store, |elements: &mut [f64]| elements[0] = 8.0)?;
    /// let sum = array.with_slice(&mut store, |elements: &[f64]| elements.iter().sum::<f64>())?;
    /// assert_eq!(sum, 8.0 + 99.0 * 1.5);
    /// # Ok::<(), anyhow::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the elements are no `T`, the scope of the reference has ended, the store is another, or there is no memory
    /// for a copy.
    pub fn with_slice<T: ViewElement, R>(&self, mut store: impl AsContextMut, f: impl FnOnce(&[T]) -> R) -> Result<R> {
        let store = store.as_context_mut();
        let opaque = &mut store.0.opaque;
        check::<T>(opaque, *self)?;
        let backing = Backing::find(opaque, *self, false, Vec::new())?;
        // SAFETY: just found; `f` cannot use the store, which is borrowed until it returns.
        Ok(f(unsafe { backing.slice() }))
    }

    /// As [`with_slice`](Self::with_slice), to be written. A copy is written back when `f` returns.
    ///
    /// # Errors
    /// As for [`with_slice`](Self::with_slice); if the elements are immutable;
    /// [`Trap::AllocationFailure`](crate::Trap::AllocationFailure) where a copy cannot be written back for lack of
    /// memory.
    pub fn with_slice_mut<T: ViewElement, R>(
        &self,
        mut store: impl AsContextMut,
        f: impl FnOnce(&mut [T]) -> R,
    ) -> Result<R> {
        let store = store.as_context_mut();
        let opaque = &mut store.0.opaque;
        check_mutable(check::<T>(opaque, *self)?)?;
        let mut backing = Backing::find(opaque, *self, true, Vec::new())?;
        // SAFETY: just found, to be written; `f` cannot use the store, which is borrowed until it returns.
        let result = f(unsafe { backing.slice_mut() });
        backing.write_back(opaque, *self)?;
        Ok(result)
    }

    /// Calls `f` with a view of all elements through which the store can be used too. A slice of them lives up to the
    /// next use of the store; the view outlives it, whatever is collected or moved meanwhile.
    ///
    /// # Errors
    /// Those of `f`, whose writes to the slice count all the same, and those of
    /// [`with_slice_mut`](Self::with_slice_mut), but that immutable elements can be read.
    pub fn with_view<T: ViewElement, C: AsContextMut, R>(
        &self,
        mut store: C,
        f: impl FnOnce(&mut ArrayView<'_, T, C::Data>) -> Result<R>,
    ) -> Result<R> {
        let store = store.as_context_mut();
        let is_mutable = check::<T>(&store.0.opaque, *self)?;
        let backing = Backing::find(&mut store.0.opaque, *self, is_mutable, Vec::new())?;
        let mut view = ArrayView { store, array: *self, is_mutable, backing, is_written: false };
        let result = f(&mut view);
        let written = view.write_back();
        result.and_then(|result| written.map(|()| result))
    }
}
