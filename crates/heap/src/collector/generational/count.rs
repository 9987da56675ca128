//! What a nursery collection counts.

use std::ops::AddAssign;

/// Objects and their bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Count {
    pub(super) objects: u64,
    pub(super) bytes: u64,
}

impl AddAssign for Count {
    fn add_assign(&mut self, more: Count) {
        self.objects += more.objects;
        self.bytes += more.bytes;
    }
}
