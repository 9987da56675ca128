//! What a configuration was given by name.

/// The parameters of axis values that [`HeapConfig::set`](super::HeapConfig::set) was given, by name: they come to
/// their value when that is chosen, before or after. And `min` where it was given, as it must fit `max` then. How a
/// heap was described makes no difference to what it is: two of these are always equal.
#[derive(Clone, Debug, Default)]
pub struct Given(pub(super) Vec<(&'static str, String)>);

impl PartialEq for Given {
    fn eq(&self, _: &Given) -> bool {
        true
    }
}
