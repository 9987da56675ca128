//! Two observations of one module, compared.

use super::observation::{Observation, Outcome};
use serde::{Deserialize, Serialize};

/// The result of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Both did the same.
    Same,
    /// They did the same up to a point where at least one gave up for lack of resources.
    Inconclusive(String),
    /// They did not do the same.
    Different(String),
}

/// Calls that were compared, by how they ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Calls {
    /// Returned.
    pub returned: u64,
    /// Trapped.
    pub trapped: u64,
    /// Left an exception to the host.
    pub threw: u64,
}

impl std::ops::AddAssign for Calls {
    fn add_assign(&mut self, other: Calls) {
        self.returned += other.returned;
        self.trapped += other.trapped;
        self.threw += other.threw;
    }
}

/// Compares what Legato did with what wasmtime did.
pub fn compare(legato: &Observation, wasmtime: &Observation) -> (Calls, Verdict) {
    let mut calls = Calls::default();
    if let Some(verdict) = outcomes("instantiation", &legato.instantiation, &wasmtime.instantiation) {
        return (calls, verdict);
    }
    for (number, (a, b)) in (1..).zip(legato.calls.iter().zip(&wasmtime.calls)) {
        assert_eq!(a.export, b.export, "both engines call the exports in the same order");
        let what = format!("call {number} of '{}'", a.export);
        // A call that used up its budget stopped at the same place in both; but what came before it, for instance a
        // table that could not grow, may be an engine's own choice. It is compared all the same.
        if let Some(verdict) = outcomes(&what, &a.outcome, &b.outcome) {
            return (calls, verdict);
        }
        if a.budget != b.budget {
            return (calls, different(&format!("{what} left a budget of"), &a.budget, &b.budget));
        }
        match a.outcome {
            Outcome::Values(_) => calls.returned += 1,
            Outcome::Exception => calls.threw += 1,
            _ => calls.trapped += 1,
        }
    }
    if legato.calls.len() != wasmtime.calls.len() {
        return (calls, different("number of calls", &legato.calls.len(), &wasmtime.calls.len()));
    }
    for (a, b) in legato.state.iter().zip(&wasmtime.state) {
        if a != b {
            return (calls, different("state at the end", a, b));
        }
    }
    (calls, Verdict::Same)
}

/// Nothing if two outcomes are the same and the module goes on.
fn outcomes(what: &str, a: &Outcome, b: &Outcome) -> Option<Verdict> {
    use Outcome::{Failure, Inconclusive};
    match (a, b) {
        (Failure(_), Failure(_)) => {
            Some(Verdict::Inconclusive(format!("{what}: both engines refuse the module: {a:?}")))
        }
        // What the oracle cannot do says nothing about Legato.
        (_, Failure(why)) => Some(Verdict::Inconclusive(format!("{what}: wasmtime: {why}"))),
        (Failure(_), _) => Some(different(what, a, b)),
        (Inconclusive(why), _) => Some(Verdict::Inconclusive(format!("{what}: legato: {why}"))),
        (_, Inconclusive(why)) => Some(Verdict::Inconclusive(format!("{what}: wasmtime: {why}"))),
        (a, b) if a != b => Some(different(what, a, b)),
        _ => None,
    }
}

fn different(what: &str, a: &impl std::fmt::Debug, b: &impl std::fmt::Debug) -> Verdict {
    Verdict::Different(format!("{what}:\n  legato:   {a:?}\n  wasmtime: {b:?}"))
}

#[cfg(test)]
mod tests {
    use super::super::observation::{Call, TrapKind, Value};
    use super::*;

    fn observation(outcomes: &[Outcome]) -> Observation {
        let call = |outcome: &Outcome| Call { export: "f".into(), outcome: outcome.clone(), budget: 5 };
        Observation {
            instantiation: Outcome::Values(Vec::new()),
            calls: outcomes.iter().map(call).collect(),
            state: vec![("g".into(), vec![Value::Bits32(1)])],
        }
    }

    #[test]
    fn equal_runs_are_the_same() {
        let run = observation(&[Outcome::Exception, Outcome::Trap(TrapKind::Unreachable)]);
        let calls = Calls { trapped: 1, threw: 1, returned: 0 };
        assert_eq!(compare(&run, &run), (calls, Verdict::Same));
    }

    #[test]
    fn any_difference_is_found() {
        let run = observation(&[Outcome::Values(vec![Value::Bits32(1)])]);
        let mut others =
            vec![observation(&[Outcome::Values(vec![Value::Bits32(2)])]), observation(&[Outcome::Exception])];
        others.push(run.clone());
        others[2].calls[0].budget = 4;
        others.push(run.clone());
        others[3].state[0].1[0] = Value::Null;
        others.push(Observation::not_instantiated(Outcome::Trap(TrapKind::Unreachable)));
        for other in others {
            assert!(matches!(compare(&run, &other).1, Verdict::Different(_)), "{other:?}");
        }
    }

    #[test]
    fn lack_of_resources_ends_the_comparison() {
        let run = observation(&[Outcome::Exception, Outcome::Values(Vec::new())]);
        let other = observation(&[Outcome::Exception, Outcome::Inconclusive("stack".into())]);
        assert!(matches!(compare(&other, &run), (Calls { threw: 1, .. }, Verdict::Inconclusive(_))));
        assert!(matches!(compare(&run, &other), (Calls { threw: 1, .. }, Verdict::Inconclusive(_))));
    }

    #[test]
    fn only_legato_is_to_blame_for_a_failure() {
        let run = observation(&[]);
        let failed = Observation::not_instantiated(Outcome::Failure("no".into()));
        assert!(matches!(compare(&failed, &run).1, Verdict::Different(_)));
        assert!(matches!(compare(&run, &failed).1, Verdict::Inconclusive(_)));
    }
}
