//! Values of parameters as text.

/// A size with the largest suffix that leaves it whole.
pub(crate) fn size_text(bytes: u64) -> String {
    let suffixes = [(30, "G"), (20, "M"), (10, "K")];
    match suffixes.iter().find(|(shift, _)| bytes > 0 && bytes.trailing_zeros() >= *shift) {
        Some((shift, suffix)) => format!("{}{suffix}", bytes >> shift),
        None => bytes.to_string(),
    }
}
