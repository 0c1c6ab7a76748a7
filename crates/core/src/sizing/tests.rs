//! Space is enough, never too much, and grows with what is asked of it.

use proptest::prelude::*;

use super::*;

const MIB: u64 = 1 << 20;

/// The kernel's exception store, played chunk by chunk: where each copied chunk goes, and what it writes.
/// It answers the number of chunks that its space must have.
fn played(copied: u64, chunk: u64) -> u64 {
    let records = chunk / 16;
    // Chunk 0 is the header, chunk 1 the first area's records.
    let (mut next_free, mut in_area, mut end) = (2, 0, 2);
    for _ in 0..copied {
        end = end.max(next_free + 1);
        next_free += 1;
        in_area += 1;
        if in_area == records {
            // The next area's records are cleared now.
            end = end.max(next_free + 1);
            next_free += 1;
            in_area = 0;
        }
    }
    end
}

#[test]
fn the_most_that_is_needed_is_what_the_kernel_lays_out() {
    for chunk in [4 << 10, 16 << 10, 64 << 10] {
        let records = chunk / 16;
        for copied in [0, 1, 2, records - 1, records, records + 1, 2 * records, 5 * records + 3] {
            assert_eq!(most_needed(copied * chunk, chunk), played(copied, chunk) * chunk, "{copied}");
        }
    }
    // 16,384 chunks, 65 chunks of records, one header.
    assert_eq!(most_needed(64 * MIB, 4096), 16_450 * 4096);
    assert_eq!(most_needed(64 * MIB + 1, 4096), 16_451 * 4096);
    assert_eq!(most_needed(64 * MIB, 0), most_needed(64 * MIB, 4096));
    assert_eq!(most_needed(u64::MAX, 4096), u64::MAX);
}

#[test]
fn space_is_what_the_rule_says() {
    let need = Need {
        origin: 10 << 30,
        chunk: 4096,
        extent: 4 * MIB,
        write_rate: Some(10 * MIB),
        seconds: 20,
        store: 2 << 30,
    };
    let cases = [
        ("four times 200 MiB, with 3.1 MiB of records", need, 804),
        ("nothing is written", Need { write_rate: Some(0), ..need }, 64),
        ("no rate, a large store", Need { write_rate: None, ..need }, 2060),
        ("no rate, a small store", Need { write_rate: None, store: MIB, ..need }, 1288),
        ("more than the origin", Need { seconds: 100_000, ..need }, 10_284),
        ("a small origin", Need { origin: 16 * MIB, ..need }, 20),
        ("a tiny origin", Need { origin: 1, ..need }, 4),
        ("large extents", Need { extent: 1 << 30, ..need }, 1024),
    ];
    for (what, need, mib) in cases {
        assert_eq!(space(&need), mib * MIB, "{what}");
    }
}

#[test]
fn numbers_at_the_end_of_their_range_do_no_harm() {
    let need = Need {
        origin: u64::MAX,
        chunk: u64::MAX,
        extent: u64::MAX,
        write_rate: Some(u64::MAX),
        seconds: u64::MAX,
        store: u64::MAX,
    };
    assert_eq!(space(&need), u64::MAX);
    assert_eq!(space(&Need { chunk: 4096, extent: 4 * MIB, ..need }) % (4 * MIB), 0);
    let nothing = Need { origin: 0, chunk: 0, extent: 0, write_rate: None, seconds: 0, store: 0 };
    assert_eq!(space(&nothing), 2 * 4096);
}

fn any_need() -> impl Strategy<Value = Need> {
    let origin = prop_oneof![0..=8 * MIB, 0..=(1_u64 << 44)];
    let (chunk, extent) = (12..=19_u32, 16..=32_u32);
    let rate = proptest::option::of(prop_oneof![Just(0), 0..=(1_u64 << 32)]);
    (origin, chunk, extent, rate, 0..=100_000_u64, 0..=(1_u64 << 42)).prop_map(
        |(origin, chunk, extent, write_rate, seconds, store)| Need {
            origin,
            chunk: 1 << chunk,
            extent: 1 << extent,
            write_rate,
            seconds,
            store,
        },
    )
}

proptest! {
    #[test]
    fn the_kernel_s_layout_fits_exactly(copied in 0..=20_000_u64, chunk in 12..=16_u32) {
        prop_assert_eq!(most_needed(copied << chunk, 1 << chunk), played(copied, 1 << chunk) << chunk);
    }

    #[test]
    fn space_is_whole_extents_within_its_bounds(need in any_need()) {
        let (space, most) = (space(&need), most_needed(need.origin, need.chunk));
        prop_assert!(space > 0 && space.is_multiple_of(need.extent));
        prop_assert!(space < most + need.extent, "{} is more than {}", space, most);
        prop_assert!(space >= FLOOR.min(most));
        // What is expected to be written fits, with its records, or nothing more can be needed.
        let written = u128::from(need.write_rate.unwrap_or(0)) * u128::from(need.seconds) * 4;
        let expected = written + written / u128::from(need.chunk) * 16;
        prop_assert!(space >= most || u128::from(space) > expected);
    }

    #[test]
    fn who_needs_more_gets_no_less(need in any_need(), more in any_need()) {
        let larger = Need {
            origin: need.origin.max(more.origin),
            write_rate: need.write_rate.map(|rate| rate.max(more.write_rate.unwrap_or(0))),
            seconds: need.seconds.max(more.seconds),
            store: need.store.max(more.store),
            ..need
        };
        prop_assert!(space(&larger) >= space(&need), "{:?} {:?}", need, larger);
    }
}
