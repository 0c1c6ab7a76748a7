//! `tag`: names that lead to versions, and move.

use asat_core::{Code, Problem};
use jiff::Timestamp;

use super::args::TagArgs;
use super::output::{Failure, Output};
use super::{stores, table};
use crate::text::clean;
use asat_client::{Client, Request};
use asat_wire::{Tag, TagList, TagRequest};

pub(super) async fn tag(args: &TagArgs, client: &Client, output: &Output) -> Result<(), Failure> {
    if args.list {
        return list(args, client, output).await;
    }
    let (Some(store), Some(tag)) = (&args.store, &args.tag) else {
        return Err(Problem::new(Code::Invalid, "the store or the tag is left out", "write both").into());
    };
    let path = ["stores", store.as_str(), "tags", tag.as_str()];
    match &args.version {
        Some(version) => {
            let before = of_store(store.as_str(), client).await?;
            let before = before.tags.into_iter().find(|other| other.name == tag.as_str());
            let body = TagRequest { version: version.text().to_owned() };
            let tag: Tag = client.ask(&Request::put(&path).json(&body)?).await?;
            output.done(&tag, |tag| {
                let moved = before.filter(|before| before.version != tag.version);
                let moved = moved
                    .map_or_else(String::new, |from| format!("; before, it led to {}", clean(&from.version)));
                format!("{}@{} leads to {}{moved}", clean(&tag.store), clean(&tag.name), clean(&tag.version))
            })
        }
        None => {
            let tag: Tag = client.ask(&Request::delete(&path)).await?;
            output.done(&tag, |tag| {
                let (store, name) = (clean(&tag.store), clean(&tag.name));
                format!("{store}@{name} is deleted; it led to {}", clean(&tag.version))
            })
        }
    }
}

async fn of_store(store: &str, client: &Client) -> Result<TagList, Problem> {
    client.ask(&Request::get(&["stores", store, "tags"])).await
}

async fn list(args: &TagArgs, client: &Client, output: &Output) -> Result<(), Failure> {
    let stores = match &args.store {
        Some(store) => vec![store.to_string()],
        None => stores::every(client).await?,
    };
    let mut all = TagList { tags: Vec::new() };
    for store in stores {
        all.tags.extend(of_store(&store, client).await?.tags);
    }
    output.answer(&all, |all| table::tags(&all.tags, Timestamp::now()))?;
    if all.tags.is_empty() {
        output.remark("there is no tag");
    }
    Ok(())
}
