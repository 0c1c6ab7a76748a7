//! `remote`: what is done with history in object storage.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use asat_core::{Code, Problem, StoreName, VersionId};
use asat_remote::{
    Depth, Error, Finding, Keep, Manifest, Recipients, Report, Repository, Service, Stop, prune, restore,
    verify,
};

use super::args::{
    PruneArgs, RemoteCommand, RemoteCostArgs, RemoteInitArgs, RemoteRestoreArgs, RemoteVerifyArgs,
    RepositoryArgs,
};
use super::output::{Failure, Output};
use crate::config::{Config, RepositoryPlace, recipients};
use crate::doctor::DEFAULT_CONFIG;
use crate::text::{absolute, clean, counted, size};
use asat_client::{Client, Request};
use asat_wire::{
    LastingTrouble, RemoteCost, RemoteFinding, RemoteMade, RemotePruned, RemoteRestored, RemoteVerified,
    Store, StoreFollowed, StoreList, StoreRemote,
};

/// What asks the daemon.
pub(super) async fn ask(command: &RemoteCommand, client: &Client, output: &Output) -> Result<(), Failure> {
    match command {
        RemoteCommand::Status { store } => status(store.as_ref(), client, output).await,
        RemoteCommand::Push { store } => {
            let request = Request::post(&["stores", store.as_str(), "remote", "push"]).long();
            let pushed: StoreRemote = client.ask(&request).await?;
            output.done(&pushed, |pushed| {
                let versions = counted(pushed.stored, "version");
                format!("{store}: all of {versions} are in {} as they are here", clean(&pushed.url))
            })
        }
        RemoteCommand::TakeOver { store } => {
            let request = Request::post(&["stores", store.as_str(), "remote", "take-over"]).long();
            let taken: StoreRemote = client.ask(&request).await?;
            output.done(&taken, |taken| format!("{store} is published to {} from here", clean(&taken.url)))
        }
        _ => Err(Problem::new(Code::Internal, "this command asks no daemon", "").into()),
    }
}

async fn status(store: Option<&StoreName>, client: &Client, output: &Output) -> Result<(), Failure> {
    let StoreList { mut stores } = client.ask(&Request::get(&["stores"])).await?;
    if let Some(store) = store {
        stores.retain(|one| one.name == store.as_str());
        if stores.is_empty() {
            let hint = "asat stores lists those that there are";
            return Err(Problem::new(Code::UnknownStore, format!("there is no store {store}"), hint).into());
        }
    }
    let troubles = stores.iter().flat_map(|store| {
        let followed = store.followed.as_ref().and_then(|followed| followed.trouble.as_ref());
        [store.remote.as_ref().and_then(|remote| remote.trouble.as_ref()), followed]
    });
    let has_trouble = troubles.flatten().next().is_some();
    output.answer(&stores, |stores| stores.iter().map(line).collect::<Vec<_>>().join("\n"))?;
    if has_trouble { Err(Failure::AlarmOn) } else { Ok(()) }
}

/// How a store stands, for people.
fn line(store: &Store) -> String {
    let name = clean(&store.name);
    if let Some(followed) = &store.followed {
        return followed_line(&name, followed);
    }
    let Some(remote) = &store.remote else { return format!("{name}: no bucket is configured") };
    let place = clean(&remote.url);
    let head = match (remote.state.as_str(), remote.pending) {
        ("stored", _) => format!("{name}: all of {} are in {place}", counted(remote.stored, "version")),
        ("fenced", _) => format!("{name}: is not published to {place} from here"),
        (_, pending) => format!("{name}: {} of {} are not in {place} yet", pending, pending + remote.stored),
    };
    let since =
        remote.pending_since.map_or_else(String::new, |at| format!(", the oldest cut {}", absolute(at)));
    let bytes = remote.bytes.map_or_else(String::new, |bytes| format!("; {} there", size(bytes)));
    format!("{head}{since}{bytes}{}", trouble(remote.trouble.as_ref()))
}

