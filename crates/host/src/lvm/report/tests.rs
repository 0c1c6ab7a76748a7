//! The reports under `captured` are those of lvm2 2.03.16, on a group with a volume of every kind.

use super::*;

const LVS: &str = include_str!("captured/lvs.json");
const VGS: &str = include_str!("captured/vgs.json");
const PVS: &str = include_str!("captured/pvs.json");

fn volume(name: &str) -> LogicalVolume {
    parse_volumes(LVS).unwrap().into_iter().find(|volume| volume.name.as_str() == name).unwrap()
}

fn words(set: &BTreeSet<String>) -> String {
    set.iter().map(String::as_str).collect::<Vec<_>>().join(",")
}

#[test]
fn a_classic_snapshot_and_its_origin() {
    let snapshot = volume("asat_1");
    assert_eq!(snapshot.attributes.kind, Kind::Snapshot);
    assert_eq!(snapshot.attributes.activity, Activity::Active);
    assert!(snapshot.attributes.writable && !snapshot.attributes.open);
    assert_eq!(snapshot.size, Bytes(8 << 20));
    assert_eq!(snapshot.uuid.to_string(), "J6qny2-YF2K-suQi-AhAL-UGop-PAmG-Hwl1yW");
    let origin = volume("data");
    assert_eq!(snapshot.origin, Some((origin.name.clone(), origin.uuid)));
    assert_eq!(words(&snapshot.tags), "asat.installation=abc,asat.store=report");
    assert_eq!(snapshot.data_percent, Some(Percent(0)));
    assert_eq!((origin.attributes.kind, origin.data_percent), (Kind::Origin, None));
    assert_eq!(origin.device, Some((254, 0)));
}

#[test]
fn a_thin_volume_its_snapshot_and_their_pool() {
    let (thin, snapshot, pool) = (volume("thin"), volume("thinsnap"), volume("pool"));
    assert_eq!((thin.attributes.kind, thin.origin), (Kind::Thin, None));
    assert_eq!(words(&thin.layout), "sparse,thin");
    assert_eq!(snapshot.pool, Some((pool.name.clone(), pool.uuid)));
    assert_eq!(snapshot.origin.unwrap().0, thin.name);
    assert_eq!((pool.attributes.kind, pool.metadata_percent), (Kind::ThinPool, Some(Percent(1094))));
    assert_eq!(pool.metadata_size, Some(Bytes(4 << 20)));
    assert_eq!([thin.thin_id, snapshot.thin_id, pool.thin_id], [Some(1), Some(2), None]);
}

#[test]
fn hidden_volumes_and_other_kinds() {
    let spare = volume("lvol0_pmspare");
    assert!(spare.hidden && spare.device.is_none());
    assert_eq!(spare.attributes.activity, Activity::Inactive);
    let cached = volume("slow");
    assert_eq!(cached.attributes.kind, Kind::Other('C'));
    assert_eq!(cached.pool.unwrap().0.as_str(), "cp_cpool");
    assert_eq!(words(&volume("rr").layout), "raid,raid1");
}

#[test]
fn states_that_matter() {
    let attributes = |text: &str| text.parse::<Attributes>().unwrap();
    assert_eq!(attributes("swi-I-s---").activity, Activity::InvalidSnapshot);
    assert_eq!(attributes("twi-aotzD-").health, Health::OutOfData);
    assert_eq!(attributes("twi-aotzM-").health, Health::MetadataReadOnly);
    assert_eq!(attributes("Vwi---tz-k").activity, Activity::Inactive);
    assert!(attributes("Vwi---tz-k").skipped);
    assert_eq!(attributes("Owi-s-s---").activity, Activity::Suspended);
    assert_eq!(attributes("Owi-s-s---").kind, Kind::MergingOrigin);
    for text in ["", "swi-a-s--", "swi-a-s----", "swi-a!s---", "ä"] {
        assert!(text.parse::<Attributes>().is_err(), "{text}");
    }
}

#[test]
fn groups_and_physical_volumes() {
    let group = parse_groups(VGS).unwrap().remove(0);
    assert_eq!((group.extent_size, group.extents, group.free), (Bytes(4 << 20), Extents(510), Extents(440)));
    assert_eq!(group.metadata_free, Bytes(513_024));
    assert!(group.writable && !group.partial && !group.exported && !group.shared);
    let shared = parse_groups(&VGS.replace("wz--n-", "r-xpns")).unwrap().remove(0);
    assert!(!shared.writable && shared.partial && shared.exported && shared.shared);
    let physical = parse_physical_volumes(PVS).unwrap();
    assert_eq!((physical.len(), physical[0].device.as_str()), (2, "/dev/ubda"));
    assert!(physical.iter().all(|p| !p.missing && p.group.is_some()));
}

