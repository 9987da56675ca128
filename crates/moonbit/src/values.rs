//! What crosses between program and host as an opaque reference.

use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use legato::{AnyRef, AsContextMut, Caller, ExternRef, Func, OwnedRooted, Rooted, Val};

/// A reference to a host value, as imports take it.
pub(crate) type Opaque = Option<Rooted<ExternRef>>;

/// A string that the program is making, one UTF-16 code unit after the other.
pub(crate) struct StringBuilder(pub Vec<u16>);

/// A string: UTF-16 code units, which whoever reads it shares.
#[derive(Clone)]
pub(crate) struct Text(pub Arc<[u16]>);

/// Bytes that the program is making.
pub(crate) struct BytesBuilder(pub Vec<u8>);

/// Bytes.
#[derive(Clone, Default)]
pub(crate) struct Bytes(pub Arc<[u8]>);

/// Strings.
#[derive(Clone)]
pub(crate) struct Texts(pub Arc<[Text]>);

/// A place in a sequence that the program reads element by element.
pub(crate) struct Cursor<T> {
    elements: Arc<[T]>,
    next: usize,
}

impl<T: Clone> Cursor<T> {
    pub fn new(elements: Arc<[T]>) -> Self {
        Cursor { elements, next: 0 }
    }

    /// The next element, until there is none.
    pub fn read(&mut self) -> Option<T> {
        let element = self.elements.get(self.next)?.clone();
        self.next += 1;
        Some(element)
    }

    /// The program has read what it wanted.
    pub fn finish(&mut self) {
        self.elements = Arc::new([]);
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Text(text.encode_utf16().collect())
    }
}

impl Text {
    /// The string in UTF-8; halves of surrogate pairs are replaced.
    pub fn to_utf8(&self) -> String {
        String::from_utf16_lossy(&self.0)
    }
}

/// A function of the program with what it has captured: what the program hands to a host function that wants to call
/// it back. It is the value behind an `externref`.
pub struct Closure {
    /// Takes what was captured, then the arguments.
    function: Func,
    captured: Option<OwnedRooted<AnyRef>>,
}

impl Closure {
    /// Makes one of what `moonbit:ffi.make_closure` was given.
    pub(crate) fn new(mut store: impl AsContextMut, params: &[Val]) -> Result<Closure> {
        let [Val::FuncRef(Some(function)), Val::AnyRef(captured)] = params else {
            anyhow::bail!("make_closure takes a function and what it has captured");
        };
        let captured = captured.map(|captured| captured.to_owned_rooted(&mut store)).transpose()?;
        Ok(Closure { function: *function, captured })
    }

    /// The program's function, and its first argument. The others are the caller's.
    pub fn function(&self, mut store: impl AsContextMut) -> (Func, Val) {
        (self.function, Val::AnyRef(self.captured.as_ref().map(|captured| captured.to_rooted(&mut store))))
    }
}

/// What the program is given.
pub(crate) trait Value: Send + Sync + 'static {
    /// What it keeps outside of the heap, in bytes.
    fn outside_bytes(&self) -> u64 {
        0
    }
}

impl Value for StringBuilder {}
impl Value for BytesBuilder {}
impl<T: Send + Sync + 'static> Value for Cursor<T> {}
impl Value for Closure {}
impl Value for Instant {}

impl Value for Text {
    fn outside_bytes(&self) -> u64 {
        size_of_val(&*self.0) as u64
    }
}

impl Value for Bytes {
    fn outside_bytes(&self) -> u64 {
        size_of_val(&*self.0) as u64
    }
}

impl Value for Texts {
    fn outside_bytes(&self) -> u64 {
        self.0.iter().map(Text::outside_bytes).sum::<u64>() + size_of_val(&*self.0) as u64
    }
}

/// Hands a value to the program.
pub(crate) fn give<T: 'static, V: Value>(caller: &mut Caller<'_, T>, value: V) -> Result<Opaque> {
    let bytes = value.outside_bytes();
    ExternRef::new_sized(caller, value, bytes).map(Some)
}

/// A value that the program hands back.
pub(crate) fn take<'a, T: 'static, V: 'static>(caller: &'a mut Caller<'_, T>, value: Opaque) -> Result<&'a mut V> {
    let reference = value.context("a null reference was given for a value of the host")?;
    let value = reference.data_mut(caller)?;
    let value = value.and_then(|value| value.downcast_mut());
    ensure!(value.is_some(), "a value of the host was given where another kind of value belongs");
    value.context("a value of the host")
}
