//! What generated modules consist of: indices of functions, globals, tables and segments.

use super::types::{Array, Kind};

/// Host function: collects.
pub const GC: u32 = 0;
/// Host function: calls [`REENTRY`] of the module that calls it, up to a depth.
pub const REENTER: u32 = 1;
/// Host function: a new host object that has a number.
pub const EXTERN_NEW: u32 = 2;
/// Host function: the number of a host object, and others for other references.
pub const EXTERN_ID: u32 = 3;
/// Host function: converts both arguments and swaps them, with a collection in between. It keeps the second, and gives
/// back the one that it kept before.
pub const PASS: u32 = 4;
/// Host function: looks at the object that the first argument refers to, and stores the second in it where it fits.
pub const TOUCH: u32 = 5;
/// Allocate garbage over what earlier collections left.
pub const CHURN: [u32; 2] = [6, 7];
/// Allocate, and give back their argument.
pub const SAME: [u32; 2] = [8, 9];
/// Allocate and throw, each with the tag of its position.
pub const BOOM: [u32; 3] = [10, 11, 12];
/// A checksum of what a reference leads to, down to a depth.
pub const WALK: u32 = 13;
/// Generated functions with more parameters than registers hold.
pub const MANY: [u32; 2] = [14, 15];
/// A generated function that ends in a call of one of [`MANY`].
pub const FEW: u32 = 16;
/// Generated functions with several results.
pub const SWAP: [u32; 2] = [17, 18];
/// What [`REENTER`] calls.
pub const REENTRY: u32 = 19;
/// Generated functions that the host calls.
pub const RUN: [u32; 3] = [20, 21, 22];
/// A checksum of all globals and tables.
pub const OBSERVE: u32 = 23;
/// A generated function of nests of loops alone, called before anything was collected.
pub const NESTS: u32 = 24;

/// A function that does nothing.
pub const NOTHING: u32 = 25;

/// Number of the first function that is not imported.
pub const IMPORTS: u32 = 6;

/// Global: the running checksum.
pub const SUM: u32 = 0;
/// Global: loops and functions that may still be entered.
pub const FUEL: u32 = 1;
/// Global: 0, but the compiler does not know.
pub const ZERO: u32 = 2;
/// Number of the first global of [`GLOBALS`].
pub const FIRST_GLOBAL: u32 = 3;
/// The globals that hold references: what they hold, whether it may be null, and whether they are mutable.
pub const GLOBALS: [(Kind, bool, bool); 18] = [
    (Kind::Base, false, false),
    (Kind::Leaf, false, false),
    (Kind::Array(Array::Ints), false, false),
    (Kind::Array(Array::Bytes), false, false),
    (Kind::Array(Array::Nodes), false, false),
    (Kind::Array(Array::Leaves), false, false),
    (Kind::Any, true, false),
    (Kind::Extern, true, false),
    (Kind::Same, false, false),
    (Kind::Base, true, true),
    (Kind::Derived, true, true),
    (Kind::Any, true, true),
    (Kind::Extern, true, true),
    (Kind::Array(Array::Nodes), true, true),
    (Kind::Array(Array::Bytes), true, true),
    (Kind::Leaf, false, true),
    (Kind::Array(Array::Leaves), false, true),
    (Kind::Exn, true, true),
];

/// Global: a function without parameters and results, as that which initialises a class: [`NOTHING`] or one of
/// [`CHURN`].
pub const INITIALIZER: u32 = FIRST_GLOBAL + GLOBALS.len() as u32;

/// Table of functions, by [`function_slot`].
pub const FUNCTIONS: u32 = 0;
/// The tables of references from number 1 on: what they hold, and whether it may be null.
pub const TABLES: [(Kind, bool); 6] = [
    (Kind::Base, true),
    (Kind::Any, true),
    (Kind::Leaf, false),
    (Kind::Extern, true),
    (Kind::Base, true),
    (Kind::Exn, true),
];
/// Elements that every table has at first.
pub const TABLE_ELEMENTS: u32 = 16;
/// Elements that a table may grow to.
pub const TABLE_MOST: u32 = 300;

/// The element segments from number 0 on: what they hold, and whether it may be null.
pub const SEGMENTS: [(Kind, bool); 7] = [
    (Kind::Base, true),
    (Kind::Leaf, false),
    (Kind::Any, true),
    (Kind::Extern, true),
    (Kind::Same, true),
    (Kind::Array(Array::Bytes), true),
    // Dropped by some programs.
    (Kind::Base, true),
];
/// Elements of each.
pub const SEGMENT_ELEMENTS: u32 = 24;
/// The segment that programs drop.
pub const DROPPED_SEGMENT: u32 = 6;
/// Bytes of data segment 0.
pub const DATA_BYTES: u32 = 4096;
/// The data segment that programs drop, of as many bytes as [`SEGMENT_ELEMENTS`].
pub const DROPPED_DATA: u32 = 1;

/// Where the table of functions holds a function.
pub fn function_slot(function: u32) -> i32 {
    (function - IMPORTS) as i32
}

/// The element segment with values of a kind.
pub fn segment(kind: Kind) -> Option<u32> {
    (0..DROPPED_SEGMENT).find(|&segment| SEGMENTS[segment as usize].0 == kind)
}

/// Loops and functions that one call of the host may enter.
pub const FUEL_OF_A_CALL: i32 = 100;
