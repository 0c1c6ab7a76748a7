//! `archive stats`: what the archives take, version by version. `archive upgrade`: what was taken over.

use super::output::{Failure, Output};
use super::progress::Bars;
use super::{stores, table};
use asat_core::StoreName;

use crate::text::{clean, counted, size};
use asat_client::{Client, Request};
use asat_wire::{ArchiveStats, Upgraded};

pub(super) async fn archive(
    store: Option<&StoreName>,
    client: &Client,
    bars: &Bars<'_>,
    output: &Output,
) -> Result<(), Failure> {
    let stores = match store {
        Some(store) => vec![store.to_string()],
        None => stores::every(client).await?,
    };
    for store in stores {
        let request = Request::get(&["stores", &store, "archive"]).long();
        let stats: ArchiveStats = bars.ask(&format!("reading the index of {store}"), &request).await?;
        output.answer(&stats, text)?;
    }
    Ok(())
}

fn text(stats: &ArchiveStats) -> String {
    let head = format!("{}: {} in {}", clean(&stats.store), size(stats.bytes), counted(stats.files, "file"));
    if stats.versions.is_empty() { head } else { format!("{head}\n{}", table::archived(&stats.versions)) }
}

/// What was done with each archive, one a line.
pub(super) fn upgraded(stores: &[Upgraded]) -> String {
    let line = |upgraded: &Upgraded| {
        let Upgraded { store, versions, left_out, bytes_before, bytes_after, kept } = upgraded;
        let done = match versions {
            None => "has today's format already".to_owned(),
            Some(versions) => {
                let versions = counted(*versions, "version");
                format!("{versions} taken over; {} before, {} now", size(*bytes_before), size(*bytes_after))
            }
        };
        let lost = match left_out.as_slice() {
            [] => String::new(),
            left_out => format!("; left out, since they cannot be read: {}", left_out.join(", ")),
        };
        let kept = kept.as_ref().map_or_else(String::new, |kept| {
            format!("; the old archive is kept as {kept}, as files that are not asat's are with it")
        });
        clean(&format!("{store}: {done}{lost}{kept}"))
    };
    match stores {
        [] => "no store has an archive".to_owned(),
        stores => stores.iter().map(line).collect::<Vec<_>>().join("\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use asat_wire::ArchivedVersion;

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

    #[test]
    fn what_was_taken_over_for_people() {
        let mut report = Upgraded {
            store: "report".to_owned(),
            versions: Some(2),
            left_out: vec!["report@3".to_owned(), "report@4".to_owned()],
            bytes_before: 8192,
            bytes_after: 4096,
            kept: Some("/state/archive/.report.upgrade".to_owned()),
        };
        let done = "report: 2 versions taken over; 8.0 KiB before, 4.0 KiB now";
        let lost = "; left out, since they cannot be read: report@3, report@4";
        let kept = "; the old archive is kept as /state/archive/.report.upgrade, as files that are not asat's are with it";
        assert_eq!(upgraded(std::slice::from_ref(&report)), format!("{done}{lost}{kept}"));
        (report.versions, report.kept) = (None, None);
        report.left_out.clear();
        assert_eq!(upgraded(&[report.clone(), report]), ["report: has today's format already"; 2].join("\n"));
        assert_eq!(upgraded(&[]), "no store has an archive");
    }
}
