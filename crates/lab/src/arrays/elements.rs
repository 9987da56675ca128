//! Types of array elements, for modules in text form.

/// What an array holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Element {
    I8,
    I16,
    I32,
    I64,
    F64,
    /// A reference to a `$box`, a structure of one integer.
    Reference,
}

impl Element {
    pub(super) const ALL: [Element; 6] =
        [Element::I8, Element::I16, Element::I32, Element::I64, Element::F64, Element::Reference];

    /// Name for tables.
    pub(super) fn name(self) -> &'static str {
        match self {
            Element::I8 => "i8",
            Element::I16 => "i16",
            Element::I32 => "i32",
            Element::I64 => "i64",
            Element::F64 => "f64",
            Element::Reference => "reference",
        }
    }

    /// Bytes of an element; references take four in every engine here.
    pub(super) fn bytes(self) -> usize {
        match self {
            Element::I8 => 1,
            Element::I16 => 2,
            Element::I32 | Element::Reference => 4,
            Element::I64 | Element::F64 => 8,
        }
    }

    /// The module's types: `$box`, `$array`, and globals `$one` and `$other` for arrays.
    pub(super) fn declarations(self) -> String {
        let storage = match self {
            Element::Reference => "(ref null $box)",
            other => other.name(),
        };
        format!(
            "(type $box (struct (field i32)))
             (type $array (array (mut {storage})))
             (global $one (mut (ref null $array)) (ref.null $array))
             (global $other (mut (ref null $array)) (ref.null $array))"
        )
    }

    /// The type of an element on the stack.
    pub(super) fn value_type(self) -> &'static str {
        match self {
            Element::I8 | Element::I16 | Element::I32 => "i32",
            Element::I64 => "i64",
            Element::F64 => "f64",
            Element::Reference => "(ref null $box)",
        }
    }

    /// An element made of an integer; of a reference, a new box.
    pub(super) fn of(self, integer: &str) -> String {
        match self {
            Element::I8 | Element::I16 | Element::I32 => integer.to_string(),
            Element::I64 => format!("(i64.extend_i32_u {integer})"),
            Element::F64 => format!("(f64.convert_i32_u {integer})"),
            Element::Reference => format!("(struct.new $box {integer})"),
        }
    }

    /// The element of `array` at `index`.
    pub(super) fn get(self, array: &str, index: &str) -> String {
        let operation = if matches!(self, Element::I8 | Element::I16) { "array.get_u" } else { "array.get" };
        format!("({operation} $array {array} {index})")
    }

    /// An integer that depends on an element: its value, or whether it is null.
    pub(super) fn digest(self, value: &str) -> String {
        match self {
            Element::I8 | Element::I16 | Element::I32 => value.to_string(),
            Element::I64 => format!("(i32.wrap_i64 {value})"),
            Element::F64 => format!("(i32.wrap_i64 (i64.reinterpret_f64 {value}))"),
            Element::Reference => format!("(ref.is_null {value})"),
        }
    }

    /// Whether two elements are the same.
    pub(super) fn equal(self, a: &str, b: &str) -> String {
        let operation = match self {
            Element::I8 | Element::I16 | Element::I32 => "i32.eq",
            Element::I64 => "i64.eq",
            Element::F64 => "f64.eq",
            Element::Reference => "ref.eq",
        };
        format!("({operation} {a} {b})")
    }
}
