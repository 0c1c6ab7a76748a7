//! Sets of stores that are published as of one instant.

use std::collections::{BTreeMap, BTreeSet};

use asat_core::{Problem, SetName, StoreName};

use super::StoreConfig;
use super::raw;
use super::retention::line;
use super::validate::wrong;

/// `text` is what `raw` was read from, to name lines of it.
pub(super) fn validate(
    raw: &[raw::Set],
    text: &str,
    stores: &BTreeMap<StoreName, StoreConfig>,
) -> Result<BTreeMap<SetName, BTreeSet<StoreName>>, Problem> {
    let mut sets = BTreeMap::new();
    for set in raw {
        let (number, _) = line(text, set.name.span().start);
        let refuse = |key: &str, what: String, hint| wrong(key, format!("line {number}: {what}"), hint);
        let name: SetName = set.name.get_ref().parse().map_err(|error: asat_core::NameError| {
            refuse("set.name", error.to_string(), "choose a name that needs quoting nowhere")
        })?;
        if stores.keys().any(|store| store.as_str() == name.as_str()) {
            let what = format!("{name} names a store, too");
            return Err(refuse("set.name", what, "give the set a name of its own"));
        }
        let members = members(set, text, stores)?;
        if sets.insert(name.clone(), members).is_some() {
            return Err(refuse("set.name", format!("{name} names two sets"), "give each set its own name"));
        }
    }
    Ok(sets)
}

fn members(
    set: &raw::Set,
    text: &str,
    stores: &BTreeMap<StoreName, StoreConfig>,
) -> Result<BTreeSet<StoreName>, Problem> {
    let (name, (number, _)) = (set.name.get_ref(), line(text, set.stores.span().start));
    let refuse = |what: String, hint: &str| {
        wrong("set.stores", format!("line {number}: the set {name:?} {what}"), hint)
    };
    let mut members = BTreeSet::new();
    for written in set.stores.get_ref() {
        let known = written.parse().ok().filter(|store| stores.contains_key(store));
        let Some(store) = known else {
            let names: Vec<&str> = stores.keys().map(StoreName::as_str).take(20).collect();
            let hint = format!("the stores are: {}", names.join(", "));
            return Err(refuse(format!("names {written:?}, which is no store"), &hint));
        };
        if !members.insert(store) {
            return Err(refuse(format!("names {written:?} twice"), "name each store once"));
        }
    }
    match members.len() {
        0 | 1 => {
            Err(refuse("has fewer than two stores".to_owned(), "name two stores or more, or leave it out"))
        }
        _ => Ok(members),
    }
}
