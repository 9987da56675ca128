//! When to collect: at a size of `live x growth`, at least `min_bytes`, at most the maximum.

use crate::config::HeapConfig;

/// Bytes handed out, and when that is enough. What is handed out counts at once, whether the mutator has used it or not.
#[derive(Debug)]
pub(crate) struct Pacer {
    minimum: u64,
    maximum: u64,
    growth: f64,
    /// Live after the last collection.
    pub(crate) live: u64,
    /// Handed out since.
    pub(crate) allocated: u64,
    /// Handed out before the last collection.
    allocated_before: u64,
    /// Size at which the next collection starts.
    pub(crate) threshold: u64,
}

impl Pacer {
    /// A pacer for an empty heap.
    pub(crate) fn new(config: &HeapConfig) -> Pacer {
        let (minimum, maximum) = (config.min_bytes, config.maximum());
        let threshold = minimum.min(maximum);
        Pacer { minimum, maximum, growth: config.growth, live: 0, allocated: 0, allocated_before: 0, threshold }
    }

    /// Live after the last collection plus handed out since, in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.live + self.allocated
    }

    /// Handed out in all.
    pub(crate) fn allocated_total(&self) -> u64 {
        self.allocated_before + self.allocated
    }

    /// Whether handing out `bytes` more calls for a collection first. Never right after one, so that allocation makes
    /// progress.
    pub(crate) fn is_due(&self, bytes: u64) -> bool {
        self.allocated > 0 && self.size() + bytes > self.threshold
    }

    /// Counts bytes handed out.
    pub(crate) fn charge(&mut self, bytes: u64) {
        self.allocated += bytes;
    }

    /// Sets the next threshold after a collection.
    pub(crate) fn collected(&mut self, live: u64) {
        self.live = live;
        self.allocated_before += self.allocated;
        self.allocated = 0;
        let grown = (live as f64 * self.growth) as u64;
        self.threshold = grown.max(self.minimum).min(self.maximum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_threshold_follows_what_survives() {
        let config = HeapConfig { min_bytes: 1000, growth: 2.0, max_bytes: 1 << 20, ..HeapConfig::default() };
        let mut pacer = Pacer::new(&config);
        assert!(!pacer.is_due(5000), "an empty heap has nothing to collect");
        pacer.charge(900);
        assert!(!pacer.is_due(100) && pacer.is_due(101));
        pacer.collected(800);
        assert_eq!(pacer.threshold, 1600);
        pacer.collected(1 << 20);
        assert_eq!(pacer.threshold, 1 << 20);
        assert_eq!(pacer.allocated_total(), 900);
    }
}
