//! The process-wide list of code images by address: from a program counter to the image that it lies in.
//!
//! The lock is held only within the functions here, never while code of others runs. A fault in compiled code therefore
//! finds its own thread without the lock, and the signal handler may take it; a fault in *this* file must not wait for
//! itself, so the handler asks `locked_by_this_thread` first.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak};

use crate::vm::CodeImage;

/// Images by the address of their first byte. They do not overlap.
static IMAGES: RwLock<BTreeMap<usize, Weak<CodeImage>>> = RwLock::new(BTreeMap::new());

thread_local! {
    static LOCKED: Cell<bool> = const { Cell::new(false) };
}

/// Marks this thread as busy with the lock.
struct Busy;

impl Busy {
    fn new() -> Busy {
        LOCKED.set(true);
        Busy
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        LOCKED.set(false);
    }
}

type Images = BTreeMap<usize, Weak<CodeImage>>;

// The map is never left half-changed, so a poisoned lock is as good as a sound one.
fn read() -> RwLockReadGuard<'static, Images> {
    IMAGES.read().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn write() -> RwLockWriteGuard<'static, Images> {
    IMAGES.write().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// The image whose code contains the address `pc`.
///
/// May be called from a signal handler if `locked_by_this_thread` is false and the thread was running compiled code
/// (whose image is alive: dropping the result then never frees it).
pub fn find(pc: usize) -> Option<Arc<CodeImage>> {
    let _busy = Busy::new();
    let images = read();
    let (_, image) = images.range(..=pc).next_back()?;
    let image = image.upgrade();
    drop(images);
    image.filter(|image| image.contains(pc))
}

/// Whether this thread is within a function of this file.
pub(crate) fn locked_by_this_thread() -> bool {
    LOCKED.get()
}

/// Adds an image.
pub(crate) fn register(image: &Arc<CodeImage>) {
    let _busy = Busy::new();
    write().insert(image.start(), Arc::downgrade(image));
}

/// Removes the image that starts at `start`, while its memory is still mapped.
pub(crate) fn deregister(start: usize) {
    let _busy = Busy::new();
    let removed = write().remove(&start);
    drop(removed);
}
