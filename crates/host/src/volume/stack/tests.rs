//! What can be cut and what cannot, on the captured report of a group with a volume of every kind.

use super::*;
use crate::lvm::report::{parse_groups, parse_volumes};

const LVS: &str = include_str!("../../lvm/report/captured/lvs.json");
const VGS: &str = include_str!("../../lvm/report/captured/vgs.json");
const GROUP: &str = "v2ilnJeanStbT3hzP61kpHCu0r2gYcrM";

fn judge_in(name: &str, lvs: &str, vgs: &str) -> Result<Backing, Obstacle> {
    let volumes = parse_volumes(lvs).unwrap();
    let volume = volumes.iter().find(|volume| volume.name.as_str() == name).unwrap();
    let uuid = parse_uuid(&format!("LVM-{GROUP}{}", volume.uuid.compact()))?;
    judge(&uuid, &parse_groups(vgs).unwrap()[0], &volumes).map(|(_, backing)| backing)
}

/// The judgement after one change of the report.
fn changed(name: &str, old: &str, new: &str) -> Result<Backing, Obstacle> {
    assert!(LVS.contains(old), "{old}");
    judge_in(name, &LVS.replace(old, new), VGS)
}

#[test]
fn what_has_been_tried_can_be_cut() {
    assert_eq!(judge_in("data", LVS, VGS), Ok(Backing::Plain));
    assert_eq!(judge_in("st", LVS, VGS), Ok(Backing::Plain));
    for thin in ["thin", "thinsnap"] {
        let Ok(Backing::Thin { pool }) = judge_in(thin, LVS, VGS) else { panic!("{thin}") };
        assert_eq!(pool.name.as_str(), "pool");
    }
    let origin_too = changed("thin", r#""lv_attr":"Vwi-a-tz--""#, r#""lv_attr":"owi-a-tz--""#);
    assert!(matches!(origin_too, Ok(Backing::Thin { .. })), "a thin volume with a classic snapshot");
}

#[test]
fn what_has_not_been_tried_is_refused_with_its_name() {
    let layout = |text: &str| Err(Obstacle::Layout(text.to_owned()));
    assert_eq!(judge_in("rr", LVS, VGS), layout("raid,raid1 (rr)"));
    assert_eq!(judge_in("slow", LVS, VGS), layout("cache (slow)"));
    assert_eq!(judge_in("mm", LVS, VGS), layout("mirror (mm)"));
    assert_eq!(judge_in("pool", LVS, VGS), layout("pool,thin (pool)"));
    assert_eq!(judge_in("asat_1", LVS, VGS), Err(Obstacle::IsSnapshot));
    assert_eq!(judge_in("slow_corig", LVS, VGS), Err(Obstacle::UnknownVolume));
    // An origin of classic snapshots that is cached has the attributes of a plain one.
    assert_eq!(
        changed(
            "slow",
            r#""lv_attr":"Cwi-a-C---", "lv_size":"33554432""#,
            r#""lv_attr":"owi-a-C---", "lv_size":"33554432""#
        ),
        layout("cache (slow)")
    );
    let raid_pool = changed("thin", r#""lv_role":"private,thin,pool,data""#, r#""lv_role":"private""#);
    assert!(matches!(raid_pool, Ok(Backing::Thin { .. })), "roles do not decide");
    let tdata = LVS.find(r#""lv_name":"[pool_tdata]""#).unwrap();
    let (before, after) = LVS.split_at(tdata);
    let raid =
        format!("{before}{}", after.replacen(r#""lv_layout":"linear""#, r#""lv_layout":"raid,raid1""#, 1));
    assert_eq!(judge_in("thin", &raid, VGS), layout("raid,raid1 (pool_tdata)"));
}

#[test]
fn volumes_and_groups_that_are_not_in_order_are_refused() {
    let not = |text: &str| Err(Obstacle::NotInOrder(text.to_owned()));
    assert_eq!(changed("data", "owi-a-s---", "owi-s-s---"), not("data is suspended"));
    assert_eq!(changed("data", "owi-a-s---", "owi---s---"), not("data is not active"));
    assert_eq!(changed("data", "owi-a-s---", "owi-a-s-p-"), not("data is in the state Partial"));
    assert_eq!(changed("data", "owi-a-s---", "Owi-a-s---"), Err(Obstacle::Merging));
    assert_eq!(changed("thin", "twi-aotz--", "twi-aotzM-"), not("pool is in the state MetadataReadOnly"));
    assert_eq!(changed("thin", "twi-aotz--", "twi-aotzF-"), not("pool is in the state Failed"));
    assert!(changed("thin", "twi-aotz--", "twi-aotzD-").is_ok(), "a full pool can be extended");
    assert_eq!(changed("thin", "[pool_tdata]", "[pool_tdatb]"), Err(Obstacle::UnknownVolume));
    for (attributes, why) in [
        ("rz--n-", "read-only"),
        ("wzxn--", "exported"),
        ("wz-pn-", "incomplete: a physical volume is missing"),
        ("wz--ns", "shared with other machines"),
    ] {
        let found = judge_in("data", LVS, &VGS.replace("wz--n-", attributes));
        assert_eq!(found, Err(Obstacle::Group("vg".to_owned(), why)));
    }
}

#[test]
fn device_uuids_as_the_kernel_writes_them() {
    let volume = "eCMUGcdb3nFSliWJg8PRXLcbK2M9scQA";
    let uuid = parse_uuid(&format!("LVM-{GROUP}{volume}")).unwrap();
    assert_eq!((uuid.group.compact(), uuid.volume.compact()), (GROUP.to_owned(), volume.to_owned()));
    assert_eq!(uuid.to_string(), format!("LVM-{GROUP}{volume}"));
    for suffix in ["-real", "-cow", "-tpool", "x"] {
        let found = parse_uuid(&format!("LVM-{GROUP}{volume}{suffix}"));
        assert_eq!(found, Err(Obstacle::PartOfVolume(suffix.to_owned())));
    }
    let crypt = "CRYPT-LUKS2-0123456789abcdef0123456789abcdef-data";
    assert_eq!(parse_uuid(crypt), Err(Obstacle::OtherMapper("CRYPT".to_owned())));
    for text in
        ["", "LVM-", "LVM", "lvm-", "mpath-1", &format!("LVM-{GROUP}"), &format!("part1-LVM-{GROUP}{volume}")]
    {
        assert!(matches!(parse_uuid(text), Err(Obstacle::OtherMapper(_))), "{text}");
    }
    // A character of two bytes across the place where the UUIDs meet.
    let odd = format!("LVM-{}é{}", &GROUP[..31], &volume[..31]);
    assert!(matches!(parse_uuid(&odd), Err(Obstacle::OtherMapper(_))));
    let odd = format!("LVM-{GROUP}{}é", &volume[..31]);
    assert!(matches!(parse_uuid(&odd), Err(Obstacle::OtherMapper(_))));
}
