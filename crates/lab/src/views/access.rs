//! One large array, as a host function sees it.

use super::Options;
use crate::measure::{Pairs, Time};
use crate::report::{Report, Row, Target};
use anyhow::{Context, ensure};
use legato::{
    ArrayRef, ArrayRefPre, ArrayType, Config, Engine, FieldType, Mutability, OwnedRooted, RootScope, StorageType,
    Store, Val, ValType,
};
use std::hint::black_box;

const EXPERIMENT: &str = "access";
/// The source's array: 129 leaves and a part of one.
const DOUBLES: u32 = 8_484_144;
/// How many times faster the source is with double mapping: 3.5 ms, not 90 ms.
const FASTER: f64 = 26.0;
/// The same as a ratio of times.
const MOST: f64 = 0.038;
/// Calls of a view that exists already, timed together: one is too short for a clock.
const CALLS: u32 = 1000;

/// A heap with one array in use.
struct Subject {
    store: Store<()>,
    allocator: ArrayRefPre,
    length: u32,
    array: OwnedRooted<ArrayRef>,
}

impl Subject {
    fn new(options: &Options, views: &[(&str, &str)]) -> anyhow::Result<Subject> {
        let mut config = Config::new();
        let (leaf, length) = if options.smallest { ("64K", 40_000) } else { ("512K", DOUBLES) };
        for (key, value) in [("arrays", "arraylets"), ("leaf", leaf), ("max", "1G")].iter().chain(views) {
            config.heap_option(key, value)?;
        }
        for option in &options.heap {
            let (key, value) = option.split_once('=').with_context(|| format!("'{option}' is no KEY=VALUE"))?;
            config.heap_option(key, value)?;
        }
        let engine = Engine::new(&config)?;
        let mut store = Store::try_new(&engine, ())?;
        let doubles = FieldType::new(Mutability::Var, StorageType::ValType(ValType::F64));
        let allocator = ArrayRefPre::new(&store, ArrayType::new(&engine, doubles));
        let array = ArrayRef::new(&mut store, &allocator, &Val::F64(1f64.to_bits()), length)?;
        let array = array.to_owned_rooted(&mut store)?;
        Ok(Subject { store, allocator, length, array })
    }

    /// Gets and gives back the slice `calls` times; the time of one.
    fn acquire(&mut self, calls: u32) -> anyhow::Result<Time> {
        let mut scope = RootScope::new(&mut self.store);
        let array = self.array.to_rooted(&mut scope);
        let (time, result) = Time::of(|| (0..calls).try_for_each(|_| array.with_slice_mut(&mut scope, look)));
        result?;
        Ok(Time { wall: time.wall / f64::from(calls), user: time.user / f64::from(calls) })
    }

    /// Writes every element.
    fn write(&mut self) -> anyhow::Result<Time> {
        let mut scope = RootScope::new(&mut self.store);
        let array = self.array.to_rooted(&mut scope);
        let before = array.get(&mut scope, self.length - 1)?.f64();
        let (time, result) = Time::of(|| array.with_slice_mut(&mut scope, increment));
        result?;
        let after = array.get(&mut scope, self.length - 1)?.f64();
        ensure!(after == before.map(|value| value + 1.0), "the element is {after:?} after {before:?}");
        Ok(time)
    }

    /// Allocates another array, and does something with it for the first time; the times of both.
    fn anew(&mut self, write: bool) -> anyhow::Result<(Time, Time)> {
        let mut scope = RootScope::new(&mut self.store);
        let (allocation, array) =
            Time::of(|| ArrayRef::new(&mut scope, &self.allocator, &Val::F64(1f64.to_bits()), self.length));
        let array = array?;
        let (first, result) = Time::of(|| match write {
            true => array.with_slice_mut(&mut scope, increment),
            false => array.with_slice_mut(&mut scope, look),
        });
        result?;
        drop(scope);
        // Its memory is there for the next one.
        self.store.gc();
        Ok((allocation, first))
    }
}

fn look(elements: &mut [f64]) {
    black_box(elements.as_mut_ptr());
}

fn increment(elements: &mut [f64]) {
    elements.iter_mut().for_each(|element| *element += 1.0);
}

/// Adds the rows.
pub(super) fn measure(options: &Options, report: &mut Report) -> anyhow::Result<()> {
    eprintln!("access ...");
    let mut copied = Subject::new(options, &[("native-views", "copy")])?;
    let mut mapped = Subject::new(options, &[("native-views", "double-map")])?;
    let at_allocation = [("native-views", "double-map"), ("view-creation", "allocation")];
    let mut early = Subject::new(options, &at_allocation)?;
    let pairs = options.pairs;
    let faster = Some(Target::Ratio(MOST));
    let mut add = |subject: &str, target, runs: anyhow::Result<Pairs>| {
        report.rows.push(match runs {
            Ok(runs) => Row::new(EXPERIMENT, subject, target, runs),
            Err(error) => Row::failed(EXPERIMENT, subject, &error),
        });
    };
    let runs = Pairs::run(pairs, || mapped.acquire(CALLS), || copied.acquire(1));
    add("acquire and release", faster.filter(|_| !options.smallest), runs);
    add("acquire, write every element, release", None, Pairs::run(pairs, || mapped.write(), || copied.write()));
    let first = |subject: &mut Subject, write| subject.anew(write).map(|(_, first)| first);
    let runs = Pairs::run(pairs, || first(&mut mapped, false), || first(&mut copied, false));
    add("first acquire and release (the view is made)", None, runs);
    let runs = Pairs::run(
        pairs,
        || early.anew(false).map(|(allocation, _)| allocation),
        || copied.anew(false).map(|(allocation, _)| allocation),
    );
    add("allocation (view-creation=allocation)", None, runs);
    let runs = Pairs::run(pairs, || first(&mut early, true), || first(&mut copied, true));
    add("first write of every element (view-creation=allocation)", None, runs);

    let (mapped, copied) = (mapped.store.heap_stats().arrays, copied.store.heap_stats().arrays);
    ensure!(
        mapped.view_copies == 0 && copied.views_made == 0,
        "{} copies were made under double-map, {} views under copy",
        mapped.view_copies,
        copied.views_made
    );
    let times = report.rows[0].ratio.map_or(f64::NAN, |ratio| 1.0 / ratio.median);
    report.notes.push(format!(
        "access: the source compares acquire and release, which is copying in and out, with the mapped access, and finds {FASTER} \
         times; here it is {times:.0} times for a view that exists"
    ));
    Ok(())
}
