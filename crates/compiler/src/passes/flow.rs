//! Control flow, computed when a pass asks for it and kept for those behind it, until one changes edges.

use std::rc::Rc;

use crate::mir::{Cfg, Dominators, Function};

/// What is known of a function's control flow. It is right as long as whoever changes edges or blocks says so; what
/// blocks hold, what edges pass, and the contents of unreachable blocks are none of its business.
#[derive(Default)]
pub(crate) struct Flow {
    cfg: Option<Rc<Cfg>>,
    dominators: Option<Rc<Dominators>>,
}

impl Flow {
    /// The graph of the function's blocks.
    pub(super) fn cfg(&mut self, function: &Function) -> Rc<Cfg> {
        let cfg = self.cfg.get_or_insert_with(|| Rc::new(Cfg::new(function)));
        debug_assert!(**cfg == Cfg::new(function), "a pass has changed edges and not said so");
        Rc::clone(cfg)
    }

    /// Which blocks dominate which.
    pub(super) fn dominators(&mut self, function: &Function) -> Rc<Dominators> {
        let cfg = self.cfg(function);
        Rc::clone(self.dominators.get_or_insert_with(|| Rc::new(Dominators::new(function, &cfg))))
    }

    /// Edges have changed, or blocks have been added.
    pub(super) fn changed(&mut self) {
        *self = Flow::default();
    }
}
