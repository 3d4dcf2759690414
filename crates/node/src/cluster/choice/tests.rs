//! Stores that took some frames, and which of them are read: cases, and random losses.

use super::*;

fn numbers(ranges: &[(u64, u64)]) -> Numbers {
    let mut numbers = Numbers::new();
    ranges.iter().for_each(|&(first, last)| numbers.insert_range(first, last));
    numbers
}

/// A store with frames of one collector, ten lines each, all of them stored.
fn store(taken: &[(u64, u64)]) -> StoreFrames {
    partly_expired(taken, taken)
}

fn partly_expired(taken: &[(u64, u64)], stored: &[(u64, u64)]) -> StoreFrames {
    let (taken, stored) = (numbers(taken), numbers(stored));
    let lines = stored.count() * 10;
    let frames = NodeFrames { taken, stored };
    let collectors = if frames.taken.is_empty() { [].into() } else { [(7, frames)].into() };
    StoreFrames { node: 1, lines, lines_damaged: 0, collectors }
}

/// What is said of stores that are all here, and have been a moment ago what they are.
fn here(stores: &[StoreFrames]) -> Vec<Known<'_>> {
    stores.iter().map(|state| Known { now: Some(state), before: Some(state) }).collect()
}

const PAIR: [[usize; 1]; 2] = [[0], [1]];

fn copies<const N: usize>(all: &[[usize; N]]) -> Vec<Vec<usize>> {
    all.iter().map(|copy| copy.to_vec()).collect()
}

#[test]
fn a_store_that_lacks_frames_is_not_read_while_another_has_them() {
    // What the two stores of a stripe took, the one that is read, and what it lacks.
    type Ranges = &'static [(u64, u64)];
    let cases: &[(Ranges, Ranges, usize, Ranges)] = &[
        (&[(1, 9)], &[(1, 9)], 0, &[]),
        (&[], &[(1, 9)], 1, &[]),
        (&[(6, 9)], &[(1, 9)], 1, &[]),
        (&[(1, 9)], &[(6, 9)], 0, &[]),
        // An old backup was restored.
        (&[(1, 3), (7, 9)], &[(1, 9)], 1, &[]),
        // One is behind.
        (&[(1, 8)], &[(1, 9)], 1, &[]),
        // Each lacks something: the one that lacks less is read.
        (&[(1, 5)], &[(4, 9)], 1, &[(1, 3)]),
        // A collector was killed: the last frames before the gap reached one copy only, on either
        // side, and were never acknowledged.
        (&[(1, 5), (100, 109)], &[(1, 7), (100, 109)], 0, &[]),
        (&[(1, 7), (100, 104), (200, 205)], &[(1, 5), (100, 109), (200, 205)], 0, &[]),
        // Without a later start, they may still come.
        (&[(1, 5)], &[(1, 7)], 1, &[]),
        // That is no reason for more than it had in memory, or for what does not go on.
        (&[(1, 5), (1000, 1001)], &[(1, 900), (1000, 1001)], 1, &[]),
        (&[(1, 5), (1000, 1009)], &[(1, 900), (1000, 1001)], 1, &[(1002, 1009)]),
        (&[(100, 109)], &[(1, 5), (100, 109)], 1, &[]),
    ];
    for (one, two, chosen, lacking) in cases {
        let stores = [store(one), store(two)];
        let choice = choose(&copies(&PAIR), &here(&stores));
        assert_eq!((choice.stores, choice.away.len()), (vec![*chosen], 0), "{one:?} {two:?}");
        match (&choice.lacks[..], lacking.is_empty()) {
            ([], true) => {}
            ([Lack { what: Lacking::Frames { frames, lines, .. }, .. }], false) => {
                assert_eq!(*frames, numbers(lacking), "{one:?} {two:?}");
                assert_eq!(*lines, frames.count() * 10);
            }
            (other, _) => panic!("{one:?} {two:?}: {other:?}"),
        }
    }
}

#[test]
fn what_expired_is_not_lacking() {
    let stores = [store(&[(51, 99)]), partly_expired(&[(1, 99)], &[(51, 99)])];
    assert!(choose(&copies(&PAIR), &here(&stores)).is_whole());
    assert_eq!(all_lacks(&copies(&PAIR), &here(&stores)), []);
    let stores = [store(&[(51, 99)]), partly_expired(&[(1, 99)], &[(50, 99)])];
    assert_eq!(choose(&copies(&PAIR), &here(&stores)).stores, [1]);
}

