//! How each store is cut: found out when the daemon starts, from what the machine offers and the configuration asks.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use asat_core::snapshot::{BackendKind, Origin};
use asat_core::{Backing, Code, Problem, StoreName};
use asat_host::lvm::Listing;
use asat_host::lvm::names::InstallationId;
use asat_host::volume::{self, Ground, OnLvm};

use super::lvm::{Grounds, Volumes, called};
use super::reflink;
use crate::config::{Config, StoreConfig};

/// Finds out how each store is to be cut.
///
/// # Errors
/// [`Code::Configuration`], where a store is to be cut by snapshots of the volume that the catalogue and the archives
/// lie on: they would be lost with it, and asat would wait for itself.
pub(super) fn discover(
    config: &Config,
    volumes: &Volumes,
) -> Result<(BTreeMap<StoreName, Backing>, Grounds), Problem> {
    let (mut backings, mut grounds) = (BTreeMap::new(), Grounds::new());
    let listing = OnceCell::new();
    for (name, store) in &config.stores {
        let (backing, ground) = one(config, volumes, &listing, name, store)?;
        match &backing {
            Backing::Volume(origin) => {
                tracing::info!(store = %name, backend = origin.backend.text(), volume = origin.name, "{name}: cut by snapshots");
            }
            Backing::Unusable(problem) => {
                tracing::warn!(store = %name, "{name}: cannot be published: {problem}")
            }
            Backing::Pages => {}
        }
        backings.insert(name.clone(), backing);
        grounds.extend(ground.map(|ground| (name.clone(), ground)));
    }
    Ok((backings, grounds))
}

fn one<'a>(
    config: &Config,
    volumes: &'a Volumes,
    listing: &'a OnceCell<Listing<'a>>,
    name: &StoreName,
    store: &StoreConfig,
) -> Result<(Backing, Option<OnLvm>), Problem> {
    match store.backend {
        Some(BackendKind::Pages) => return Ok((Backing::Pages, None)),
        Some(BackendKind::Reflink) => {
            let origin = cloned(config, volumes, name, store);
            let unusable = |problem| Backing::Unusable(then_restart(problem));
            return Ok((origin.map_or_else(unusable, Backing::Volume), None));
        }
        _ => {}
    }
    let ground = match (look(volumes, listing, name, store), store.backend) {
        (Ok(ground), _) => ground,
        (Err(problem), Some(_)) => return Ok((Backing::Unusable(then_restart(problem)), None)),
        (Err(problem), None) => {
            return Ok((without_volume(config, volumes, name, store, &problem), None));
        }
    };
    match (check_apart(&config.state, name, &ground), store.backend) {
        (Ok(()), _) => Ok((Backing::Volume(origin(&ground, store)), Some(ground))),
        (Err(problem), Some(_)) => Err(problem),
        (Err(problem), None) => {
            tracing::warn!(store = %name, "{name}: cut by pages: {problem}");
            Ok((Backing::Pages, None))
        }
    }
}

/// How a store is cut where nobody has chosen, and no snapshot can be taken of its volume: by clones where it is so large
/// that reading it takes long, and can be cloned; else by pages.
fn without_volume(
    config: &Config,
    volumes: &Volumes,
    name: &StoreName,
    store: &StoreConfig,
    why: &Problem,
) -> Backing {
    let bytes = std::fs::metadata(&store.path).map_or(0, |file| file.len());
    if bytes < BackendKind::LEAST_FOR_CLONES {
        tracing::info!(store = %name, "{name}: cut by pages: {}", why.detail);
        return Backing::Pages;
    }
    match cloned(config, volumes, name, store) {
        Ok(origin) if asat_host::clones::is_tested(&origin.fs) => Backing::Volume(origin),
        Ok(origin) => {
            tracing::info!(store = %name, "{name}: cut by pages: {}; clones are chosen on XFS and btrfs only, and not on {}", why.detail, origin.fs);
            Backing::Pages
        }
        Err(problem) => {
            tracing::info!(store = %name, "{name}: cut by pages: {}; {}", why.detail, problem.detail);
            Backing::Pages
        }
    }
}

