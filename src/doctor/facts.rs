//! What there is: of the machine, and of everything that the configuration names.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use asat_catalogue::Catalogue;
use asat_core::harm::Harm;
use asat_core::snapshot::BackendKind;
use asat_core::{Code, Problem};
use asat_host::StateFolder;
use asat_host::clones;
use asat_host::doctor::{self as host, Footing, Kind, Listening, Mapper, PathKind, Place, Sharing, Tools};
use asat_host::lvm::{Listing, Lvm};
use asat_host::program;
use asat_host::tree::{self, Reach, reach};
use asat_remote::{Protection, Repository, Service, Stop};

use super::DEFAULT_CONFIG;
use crate::config::{Config, FollowConfig, FuseConfig, RemoteConfig, RepositoryPlace, recipients};

/// Everything that is judged.
pub(super) struct Facts {
    pub(super) machine: Machine,
    /// What a process started from here can do with FUSE.
    pub(super) fuse: Reach,
    pub(super) configuration: Configuration,
    /// What the configuration names, where it could be read.
    pub(super) site: Option<Site>,
}

/// The machine, whatever the configuration is.
pub(super) struct Machine {
    pub(super) user: u32,
    pub(super) open_files: Option<u64>,
    pub(super) mapper: Mapper,
    pub(super) tools: Tools,
}

/// The configuration as a file.
pub(super) enum Configuration {
    Read {
        file: PathBuf,
        stores: usize,
        /// Whether a bucket is followed, so that there are none.
        follows: bool,
    },
    /// None was named, and there is none in the usual place.
    None,
    Wrong(Problem),
}

/// What a configuration names.
pub(super) struct Site {
    pub(super) stores: Vec<Store>,
    /// Where versions are to be read by their paths.
    pub(super) tree: Option<Tree>,
    pub(super) state: StateFacts,
    pub(super) listeners: Vec<Listener>,
    /// The command for alarms, and why it cannot be run where it cannot; `None` where none is configured.
    pub(super) alarm_command: Option<(String, Result<(), String>)>,
    /// The place of the repository, and what can be destroyed there; or why it cannot be published to. `None` if none is configured.
    pub(super) remote: Option<(String, Result<Protection, Problem>)>,
    /// The bucket that is followed, and how many stores it has; or why it cannot be read.
    pub(super) follow: Option<(String, Result<usize, Problem>)>,
}

/// The tree of versions that is configured.
pub(super) struct Tree {
    pub(super) root: PathBuf,
    pub(super) found: Mountable,
}

/// Whether a process started from here could mount the tree.
pub(super) enum Mountable {
    Yes(Reach),
    No(Problem),
    /// It is mounted, and nobody answers there.
    Dead(Problem),
    /// What is mounted there cannot be told from a tree of the daemon's own, for this reason.
    Unknown(Problem),
}

/// What tracking a store needs.
#[derive(Clone, Copy)]
pub(super) struct Trackable {
    pub(super) is_in_wal_mode: bool,
    pub(super) is_local: bool,
}

pub(super) struct Store {
    pub(super) name: String,
    pub(super) path: PathBuf,
    pub(super) file: PathKind,
    /// How the daemon's user and the application get on beside it, where the file is there.
    pub(super) sharing: Option<Sharing>,
    pub(super) place: Result<Place, String>,
    pub(super) footing: Footing,
    /// Whether its file can be cloned, and if so in how many pieces it lies, as far as that can be told.
    pub(super) cloning: Result<Option<u32>, String>,
    /// What the configuration wants; `None` leaves it to asat.
    pub(super) backend: Option<BackendKind>,
    pub(super) keep_snapshots: usize,
    /// Where it is in watch mode: whether the kernel tells of all changes to it.
    pub(super) watched: Option<bool>,
    /// Where it is to be tracked, and long enough for that: whether it is in WAL mode, as far as its file says that, and on a file system that
    /// no other machine writes.
    pub(super) tracked: Option<Trackable>,
    /// Whether the state folder lies, or would lie, on the same device.
    pub(super) beside_state: bool,
    /// What lies on the same device that LVM needs while the store's writers are held.
    pub(super) beside_needed: Option<&'static str>,
}