#[test]
fn a_store_that_forgot_old_ranges_has_them_all_the_same() {
    let many: Vec<(u64, u64)> =
        (1..=RANGES_KEPT as u64 + 5).map(|n| (n * 10, n * 10 + 4)).collect();
    let stores = [store(&many[5..]), store(&many)];
    assert_eq!(all_lacks(&copies(&PAIR), &here(&stores)), []);
}

#[test]
fn a_moment_is_allowed_for_frames_that_are_on_their_way() {
    let (before, now) = (store(&[(1, 5)]), [store(&[(1, 6)]), store(&[(1, 5)])]);
    let known: Vec<_> =
        now.iter().map(|now| Known { now: Some(now), before: Some(&before) }).collect();
    assert!(all_lacks(&copies(&PAIR), &known).is_empty());
}

#[test]
fn a_store_that_is_away_is_remembered() {
    let (empty, full) = (store(&[]), store(&[(1, 9)]));
    let away = Known { now: None, before: Some(&full) };
    let known = [Known { now: Some(&empty), before: Some(&empty) }, away];
    let choice = choose(&copies(&PAIR), &known);
    assert_eq!(choice.stores, [0]);
    let text = choice.lacks[0].describe(&["a1:9514", "b1:9514"]);
    assert_eq!(
        text,
        "store a1:9514 lacks 9 frames (1 to 9) of collector 00000007, about 90 lines, that store b1:9514 has"
    );
}

#[test]
fn a_store_alone_is_believed_as_far_as_its_numbers_begin_at_the_beginning() {
    let cases = [
        (store(&[(1, 9)]), true),
        (store(&[(NUMBERS_RANGE + 1, NUMBERS_RANGE + 9)]), true),
        (store(&[(2, 9)]), false),
        (store(&[(NUMBERS_RANGE + 3, NUMBERS_RANGE + 9)]), false),
        // What it had first has expired.
        (partly_expired(&[(2, 9)], &[(5, 9)]), true),
        (store(&[]), false),
        (StoreFrames { lines: 5, ..store(&[]) }, true),
    ];
    for (state, is_whole) in cases {
        let known = [Known { now: Some(&state), before: Some(&state) }, Known::default()];
        let choice = choose(&copies(&PAIR), &known);
        assert_eq!((choice.stores.len(), choice.is_whole()), (1, is_whole), "{state:?}");
    }
}

/// Two copies on two stores each: a1, a2, b1, b2.
const SQUARE: [[usize; 2]; 2] = [[0, 1], [2, 3]];

fn square(low: [&[(u64, u64)]; 2], high: [&[(u64, u64)]; 2]) -> [StoreFrames; 4] {
    [store(low[0]), store(high[0]), store(low[1]), store(high[1])]
}

#[test]
fn each_stripe_is_read_where_it_lives() {
    let full = (&[(1, 9)][..], &[(101, 109)][..]);
    let stores = square([full.0; 2], [full.1; 2]);
    let choose_without = |away: &[usize], stores: &[StoreFrames]| {
        let mut known = here(stores);
        away.iter().for_each(|store| known[*store].now = None);
        choose(&copies(&SQUARE), &known)
    };
    for (away, expected, missing) in [
        (&[][..], &[0, 1][..], vec![]),
        (&[1], &[2, 3], vec![]),
        (&[0, 3], &[2, 1], vec![]),
        (&[1, 2], &[0, 3], vec![]),
        (&[0, 2], &[1], vec![vec![0, 2]]),
        (&[0, 1, 2], &[3], vec![vec![0, 2]]),
    ] {
        let choice = choose_without(away, &stores);
        assert_eq!(choice.stores, expected, "{away:?}");
        assert_eq!((choice.away, choice.lacks.len()), (missing, 0), "{away:?}");
    }
    // One store came back empty and has no frame yet, another is away.
    let stores = square([full.0, &[]], [full.1; 2]);
    let choice = choose_without(&[1], &stores);
    assert_eq!((choice.stores.as_slice(), choice.is_whole()), (&[0, 3][..], true));
    // It has one again.
    let stores = square([full.0, &[(9, 9)]], [full.1; 2]);
    let choice = choose_without(&[1], &stores);
    assert_eq!((choice.stores.as_slice(), choice.is_whole()), (&[0, 3][..], true));
}

#[test]
fn copies_that_are_listed_in_another_order_are_read_as_wholes() {
    let (low, high) = ([(1, 9)], [(101, 109)]);
    let stores = [store(&low), store(&high), store(&high), store(&low)];
    let mut known = here(&stores);
    assert!(choose(&copies(&SQUARE), &known).is_whole());
    known[0].now = None;
    assert_eq!(choose(&copies(&SQUARE), &known).stores, [2, 3]);
    // The second copy has the other stripe twice, or nothing of it.
    known[3].now = None;
    let choice = choose(&copies(&SQUARE), &known);
    assert!(!choice.is_whole() && choice.stores.len() == 1, "{choice:?}");
}

