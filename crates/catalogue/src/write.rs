//! Writing: what each change does to the rows.

use asat_core::VersionId;
use asat_core::check::CheckResult;
use asat_core::clock::Anchor;
use asat_core::event::{Change, EffectId, Intent};
use asat_core::register::{Chunk, SPAN};
use asat_core::version::{Holding, Lease, Publication, Store, Tag, Version};
use rusqlite::{Result, ToSql, Transaction, params};

use crate::audit::Adding;
use crate::values::{At, FilePath, Int, Json, Life, Text};

/// Makes one change within a transaction.
pub(crate) fn apply(transaction: &Transaction<'_>, trail: &mut Adding<'_>, change: &Change) -> Result<()> {
    match change {
        Change::Store(store) => put_store(transaction, store),
        Change::Version(version) => {
            unpack(transaction, &version.id)?;
            put_version(transaction, version)
        }
        Change::Discarded(id) => {
            unpack(transaction, id)?;
            let sql = "delete from version where store = ?1 and number = ?2";
            run(transaction, sql, params![Text(&id.store), Int(id.number)])
        }
        Change::Published(publication) => {
            unpack(transaction, &publication.version)?;
            add_publication(transaction, publication)
        }
        Change::Packed(chunk) => put_chunk(transaction, chunk),
        Change::Tagged(tag) => put_tag(transaction, tag),
        Change::Untagged(store, name) => {
            let sql = "delete from tag where store = ?1 and name = ?2";
            run(transaction, sql, params![Text(store), Text(name)])
        }
        Change::Lease(lease) => put_lease(transaction, lease),
        Change::LeaseEnded(id) => run(transaction, "delete from lease where id = ?1", params![id.0]),
        Change::Intended(intent) => put_intent(transaction, intent),
        Change::Concluded(id) => conclude(transaction, *id),
        Change::Clock(anchor) => put_clock(transaction, anchor),
        Change::Noted(deed) => trail.add(deed),
    }
}

fn put_store(transaction: &Transaction<'_>, store: &Store) -> Result<()> {
    const SQL: &str = "insert into store (name, path, added_at, damage) values (?1, ?2, ?3, ?4)
        on conflict (name) do update set path = excluded.path, added_at = excluded.added_at,
            damage = excluded.damage";
    let Store { name, path, added_at, damage } = store;
    let damage = damage.as_ref().map(Json);
    run(transaction, SQL, params![Text(name), FilePath(path.clone()), At(*added_at), damage])
}

/// Deletes the chunk that a version is in, as it is about to change.
fn unpack(transaction: &Transaction<'_>, id: &VersionId) -> Result<()> {
    let sql = "delete from chunk where store = ?1 and number = ?2";
    run(transaction, sql, params![Text(&id.store), Int(id.number / SPAN)])
}

fn put_chunk(transaction: &Transaction<'_>, chunk: &Chunk) -> Result<()> {
    const SQL: &str = "insert into chunk (store, number, packed, hash) values (?1, ?2, ?3, ?4)
        on conflict (store, number) do update set packed = excluded.packed, hash = excluded.hash";
    let Chunk { store, number, packed } = chunk;
    let hash = blake3::hash(packed);
    run(transaction, SQL, params![Text(store), Int(*number), &packed[..], hash.as_bytes()])
}

fn put_version(transaction: &Transaction<'_>, version: &Version) -> Result<()> {
    const SQL: &str = "insert into version (store, number, state, begun_at,
            cut_at, fingerprint, page_size, page_count, wal, copy_in_snapshot, copy_bytes, copy_used_at,
            pin_reason, pin_owner, pin_set_at, pin_expires_at, pin_hot, ended_at, end_reason, purge_after)
        values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20)
        on conflict (store, number) do update set
            state = excluded.state, begun_at = excluded.begun_at, cut_at = excluded.cut_at,
            fingerprint = excluded.fingerprint, page_size = excluded.page_size,
            page_count = excluded.page_count, wal = excluded.wal,
            copy_in_snapshot = excluded.copy_in_snapshot, copy_bytes = excluded.copy_bytes, copy_used_at = excluded.copy_used_at,
            pin_reason = excluded.pin_reason, pin_owner = excluded.pin_owner,
            pin_set_at = excluded.pin_set_at, pin_expires_at = excluded.pin_expires_at,
            pin_hot = excluded.pin_hot, ended_at = excluded.ended_at, end_reason = excluded.end_reason,
            purge_after = excluded.purge_after";
    let Version { id, state, begun_at, content, holdings, copy, pin, end } = version;
    let (content, copy, pin, end) = (content.as_ref(), copy.as_ref(), pin.as_ref(), end.as_ref());
    let values = params![
        Text(&id.store),
        Int(id.number),
        Life(*state),
        At(*begun_at),
        content.map(|content| At(content.cut_at)),
        content.and_then(|content| content.fingerprint.map(Text)),
        content.map(|content| content.page_size.bytes()),
        content.map(|content| content.page_count),
        content.map(|content| content.wal),
        copy.map(|copy| copy.in_snapshot),
        copy.map(|copy| Int(copy.bytes)),
        copy.map(|copy| At(copy.used_at)),
        pin.map(|pin| &pin.reason),
        pin.and_then(|pin| pin.owner.as_ref()),
        pin.map(|pin| At(pin.set_at)),
        pin.and_then(|pin| pin.expires_at.map(At)),
        pin.map(|pin| pin.hot),
        end.map(|end| At(end.at)),
        end.map(|end| &end.reason),
        end.and_then(|end| end.purge_after.map(At)),
    ];
    run(transaction, SQL, values)?;
    put_holdings(transaction, id, holdings)
}

