//! The audit trail as it is written: each entry is numbered and chained in the transaction that does what it tells of.

use asat_core::audit::{Deed, Link, Place};
use rusqlite::{Connection, Result, Transaction, params};
use sha2::{Digest, Sha256};

use crate::values::{At, Int, Json, Text};

/// Adds an entry.
pub(crate) fn add(transaction: &Transaction<'_>, deed: &Deed) -> Result<()> {
    const ADD: &str = "insert into audit (number, at, actor, request, action, store, version, details, chain)
        values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
    const MOVE: &str = "update audit_head set number = ?1, chain = ?2";
    let Place { number, chain } = head(transaction)?;
    let number = number + 1;
    let (at, details) = (At::text(deed.at), Json::text(&deed.details)?);
    let (store, version) = (deed.version.store.as_str(), deed.version.number.to_string());
    let (number_text, request) =
        (number.to_string(), deed.by.request.as_deref().filter(|name| !name.is_empty()));
    let fields = [
        &number_text,
        &at,
        &deed.by.actor,
        request.unwrap_or_default(),
        deed.action.text(),
        store,
        &version,
        &details,
    ];
    let chain = link(chain, fields.map(str::as_bytes));
    let values = params![
        Int(number),
        at,
        deed.by.actor,
        request,
        deed.action.text(),
        store,
        Int(deed.version.number),
        details,
        Text(chain),
    ];
    transaction.prepare_cached(ADD)?.execute(values)?;
    transaction.prepare_cached(MOVE)?.execute(params![Int(number), Text(chain)]).map(drop)
}

/// Where the trail ends.
pub(crate) fn head(connection: &Connection) -> Result<Place> {
    let mut statement = connection.prepare_cached("select number, chain from audit_head")?;
    statement.query_row([], |row| {
        Ok(Place { number: row.get::<_, Int>(0)?.0, chain: row.get::<_, Text<Link>>(1)?.0 })
    })
}

/// The chain's value after an entry with these fields: number, instant, actor, request, action, store, version and
/// details, each as it stands in the catalogue, before it its length in eight bytes, the highest first.
pub(crate) fn link(before: Link, fields: [&[u8]; 8]) -> Link {
    let mut digest = Sha256::new();
    digest.update(before.0);
    for field in fields {
        digest.update(u64::try_from(field.len()).unwrap_or(u64::MAX).to_be_bytes());
        digest.update(field);
    }
    Link(digest.finalize().into())
}

/// The chain's value before the first entry: the name of the installation, twice.
pub(crate) fn beginning(installation: &str) -> Option<Link> {
    installation.repeat(2).parse().ok()
}
