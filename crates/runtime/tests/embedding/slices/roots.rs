//! References that host code holds while a cycle marks, and gives up: what the guest has taken from it by then lives.

use legato::{AnyRef, I31, OwnedRooted, Result, RootScope, Rooted, WeakRooted};

use super::{Program, each_row, nothing};

/// References that host code holds, in number: so many that a cycle visits them in several slices.
const HELD: i32 = 10_000;
/// Of them, so many are values.
const VALUES: i32 = 12;

#[test]
fn scoped_roots_that_end() {
    each_row(|row| {
        let mut program = Program::with_list(row, "", nothing)?;
        for wait in [0, 1, 2, 5] {
            let [new, hold] = ["new", "hold"].map(|name| program.instance.get_func(&mut program.store, name).unwrap());
            let new = new.typed::<i32, Option<Rooted<AnyRef>>>(&program.store)?;
            let hold = hold.typed::<Option<Rooted<AnyRef>>, ()>(&program.store)?;
            let [align, churn] =
                ["align", "churn"].map(|name| program.instance.get_func(&mut program.store, name).unwrap());
            let (align, churn) = (align.typed::<(), ()>(&program.store)?, churn.typed::<i32, ()>(&program.store)?);
            let mut scope = RootScope::new(&mut program.store);
            (0..HELD).for_each(|_| _ = AnyRef::from_i31(&mut scope, I31::wrapping_i32(1)));
            let values = (0..VALUES).map(|number| new.call(&mut scope, number)).collect::<Result<Vec<_>>>()?;
            align.call(&mut scope, ())?;
            align.call(&mut scope, ())?;
            churn.call(&mut scope, wait)?;
            values.iter().rev().try_for_each(|&value| hold.call(&mut scope, value))?;
            drop(scope);
            program.check_list(0, VALUES)?;
        }
        Ok(())
    });
}

#[test]
fn owned_roots_that_are_dropped() {
    each_row(|row| {
        let mut program = Program::with_list(row, "", nothing)?;
        let number = AnyRef::from_i31(&mut program.store, I31::wrapping_i32(1));
        let many = (0..HELD).map(|_| number.to_owned_rooted(&mut program.store)).collect::<Result<Vec<_>>>()?;
        let new = program.func::<i32, Option<Rooted<AnyRef>>>("new")?;
        let hold = program.func::<Option<Rooted<AnyRef>>, ()>("hold")?;
        for wait in [0, 1, 2, 5] {
            let mut values = Vec::new();
            for number in 0..VALUES {
                let mut scope = RootScope::new(&mut program.store);
                let value = new.call(&mut scope, number)?.unwrap();
                values.push(value.to_owned_rooted(&mut scope)?);
            }
            program.align()?;
            program.align()?;
            program.churn(wait)?;
            while let Some(value) = values.pop() {
                let mut scope = RootScope::new(&mut program.store);
                let value: OwnedRooted<AnyRef> = value;
                let value_now = value.to_rooted(&mut scope);
                drop(value);
                hold.call(&mut scope, Some(value_now))?;
            }
            program.check_list(0, VALUES)?;
        }
        drop(many);
        Ok(())
    });
}

#[test]
fn weak_references_that_are_read() {
    // With so much to mark that there is time to read.
    each_row(|row| {
        let mut program = Program::with_list(row, "", nothing)?;
        let new = program.func::<i32, Option<Rooted<AnyRef>>>("new")?;
        let number = program.func::<Option<Rooted<AnyRef>>, i32>("number")?;
        let [align, reuse] = ["align", "reuse"].map(|name| program.func::<(), ()>(name));
        let (align, reuse) = (align?, reuse?);
        let churn = program.func::<i32, ()>("churn")?;
        program.func::<i32, ()>("ballast")?.call(&mut program.store, 200)?;
        let mut read = 0;
        for wait in [10, 40] {
            let mut weak: Vec<WeakRooted<AnyRef>> = Vec::new();
            {
                let mut scope = RootScope::new(&mut program.store);
                for number in 0..VALUES {
                    let value = new.call(&mut scope, number)?.unwrap();
                    weak.push(value.to_weak_rooted(&mut scope)?);
                }
                align.call(&mut scope, ())?;
                // The snapshot of a cycle that finds them alive; they are no part of the next one's.
                churn.call(&mut scope, 2)?;
            }
            align.call(&mut program.store, ())?;
            churn.call(&mut program.store, wait)?;
            // Where the cycle has visited the host's roots by now, it does not come again.
            let mut scope = RootScope::new(&mut program.store);
            let mut values = Vec::new();
            for weak in &weak {
                values.extend(weak.to_rooted(&mut scope)?);
            }
            read += values.len();
            align.call(&mut scope, ())?;
            align.call(&mut scope, ())?;
            reuse.call(&mut scope, ())?;
            for (expected, value) in (0..).zip(&values) {
                assert_eq!(number.call(&mut scope, Some(*value))?, expected);
            }
        }
        assert!(read > 0, "none has been read in time");
        program.store.verify_heap()?;
        Ok(())
    });
}
