//! LVM: the commands, what they report, and which volumes are ours.
//!
//! A mistake here removes somebody's data, so each danger has one room that keeps it. [`command`] alone
//! runs programs, and never waits for one longer than it was told. [`names`] alone decides which volume is
//! ours. [`report`] alone reads what LVM says, and [`listing`] keeps it for those who look together. [`snapshots`] alone makes, changes and removes volumes. [`units`]
//! keeps bytes, sectors and extents apart. [`delta`] only asks: what two thin snapshots have in common.

pub mod command;
pub mod delta;
pub mod listing;
pub mod names;
pub mod report;
pub mod snapshots;
pub mod units;

pub use command::{Call, Error, Lvm, Refusal, Timing};
pub use listing::Listing;
pub use names::{Installation, InstallationId, Ours, Whose, recognise};
pub use report::{LogicalVolume, VolumeGroup};
pub use snapshots::{Extended, Made, Snapshot, Space};
