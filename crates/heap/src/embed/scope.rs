//! Scopes, and all that is done with objects.
//!
//! What `unsafe` methods of the heap ask for holds here by construction: a handle's slot is visited by every collection
//! of its heap, and a handle cannot be used once its slot is gone, as no lifetime of a scope outlives the call that has
//! made it. References are taken from slots, or have just been read or returned, and nothing is collected in between.

use std::any::Any as HostAny;
use std::fmt;
use std::marker::PhantomData;

use super::error::Error;
use super::handles::{Brand, Local, Root, Var, Weak};
use super::heap::ObjectHeap;
use super::stored::{Raw, Stored, name_of, write_field};
use super::types::{ArrayType, Field, Type};
use crate::error::AllocationError;
use crate::heap::Heap;
use crate::layout::StorageKind;
use crate::reference::Reference;
use crate::types::{TypeId, TypeShape};

/// A time in which handles are good. Made by [`ObjectHeap::scope`].
pub struct Scope<'s> {
    pub(super) heap: &'s mut ObjectHeap,
    /// How many slots there were before.
    depth: usize,
    brand: Brand<'s>,
}

impl Drop for Scope<'_> {
    fn drop(&mut self) {
        self.heap.slots.truncate(self.depth);
    }
}

impl<'s> Scope<'s> {
    /// Only to be lent to a function that knows nothing of the lifetime.
    pub(super) fn enter(heap: &'s mut ObjectHeap) -> Scope<'s> {
        let depth = heap.slots.depth();
        Scope { heap, depth, brand: PhantomData }
    }

    /// Does something in a scope within this one, whose handles remain good.
    pub fn scope<R>(&mut self, body: impl for<'i> FnOnce(&mut Scope<'i>) -> R) -> R {
        body(&mut Scope::enter(self.heap))
    }