/// How a store stands that is followed, for people.
fn followed_line(name: &str, followed: &StoreFollowed) -> String {
    let place = clean(&followed.url);
    let host =
        followed.host.as_deref().map_or_else(String::new, |host| format!(", published by {}", clean(host)));
    let manifest = followed.manifest.zip(followed.written_at);
    let manifest =
        manifest.map_or_else(String::new, |(number, at)| format!("; manifest {number} of {}", absolute(at)));
    let seen = match followed.seen_at {
        Some(at) => format!("; seen {}", absolute(at)),
        None => "; the bucket has not answered yet".to_owned(),
    };
    format!("{name}: followed from {place}{host}{manifest}{seen}{}", trouble(followed.trouble.as_ref()))
}

fn trouble(trouble: Option<&LastingTrouble>) -> String {
    trouble.map_or_else(String::new, |trouble| {
        let (detail, hint) = (clean(&trouble.detail), clean(&trouble.hint));
        format!("\n  since {}: {detail}\n  {hint}", absolute(trouble.since))
    })
}

/// What needs no daemon.
pub(super) fn work(command: &RemoteCommand, output: &Output) -> Result<(), Failure> {
    match command {
        RemoteCommand::Init(args) => init(args, output),
        RemoteCommand::List(args) => list(args, output),
        RemoteCommand::Verify(args) => verify_all(args, output),
        RemoteCommand::Prune(args) => prune_all(args, output),
        RemoteCommand::Cost(args) => cost(args, output),
        RemoteCommand::Restore(args) => restore_one(args, output),
        RemoteCommand::Status { .. } | RemoteCommand::Push { .. } | RemoteCommand::TakeOver { .. } => {
            Err(Problem::new(Code::Internal, "this command asks the daemon", "").into())
        }
    }
}

/// The repository that is meant, and to whom a configuration that publishes to it has it encrypted.
fn place(args: &RepositoryArgs) -> Result<(RepositoryPlace, Vec<String>), Problem> {
    let (mut place, recipients) = match (&args.config, &args.url) {
        (Some(file), _) => configured(file)?,
        (None, Some(_)) => (RepositoryPlace::default(), Vec::new()),
        (None, None) => configured(Path::new(DEFAULT_CONFIG)).map_err(|problem| {
            let hint =
                "name the repository with --url, or a configuration that has it with --config".to_owned();
            Problem { hint, ..problem }
        })?,
    };
    place.url = args.url.clone().unwrap_or(place.url);
    Ok((place, recipients))
}

fn configured(file: &Path) -> Result<(RepositoryPlace, Vec<String>), Problem> {
    let config = Config::load(file)?;
    let publishes = config.remote.map(|remote| (remote.place, remote.recipients));
    let place = publishes.or(config.follow.map(|follow| (follow.place, Vec::new())));
    place.ok_or_else(|| {
        let detail = format!("{} has neither [remote] nor [follow]", file.display());
        Problem::new(Code::Configuration, detail, "name the repository there, or with --url")
    })
}

fn service(place: &RepositoryPlace) -> Result<Arc<Service>, Problem> {
    Ok(Arc::new(Service::open_with(&place.url, Stop::new(), &place.options())?))
}

fn repository(args: &RepositoryArgs) -> Result<Repository, Problem> {
    Ok(Repository::open(service(&place(args)?.0)?)?)
}

/// The same, read with the identities of a file, or of the one that the configuration names.
fn readable(args: &RepositoryArgs, identity: Option<&PathBuf>) -> Result<Repository, Problem> {
    let (mut place, _) = place(args)?;
    place.identity = identity.cloned().or(place.identity);
    Ok(Repository::open(service(&place)?)?.read_with(place.identities()?))
}

fn init(args: &RemoteInitArgs, output: &Output) -> Result<(), Failure> {
    let (place, configured) = place(&args.repository)?;
    let recipients = recipients(if args.recipients.is_empty() { &configured } else { &args.recipients })?;
    let (repository, made) =
        Repository::init(service(&place)?, recipients.as_ref()).map_err(Problem::from)?;
    let recipients = repository.recipients().map(Recipients::texts).unwrap_or_default();
    let made = RemoteMade { url: repository.bucket.url().to_owned(), id: repository.id, recipients, made };
    output.done(&made, |RemoteMade { url, recipients, made, .. }| {
        let encrypted = match recipients.as_slice() {
            [] => String::new(),
            recipients => format!("; what is stored in it is encrypted to {}", recipients.join(", ")),
        };
        match made {
            true => format!("a repository is in {} now{encrypted}", clean(url)),
            false => {
                format!("there is a repository in {} already, which stays as it is{encrypted}", clean(url))
            }
        }
    })
}

