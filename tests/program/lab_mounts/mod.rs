//! Snapshots mounted and shown to readers, on a real device-mapper: with ext4 and XFS, classic and thin.

mod crashes;
mod foreign;
mod readers;
mod rollback;
mod serving;
mod site;
mod space;
