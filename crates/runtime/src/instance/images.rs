//! What the memories of a module hold first, made once for all of its instances.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use legato_compiler::module::{ConstOp, DataSegment, MemoryIndex, ModuleInfo};

use crate::vm::MemoryImage;

/// A module with fewer bytes of data for its memories copies them into each instance: as fast, and no file.
const LEAST: usize = 32 << 10;

/// The images of a module's memories, made when they are first worth it.
#[derive(Debug, Default)]
pub(crate) struct MemoryImages {
    has_instance: AtomicBool,
    made: OnceLock<Option<Vec<Option<MemoryImage>>>>,
}

impl MemoryImages {
    /// Those that another instance is to begin with, of the memories that the module defines, in their order; `None`
    /// where segments are to be copied: in the first instance, which may be the only one, and where it makes a
    /// difference when a segment is copied.
    pub(crate) fn for_instance(&self, info: &ModuleInfo) -> Option<&[Option<MemoryImage>]> {
        if !self.has_instance.swap(true, Ordering::Relaxed) {
            return self.made.get()?.as_deref();
        }
        self.prepare(info)
    }

    /// Makes them, if that has not been done: there are going to be several instances.
    pub(crate) fn prepare(&self, info: &ModuleInfo) -> Option<&[Option<MemoryImage>]> {
        self.made.get_or_init(|| images(info)).as_deref()
    }
}

/// An active segment of a memory that the module defines: that memory, the offset there, and the bytes.
type Fixed<'a> = (usize, usize, &'a [u8]);

fn images(info: &ModuleInfo) -> Option<Vec<Option<MemoryImage>>> {
    let active = info.data.iter().filter_map(|segment| Some((segment, segment.active.as_ref()?)));
    // All of them: one that traps ends what the others do, and what has been done can be seen elsewhere.
    let fixed: Vec<Fixed<'_>> =
        active.map(|(segment, (memory, offset))| fixed(info, segment, *memory, offset)).collect::<Option<_>>()?;
    if fixed.iter().map(|(.., bytes)| bytes.len()).sum::<usize>() < LEAST {
        return None;
    }
    let memories = info.memories.len() - info.imported_memories as usize;
    let image = |memory: usize| {
        let segments = fixed.iter().filter(move |(of, ..)| *of == memory);
        MemoryImage::of(segments.map(|&(_, offset, bytes)| (offset, bytes)))
    };
    let images: Result<Vec<_>, _> = (0..memories).map(image).collect();
    images.inspect_err(|error| log::info!("memories are filled by copying: {error}")).ok()
}

/// `None` where the segment may trap, or its place is not known.
fn fixed<'a>(
    info: &ModuleInfo,
    segment: &'a DataSegment,
    memory: MemoryIndex,
    offset: &[ConstOp],
) -> Option<Fixed<'a>> {
    let defined = memory.index().checked_sub(info.imported_memories as usize)?;
    let offset = match *offset {
        [ConstOp::I32(offset)] => u64::from(offset as u32),
        [ConstOp::I64(offset)] => offset as u64,
        _ => return None,
    };
    let ty = &info.memories[memory.index()];
    let length = u128::from(ty.minimum) << ty.page_size_log2;
    let is_inside = u128::from(offset) + segment.bytes.len() as u128 <= length;
    is_inside.then_some((defined, usize::try_from(offset).ok()?, &segment.bytes))
}