/// Where a store's clones are made, where its file can be cloned.
fn cloned(
    config: &Config,
    volumes: &Volumes,
    name: &StoreName,
    store: &StoreConfig,
) -> Result<Origin, Problem> {
    let folder = folder_of_clones(config, volumes.installation(), store);
    asat_host::clones::probe(&store.path, &folder)?;
    recorded_clones(&folder, name, store).ok_or_else(|| {
        let detail = format!("the path {} cannot be recorded: it is no text", folder.display());
        Problem::new(Code::Configuration, detail, "name another folder as store.clones")
    })
}

/// Where the clones of each store are made, and of a store that is not cut by clones where there are some of it, or of another.
pub(super) fn clones(
    config: &Config,
    installation: &InstallationId,
    backings: &BTreeMap<StoreName, Backing>,
) -> BTreeMap<StoreName, Origin> {
    let of_store = |(name, store): (&StoreName, &StoreConfig)| {
        let origin = match backings.get(name) {
            Some(Backing::Volume(origin)) if origin.backend == BackendKind::Reflink => origin.clone(),
            _ => {
                let folder = folder_of_clones(config, installation, store);
                recorded_clones(&folder, name, store).filter(|_| folder.is_dir())?
            }
        };
        Some((name.clone(), origin))
    };
    config.stores.iter().filter_map(of_store).collect()
}

fn folder_of_clones(config: &Config, installation: &InstallationId, store: &StoreConfig) -> PathBuf {
    config.clones(store).join(installation.as_str())
}

/// Clones in this folder as they are recorded.
fn recorded_clones(folder: &Path, name: &StoreName, store: &StoreConfig) -> Option<Origin> {
    let fs = asat_host::doctor::place(&store.path).map_or_else(|_| String::new(), |place| place.fs);
    reflink::origin(folder, &fs, name)
}

/// The volume that a store lies on, where it can be cut as the configuration wants.
fn look<'a>(
    volumes: &'a Volumes,
    listing: &'a OnceCell<Listing<'a>>,
    name: &StoreName,
    store: &StoreConfig,
) -> Result<OnLvm, Problem> {
    let mut remedy = "see `asat doctor`, or write backend \"pages\"".to_owned();
    let listing = || {
        let lvm = volumes.lvm().map_err(|problem| {
            remedy = problem.hint;
            problem.detail
        })?;
        Ok(listing.get_or_init(|| Listing::new(lvm)))
    };
    let ground = match volume::discover(&store.path, listing)? {
        Ground::Lvm(ground) => *ground,
        Ground::Plain { why, .. } => {
            let detail = format!("no snapshot can be taken under {name}: {why}");
            return Err(Problem::new(Code::Configuration, detail, remedy));
        }
    };
    if store.backend == Some(BackendKind::LvmThin) && matches!(ground.backing, volume::Backing::Plain) {
        let detail =
            format!("{name} is to be cut by lvm-thin, and lies on the plain volume {}", called(&ground));
        return Err(Problem::new(Code::Configuration, detail, "write backend \"lvm-classic\" or \"auto\""));
    }
    volumes.check_names(name, &ground.group.name)?;
    Ok(ground)
}

/// The machine is looked at when the daemon starts, and not again.
fn then_restart(problem: Problem) -> Problem {
    Problem {
        hint: format!("{}; then restart asat, which looks at this as it starts", problem.hint),
        ..problem
    }
}

/// Refuses the volume that the catalogue and the archives lie on: they would be lost with it, and asat would wait
/// for itself while it is suspended.
fn check_apart(state: &Path, name: &StoreName, ground: &OnLvm) -> Result<(), Problem> {
    if asat_host::machine::device_of(state) != Some(ground.device) {
        return Ok(());
    }
    let detail = format!("state: {} lies on {}, as store {name} does", state.display(), called(ground));
    Err(Problem::new(
        Code::Configuration,
        detail,
        "put it on another volume, or write backend \"pages\" for the store",
    ))
}

/// The volume as it is recorded.
fn origin(ground: &OnLvm, store: &StoreConfig) -> Origin {
    let OnLvm { fs, inside, group, volume, backing, .. } = ground;
    let on_thin = matches!(backing, volume::Backing::Thin { .. });
    let free = group.free.to_bytes(group.extent_size).map_or(0, |free| free.0);
    Origin {
        backend: store.backend.unwrap_or_else(|| BackendKind::best(on_thin, free, store.keep_snapshots)),
        group: group.uuid.compact(),
        volume: volume.uuid.compact(),
        name: called(ground),
        fs: fs.clone(),
        inside: inside.clone(),
    }
}
