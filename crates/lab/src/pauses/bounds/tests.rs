use super::world::run;
use super::*;

fn stops(case: &Case, count: u32) -> Stops {
    // The thread of a test has a stack of 2 MiB.
    let heap = ["nursery=256K", "verify=on"].map(String::from);
    run(case, count, 200, &heap, Duration::from_secs(60), 500).unwrap()
}

#[test]
fn every_case_is_collected_and_timed() {
    for case in &CASES {
        let stops = stops(case, (case.count / 1000).max(1));
        assert!(stops.slices > 0 && stops.slice > Duration::ZERO && stops.phase.is_some(), "{}", case.name);
        // A slice is somewhere in a gap, as long as the program waits for it.
        assert!(stops.largest >= stops.slice, "{}", case.name);
        assert!(stops.largest_cpu >= stops.slice_cpu && stops.slice_cpu > Duration::ZERO, "{}", case.name);
    }
}

#[test]
fn what_fails_is_a_row() {
    let options = ["nursery=plenty".to_string()];
    assert!(run(&CASES[0], 1, 1, &options, Duration::from_secs(1), 1).is_err());
    let tiny = ["max=1M".to_string()];
    let array = CASES.iter().find(|case| case.name == "an array of references").unwrap();
    let error = run(array, array.count, 200, &tiny, Duration::from_secs(1), 1).unwrap_err();
    assert!(format!("{error:#}").contains("prepare"), "{error:#}");
}