pub(super) struct StateFacts {
    pub(super) path: PathBuf,
    pub(super) folder: PathKind,
    pub(super) place: Result<Place, String>,
    /// The most that as-at copies may take, and what they take now, where that can be seen.
    pub(super) max_copy_bytes: u64,
    /// The most that may be kept of a bucket that is followed, if one is.
    pub(super) max_cache_bytes: Option<u64>,
    pub(super) copy_bytes: Option<u64>,
    /// Whether anything has been kept yet.
    pub(super) begun: bool,
    /// What the catalogue says is lost or damaged, where that can be seen from beside; or what would keep the daemon from opening it.
    pub(super) catalogue: Result<Vec<Harm>, Problem>,
}

pub(super) struct Listener {
    pub(super) address: String,
    pub(super) unix: bool,
    pub(super) found: Listening,
}

impl Facts {
    /// Looks at everything.
    pub(super) fn gather(file: Option<&Path>) -> Self {
        let lvm = Lvm::find();
        let machine = Machine {
            user: host::user(),
            open_files: host::open_files(),
            mapper: host::mapper(),
            tools: host::find_tools(lvm.as_ref()),
        };
        let fuse = reach();
        let usual = Path::new(DEFAULT_CONFIG);
        if file.is_none() && host::entry(usual) == PathKind::Missing {
            return Self { machine, fuse, configuration: Configuration::None, site: None };
        }
        let file = file.unwrap_or(usual);
        match Config::load(file) {
            Err(problem) => Self { machine, fuse, configuration: Configuration::Wrong(problem), site: None },
            Ok(config) => {
                let configuration = Configuration::Read {
                    file: file.to_owned(),
                    stores: config.stores.len(),
                    follows: config.follow.is_some(),
                };
                let site = Site {
                    stores: stores(&config, lvm.as_ref()),
                    tree: config.fuse.as_ref().map(|fuse| find_tree(fuse, &config.state)),
                    state: state(&config),
                    listeners: listeners(&config),
                    alarm_command: alarm_command(&config.guard.alarm.command),
                    remote: config
                        .remote
                        .as_ref()
                        .map(|remote| (remote.place.url.clone(), repository(remote))),
                    follow: config.follow.as_ref().map(|follow| (follow.place.url.clone(), followed(follow))),
                };
                Self { machine, fuse, configuration, site: Some(site) }
            }
        }
    }
}

fn find_tree(fuse: &FuseConfig, state: &Path) -> Tree {
    let FuseConfig { root, allow_other, .. } = fuse;
    let found = match StateFolder::written_down(state) {
        Err(problem) => Mountable::Unknown(problem),
        Ok(installation) => {
            // Without an installation there is no tree of its own yet.
            let name = installation.map_or_else(String::new, |id| tree::name(id.as_str()));
            match tree::check(root, &name, *allow_other) {
                Ok(reach) => Mountable::Yes(reach),
                Err(error @ tree::Error::Dead { .. }) => Mountable::Dead(error.into()),
                Err(error) => Mountable::No(error.into()),
            }
        }
    };
    Tree { root: root.clone(), found }
}

fn stores(config: &Config, lvm: Result<&Lvm, &asat_host::lvm::Error>) -> Vec<Store> {
    let state = host::place(&config.state).map(|place| place.device);
    let listing = lvm.map(Listing::new);
    // The state folder belongs to the user that the daemon runs as, which need not be the one who asks.
    let daemon = match host::entry(&config.state) {
        PathKind::There { owner, .. } => owner,
        _ => host::user(),
    };
    let store = |(name, store): (&asat_core::StoreName, &crate::config::StoreConfig)| {
        let place = host::place(&store.path);
        let file = host::entry(&store.path);
        let is_tracked = |least| matches!(&file, PathKind::There { bytes, .. } if *bytes >= least);
        let track = store.track.filter(|track| is_tracked(track.least_bytes));
        Store {
            name: name.to_string(),
            path: store.path.clone(),
            sharing: matches!(file, PathKind::There { kind: Kind::File, .. })
                .then(|| host::sharing(&store.path, daemon)),
            file,
            tracked: track.and_then(|_| {
                let is_local = asat_host::store::is_local(&store.path) == Some(true);
                Some(Trackable { is_in_wal_mode: host::is_in_wal_mode(&store.path).ok()?, is_local })
            }),
            footing: host::footing(&store.path, listing.as_ref().map_err(|error| *error)),
            cloning: cloning(&store.path, &config.clones(store)),
            backend: store.backend,
            keep_snapshots: store.keep_snapshots,
            watched: store.watch.as_ref().map(|_| {
                // What is not there yet will be where its folder is.
                store.path.ancestors().find_map(asat_host::store::is_local) != Some(false)
            }),
            beside_needed: place.as_ref().ok().and_then(|place| asat_host::machine::needed_on(place.device)),
            beside_state: place.as_ref().is_ok_and(|place| state.as_ref() == Ok(&place.device)),
            place,
        }
    };
    config.stores.iter().map(store).collect()
}

