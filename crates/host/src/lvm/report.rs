//! What LVM reports, read from its JSON.
//!
//! LVM writes every value as text. All of it is parsed here, into types that cannot be mixed up; a value
//! that is not understood is an error that names it, for a guess about somebody's volume could cost it.
//! Fields that were not asked for and sections that other versions add are passed over.
//!
//! The fields asked for are those of whole volumes. A field of segments (`segtype`, `chunk_size`) would
//! make LVM write a row for each segment, so that one volume appears several times.

mod attributes;
mod identity;
mod rows;

use std::collections::BTreeSet;

pub use attributes::{Activity, Attributes, Health, Kind};
pub use identity::{Name, Uuid};

use super::command::{Call, Error, Lvm};
use super::units::{Bytes, Extents, Percent};

/// A logical volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogicalVolume {
    /// Its name, without the brackets that LVM puts around that of a hidden volume.
    pub name: Name,
    /// Whether it is a hidden part of another volume.
    pub hidden: bool,
    /// Its UUID.
    pub uuid: Uuid,
    /// The name of its volume group.
    pub group: Name,
    /// The UUID of its volume group.
    pub group_uuid: Uuid,
    /// Its kind and state.
    pub attributes: Attributes,
    /// Its size; that of a classic snapshot is the size of its own space.
    pub size: Bytes,
    /// The name and UUID of the volume that it is a snapshot of.
    pub origin: Option<(Name, Uuid)>,
    /// The name and UUID of its pool.
    pub pool: Option<(Name, Uuid)>,
    /// The number by which its pool knows it, where that is a thin pool.
    pub thin_id: Option<u64>,
    /// Its tags.
    pub tags: BTreeSet<String>,
    /// How it is laid out: `linear`, or `thin` and `sparse`, or `raid` and `raid1`, ...
    pub layout: BTreeSet<String>,
    /// What it is used for: `public`, `snapshot`, `thickorigin`, ...
    pub roles: BTreeSet<String>,
    /// How full it is, where LVM can say; for display only, the kernel's own numbers are exact.
    pub data_percent: Option<Percent>,
    /// How full its metadata is, where it has some.
    pub metadata_percent: Option<Percent>,
    /// The size of its metadata, where it has some.
    pub metadata_size: Option<Bytes>,
    /// Its device, major and minor, while it is active.
    pub device: Option<(u32, u32)>,
}

/// A volume group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeGroup {
    /// Its name.
    pub name: Name,
    /// Its UUID.
    pub uuid: Uuid,
    /// The size of its extents.
    pub extent_size: Bytes,
    /// How many it has.
    pub extents: Extents,
    /// How many are free.
    pub free: Extents,
    /// What is free of its metadata area, in which LVM describes each volume. If it is full, no volume can be made or extended.
    pub metadata_free: Bytes,
    /// Whether it can be changed.
    pub writable: bool,
    /// Whether a physical volume is missing.
    pub partial: bool,
    /// Whether it was exported, to be moved to another machine.
    pub exported: bool,
    /// Whether other machines use it too.
    pub shared: bool,
}

/// A physical volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PhysicalVolume {
    /// Its device.
    pub device: String,
    /// Its UUID.
    pub uuid: Uuid,
    /// The group that it belongs to, if to any.
    pub group: Option<Name>,
    /// Its size.
    pub size: Bytes,
    /// What is free of it.
    pub free: Bytes,
    /// Whether LVM cannot find it.
    pub missing: bool,
}

const VOLUME_FIELDS: &str = "vg_name,vg_uuid,lv_name,lv_uuid,lv_attr,lv_size,origin,origin_uuid,pool_lv,pool_lv_uuid,thin_id,\
     lv_tags,lv_layout,lv_role,data_percent,metadata_percent,lv_metadata_size,lv_kernel_major,lv_kernel_minor";
const GROUP_FIELDS: &str = "vg_name,vg_uuid,vg_attr,vg_extent_size,vg_extent_count,vg_free_count,vg_mda_free";
const PHYSICAL_FIELDS: &str = "pv_name,pv_uuid,vg_name,pv_size,pv_free,pv_missing";

impl Lvm {
    /// The volumes of a group, the hidden ones included.
    ///
    /// # Errors
    /// Where the command fails, or its report cannot be read.
    pub fn volumes(&self, group: &Name) -> Result<Vec<LogicalVolume>, Error> {
        let call = report("lvs", VOLUME_FIELDS).flag("--all").operand(group.as_str());
        self.read(&call, parse_volumes)
    }

    /// The volumes of all groups for which an expression of LVM's `--select` holds, the hidden ones included.
    ///
    /// # Errors
    /// As [`Self::volumes`].
    pub(super) fn selected(&self, selection: &str) -> Result<Vec<LogicalVolume>, Error> {
        let call = report("lvs", VOLUME_FIELDS).flag("--all").option("--select", selection);
        self.read(&call, parse_volumes)
    }

