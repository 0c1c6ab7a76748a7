//! What is ours is recognised, and nothing else ever is.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::lvm::report::parse_volumes;

const ID: &str = "0193aa55c3d47e019f3b2c77d0e1f2a3";
const GROUP: &str = "v2ilnJ-eanS-tbT3-hzP6-1kpH-Cu0r-2gYcrM";
const ORIGIN: &str = "eCMUGc-db3n-FSli-WJg8-PRXL-cbK2-M9scQA";
const VOLUME: &str = "J6qny2-YF2K-suQi-AhAL-UGop-PAmG-Hwl1yW";
const OTHER: &str = "kpSHxV-rJT4-WizA-7Vv1-vYOn-HAaY-hodE4T";

fn uuid(text: &str) -> Uuid {
    text.parse().unwrap()
}

fn version(text: &str) -> VersionId {
    text.parse().unwrap()
}

fn installation(recorded: Option<&str>) -> Installation {
    let intended = Which::MadeSince("2026-11-19T17:00:03Z".parse().unwrap());
    let volume = recorded.map_or(intended, |recorded| Which::Known(uuid(recorded)));
    let record = Record { group: uuid(GROUP), origin: uuid(ORIGIN), volume };
    Installation { id: ID.parse().unwrap(), records: [(version("re_port-x@12"), record)].into() }
}

/// The snapshot as LVM reports it.
fn ours() -> LogicalVolume {
    let text = format!(
        r#"{{"report":[{{"lv":[{{"vg_name":"vg","lv_name":"asat.12.d0e1f2a3.re+port-x","lv_uuid":"{VOLUME}","lv_attr":"swi-a-s---",
        "lv_size":"8388608","origin":"data","origin_uuid":"{ORIGIN}","pool_lv":"","pool_lv_uuid":"","thin_id":"",
        "lv_tags":"asat,asat.cut=2026-11-19T17:00:03.000456Z,asat.installation={ID},asat.number=12,asat.store=re_port-x","data_percent":"0.00",
        "metadata_percent":"","lv_kernel_major":"254","lv_kernel_minor":"3","lv_layout":"linear",
        "lv_role":"public,snapshot,thicksnapshot","lv_metadata_size":"","vg_uuid":"{GROUP}"}}]}}]}}"#
    );
    parse_volumes(&text).unwrap().remove(0)
}

fn reason(volume: &LogicalVolume, installation: &Installation) -> Option<Foreign> {
    match recognise(volume, installation) {
        Whose::Ours(_) => None,
        Whose::Foreign(reason) => Some(reason),
    }
}

#[test]
fn what_we_made_is_ours() {
    let Whose::Ours(found) = recognise(&ours(), &installation(Some(VOLUME))) else { panic!() };
    assert_eq!((found.version(), found.is_recorded()), (&version("re_port-x@12"), true));
    assert_eq!(found.operand(), "vg/asat.12.d0e1f2a3.re+port-x");
    assert_eq!(found.selection(), format!("lv_uuid={VOLUME}"));
    let Whose::Ours(found) = recognise(&ours(), &installation(None)) else { panic!() };
    assert!(!found.is_recorded());
    let mut tagged = ours();
    tagged.tags.insert("backup=nightly".to_owned());
    assert_eq!(reason(&tagged, &installation(Some(VOLUME))), None);
    // A thin snapshot outlives its origin.
    let mut orphan = ours();
    orphan.origin = None;
    assert_eq!(reason(&orphan, &installation(Some(VOLUME))), None);
}