fn cloning(store: &Path, folder: &Path) -> Result<Option<u32>, String> {
    clones::probe(store, folder).map_err(|error| error.to_string())?;
    // Where the pieces cannot be counted, it can be cloned all the same.
    Ok(clones::pieces(store).unwrap_or(None))
}

fn state(config: &Config) -> StateFacts {
    StateFacts {
        path: config.state.clone(),
        folder: host::entry(&config.state),
        place: host::place(&config.state),
        max_copy_bytes: config.max_copy_bytes,
        max_cache_bytes: config.follow.as_ref().map(|follow| follow.cache),
        copy_bytes: host::bytes_below(&config.copies()),
        begun: host::entry(&config.catalogue()) != PathKind::Missing,
        catalogue: Catalogue::look(&config.catalogue(), || StateFolder::hold_free(&config.state))
            .map_err(Problem::from),
    }
}

fn alarm_command(words: &[String]) -> Option<(String, Result<(), String>)> {
    let checked = program::check(words).map_err(|error| error.to_string());
    words.first().map(|program| (program.clone(), checked))
}

fn service(place: &RepositoryPlace) -> Result<Arc<Service>, asat_remote::Error> {
    Ok(Arc::new(Service::open_with(&place.url, Stop::new(), &place.options())?))
}

/// Opens the repository and tries the service, and what can be destroyed there, with the credentials of this environment.
fn repository(remote: &RemoteConfig) -> Result<Protection, Problem> {
    remote.place.identities()?;
    let recipients = recipients(&remote.recipients)?;
    let service = service(&remote.place)?;
    Repository::open(Arc::clone(&service) as _)?.encrypted_to(recipients.as_ref())?.probe()?;
    Ok(service.protection()?)
}

/// Opens the repository that is followed, and reads what it has of each store.
fn followed(follow: &FollowConfig) -> Result<usize, Problem> {
    let repository = Repository::open(service(&follow.place)?)?.read_with(follow.place.identities()?);
    repository.must_be_readable()?;
    let stores = if follow.stores.is_empty() { repository.stores()? } else { follow.stores.clone() };
    let mut followed = 0;
    for store in &stores {
        let is_there = repository.history(store).newest()?.is_some();
        followed += usize::from(is_there);
        // A folder that somebody has made there is no store.
        if !is_there && !follow.stores.is_empty() {
            let detail = format!("{} has nothing of {store}", follow.place.url);
            return Err(Problem::new(Code::UnknownStore, detail, "asat remote list says what it has"));
        }
    }
    Ok(followed)
}

fn listeners(config: &Config) -> Vec<Listener> {
    let unix = config.listen.unix.iter().map(|path| Listener {
        address: format!("unix:{}", path.display()),
        unix: true,
        found: host::socket(path),
    });
    let tcp = config.listen.tcp.iter().map(|address| Listener {
        address: format!("http://{address}"),
        unix: false,
        found: host::tcp(*address),
    });
    unix.chain(tcp).collect()
}

impl Site {
    /// The bytes of all stores that are there: what the first versions take at most.
    pub(super) fn store_bytes(&self) -> u64 {
        let sizes = self.stores.iter().map(|store| match store.file {
            PathKind::There { bytes, .. } => bytes,
            _ => 0,
        });
        sizes.fold(0, u64::saturating_add)
    }

    /// The stores on the state folder's own file system.
    pub(super) fn beside_state(&self) -> BTreeSet<&str> {
        let Ok(place) = &self.state.place else { return BTreeSet::new() };
        let beside = |store: &&Store| store.place.as_ref().is_ok_and(|other| other.device == place.device);
        self.stores.iter().filter(beside).map(|store| store.name.as_str()).collect()
    }
}