    /// The same, and keeps one reference.
    ///
    /// # Errors
    /// What `body` returns; [`Error::OtherHeap`] where its handle is none of this heap's.
    pub fn scope_to<E: From<Error>>(
        &mut self,
        body: impl for<'i> FnOnce(&mut Scope<'i>) -> Result<Local<'i>, E>,
    ) -> Result<Local<'s>, E> {
        let kept = {
            let mut inner = Scope::enter(self.heap);
            let local = body(&mut inner)?;
            inner.reference(local)?
        };
        // Nothing has been collected since.
        Ok(self.hold(kept))
    }

    /// Null.
    pub fn null(&self) -> Local<'s> {
        Local::itself(Reference::NULL)
    }

    /// A small integer of 31 bits, which needs no object: the low ones of `value`.
    pub fn small(&self, value: i32) -> Local<'s> {
        Local::itself(Reference::from_i31(value))
    }

    /// A variable of this scope.
    ///
    /// # Errors
    /// [`Error::OtherHeap`] where the handle is none of this heap's. So for all methods that take handles, fields or
    /// types.
    pub fn variable(&mut self, value: Local<'_>) -> Result<Var<'s>, Error> {
        let reference = self.reference(value)?;
        Ok(self.heap.slots.hold_variable(reference))
    }

    /// What a variable of this scope, or of one around it, holds now; null where it is another heap's.
    pub fn read(&mut self, var: Var<'_>) -> Local<'s> {
        let reference = self.heap.slots.variable(var).map_or(Reference::NULL, |slot| *slot);
        self.hold(reference)
    }

    /// Replaces what a variable holds.
    ///
    /// # Errors
    /// See [`variable`](Self::variable).
    pub fn assign(&mut self, var: Var<'_>, value: Local<'_>) -> Result<(), Error> {
        let reference = self.reference(value)?;
        *self.heap.slots.variable(var)? = reference;
        Ok(())
    }

    /// A new struct, of zeros and nulls. May collect.
    ///
    /// # Errors
    /// [`Error::Allocation`] where memory is exhausted.
    pub fn new_struct(&mut self, ty: &Type) -> Result<Local<'s>, Error> {
        self.check("type", ty.inner.heap == self.heap.slots.heap)?;
        let (heap, slots) = self.heap.prepared();
        let object = heap.allocate_struct(ty.inner.id, slots)?;
        Ok(self.hold(object))
    }

    /// A new array of zeros or nulls. May collect.
    ///
    /// # Errors
    /// [`Error::Allocation`] where memory is exhausted, or the array too long.
    pub fn new_array<T: Stored>(&mut self, ty: ArrayType<T>, length: u32) -> Result<Local<'s>, Error> {
        self.check("type", ty.heap == self.heap.slots.heap)?;
        let (heap, slots) = self.heap.prepared();
        let array = heap.allocate_array(ty.id, length, slots)?;
        Ok(self.hold(array))
    }

    /// A new object that holds a value of the host, which is dropped some time after the object has died. May collect.
    ///
    /// # Errors
    /// [`Error::Allocation`] where memory is exhausted.
    pub fn new_host(&mut self, value: impl HostAny + Send + Sync) -> Result<Local<'s>, Error> {
        self.new_sized_host(value, 0)
    }

    /// As [`new_host`](Self::new_host), of a value that keeps so many bytes of memory, of which the heap is told: the
    /// more of it there is, the sooner it collects ([`Heap::allocate_sized_external`]).
    ///
    /// # Errors
    /// As for [`new_host`](Self::new_host).
    pub fn new_sized_host(&mut self, value: impl HostAny + Send + Sync, bytes: u64) -> Result<Local<'s>, Error> {
        let (heap, slots) = self.heap.prepared();
        let object = heap.allocate_sized_external(Box::new(value), bytes, slots)?;
        Ok(self.hold(object))
    }

    /// The value of the host that an object holds; `None` where it holds none, or one of another type.
    pub fn host<T: HostAny>(&self, object: Local<'_>) -> Option<&T> {
        self.heap.heap.external(self.reference(object).ok()?)?.downcast_ref()
    }

    /// Reads a field.
    ///
    /// # Errors
    /// [`Error::Null`], or [`Error::WrongType`] where the object has no such field.
    pub fn get<T: Stored>(&mut self, object: Local<'_>, field: Field<T>) -> Result<T::Value<'s>, Error> {
        let object = self.with_field(object, &field)?;
        let bits = self.heap.heap.load(object, field.offset, T::KIND);
        Ok(T::decode(&mut self.heap.slots, self.brand, bits))
    }

    /// Writes a field.
    ///
    /// # Errors
    /// As for [`get`](Self::get).
    pub fn set<T: Stored>(&mut self, object: Local<'_>, field: Field<T>, value: T::Value<'_>) -> Result<(), Error> {
        let object = self.with_field(object, &field)?;
        let value = T::encode(&self.heap.slots, value)?;
        // SAFETY: both come from slots.
        unsafe { write_field::<T>(&mut self.heap.heap, object, field.offset, value) };
        Ok(())
    }

    /// The number of an array's elements.
    ///
    /// # Errors
    /// [`Error::Null`], or [`Error::WrongType`] where this is no array.
    pub fn length(&self, array: Local<'_>) -> Result<u32, Error> {
        Ok(self.array(array)?.1)
    }

    /// Reads an element.
    ///
    /// # Errors
    /// [`Error::Null`], [`Error::WrongType`], [`Error::Index`], or [`Error::Kind`] where elements hold something else.
    pub fn element<T: Stored>(&mut self, array: Local<'_>, index: u32) -> Result<T::Value<'s>, Error> {
        let array = self.with_elements::<T>(array, index, 1)?;
        let bits = self.heap.heap.array_get(array, index);
        Ok(T::decode(&mut self.heap.slots, self.brand, bits))
    }

    /// Writes an element. May collect where a divided array needs memory.
    ///
    /// # Errors
    /// As for [`element`](Self::element); [`Error::Allocation`] where a divided array needs memory, and that is
    /// exhausted.
    pub fn set_element<T: Stored>(&mut self, array: Local<'_>, index: u32, value: T::Value<'_>) -> Result<(), Error> {
        let array = self.with_elements::<T>(array, index, 1)?;
        match T::encode(&self.heap.slots, value)? {
            Raw::Number(bits) => self.write_elements([array, Reference::NULL], index, 1, |heap, [array, _]| {
                // SAFETY: it comes from a slot.
                unsafe { heap.array_set(array, index, bits) }
            }),
            Raw::Reference(value) => self.write_elements([array, value], index, 1, |heap, [array, value]| {
                // SAFETY: both come from slots.
                unsafe { heap.array_set_reference(array, index, value) }
            }),
        }
    }

    /// Writes one value to `count` elements from `start` on. May collect where a divided array needs memory.
    ///
    /// # Errors
    /// As for [`set_element`](Self::set_element), where a part of the elements may have been written.
    pub fn fill<T: Stored>(
        &mut self,
        array: Local<'_>,
        start: u32,
        count: u32,
        value: T::Value<'_>,
    ) -> Result<(), Error> {
        let array = self.with_elements::<T>(array, start, count as usize)?;
        match T::encode(&self.heap.slots, value)? {
            Raw::Number(bits) => self.write_elements([array, Reference::NULL], start, count, |heap, [array, _]| {
                // SAFETY: it comes from a slot.
                unsafe { heap.array_fill(array, start, bits, count) }
            }),
            Raw::Reference(value) => self.write_elements([array, value], start, count, |heap, [array, value]| {
                // SAFETY: both come from slots.
                unsafe { heap.array_fill_references(array, start, value, count) }
            }),
        }
    }

    /// Copies `count` elements from one array, from `from` on, to another one, or the same: from `start` on. What they
    /// hold before is what is copied, where the two overlap. May collect where a divided array needs memory.
    ///
    /// # Errors
    /// As for [`set_element`](Self::set_element); where memory is exhausted, nothing has been written.
    pub fn copy<T: Stored>(
        &mut self,
        array: Local<'_>,
        start: u32,
        source: Local<'_>,
        from: u32,
        count: u32,
    ) -> Result<(), Error> {
        let mut live = [
            self.with_elements::<T>(array, start, count as usize)?,
            self.with_elements::<T>(source, from, count as usize)?,
        ];
        let (heap, slots) = self.heap.prepared();
        // A copy onto itself that has been begun cannot be begun again: so all that it needs is there before.
        // SAFETY: both come from slots, and nothing has been collected since.
        unsafe { heap.array_reserve_leaves(start, count, &mut live, slots)? };
        let [array, source] = live;
        Ok(match T::KIND {
            // SAFETY: they are where they lie now.
            StorageKind::Ref => unsafe { heap.array_copy_references(array, start, source, from, count) },
            // SAFETY: they are where they lie now.
            _ => unsafe { heap.array_copy(array, start, source, from, count) },
        }?)
    }

    /// Copies bytes out of an array of bytes, as many as `bytes` has, from `start` on.
    ///
    /// # Errors
    /// As for [`element`](Self::element).
    pub fn read_bytes(&self, array: Local<'_>, start: u32, bytes: &mut [u8]) -> Result<(), Error> {
        let array = self.with_elements::<u8>(array, start, bytes.len())?;
        self.heap.heap.array_read_bytes(array, start, bytes);
        Ok(())
    }

    /// Copies bytes into an array of bytes, from `start` on. May collect where a divided array needs memory.
    ///
    /// # Errors
    /// As for [`set_element`](Self::set_element).
    pub fn write_bytes(&mut self, array: Local<'_>, start: u32, bytes: &[u8]) -> Result<(), Error> {
        let array = self.with_elements::<u8>(array, start, bytes.len())?;
        self.write_elements([array, Reference::NULL], start, bytes.len() as u32, |heap, [array, _]| {
            // SAFETY: it comes from a slot.
            unsafe { heap.array_write_bytes(array, start, bytes) }
        })
    }

    /// Has `write` write `length` elements from `start` on of the first of `live`, which come from slots, and are where
    /// they lie now when it is called. Where leaves are lacking, it is called once more when there are some.
    fn write_elements(
        &mut self,
        mut live: [Reference; 2],
        start: u32,
        length: u32,
        write: impl Fn(&mut Heap, [Reference; 2]) -> Result<(), AllocationError>,
    ) -> Result<(), Error> {
        if write(&mut self.heap.heap, live).is_ok() {
            return Ok(());
        }
        let (heap, slots) = self.heap.prepared();
        // SAFETY: they come from slots, and nothing has been collected since.
        unsafe { heap.array_reserve_leaves(start, length, &mut live, slots)? };
        Ok(write(heap, live)?)
    }

    /// Whether this is an object of a type of structs, or of a subtype.
    ///
    /// # Errors
    /// See [`variable`](Self::variable).
    pub fn is(&self, object: Local<'_>, ty: &Type) -> Result<bool, Error> {
        self.check("type", ty.inner.heap == self.heap.slots.heap)?;
        let reference = self.reference(object)?;
        Ok(reference.is_object() && self.heap.heap.types().is_subtype(self.type_id(reference), ty.inner.id))
    }

    /// Whether this is an object of a type of arrays.
    ///
    /// # Errors
    /// See [`variable`](Self::variable).
    pub fn is_array<T: Stored>(&self, object: Local<'_>, ty: ArrayType<T>) -> Result<bool, Error> {
        self.check("type", ty.heap == self.heap.slots.heap)?;
        let reference = self.reference(object)?;
        Ok(reference.is_object() && self.type_id(reference) == ty.id)
    }

    /// The type that an object is of, exactly, as [`Type::id`] and [`ArrayType::id`] give it: to be looked up, where
    /// [`is`](Self::is) would be asked of one type after the other. `None` for null and small integers;
    /// [`TypeTable::EXTERNAL`](crate::TypeTable::EXTERNAL) for values of the host. Each heap has ids of its own.
    ///
    /// # Errors
    /// See [`variable`](Self::variable).
    ///
    /// ```
    /// use legato_heap::embed::{Error, ObjectHeap, StructType};
    ///
    /// let mut heap = ObjectHeap::new(&Default::default())?;
    /// let (cons, symbol) = (heap.define(StructType::new("cons"))?, heap.define(StructType::new("symbol"))?);
    /// heap.scope(|scope| -> Result<(), Error> {
    ///     let object = scope.new_struct(&symbol)?;
    ///     let name = match scope.type_of(object)? {
    ///         Some(id) if id == cons.id() => "a list",
    ///         Some(id) if id == symbol.id() => "a symbol",
    ///         Some(_) => "another object",
    ///         None => "no object",
    ///     };
    ///     assert_eq!(name, "a symbol");
    ///     assert_eq!(scope.type_of(scope.null())?, None);
    ///     Ok(())
    /// })?;
    /// # Ok::<(), Error>(())
    /// ```
    pub fn type_of(&self, object: Local<'_>) -> Result<Option<TypeId>, Error> {
        let reference = self.reference(object)?;
        Ok(reference.is_object().then(|| self.type_id(reference)))
    }

    /// Whether two handles stand for the same: null, one small integer, or one object.
    ///
    /// # Errors
    /// See [`variable`](Self::variable).
    pub fn same(&self, left: Local<'_>, right: Local<'_>) -> Result<bool, Error> {
        Ok(self.heap.heap.same(self.reference(left)?, self.reference(right)?))
    }

    /// Keeps what a handle stands for alive beyond scopes.
    ///
    /// # Errors
    /// See [`variable`](Self::variable).
    pub fn root(&mut self, local: Local<'_>) -> Result<Root, Error> {
        let reference = self.reference(local)?;
        let (heap, slots) = self.heap.prepared();
        Ok(slots.root(heap.current(reference)))
    }

    /// What a root stands for.
    ///
    /// # Errors
    /// See [`variable`](Self::variable).
    pub fn rooted(&mut self, root: &Root) -> Result<Local<'s>, Error> {
        let reference = self.heap.slots.rooted(root)?;
        Ok(self.hold(reference))
    }

    /// A weak handle of an object.
    ///
    /// ```
    /// # use legato_heap::embed::{ObjectHeap, StructType};
    /// # let mut heap = ObjectHeap::new(&Default::default())?;
    /// # let empty = heap.define(StructType::new("empty"))?;
    /// let weak = heap.scope(|scope| {
    ///     let object = scope.new_struct(&empty)?;
    ///     scope.on_death(object, || println!("It was good."))?;
    ///     scope.weak(object)
    /// })?;
    /// assert!(heap.scope(|scope| Ok::<_, legato_heap::embed::Error>(scope.upgrade(&weak)?.is_some()))?);
    /// heap.collect();
    /// assert!(heap.scope(|scope| Ok::<_, legato_heap::embed::Error>(scope.upgrade(&weak)?.is_none()))?);
    /// assert_eq!(heap.run_finalisers(), 1);
    /// # Ok::<(), legato_heap::embed::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Null`] for null; [`Error::WrongType`] for a small integer, which does not die.
    pub fn weak(&mut self, object: Local<'_>) -> Result<Weak, Error> {
        let object = self.object(object, "object")?;
        Ok(self.heap.make_weak(object))
    }

    /// The object that a weak handle leads to; `None` where it has died.
    ///
    /// # Errors
    /// See [`variable`](Self::variable).
    pub fn upgrade(&mut self, weak: &Weak) -> Result<Option<Local<'s>>, Error> {
        let id = self.heap.slots.weak_id(weak)?;
        let object = self.heap.heap.get_weak(id);
        Ok(object.map(|object| self.hold(object)))
    }

    /// Whether the object that a weak handle leads to has not been found dead.
    ///
    /// # Errors
    /// See [`variable`](Self::variable).
    pub fn is_alive(&self, weak: &Weak) -> Result<bool, Error> {
        Ok(self.heap.heap.is_weak_alive(self.heap.slots.weak_id(weak)?))
    }

    /// Has a *finaliser* called after the object has died: by [`ObjectHeap::run_finalisers`], which comes after the
    /// collection that finds it dead. It cannot reach the object. One whose object lives as long as the heap is never
    /// called.
    ///
    /// # Errors
    /// As for [`weak`](Self::weak).
    pub fn on_death(&mut self, object: Local<'_>, finaliser: impl FnOnce() + Send + 'static) -> Result<(), Error> {
        let object = self.object(object, "object")?;
        self.heap.add_finaliser(object, Box::new(finaliser));
        Ok(())
    }

    /// A handle for a reference that has just been read or returned.
    fn hold(&mut self, reference: Reference) -> Local<'s> {
        self.heap.slots.hold(reference)
    }

    fn reference(&self, local: Local<'_>) -> Result<Reference, Error> {
        self.heap.slots.reference(local)
    }

    fn check(&self, what: &'static str, is_ours: bool) -> Result<(), Error> {
        if is_ours { Ok(()) } else { Err(Error::OtherHeap(what)) }
    }

    fn object(&self, local: Local<'_>, expected: &str) -> Result<Reference, Error> {
        let reference = self.reference(local)?;
        match reference {
            _ if reference.is_object() => Ok(reference),
            _ if reference.is_null() => Err(Error::Null),
            _ => Err(Error::WrongType { expected: expected.to_owned(), found: "a small integer".to_owned() }),
        }
    }

    fn type_id(&self, object: Reference) -> TypeId {
        self.heap.heap.type_of(object)
    }

    /// The object, which has this field.
    fn with_field<T>(&self, local: Local<'_>, field: &Field<T>) -> Result<Reference, Error> {
        self.check("field", field.heap == self.heap.slots.heap)?;
        let object = self.object(local, "object")?;
        let found = self.type_id(object);
        if found == field.ty || self.heap.heap.types().is_subtype(found, field.ty) {
            return Ok(object);
        }
        Err(Error::WrongType { expected: self.heap.name(field.ty), found: self.heap.name(found) })
    }

    /// The array, its length, and what its elements are.
    fn array(&self, local: Local<'_>) -> Result<(Reference, u32, StorageKind), Error> {
        let object = self.object(local, "array")?;
        let id = self.type_id(object);
        match self.heap.heap.types().info(id).shape {
            TypeShape::Array(kind) => Ok((object, self.heap.heap.array_length(object), kind)),
            _ => Err(Error::WrongType { expected: "array".to_owned(), found: self.heap.name(id) }),
        }
    }

    /// The array, which has these elements.
    fn with_elements<T: Stored>(&self, local: Local<'_>, start: u32, count: usize) -> Result<Reference, Error> {
        let (array, length, kind) = self.array(local)?;
        if kind != T::KIND {
            let of = format!("an array of type {}", self.heap.name(self.type_id(array)));
            return Err(Error::Kind { of, expected: T::NAME, found: name_of(kind) });
        }
        let end = u64::from(start) + count as u64;
        if end > u64::from(length) {
            return Err(Error::Index { index: end - 1, length });
        }
        Ok(array)
    }
}

impl fmt::Debug for Scope<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope").field("depth", &self.depth).finish_non_exhaustive()
    }
}