#[test]
fn one_mark_that_differs_makes_it_foreign() {
    let recorded = installation(Some(VOLUME));
    let intended = installation(None);
    let change = |change: &dyn Fn(&mut LogicalVolume)| {
        let mut volume = ours();
        change(&mut volume);
        (reason(&volume, &recorded), reason(&volume, &intended))
    };
    let both = |reason: Foreign| (Some(reason.clone()), Some(reason));
    assert_eq!(change(&|v| v.uuid = uuid(OTHER)), (Some(Foreign::Uuid), None));
    assert_eq!(change(&|v| v.group_uuid = uuid(OTHER)), both(Foreign::Group));
    assert_eq!(change(&|v| v.origin = None), (None, Some(Foreign::Origin)));
    assert_eq!(
        change(&|v| v.origin = Some(("data".parse().unwrap(), uuid(OTHER)))),
        (None, Some(Foreign::Origin))
    );
    assert_eq!(change(&|v| v.hidden = true), both(Foreign::Hidden));
    assert_eq!(
        change(&|v| v.name = "asat.13.d0e1f2a3.re+port-x".parse().unwrap()),
        both(Foreign::Tags(TAG_NUMBER))
    );
    assert_eq!(
        change(&|v| v.name = "asat.12.00000000.re+port-x".parse().unwrap()),
        both(Foreign::Installation)
    );
    assert_eq!(change(&|v| v.name = "asat.12.d0e1f2a3.re_port-x".parse().unwrap()), both(Foreign::Name));
    assert_eq!(change(&|v| v.name = "data".parse().unwrap()), both(Foreign::Name));
    for tag in tags(&version("re_port-x@12"), &ID.parse().unwrap()) {
        let (one, two) = change(&|v| assert!(v.tags.remove(&tag)));
        assert!(matches!((one, two), (Some(Foreign::Tags(_)), Some(Foreign::Tags(_)))), "{tag}");
    }
    for tag in ["asat.store=other", "asat.number=13", "asat.installation=00", "asat.number="] {
        let (one, two) = change(&|v| assert!(v.tags.insert(tag.to_owned())));
        assert!(matches!((one, two), (Some(Foreign::Tags(_)), Some(Foreign::Tags(_)))), "{tag}");
    }
    let mut elsewhere = installation(Some(VOLUME));
    elsewhere.id = ID.replace('7', "8").parse().unwrap();
    assert_eq!(reason(&ours(), &elsewhere), Some(Foreign::Installation));
    let nothing = Installation { id: ID.parse().unwrap(), records: BTreeMap::new() };
    assert_eq!(reason(&ours(), &nothing), Some(Foreign::NotRecorded(version("re_port-x@12"))));
}

/// The snapshot as a power cut in the middle of `lvcreate` leaves it: a plain volume.
fn half_made() -> LogicalVolume {
    let mut volume = ours();
    volume.origin = None;
    volume.attributes = "-wi-a-----".parse().unwrap();
    volume.roles = ["public".to_owned()].into();
    volume
}

#[test]
fn what_a_power_cut_leaves_is_ours_where_it_was_intended_and_nobody_uses_it() {
    let intended = installation(None);
    let Whose::Ours(found) = recognise(&half_made(), &intended) else { panic!() };
    assert!(!found.is_recorded());
    let change = |change: &dyn Fn(&mut LogicalVolume)| {
        let mut volume = half_made();
        change(&mut volume);
        reason(&volume, &intended)
    };
    let pool = || Some(("pool".parse().unwrap(), uuid(OTHER)));
    assert_eq!(change(&|v| v.attributes = "-wi-ao----".parse().unwrap()), Some(Foreign::Origin));
    assert_eq!(change(&|v| v.attributes = "owi-a-s---".parse().unwrap()), Some(Foreign::Origin));
    assert_eq!(change(&|v| v.attributes = "Vwi-a-tz--".parse().unwrap()), Some(Foreign::Origin));
    assert_eq!(change(&|v| v.layout = ["raid", "raid1"].map(str::to_owned).into()), Some(Foreign::Origin));
    assert_eq!(change(&|v| v.pool = pool()), Some(Foreign::Origin));
    assert_eq!(change(&|v| v.origin = pool()), Some(Foreign::Origin));
    assert_eq!(change(&|v| v.uuid = uuid(ORIGIN)), Some(Foreign::Origin));
    assert_eq!(change(&|v| v.group_uuid = uuid(OTHER)), Some(Foreign::Group));
    for tag in tags(&version("re_port-x@12"), &ID.parse().unwrap()) {
        let found = change(&|v| assert!(v.tags.remove(&tag)));
        assert!(matches!(found, Some(Foreign::Tags(_))), "{tag}");
    }
    let nothing = Installation { id: ID.parse().unwrap(), records: BTreeMap::new() };
    assert_eq!(reason(&half_made(), &nothing), Some(Foreign::NotRecorded(version("re_port-x@12"))));
}

