//! Axis `references`: from a reference to its object, and back. A value is a file here, with the
//! [`ReferencePlan`] that compiled code goes by, and a row in [`References`].

pub(crate) mod brooks;
pub(crate) mod direct;
pub(crate) mod fat_handles;
pub mod handle_policies;
pub(crate) mod handles;
mod model;
pub(crate) mod replicating;
pub(crate) mod thin_handles;
pub(crate) mod uni_handles;

use crate::plan::{CollectorWord, ReferencePlan};
pub(crate) use model::ReferenceModel;

crate::values::values! {
    /// The values of the axis.
    #[derive(Eq, Hash)]
    pub enum References {
        /// A reference is the object's offset.
        Direct = "direct",
        /// A reference is the object's offset, or that of an old copy, which holds the new one's.
        Brooks = "brooks",
        /// A reference is the object's offset, or that of an old copy, which is kept equal.
        Replicating = "replicating",
        /// A reference is the offset of a word that holds the object's offset.
        ThinHandles = "thin-handles",
        /// A reference is the offset of a copy of the header, with the object's offset.
        FatHandles = "fat-handles",
        /// A reference is the offset of the type with the object's offset.
        UniHandles = "uni-handles",
    }
}

impl References {
    /// How compiled code finds objects by such references.
    pub const fn plan(self) -> ReferencePlan {
        match self {
            References::Direct => direct::Direct::PLAN,
            References::Brooks => brooks::Brooks::PLAN,
            References::Replicating => replicating::Replicating::PLAN,
            References::ThinHandles => thin_handles::ThinHandles::PLAN,
            References::FatHandles => fat_handles::FatHandles::PLAN,
            References::UniHandles => uni_handles::UniHandles::PLAN,
        }
    }

    /// Whether an object's collector word holds nothing of the model's, so that a layout may use it.
    pub(crate) fn leaves_collector_word_free(self) -> bool {
        self.plan().collector_word == CollectorWord::Zero
    }
}

#[cfg(test)]
mod tests {
    use super::brooks::Brooks;
    use super::direct::Direct;
    use super::fat_handles::FatHandles;
    use super::replicating::Replicating;
    use super::thin_handles::ThinHandles;
    use super::uni_handles::UniHandles;
    use super::*;
    use crate::collector::Collect;
    use crate::collector::mark_sweep::MarkSweep;
    use crate::plan::ObjectAt;
    use crate::{HeapConfig, NoRoots, TypeInfo, TypeShape, TypeTable};

    fn check_moving<M: ReferenceModel>() {
        let types = TypeTable::new().unwrap();
        let id = types.register(TypeInfo { shape: TypeShape::Struct(vec![]), supertype: None }).unwrap();
        let mut heap = MarkSweep::<M>::new(&HeapConfig::default(), types).unwrap();
        let [before, other] = [(); 2].map(|()| heap.allocate_struct(id, &mut NoRoots).unwrap());
        let to = heap.allocate_immortal(16).unwrap();
        let cage = &heap.core.pool.cage;
        // SAFETY: both are objects, and `to` has room for one.
        unsafe {
            assert!(M::same(cage, before, before) && !M::same(cage, before, other));
            let from = M::object(cage, before);
            (0..16).step_by(4).for_each(|word| cage.write(to + word, cage.read(from + word)));
            let now = M::retarget(cage, from, to);
            assert_eq!((M::object(cage, now), M::reference(cage, to), M::type_id(cage, now)), (to, now, id));
            assert!(!M::same(cage, now, other));
            if M::PLAN.object != ObjectAt::Itself {
                assert_eq!(M::object(cage, before), to);
            }
            if M::PLAN.lets_objects_move() {
                assert_eq!(M::current(cage, before), now);
                assert!(M::same(cage, before, now) && M::same(cage, now, before));
            }
        }
    }

    #[test]
    fn an_object_that_has_moved_is_found_where_it_is() {
        check_moving::<Direct>();
        check_moving::<Brooks>();
        check_moving::<Replicating>();
        check_moving::<ThinHandles>();
        check_moving::<FatHandles>();
        check_moving::<UniHandles>();
    }
}