#[test]
fn nothing_is_an_empty_list_only_where_lvm_says_so() {
    assert_eq!(parse_volumes(r#"{"report":[{"lv":[]}]}"#), Ok(vec![]));
    assert_eq!(parse_volumes(r#"{"report":[{"log":[]},{"lv":[]}],"log":[{"x":"y"}]}"#), Ok(vec![]));
    for text in [
        "",
        "{}",
        "[]",
        "null",
        "  ",
        r#"{"report":[]}"#,
        r#"{"report":{}}"#,
        r#"{"report":[{"vg":[]}]}"#,
        r#"{"report":[{"lv":{}}]}"#,
        r#"{"report":[{"lv":[1]}]}"#,
        r#"{"report":[{"lv":[{}]}]}"#,
        r#"{"report":[{"lv":[{"lv_name":7}]}]}"#,
        r#"{"report":[{"lv":[]}]} trailing"#,
        "  WARNING: noise\n{\"report\":[{\"lv\":[]}]}",
    ] {
        assert!(parse_volumes(text).is_err(), "{text}");
    }
    assert!(parse_volumes(&"[".repeat(1_000_000)).is_err());
}

#[test]
fn a_value_that_is_not_understood_is_named() {
    let changes = [
        (r#""lv_size":"8388608""#, r#""lv_size":"8.00m""#, "lv_size"),
        (r#""lv_size":"8388608""#, r#""lv_size":"-1""#, "lv_size"),
        (r#""lv_size":"8388608""#, r#""lv_size":"99999999999999999999""#, "lv_size"),
        (r#""lv_name":"asat_1""#, r#""lv_name":"a/b""#, "lv_name"),
        (r#""lv_name":"asat_1""#, r#""lv_name":"-rf""#, "lv_name"),
        (r#""lv_name":"asat_1""#, r#""lv_name":"..""#, "lv_name"),
        (r#""lv_name":"asat_1""#, r#""lv_name":"[]""#, "lv_name"),
        (r#""lv_name":"asat_1","#, "", "lv_name"),
        ("J6qny2-YF2K", "J6qny2YF2K", "lv_uuid"),
        ("J6qny2-YF2K", "J6qny2-YF2\u{e9}", "lv_uuid"),
        (r#""data_percent":"0.00""#, r#""data_percent":"nan""#, "data_percent"),
        (r#""lv_kernel_major":"254""#, r#""lv_kernel_major":"-1""#, "lv_kernel_major"),
        (r#""lv_attr":"swi-a-s---""#, r#""lv_attr":"""#, "lv_attr"),
        (r#""origin_uuid":"eCMUGc-db3n-FSli-WJg8-PRXL-cbK2-M9scQA""#, r#""origin_uuid":"""#, "origin_uuid"),
    ];
    for (old, new, field) in changes {
        assert!(LVS.contains(old), "{old}");
        let error = parse_volumes(&LVS.replacen(old, new, 1)).unwrap_err();
        assert!(error.contains(field), "{new}: {error}");
    }
    assert!(parse_groups(&VGS.replace("4194304", "0")).is_err(), "an extent of nothing");
    assert!(parse_groups(&VGS.replace("wz--n-", "wz")).is_err());
}

#[test]
fn any_cut_or_flipped_byte_is_an_error_or_another_report_and_never_a_panic() {
    for end in (0..VGS.len() - 2).step_by(7) {
        let _ = parse_groups(&VGS[..end]);
    }
    for at in 0..VGS.len() {
        for byte in [b'"', b'\\', b'{', b',', b'-', b'9', 0] {
            let mut bytes = VGS.as_bytes().to_vec();
            bytes[at] = byte;
            let _ = parse_groups(std::str::from_utf8(&bytes).unwrap());
        }
    }
}

#[test]
fn a_uuid_has_one_spelling() {
    let text = "J6qny2-YF2K-suQi-AhAL-UGop-PAmG-Hwl1yW";
    let uuid: Uuid = text.parse().unwrap();
    assert_eq!(Uuid::from_compact(&uuid.compact()), Some(uuid));
    for bad in [
        "",
        "-",
        &text[1..],
        &text.replace('-', "_"),
        &text.replace('-', ""),
        &format!("{text}-"),
        &"é".repeat(16),
    ] {
        assert!(bad.parse::<Uuid>().is_err(), "{bad}");
    }
    assert_eq!("a-b".parse::<Name>().unwrap().device_len(), 4);
}
