//! Stores that are cut by clones of their files, on a real XFS and on a real btrfs: what clones share, what is told of them, and
//! what is left alone.

mod btrfs;
mod choice;
mod foreign;
mod full;
mod measuring;
mod newest;
mod sharing;
mod site;
