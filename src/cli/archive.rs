//! `archive stats`: what the archives take, version by version.

use super::args::{ArchiveArgs, ArchiveCommand};
use super::output::{Failure, Output};
use super::{stores, table};
use crate::client::{Client, Request};
use crate::text::{clean, counted, size};
use crate::wire::ArchiveStats;

pub(super) async fn archive(args: &ArchiveArgs, client: &Client, output: &Output) -> Result<(), Failure> {
    let ArchiveCommand::Stats { store } = &args.command;
    let stores = match store {
        Some(store) => vec![store.to_string()],
        None => stores::every(client).await?,
    };
    for store in stores {
        let stats: ArchiveStats = client.ask(&Request::get(&["stores", &store, "archive"]).long()).await?;
        output.answer(&stats, text)?;
    }
    Ok(())
}

fn text(stats: &ArchiveStats) -> String {
    let head = format!("{}: {} in {}", clean(&stats.store), size(stats.bytes), counted(stats.files, "file"));
    if stats.versions.is_empty() { head } else { format!("{head}\n{}", table::archived(&stats.versions)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::ArchivedVersion;

    #[test]
    fn statistics_for_people() {
        let version =
            |number: u64| ArchivedVersion { id: format!("report@{number}"), bytes: 4096, only_bytes: 1024 };
        let mut stats = ArchiveStats {
            store: "report".to_owned(),
            bytes: 8192,
            files: 1,
            versions: vec![version(3), version(4)],
        };
        let lines: Vec<String> = text(&stats).lines().map(|line| line.trim_end().to_owned()).collect();
        let head = "report: 8.0 KiB in 1 file";
        let rows = ["report@3  4.0 KiB  1.0 KiB", "report@4  4.0 KiB  1.0 KiB"];
        assert_eq!(lines, [head, "VERSION   KEPT     ONLY FOR IT", rows[0], rows[1]]);
        stats.versions.clear();
        assert_eq!(text(&stats), head);
    }
}
