//! Parameters of the `generational` collector.

/// How large the nursery is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Nursery {
    /// This many bytes.
    Fixed(u64),
    /// Half of what the heap's limit leaves beside the mature space (Appel 1989).
    Appel,
}

/// How the mutator tells the collector which old objects may refer to young ones.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Barrier {
    /// Every store of a young reference marks a card.
    Cards,
    /// Every store of a young reference into an old struct pushes the slot to a sequential store buffer; stores into
    /// arrays mark cards. An array that is written often is so in few places, which cards tell once; structs are
    /// relinked all over the heap, where a card would make the collector look at a dozen neighbours.
    StoreBuffer,
}

impl Barrier {
    /// Every value.
    pub const ALL: &[Barrier] = &[Barrier::Cards, Barrier::StoreBuffer];

    /// The value's name on a command line.
    pub const fn name(self) -> &'static str {
        match self {
            Barrier::Cards => "cards",
            Barrier::StoreBuffer => "store-buffer",
        }
    }
}

/// Parameters of the collector.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct GenerationalParams {
    /// Size of the nursery.
    pub nursery: Nursery,
    /// Share of the nursery, in percent, whose survivors stay where they are for one more collection: the blocks
    /// allocated last. 0 promotes every survivor at once.
    pub aging: u32,
    /// The write barrier.
    pub barrier: Barrier,
}

impl Default for GenerationalParams {
    fn default() -> GenerationalParams {
        GenerationalParams { nursery: Nursery::Fixed(2 << 20), aging: 0, barrier: Barrier::StoreBuffer }
    }
}
