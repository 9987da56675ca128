//! Parameters of the `generational` collector.

use crate::collector::schedule::CycleParams;

/// How large the nursery is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Nursery {
    /// This many bytes.
    Fixed(u64),
    /// Half of what the heap's limit leaves beside the mature space (Appel 1989).
    Appel,
}

crate::values::values! {
    /// How the mutator tells the collector which old objects may refer to young ones.
    #[derive(Eq, Hash)]
    pub enum Barrier {
        /// Every store of a young reference marks a card.
        Cards = "cards",
        /// Every store of a young reference into an old struct pushes the slot to a sequential store buffer; stores
        /// into arrays mark cards. An array that is written often is so in few places, which cards tell once; structs
        /// are relinked all over the heap, where a card would make the collector look at a dozen neighbours.
        StoreBuffer = "store-buffer",
    }
}

crate::values::values! {
    /// How everything is collected.
    #[derive(Eq, Hash)]
    pub enum Full {
        /// In slices, between which the mutator runs.
        Incremental(CycleParams) = "incremental",
        /// At once, while the mutator stands.
        Stop = "stop",
    }
}

crate::values::params! {
    /// Parameters of the collector.
    #[derive(Eq, Hash)]
    pub struct GenerationalParams {
        /// Size of the nursery, at most.
        pub nursery: Nursery = Nursery::Fixed(2 << 20),
        /// How long a nursery collection may take, in microseconds of the thread's time: where so much survives that it
        /// would take longer, nurseries are smaller. 0 leaves them as large as they may be, and so do `verify` and
        /// `stress`.
        pub nursery_pause: u32 = 700,
        /// Share of the nursery, in percent, whose survivors stay where they are for one more collection: the blocks
        /// allocated last. 0 promotes every survivor at once.
        pub aging: u32 = 0,
        /// The write barrier.
        pub barrier: Barrier = Barrier::StoreBuffer,
        /// How everything is collected.
        pub full: Full = Full::Incremental(CycleParams::DEFAULT),
    }
}