fn put_holdings(transaction: &Transaction<'_>, id: &VersionId, holdings: &[Holding]) -> Result<()> {
    let clear = "delete from holding where store = ?1 and number = ?2";
    run(transaction, clear, params![Text(&id.store), Int(id.number)])?;
    let add = "insert into holding (store, number, position, kind, bytes, snapshot)
        values (?1, ?2, ?3, ?4, ?5, ?6)";
    for (position, holding) in (0_u64..).zip(holdings) {
        let (kind, bytes, snapshot) = match holding {
            Holding::Archive { bytes } => ("archive", *bytes, None),
            Holding::Snapshot(snapshot) => ("snapshot", snapshot.bytes, Some(Json(snapshot))),
        };
        let values = params![Text(&id.store), Int(id.number), Int(position), kind, Int(bytes), snapshot];
        run(transaction, add, values)?;
    }
    Ok(())
}

fn add_publication(transaction: &Transaction<'_>, publication: &Publication) -> Result<()> {
    const SQL: &str = "insert into publication (number, store, version, at,
            label, certified_by, business_date, note, attributes, key, reused, writer_blocked_us, hold, snapshot_us,
            elapsed_us, set_name, set_cut_at)
        values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)";
    let (said, of_set) = (&publication.attributes, publication.of_set.as_ref());
    let values = params![
        Int(publication.number),
        Text(&publication.version.store),
        Int(publication.version.number),
        At(publication.at),
        said.label,
        said.certified_by,
        said.business_date.map(Text),
        said.note,
        Json(&said.free),
        publication.key,
        publication.reused,
        Int(publication.cost.writer_blocked_us),
        publication.cost.hold.text(),
        Int(publication.cost.snapshot_us),
        Int(publication.elapsed_us),
        of_set.map(|of_set| Text(&of_set.set)),
        of_set.map(|of_set| At(of_set.cut_at)),
    ];
    run(transaction, SQL, values)?;
    add_checks(transaction, publication)
}

fn add_checks(transaction: &Transaction<'_>, publication: &Publication) -> Result<()> {
    const SQL: &str = "insert into check_result (publication, position, name, passed, found, took_us)
        values (?1, ?2, ?3, ?4, ?5, ?6)";
    for (position, check) in (0_u64..).zip(&publication.checks) {
        let CheckResult { name, passed, found, took_us } = check;
        let number = Int(publication.number);
        run(transaction, SQL, params![number, Int(position), name, passed, found, Int(*took_us)])?;
    }
    Ok(())
}

fn put_tag(transaction: &Transaction<'_>, tag: &Tag) -> Result<()> {
    const SQL: &str = "insert into tag (store, name, version, set_at) values (?1, ?2, ?3, ?4)
        on conflict (store, name) do update set version = excluded.version, set_at = excluded.set_at";
    let Tag { name, version, set_at } = tag;
    run(transaction, SQL, params![Text(&version.store), Text(name), Int(version.number), At(*set_at)])
}

fn put_lease(transaction: &Transaction<'_>, lease: &Lease) -> Result<()> {
    const SQL: &str = "insert into lease (id, store, version, holder, actor, granted_at, expires_at)
        values (?1, ?2, ?3, ?4, ?5, ?6, ?7)
        on conflict (id) do update set store = excluded.store, version = excluded.version,
            holder = excluded.holder, actor = excluded.actor, granted_at = excluded.granted_at, expires_at = excluded.expires_at";
    let Lease { id, version, holder, actor, granted_at, expires_at } = lease;
    let (store, number) = (Text(&version.store), Int(version.number));
    run(transaction, SQL, params![id.0, store, number, holder, actor, At(*granted_at), At(*expires_at)])
}

fn put_intent(transaction: &Transaction<'_>, intent: &Intent) -> Result<()> {
    const SQL: &str =
        "insert into intent (id, at, actor, request, effect, open) values (?1, ?2, ?3, ?4, ?5, 1)
        on conflict (id) do update set at = excluded.at, actor = excluded.actor, request = excluded.request,
            effect = excluded.effect, open = 1";
    let Intent { id, at, by, effect } = intent;
    let request = by.request.as_deref().filter(|name| !name.is_empty());
    run(transaction, SQL, params![Int(id.0), At(*at), by.actor, request, Json(effect)])
}

/// Ends an intent. The row of the newest one stays, since the next number follows from it.
fn conclude(transaction: &Transaction<'_>, id: EffectId) -> Result<()> {
    run(transaction, "update intent set open = 0 where id = ?1", params![Int(id.0)])?;
    let sweep = "delete from intent where open = 0 and id < (select max(id) from intent)";
    run(transaction, sweep, params![])
}

/// What was believed of the machine's clock last.
fn put_clock(transaction: &Transaction<'_>, anchor: &Anchor) -> Result<()> {
    const SQL: &str = "insert into meta (key, value) values ('clock', ?1)
        on conflict (key) do update set value = excluded.value";
    run(transaction, SQL, params![Json(anchor)])
}

fn run(transaction: &Transaction<'_>, sql: &str, values: &[&dyn ToSql]) -> Result<()> {
    transaction.prepare_cached(sql)?.execute(values).map(drop)
}