    /// A group.
    ///
    /// # Errors
    /// Where the command fails, or its report cannot be read; with [`super::Refusal::NoSuchGroup`] where
    /// there is no such group.
    pub fn group(&self, group: &Name) -> Result<VolumeGroup, Error> {
        let call = report("vgs", GROUP_FIELDS).operand(group.as_str());
        self.read(&call, |text| {
            let mut groups = parse_groups(text)?;
            groups.pop().filter(|_| groups.is_empty()).ok_or_else(|| "it does not list one group".to_owned())
        })
    }

    /// All groups.
    ///
    /// # Errors
    /// As [`Self::group`].
    pub fn groups(&self) -> Result<Vec<VolumeGroup>, Error> {
        self.read(&report("vgs", GROUP_FIELDS), parse_groups)
    }

    /// All physical volumes.
    ///
    /// # Errors
    /// As [`Self::group`].
    pub fn physical_volumes(&self) -> Result<Vec<PhysicalVolume>, Error> {
        self.read(&report("pvs", PHYSICAL_FIELDS), parse_physical_volumes)
    }

    fn read<T>(&self, call: &Call, parse: impl FnOnce(&str) -> Result<T, String>) -> Result<T, Error> {
        let text = self.run(call)?;
        parse(&text).map_err(|what| Error::Unreadable { command: call.to_string(), what })
    }
}

fn report(command: &'static str, fields: &'static str) -> Call {
    Call::new(command)
        .option("--reportformat", "json")
        .option("--units", "b")
        .flag("--nosuffix")
        .option("--options", fields)
        .without_backup()
}

/// Reads the report of `lvs`.
///
/// # Errors
/// Says which value cannot be read.
pub fn parse_volumes(text: &str) -> Result<Vec<LogicalVolume>, String> {
    rows::read(text, "lv")?.iter().map(volume).collect()
}

/// Reads the report of `vgs`.
///
/// # Errors
/// Says which value cannot be read.
pub fn parse_groups(text: &str) -> Result<Vec<VolumeGroup>, String> {
    rows::read(text, "vg")?.iter().map(group).collect()
}

/// Reads the report of `pvs`.
///
/// # Errors
/// Says which value cannot be read.
pub fn parse_physical_volumes(text: &str) -> Result<Vec<PhysicalVolume>, String> {
    rows::read(text, "pv")?.iter().map(physical_volume).collect()
}

fn volume(row: &rows::Row) -> Result<LogicalVolume, String> {
    let (name, hidden) = row.text("lv_name").map(identity::unbracket)?;
    Ok(LogicalVolume {
        name: row.parse_text("lv_name", name)?,
        hidden,
        uuid: row.parse("lv_uuid")?,
        group: row.parse("vg_name")?,
        group_uuid: row.parse("vg_uuid")?,
        attributes: row.parse("lv_attr")?,
        size: row.bytes("lv_size")?,
        origin: other(row, "origin", "origin_uuid")?,
        pool: other(row, "pool_lv", "pool_lv_uuid")?,
        thin_id: row.optional("thin_id", |row, field| row.number(field))?,
        tags: row.set("lv_tags")?,
        layout: row.set("lv_layout")?,
        roles: row.set("lv_role")?,
        data_percent: row.percent("data_percent")?,
        metadata_percent: row.percent("metadata_percent")?,
        metadata_size: row.optional("lv_metadata_size", |row, field| row.bytes(field))?,
        device: row.device("lv_kernel_major", "lv_kernel_minor")?,
    })
}

/// Another volume that a row names. LVM knows some by name alone.
fn other(row: &rows::Row, name: &str, uuid: &str) -> Result<Option<(Name, Uuid)>, String> {
    let (text, _) = row.text(name).map(identity::unbracket)?;
    if text.is_empty() && row.text(uuid)?.is_empty() {
        return Ok(None);
    }
    Ok(Some((row.parse_text(name, text)?, row.parse(uuid)?)))
}

fn group(row: &rows::Row) -> Result<VolumeGroup, String> {
    // wz--n-: writable, resizable, exported, partial, allocation, clustered or shared.
    let attributes = row.text("vg_attr")?;
    let flag = |at: usize| attributes.as_bytes().get(at).copied().ok_or_else(|| row.wrong("vg_attr"));
    Ok(VolumeGroup {
        name: row.parse("vg_name")?,
        uuid: row.parse("vg_uuid")?,
        extent_size: row
            .bytes("vg_extent_size")
            .and_then(|size| if size.0 > 0 { Ok(size) } else { Err(row.wrong("vg_extent_size")) })?,
        extents: row.number("vg_extent_count").map(Extents)?,
        free: row.number("vg_free_count").map(Extents)?,
        metadata_free: row.bytes("vg_mda_free")?,
        writable: flag(0)? == b'w',
        exported: flag(2)? != b'-',
        partial: flag(3)? != b'-',
        shared: flag(5)? != b'-',
    })
}

fn physical_volume(row: &rows::Row) -> Result<PhysicalVolume, String> {
    Ok(PhysicalVolume {
        device: row.text("pv_name")?.to_owned(),
        uuid: row.parse("pv_uuid")?,
        group: row.optional("vg_name", |row, field| row.parse(field))?,
        size: row.bytes("pv_size")?,
        free: row.bytes("pv_free")?,
        missing: !row.text("pv_missing")?.is_empty(),
    })
}

#[cfg(test)]
mod tests;
