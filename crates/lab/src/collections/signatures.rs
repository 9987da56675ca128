//! The function types of generated programs.

use super::types::{Array, FIRST_SIGNATURE_OF_OBJECTS, Field, Kind};

/// How many signatures know no type of the program. They come before all other types, each for itself, so that host
/// functions can have them.
pub const PLAIN: u32 = Signature::Number as u32 + 1;

/// The function types, in the order of their indices. `Number`, `Node` and `Several` are those of tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Signature {
    Void,
    Same,
    Run,
    Walk,
    ExternNew,
    ExternId,
    Pass,
    Reentry,
    Touch,
    Number,
    Swap,
    Many,
    Few,
    Node,
    Several,
}

impl Signature {
    /// All, in the order of their indices.
    pub const ALL: [Signature; 15] = [
        Signature::Void,
        Signature::Same,
        Signature::Run,
        Signature::Walk,
        Signature::ExternNew,
        Signature::ExternId,
        Signature::Pass,
        Signature::Reentry,
        Signature::Touch,
        Signature::Number,
        Signature::Swap,
        Signature::Many,
        Signature::Few,
        Signature::Node,
        Signature::Several,
    ];
    /// Those of the tags, by the tags' indices.
    pub const TAGS: [Signature; 3] = [Signature::Number, Signature::Node, Signature::Several];

    /// The index of the type.
    pub fn index(self) -> u32 {
        match self as u32 {
            plain if plain < PLAIN => plain,
            other => FIRST_SIGNATURE_OF_OBJECTS + other - PLAIN,
        }
    }

    /// Parameters. `Many` has more than registers hold.
    pub fn parameters(self) -> Vec<Field> {
        let base = Field::Ref(Kind::Base, true);
        let any = Field::Ref(Kind::Any, true);
        let external = Field::Ref(Kind::Extern, true);
        match self {
            Signature::Void | Signature::Run => vec![],
            Signature::Same | Signature::Few | Signature::ExternNew | Signature::Reentry | Signature::Number => {
                vec![Field::I32]
            }
            Signature::Swap => vec![base, any],
            Signature::Many => vec![
                Field::I64,
                base,
                any,
                Field::I32,
                Field::Ref(Kind::Array(Array::Nodes), true),
                Field::F64,
                Field::V128,
                external,
                Field::Ref(Kind::Leaf, false),
                Field::Ref(Kind::Array(Array::Bytes), true),
                Field::I64,
                Field::Ref(Kind::Derived, true),
                Field::Ref(Kind::Array(Array::Leaves), false),
                any,
            ],
            Signature::Walk => vec![any, Field::I32],
            Signature::Touch => vec![any, any],
            Signature::ExternId => vec![external],
            Signature::Pass => vec![external, any],
            Signature::Node => vec![base, Field::I32],
            Signature::Several => vec![any, external, Field::Ref(Kind::Leaf, false)],
        }
    }

    /// Results.
    pub fn results(self) -> Vec<Field> {
        let base = Field::Ref(Kind::Base, true);
        let any = Field::Ref(Kind::Any, true);
        let external = Field::Ref(Kind::Extern, true);
        match self {
            Signature::Void | Signature::Reentry => vec![],
            Signature::Number | Signature::Node | Signature::Several => vec![],
            Signature::Same | Signature::Walk | Signature::ExternId | Signature::Touch => vec![Field::I32],
            Signature::Swap => vec![any, base],
            Signature::Many | Signature::Few => vec![base],
            Signature::Run => vec![Field::I64],
            Signature::ExternNew => vec![external],
            Signature::Pass => vec![any, external],
        }
    }
}
