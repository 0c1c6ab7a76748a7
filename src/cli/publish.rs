//! `publish`: a certification, sent so that a lost answer never makes two versions.

use asat_core::version::Free;
use asat_core::{Code, Problem};
use uuid::Uuid;

use super::args::PublishArgs;
use super::output::{Failure, Output};
use super::progress::Bars;
use super::typed::belongs;
use crate::text::{absolute, clean, size};
use asat_client::{Client, Request};
use asat_wire::{PublishRequest, Published, PublishedSet, Wait};

pub(super) async fn publish(
    args: &PublishArgs,
    client: &Client,
    bars: &Bars<'_>,
    output: &Output,
) -> Result<(), Failure> {
    let mut attributes = Free::new();
    for (name, value) in &args.attributes {
        if attributes.insert(name.clone(), value.as_str().into()).is_some() {
            let detail = format!("the attribute {name:?} is given twice");
            return Err(Problem::new(Code::Invalid, detail, "give each attribute once").into());
        }
    }
    let body = PublishRequest {
        wait: args.wait_remote.then_some(Wait::Remote),
        store: args.store.as_ref().map(ToString::to_string),
        set: args.set.as_ref().map(ToString::to_string),
        label: args.label.clone(),
        certified_by: args.certified_by.clone(),
        business_date: args.business_date.map(|date| date.to_string()),
        note: args.note.clone(),
        attributes: Some(attributes).filter(|attributes| !attributes.is_empty()),
    };
    let key = args.key.clone().unwrap_or_else(|| Uuid::now_v7().to_string());
    let request = Request::post(&["snapshots"]).json(&body)?.keyed(&key).long();
    let mut asked = Asked { output, is_answered: false };
    let concerns = |version: &str| args.store.as_ref().is_none_or(|store| belongs(version, store));
    if args.set.is_some() {
        let published = bars.during("publishing", concerns, client.ask::<PublishedSet>(&request)).await;
        asked.is_answered = true;
        return output.done(&published?, set_text);
    }
    let published = bars.during("publishing", concerns, client.ask::<Published>(&request)).await;
    asked.is_answered = true;
    output.done(&published?, text)
}

/// A publication that the daemon was asked for. A signal that ends the command does not end that.
struct Asked<'a> {
    output: &'a Output,
    is_answered: bool,
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        if !self.is_answered {
            self.output.remark("the daemon may continue: asat ls shows whether it has published");
        }
    }
}

fn set_text(set: &PublishedSet) -> String {
    let PublishedSet { set, cut_at, writer_blocked_ms, elapsed_ms, published, .. } = set;
    let each: String = published.iter().map(|published| format!("\n  {}", text(published))).collect();
    format!(
        "{} published as of {cut_at:.6}, in {elapsed_ms:.1} ms, writers held {writer_blocked_ms:.1} ms at most:{each}",
        clean(set)
    )
}

fn text(published: &Published) -> String {
    let Published { version, reused, writer_blocked_ms, elapsed_ms, .. } = published;
    let cut = version.cut_at.map_or_else(|| "at an unknown time".to_owned(), absolute);
    let id = clean(&version.id);
    if *reused {
        return format!("{id} published again: nothing was committed since it was cut, {cut}");
    }
    let size = version.size_bytes.map_or_else(|| "size unknown".to_owned(), size);
    format!("{id} published, cut {cut}: {size} in {elapsed_ms:.1} ms, writers held {writer_blocked_ms:.1} ms")
}
