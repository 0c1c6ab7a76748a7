//! The audit trail as it is written: each entry is numbered and chained in the transaction that does what it tells of.

use asat_core::audit::{Deed, Link, Place};
use rusqlite::{Connection, Result, Transaction, params};
use sha2::{Digest, Sha256};

use crate::values::{At, Int, Json, Text};

/// Adds entries in a transaction. Where the trail ends is read once and written once, however many there are.
pub(crate) struct Adding<'a> {
    transaction: &'a Transaction<'a>,
    head: Option<Place>,
}

impl<'a> Adding<'a> {
    pub(crate) fn new(transaction: &'a Transaction<'a>) -> Self {
        Self { transaction, head: None }
    }

    pub(crate) fn add(&mut self, deed: &Deed) -> Result<()> {
        let head = match self.head {
            Some(head) => head,
            None => self::head(self.transaction)?,
        };
        self.head = Some(add(self.transaction, head, deed)?);
        Ok(())
    }

    /// Writes where the trail ends.
    pub(crate) fn finish(self) -> Result<()> {
        const MOVE: &str = "update audit_head set number = ?1, chain = ?2";
        let Some(Place { number, chain }) = self.head else { return Ok(()) };
        self.transaction.prepare_cached(MOVE)?.execute(params![Int(number), Text(chain)]).map(drop)
    }
}

/// Adds an entry after that place; answers its own.
fn add(transaction: &Transaction<'_>, Place { number, chain }: Place, deed: &Deed) -> Result<Place> {
    const ADD: &str = "insert into audit (number, at, actor, request, action, store, version, details, chain)
        values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
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
    Ok(Place { number, chain })
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