#[test]
fn copies_of_other_sizes_are_compared_as_wholes() {
    let copies = [vec![0, 1], vec![2]];
    let stores = [store(&[(1, 9)]), store(&[(101, 109)]), store(&[(1, 9), (101, 109)])];
    assert!(choose(&copies, &here(&stores)).is_whole());
    let stores = [store(&[(1, 9)]), store(&[(105, 109)]), store(&[(1, 9), (101, 109)])];
    assert_eq!(choose(&copies, &here(&stores)).stores, [2]);
    let mut known = here(&stores);
    known[2].now = None;
    let choice = choose(&copies, &known);
    assert_eq!((choice.stores.as_slice(), choice.lacks[0].frames()), (&[0, 1][..], 4));
}

#[test]
fn lines_that_stores_received_themselves_are_not_put_together() {
    let stores: Vec<_> = (0..4).map(|_| StoreFrames { lines: 5, ..store(&[]) }).collect();
    let mut known = here(&stores);
    (known[0].now, known[3].now) = (None, None);
    let choice = choose(&copies(&SQUARE), &known);
    assert_eq!((choice.stores.len(), choice.away.len()), (1, 1));
}

#[test]
fn a_damaged_store_is_read_last() {
    let damaged = StoreFrames { lines_damaged: 1, ..store(&[(1, 9)]) };
    let stores = [damaged, store(&[(1, 9)])];
    assert_eq!(choose(&copies(&PAIR), &here(&stores)).stores, [1]);
}

/// Random losses on two copies of some stripes: an answer that counts as whole has each frame of
/// each stripe, once; and one that could be whole is.
#[test]
fn a_whole_answer_has_each_frame_once() {
    for seed in 0..3_000 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (stripes, count) = (random.usize(1..4), random.usize(2..4));
        let all: Vec<Vec<usize>> =
            (0..count).map(|copy| (copy * stripes..(copy + 1) * stripes).collect()).collect();
        let mut stores = Vec::new();
        for _ in 0..count {
            for stripe in 0..stripes as u64 {
                let mut taken = Numbers::new();
                for number in 1..=8 {
                    let is_lost = random.u8(0..12) == 0;
                    if !is_lost {
                        taken.insert(stripe * NUMBERS_RANGE + number);
                    }
                }
                if random.u8(0..6) == 0 {
                    taken = Numbers::new();
                }
                let ranges: Vec<_> = taken.ranges().collect();
                stores.push(store(&ranges));
            }
        }
        let mut known = here(&stores);
        for known in &mut known {
            if random.u8(0..5) == 0 {
                known.now = None;
            }
        }
        let frames = |store: usize| {
            let taken = stores[store].collectors.get(&7).map(|frames| &frames.taken);
            taken.cloned().unwrap_or_default()
        };
        let choice = choose(&all, &known);
        assert!(choice.stores.iter().all(|store| known[*store].now.is_some()), "seed {seed}");
        let mut any = Numbers::new();
        (0..stores.len()).for_each(|store| any.insert_all(&frames(store)));
        // Frames before a gap that a collector could have left count as never acknowledged.
        let is_excused = |store: usize| {
            (0..stores.len()).filter(|other| other % stripes == store % stripes).all(|other| {
                lacking(&frames(store), &NodeFrames { taken: frames(other), stored: frames(other) })
                    .is_empty()
            })
        };
        let mut read = Numbers::new();
        for &store in &choice.stores {
            assert!(read.common(&frames(store)).is_empty(), "seed {seed}: twice");
            read.insert_all(&frames(store));
        }
        if choice.is_whole() {
            assert_eq!(choice.stores.len(), stripes, "seed {seed}");
            assert!(choice.stores.iter().all(|store| is_excused(*store)), "seed {seed}");
        } else {
            // No copy is whole, and no store of some stripe, where stripes can be told apart.
            let is_good = |store: &usize| known[*store].now.is_some() && is_excused(*store);
            assert!(!all.iter().any(|copy| copy.iter().all(is_good)), "seed {seed}");
            let is_fed = |store: &usize| !stores[*store].collectors.is_empty();
            let lives = |stripe: usize| {
                (0..count).map(|copy| all[copy][stripe]).any(|s| is_good(&s) && is_fed(&s))
            };
            assert!(!(0..stripes).all(lives), "seed {seed}");
        }
    }
}