/// Its number was given again, after the catalogue was lost that knew of it.
#[test]
fn what_says_an_earlier_instant_than_the_intent_was_not_made_for_it() {
    let with_cut = |volume: &LogicalVolume, cuts: &[&str]| {
        let mut volume = volume.clone();
        volume.tags.retain(|tag| !tag.starts_with("asat.cut="));
        volume.tags.extend(cuts.iter().map(|cut| format!("asat.cut={cut}")));
        reason(&volume, &installation(None))
    };
    let not_recorded = || Some(Foreign::NotRecorded(version("re_port-x@12")));
    for volume in [ours(), half_made()] {
        for later in ["2026-11-19T17:00:03.000000Z", "2027-01-01T00:00:00.000000Z"] {
            assert_eq!(with_cut(&volume, &[later]), None, "{later}");
        }
        assert_eq!(with_cut(&volume, &["2026-11-19T17:00:02.999999Z"]), not_recorded());
        // Nothing says when it was made.
        for unclear in [&[][..], &["yesterday"], &["2026-11-19T17:00:04Z", "2026-11-19T17:00:05Z"]] {
            assert_eq!(with_cut(&volume, unclear), not_recorded(), "{unclear:?}");
        }
    }
    // The recorded one is known by its UUID, whatever it says.
    let mut older = ours();
    older.tags.retain(|tag| !tag.starts_with("asat.cut="));
    assert_eq!(reason(&older, &installation(Some(VOLUME))), None);
}

#[test]
fn a_record_that_names_the_origin_itself_gives_nothing_away() {
    let mut damaged = installation(Some(ORIGIN));
    let mut volume = ours();
    volume.uuid = uuid(ORIGIN);
    assert_eq!(reason(&volume, &damaged), Some(Foreign::Origin));
    let intended = installation(None).records.into_values().next().unwrap();
    damaged.records.values_mut().for_each(|record| *record = intended);
    assert_eq!(reason(&volume, &damaged), Some(Foreign::Origin));
}

#[test]
fn names_are_those_that_lvm_takes() {
    let id: InstallationId = ID.parse().unwrap();
    let group: Name = "vg".parse().unwrap();
    for store in ["tmeta", "_x", "a_tmeta", "a_mimage_0", "snapshot", "pvmove0", "a-b", "a_pmspare", "a.b"] {
        let Ok(version) = format!("{store}@1").parse() else { continue };
        let name = name(&version, &id, &group).unwrap();
        assert!(!name.as_str().contains('_') && name.as_str().starts_with("asat."), "{name}");
        assert_eq!(parse(&name), Some((version, id.short())));
    }
    let [tag, ..] = tags(&version("re_port-x@12"), &id);
    assert_eq!(tag, "asat");
    let expected: BTreeSet<_> = tags(&version("re_port-x@12"), &id).into();
    assert!(expected.is_subset(&ours().tags));
}

#[test]
fn a_number_is_a_names_whatever_the_tags_say() {
    let id: InstallationId = ID.parse().unwrap();
    let mut volume = ours();
    volume.tags.clear();
    assert_eq!(named_for(&volume, &id), Some(version("re_port-x@12")));
    for other in ["asat.12.00000000.re+port-x", "asat.012.d0e1f2a3.re+port-x", "data"] {
        volume.name = other.parse().unwrap();
        assert_eq!(named_for(&volume, &id), None, "{other}");
    }
}

#[test]
fn a_name_too_long_for_the_kernel_is_refused_before_lvm_sees_it() {
    let id: InstallationId = ID.parse().unwrap();
    let long: StoreName = "a".repeat(64).parse().unwrap();
    check_store(&long, &id, &"g".repeat(22).parse().unwrap()).unwrap();
    check_store(&long, &id, &"g".repeat(23).parse().unwrap()).unwrap_err();
    let hyphens: StoreName = format!("a{}", "-".repeat(63)).parse().unwrap();
    let error = check_store(&hyphens, &id, &"vg".parse().unwrap()).unwrap_err();
    assert_eq!(Problem::from(error).code, Code::Configuration);
    for bad in ["", "0193", &ID.to_uppercase(), &ID.replace('0', "-"), &format!("{ID}0")] {
        assert!(bad.parse::<InstallationId>().is_err(), "{bad}");
    }
}

fn any_store() -> impl Strategy<Value = String> {
    proptest::string::string_regex("[a-zA-Z0-9][a-zA-Z0-9_.-]{0,30}").unwrap()
}

/// Names near to ours: pieces of them, joined by what joins them.
fn near_name() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("asat"),
        Just("12"),
        Just("012"),
        Just("d0e1f2a3"),
        Just("re+port-x"),
        Just("re_port-x"),
        Just(""),
        Just("13"),
        Just("snapshot"),
        Just("data"),
        Just("+"),
        Just("asat.12"),
    ];
    proptest::collection::vec(piece, 1..6).prop_map(|pieces| pieces.join("."))
}