/// The stores that are meant: one, which must have a history, or all that have one. The first files of another may be on their way.
fn chosen(repository: &Repository, store: Option<&StoreName>) -> Result<Vec<StoreName>, Problem> {
    let stores = match store {
        Some(store) => vec![store.clone()],
        None => repository.stores()?,
    };
    let mut found = Vec::new();
    for name in stores {
        if repository.history(&name).has_any()? {
            found.push(name);
        } else if store.is_some() {
            let detail = format!("{} has nothing of {name}", repository.bucket.url());
            return Err(Problem::new(Code::UnknownStore, detail, "asat remote list shows what it has"));
        }
    }
    Ok(found)
}

/// The newest manifests of all stores, and what is wrong with the first one that cannot be read.
fn newest(repository: &Repository) -> Result<(Vec<Manifest>, Result<(), Problem>), Problem> {
    let (mut found, mut readable) = (Vec::new(), Ok(()));
    for store in chosen(repository, None)? {
        match repository.history(&store).newest() {
            Err(error) if is_of_one_store(&error) => readable = readable.and(Err(error.into())),
            newest => found.extend(newest?),
        }
    }
    Ok((found, readable))
}

/// Whether an error is about the objects of one store: the others can be read all the same.
fn is_of_one_store(error: &Error) -> bool {
    matches!(error, Error::Damaged { .. } | Error::Format { .. })
}

fn list(args: &RepositoryArgs, output: &Output) -> Result<(), Failure> {
    let (manifests, readable) = newest(&repository(args)?)?;
    output.answer(&manifests, |manifests| {
        let line = |manifest: &Manifest| {
            let newest = manifest
                .newest
                .map_or_else(String::new, |newest| format!(", the newest {}@{newest}", manifest.store));
            format!(
                "{}: {}{newest}; {} in {}, manifest {}, published by {}",
                manifest.store,
                counted(manifest.versions, "version"),
                size(manifest.bytes()),
                counted(u64::try_from(manifest.files.len()).unwrap_or(u64::MAX), "file"),
                manifest.number,
                manifest.holder
            )
        };
        match manifests.as_slice() {
            [] if readable.is_err() => String::new(),
            [] => "the repository has no store yet".to_owned(),
            manifests => manifests.iter().map(line).collect::<Vec<_>>().join("\n"),
        }
    })?;
    Ok(readable?)
}

fn verify_all(args: &RemoteVerifyArgs, output: &Output) -> Result<(), Failure> {
    let repository = readable(&args.repository, args.identity.as_ref())?;
    if args.read || args.sample.is_some() {
        repository.must_be_readable().map_err(Problem::from)?;
    }
    let depth = match (args.read, args.sample) {
        (true, _) => Depth::Read,
        (false, Some(percent)) => Depth::Sample(percent),
        (false, None) => Depth::Listed,
    };
    let mut is_damaged = false;
    for store in chosen(&repository, args.store.as_ref())? {
        let report = match verify(&repository.history(&store), depth) {
            // The others are looked at all the same.
            Err(Error::Damaged { key, what, .. }) => {
                Report { findings: vec![Finding { key, what }], ..Report::default() }
            }
            report => report.map_err(Problem::from)?,
        };
        let found = RemoteVerified {
            store: store.to_string(),
            manifest: report.manifest,
            files: u64::try_from(report.files).unwrap_or(u64::MAX),
            read: u64::try_from(report.read).unwrap_or(u64::MAX),
            bytes: report.bytes,
            findings: report
                .findings
                .into_iter()
                .map(|found| RemoteFinding { key: found.key, what: found.what })
                .collect(),
        };
        is_damaged |= !found.findings.is_empty();
        output.answer(&found, verified)?;
    }
    if is_damaged { Err(Failure::DamageFound) } else { Ok(()) }
}

fn verified(found: &RemoteVerified) -> String {
    let RemoteVerified { store, manifest, files, read, bytes, findings } = found;
    let read = match read {
        0 => String::new(),
        read => format!(", {read} of them read ({})", size(*bytes)),
    };
    let head = format!("{store}: manifest {manifest} names {}{read}", counted(*files, "file"));
    let findings: String =
        findings.iter().map(|found| format!("\n  {}: {}", clean(&found.key), clean(&found.what))).collect();
    if findings.is_empty() { format!("{head}; nothing is wrong") } else { format!("{head}{findings}") }
}

