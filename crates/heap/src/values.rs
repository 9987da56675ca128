//! Values that are chosen by name.

/// What is chosen by the name of a value.
pub(crate) trait Choice {
    /// The name of the value chosen.
    fn chosen(&self) -> &'static str;

    /// The names of all values.
    fn names(&self) -> Vec<&'static str>;

    /// Chooses a value with the defaults of its parameters; the one that is chosen already keeps its own. False where
    /// no value has that name.
    fn choose(&mut self, name: &str) -> bool;
}

/// Declares an enum of values that are chosen by name, a row for each: its documentation, itself with the type of its
/// parameters, if it has any, and its name on a command line.
macro_rules! values {
    (
        $(#[$attribute:meta])*
        pub enum $Axis:ident { $($(#[$doc:meta])* $Value:ident $(($Params:ty))? = $name:literal,)+ }
    ) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, PartialEq, Debug)]
        #[non_exhaustive]
        pub enum $Axis { $($(#[$doc])* $Value $(($Params))?,)+ }

        impl $Axis {
            /// Every value, with the defaults of its parameters.
            pub const ALL: &[$Axis] = &[$($Axis::$Value $((<$Params>::DEFAULT))?),+];

            /// The value's name on a command line.
            pub const fn name(self) -> &'static str {
                match self { $($Axis::$Value { .. } => $name),+ }
            }
        }

        impl $crate::values::Choice for $Axis {
            fn chosen(&self) -> &'static str {
                self.name()
            }

            fn names(&self) -> Vec<&'static str> {
                $Axis::ALL.iter().map(|value| value.name()).collect()
            }

            fn choose(&mut self, name: &str) -> bool {
                let Some(&value) = $Axis::ALL.iter().find(|value| value.name() == name) else { return false };
                if self.name() != name {
                    *self = value;
                }
                true
            }
        }
    };
}

/// Declares the parameters of a value: a row for each, with its default.
macro_rules! params {
    (
        $(#[$attribute:meta])*
        pub struct $Params:ident { $($(#[$doc:meta])* pub $field:ident: $Type:ty = $default:expr,)+ }
    ) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, PartialEq, Debug)]
        pub struct $Params { $($(#[$doc])* pub $field: $Type,)+ }

        impl $Params {
            /// The defaults.
            pub const DEFAULT: $Params = $Params { $($field: $default),+ };
        }

        impl Default for $Params {
            fn default() -> $Params {
                $Params::DEFAULT
            }
        }
    };
}

pub(crate) use {params, values};