fn near_tags() -> impl Strategy<Value = Vec<String>> {
    let tag = prop_oneof![
        Just("asat".to_owned()),
        Just(format!("asat.installation={ID}")),
        Just("asat.installation=".to_owned()),
        Just("asat.store=re_port-x".to_owned()),
        Just("asat.store=re".to_owned()),
        Just("asat.number=12".to_owned()),
        Just("asat.number=13".to_owned()),
        Just("asat.number=012".to_owned()),
        Just("asat.cut=2026-11-19T17:00:03.000456Z".to_owned()),
        Just("asat.cut=2026-11-19T17:00:02.000456Z".to_owned()),
        Just("other".to_owned()),
    ];
    proptest::collection::vec(tag, 0..8)
}

#[test]
fn devices_that_are_no_snapshots_of_versions() {
    for name in [
        "",
        "-",
        "--",
        "vg",
        "vg-",
        "-asat.12.d0e1f2a3.report",
        "vg-data",
        "vg-asat.12.d0e1f2a3",
        "vg-asat.012.d0e1f2a3.report",
        "vg--asat.12.d0e1f2a3.report",
        "asat.12.d0e1f2a3.report",
        "a-b-asat.12.d0e1f2a3.report",
        "vg-asat.12.d0e1f2a3.report-cow",
        "vg-asat.12.d0e1f2a3.re\0port",
        "vg-asat.12.d0e1f2a3.re/port",
    ] {
        assert!(!is_device_name(name), "{name:?}");
    }
    assert!(is_device_name("vg-asat.12.d0e1f2a3.re--port"));
}

proptest! {
    #[test]
    fn every_name_is_read_as_it_is_written(store in any_store(), number in 1..=u64::MAX) {
        let version = VersionId { store: store.parse().unwrap(), number };
        let id: InstallationId = ID.parse().unwrap();
        if let Ok(name) = name(&version, &id, &"vg".parse().unwrap()) {
            prop_assert_eq!(parse(&name), Some((version, id.short())));
            for group in ["vg", "my-vg", "vg-"] {
                let device = group.parse::<Name>().unwrap().device_name(&name);
                prop_assert!(is_device_name(&device), "{}", device);
                for part in ["-cow", "-real"] {
                    let device = format!("{device}{part}");
                    prop_assert!(!is_device_name(&device), "{}", device);
                }
            }
        }
    }

    #[test]
    fn nothing_foreign_is_ever_ours(
        name in near_name(), tags in near_tags(), same_uuid: bool, same_group: bool, same_origin: bool, hidden: bool,
        recorded: bool,
    ) {
        let Ok(name) = name.parse::<Name>() else { return Ok(()) };
        let real = ours();
        let mut volume = real.clone();
        volume.name = name;
        volume.tags = tags.into_iter().collect();
        volume.hidden = hidden;
        if !same_uuid { volume.uuid = uuid(OTHER); }
        if !same_group { volume.group_uuid = uuid(OTHER); }
        if !same_origin { volume.origin = Some(("data".parse().unwrap(), uuid(OTHER))); }
        let is_cut = |tag: &String| tag.starts_with("asat.cut=");
        let marks: BTreeSet<_> = real.tags.iter().filter(|tag| !is_cut(tag)).collect();
        let of_now = volume.tags.iter().filter(|tag| is_cut(tag)).eq(real.tags.iter().filter(|tag| is_cut(tag)));
        let all_agree = volume.name == real.name
            && marks.iter().all(|tag| volume.tags.contains(*tag))
            && volume.tags.iter().all(|tag| marks.contains(tag) || is_cut(tag) || !tag.starts_with("asat."))
            && !hidden && same_group
            && if recorded { same_uuid } else { same_origin && of_now };
        let found = recognise(&volume, &installation(recorded.then_some(VOLUME)));
        prop_assert_eq!(matches!(found, Whose::Ours(_)), all_agree);
    }

    #[test]
    fn no_text_of_any_kind_is_ours(name in ".{0,60}") {
        if let Ok(name) = name.parse::<Name>() {
            let mut volume = ours();
            volume.name = name.clone();
            let whose = recognise(&volume, &installation(Some(VOLUME)));
            prop_assert!(matches!(whose, Whose::Foreign(_)) || name == ours().name);
        }
    }
}