fn prune_all(args: &PruneArgs, output: &Output) -> Result<(), Failure> {
    let repository = repository(&args.repository)?;
    let keep = Keep { grace: args.grace, ..Keep::default() };
    let mut done = Ok(());
    for store in chosen(&repository, args.store.as_ref())? {
        let pruned = match prune(&repository.history(&store), &keep, args.dry_run) {
            Err(error) if is_of_one_store(&error) => {
                done = done.and(Err(Problem::from(error)));
                continue;
            }
            pruned => pruned.map_err(Problem::from)?,
        };
        let pruned = RemotePruned {
            store: store.to_string(),
            files: u64::try_from(pruned.files).unwrap_or(u64::MAX),
            bytes: pruned.bytes,
            manifests: u64::try_from(pruned.manifests).unwrap_or(u64::MAX),
            dry_run: args.dry_run,
        };
        let text = |RemotePruned { store, files, bytes, manifests, dry_run }: &RemotePruned| {
            let done = if *dry_run { "would be deleted" } else { "deleted" };
            let (files, manifests) = (counted(*files, "file"), counted(*manifests, "manifest"));
            format!("{store}: {files} ({}) and {manifests} {done}", size(*bytes))
        };
        if args.dry_run { output.answer(&pruned, text)? } else { output.done(&pruned, text)? }
    }
    Ok(done?)
}

fn cost(args: &RemoteCostArgs, output: &Output) -> Result<(), Failure> {
    let (manifests, readable) = newest(&repository(&args.repository)?)?;
    let stores = u32::try_from(manifests.len()).unwrap_or(u32::MAX);
    let bytes = manifests.iter().map(Manifest::bytes).fold(0, u64::saturating_add);
    let megabytes = u32::try_from(bytes / 1_000_000).unwrap_or(u32::MAX);
    // A month of thirty days.
    let publications = f64::from(stores) * f64::from(args.publications) * 30.0;
    let found = RemoteCost {
        stores: stores.into(),
        bytes,
        storage: f64::from(megabytes) / 1000.0 * args.gigabyte,
        publications: u64::from(args.publications) * 30,
        requests: publications / 1000.0 * (2.0 * args.writes + args.reads),
    };
    output.answer(&found, |found| {
        let RemoteCost { stores, bytes, storage, publications, requests } = found;
        let stores = counted(*stores, "store");
        format!(
            "{} of {stores}: ${storage:.2} a month\n{} of each: ${requests:.2} a month, with two requests that write and one that reads",
            size(*bytes),
            counted(*publications, "publication"),
        )
    })?;
    Ok(readable?)
}

fn restore_one(args: &RemoteRestoreArgs, output: &Output) -> Result<(), Failure> {
    let repository = readable(&args.repository, args.identity.as_ref())?;
    repository.must_be_readable().map_err(Problem::from)?;
    // What there is not is said in words, and not by the key of an object.
    if args.manifest.is_none() {
        chosen(&repository, Some(&args.store))?;
    }
    let mut percent = 0;
    let mut tell = |done: u64, all: u64| {
        let now = done.saturating_mul(100) / all.max(1);
        if now >= percent + 10 {
            percent = now;
            output.remark(&format!("{now} % of {}", size(all)));
        }
    };
    let history = repository.history(&args.store);
    let restored = restore(&history, args.manifest, &args.to, &mut tell).map_err(Problem::from)?;
    let newest =
        restored.versions.last().map(|number| VersionId { store: args.store.clone(), number: *number });
    let restored = RemoteRestored {
        store: args.store.to_string(),
        folder: args.to.display().to_string(),
        manifest: restored.manifest.number,
        versions: u64::try_from(restored.versions.len()).unwrap_or(u64::MAX),
        newest: newest.map(|newest| newest.to_string()),
        bytes: restored.manifest.bytes(),
        found: u64::try_from(restored.found).unwrap_or(u64::MAX),
    };
    output.done(&restored, |RemoteRestored { folder, versions, newest, bytes, .. }| {
        let newest = newest.as_ref().map_or_else(String::new, |newest| format!(", up to {newest}"));
        let versions = counted(*versions, "version");
        format!("{versions}{newest} ({}) are in {} again", size(*bytes), clean(folder))
    })
}
