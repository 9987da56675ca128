//! What [`HeapConfig::set`](crate::HeapConfig::set) remembers.

/// The parameters of axis values that [`HeapConfig::set`](crate::HeapConfig::set) was given, by name: they come to their
/// value when that is chosen, before or after. How a heap was described makes no difference to what it is: two of these
/// are always equal.
#[derive(Clone, Debug, Default)]
pub struct Given(pub(super) Vec<(&'static str, String)>);

impl PartialEq for Given {
    fn eq(&self, _: &Given) -> bool {
        true
    }
}
