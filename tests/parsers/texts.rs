//! Texts: the configuration, requests, manifests, and what LVM and the kernel say.

use std::path::Path;

use asat::config::Config;
use asat::wire;
use asat_host::dm::target::{OriginTable, PoolTable, Snapshot, SnapshotTable, Thin, ThinPool, ThinTable};
use asat_host::dm::wire::Target;
use asat_host::lvm::report::{parse_groups, parse_physical_volumes, parse_volumes};
use asat_host::lvm::units::Sectors;
use serde::de::DeserializeOwned;

use crate::feed;

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn captured(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/host/src/lvm/report/captured");
    std::fs::read(folder.join(name)).unwrap()
}

#[test]
fn reports_of_lvm() {
    feed(1500, &[captured("lvs.json")], |bytes| drop(parse_volumes(&text(bytes))));
    feed(1500, &[captured("vgs.json")], |bytes| drop(parse_groups(&text(bytes))));
    feed(1500, &[captured("pvs.json")], |bytes| drop(parse_physical_volumes(&text(bytes))));
}

#[test]
fn what_the_device_mapper_says_of_a_target() {
    let seeds = [
        "16/524288 16",
        "Invalid",
        "1024 65535",
        "7 23/1024 405/8192 - rw discard_passdown queue_if_no_space - 1024",
        "7 23/1024 405/8192 123 out_of_data_space no_discard_passdown error_if_no_space needs_check",
        "253:3 253:2 P 8",
        "253:4 253:5 128 0 1 skip_block_zeroing",
        "253:4 7",
        "253:1",
    ];
    let seeds: Vec<Vec<u8>> = seeds.iter().map(|seed| seed.as_bytes().to_vec()).collect();
    feed(4000, &seeds, |bytes| {
        for kind in ["snapshot", "thin", "thin-pool", "snapshot-origin"] {
            let (start, length) = (Sectors(0), Sectors(u64::MAX));
            let target = Target { start, length, kind: kind.to_owned(), text: text(bytes) };
            let _ = (Snapshot::parse(&target), Thin::parse(&target), ThinPool::parse(&target));
            let _ = (PoolTable::parse(&target), ThinTable::parse(&target));
            let _ = (SnapshotTable::parse(&target), OriginTable::parse(&target));
        }
    });
}

#[test]
fn tables_of_the_kernel() {
    let mounts = "36 35 253:3 / /srv/report rw,relatime shared:1 master:2 - xfs /dev/mapper/vg-data rw,logdev=/dev/sdb\n\
                  37 35 0:44 /a\\040b /mnt\\134x rw - overlay overlay rw,lowerdir=/a\n";
    let locks = "1: POSIX  ADVISORY  WRITE 4711 fd:03:131 1073741824 1073742335\n1: -> POSIX  ADVISORY  READ 4712 fd:03:131 0 EOF\n";
    feed(3000, &[mounts.as_bytes().to_vec()], |bytes| {
        for mount in asat_host::volume::mounts::parse(&text(bytes)) {
            let _ = mount.inside(Path::new("/srv/report/report.db"));
        }
    });
    feed(3000, &[locks.as_bytes().to_vec()], |bytes| drop(asat_host::store::parse_locks(&text(bytes))));
}

#[test]
fn configurations() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let sample = std::fs::read_to_string(root.join("config/asat.toml")).unwrap();
    // Every key, as if somebody had taken its comment sign away.
    let keys =
        |line: &str| line.strip_prefix("# ").filter(|rest| rest.contains(" = ")).unwrap_or(line).to_owned();
    let whole: Vec<String> = sample.lines().map(keys).collect();
    let small =
        "state = \"s\"\n[[store]]\nname = \"report\"\npath = \"r.db\"\n[retention]\nkeep = \"all for 7d\"\n";
    let seeds = [sample.clone(), whole.join("\n"), small.to_owned()].map(String::into_bytes);
    feed(400, &seeds, |bytes| drop(Config::parse(&text(bytes), Path::new("/etc/asat"))));
}

fn body<T: DeserializeOwned>(seed: &str) {
    feed(1000, &[seed.as_bytes().to_vec()], |bytes| drop(serde_json::from_slice::<T>(bytes)));
}

#[test]
fn bodies_of_requests_and_manifests_of_exports() {
    body::<wire::PublishRequest>(
        r#"{"store": "report", "label": "close", "certified_by": "ops", "business_date": "2026-11-19", "note": "x",
            "attributes": {"batch": 41, "run": "y", "dry": false}}"#,
    );
    body::<wire::MountRequest>(r#"{"holder": "audit", "ttl_seconds": 3600}"#);
    body::<wire::RenewRequest>(r#"{"ttl_seconds": 3600}"#);
    body::<wire::PinRequest>(
        r#"{"reason": "audit", "owner": "ann", "expires_at": "2026-11-22T20:00:00Z", "hot": true}"#,
    );
    body::<wire::RevokeRequest>(r#"{"reason": "incident"}"#);
    body::<wire::Manifest>(
        r#"{"format": 1, "store": "report", "versions": [{"number": 1, "cut_at": "2026-11-19T17:00:03.123456Z", "bytes": 8192,
            "page_size": 4096, "fingerprint": "00ff", "publications": [{"at": "2026-11-19T17:00:00Z", "label": "close",
            "certified_by": null, "business_date": "2026-11-19", "note": null, "attributes": {}}]}]}"#,
    );
}
