//! States and tables as the kernel writes them, and as it never would.

use super::*;

fn target(kind: &str, text: &str) -> Target {
    Target { start: Sectors(0), length: Sectors(8), kind: kind.to_owned(), text: text.to_owned() }
}

fn snapshot(text: &str) -> Option<Snapshot> {
    Snapshot::parse(&target("snapshot", text)).ok()
}

fn thin(text: &str) -> Option<Thin> {
    Thin::parse(&target("thin", text)).ok()
}

fn pool(text: &str) -> Option<ThinPool> {
    ThinPool::parse(&target("thin-pool", text)).ok()
}

fn running(text: &str) -> PoolState {
    match pool(text) {
        Some(ThinPool::Running(state)) => state,
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn states_of_snapshots_as_kernel_6_1_writes_them() {
    let valid = |used, total, metadata| {
        Some(Snapshot::Valid { used: Sectors(used), total: Sectors(total), metadata: Sectors(metadata) })
    };
    assert_eq!(snapshot("9000/139264 48"), valid(9000, 139_264, 48));
    assert_eq!(snapshot("16/16384 16 "), valid(16, 16384, 16));
    assert_eq!(snapshot("Invalid"), Some(Snapshot::Invalid));
    assert_eq!(snapshot("Overflow"), Some(Snapshot::Overflow));
    assert_eq!(snapshot("Merge failed"), Some(Snapshot::MergeFailed));
    assert_eq!(snapshot("Unknown"), Some(Snapshot::Unknown));
}

#[test]
fn states_of_thin_volumes_as_kernel_6_1_writes_them() {
    assert_eq!(thin("0 -"), Some(Thin::Mapped { mapped: Sectors(0), highest: None }));
    let full = Thin::Mapped { mapped: Sectors(131_072), highest: Some(Sectors(131_071)) };
    assert_eq!(thin("131072 131071"), Some(full));
    assert_eq!(thin("Fail"), Some(Thin::Failed));
    assert_eq!(thin("-"), Some(Thin::Unmapped));
}

#[test]
fn states_of_pools_as_kernel_6_1_writes_them() {
    let state =
        running("3 117/1024 1024/1024 - out_of_data_space no_discard_passdown error_if_no_space - 256 ");
    assert_eq!(state.transaction, 3);
    assert_eq!(state.metadata, Usage { used: 117, total: 1024 });
    assert_eq!(state.data, Usage { used: 1024, total: 1024 });
    assert_eq!((state.held_root, state.mode), (None, PoolMode::OutOfDataSpace));
    assert!(state.error_if_no_space && !state.needs_check);
    assert_eq!(state.metadata_low_water, Some(256));
    let state = running("0 10/1024 0/8 77 ro discard_passdown queue_if_no_space needs_check 1024");
    assert_eq!((state.held_root, state.mode), (Some(77), PoolMode::ReadOnly));
    assert_eq!(state.discards, Discards::PassedDown);
    assert!(state.needs_check && !state.error_if_no_space);
    // Kernels before 5.1 do not write the last word.
    let state = running("0 10/1024 0/8 - rw ignore_discard queue_if_no_space -");
    assert_eq!((state.discards, state.metadata_low_water), (Discards::Ignored, None));
    assert_eq!(pool("Fail"), Some(ThinPool::Failed));
}

#[test]
fn tables_as_kernel_6_1_writes_them() {
    let table = PoolTable::parse(&target("thin-pool", "254:4 254:5 128 0 0 ")).unwrap();
    assert_eq!((table.metadata, table.data, table.block), ((254, 4), (254, 5), Sectors(128)));
    let table = PoolTable::parse(&target("thin-pool", "254:4 254:5 128 7 1 error_if_no_space ")).unwrap();
    assert_eq!(table.low_water, 7);
    for text in ["254:1 254:2 P 8", "254:1 254:2 PO 8", "254:1 254:2 P 8 1 discard_zeroes_cow"] {
        let table = SnapshotTable::parse(&target("snapshot", text)).unwrap();
        assert_eq!((table.origin, table.cow, table.chunk), ((254, 1), (254, 2), Sectors(8)));
    }
    assert!(SnapshotTable::parse(&target("snapshot", "254:1 254:2 N 8")).is_err(), "lost at a restart");
    assert_eq!(OriginTable::parse(&target("snapshot-origin", "254:1")).unwrap().content, (254, 1));
    for text in ["", "254", "254:1 8", ":1", "254:"] {
        assert!(OriginTable::parse(&target("snapshot-origin", text)).is_err(), "{text:?}");
    }
}

#[test]
fn the_table_of_a_thin_volume_says_where_it_is_in_its_pool() {
    let table = ThinTable::parse(&target("thin", "254:6 12 ")).unwrap();
    assert_eq!((table.pool, table.number), ((254, 6), 12));
    // The last one has its bytes from elsewhere, where it has none itself.
    for text in ["", "254:6", "254:6 ", "254 12", "254:6 -1", "254:6 x", "6 12", "254:6 12 254:9"] {
        assert!(ThinTable::parse(&target("thin", text)).is_err(), "{text:?}");
    }
    assert!(ThinTable::parse(&target("linear", "254:6 12")).is_err());
}

#[test]
fn a_state_that_is_not_understood_is_never_a_healthy_one() {
    let words = [
        "",
        " ",
        "-",
        "0",
        "0/0",
        "/",
        "1/ 1",
        "/1 1",
        "1/1",
        "1/1 -1",
        "1/1 +1",
        "-1/1 1",
        "1/1 1 1",
        "1/1  1",
        "invalid",
        "Invalid 1",
        "INVALID",
        "18446744073709551616/1 1",
        "1/1/1 1",
        "\u{0661}/1 1",
        "Error",
        "fail",
        "1 2 3",
        "- 1",
        "1/1 1\0",
        "0x1/1 1",
    ];
    for text in words {
        assert_eq!(snapshot(text), None, "{text:?}");
        assert!(thin(text).is_none() || text == "-", "{text:?}");
        assert_eq!(pool(text), None, "{text:?}");
    }
    let good = "13 138/1024 492/10240 - rw no_discard_passdown queue_if_no_space - 256";
    running(good);
    for end in 0..good.len() {
        let cut = &good[..end];
        // What is cut behind the seventh word is what another kernel could have written.
        assert_eq!(pool(cut).is_some(), cut.contains("queue_if_no_space"), "{cut:?}");
    }
    for (old, new) in [("rw", "RW"), ("rw", "wr"), ("- 256", "check 256"), ("- 256", "- x"), ("13 ", "13  ")]
    {
        assert_eq!(pool(&good.replace(old, new)), None, "{new:?}");
    }
}

#[test]
fn the_state_of_another_kind_is_refused() {
    let error = Snapshot::parse(&target("thin", "0 -")).unwrap_err();
    assert_eq!(error.to_string(), "the state of a snapshot target cannot be read: \"thin 0 -\"");
    assert!(ThinPool::parse(&target("thin", "Fail")).is_err());
    let long = Snapshot::parse(&target("snapshot", &"ä".repeat(100_000))).unwrap_err();
    assert!(long.to_string().len() < 1000);
}
