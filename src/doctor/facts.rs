//! What there is: of the machine, and of everything that the configuration names.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use asat_core::Problem;
use asat_host::doctor::{self as host, Entry, Footing, Listening, Mapper, Place, Tools};
use asat_host::lvm::Lvm;

use super::DEFAULT_CONFIG;
use crate::config::Config;

/// Everything that is judged.
pub(super) struct Facts {
    pub(super) machine: Machine,
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
    },
    /// None was named, and there is none in the usual place.
    None,
    Wrong(Problem),
}

/// What a configuration names.
pub(super) struct Site {
    pub(super) stores: Vec<Store>,
    pub(super) state: State,
    pub(super) listeners: Vec<Listener>,
}

pub(super) struct Store {
    pub(super) name: String,
    pub(super) path: PathBuf,
    pub(super) file: Entry,
    pub(super) place: Result<Place, String>,
    pub(super) footing: Footing,
}

pub(super) struct State {
    pub(super) path: PathBuf,
    pub(super) folder: Entry,
    pub(super) place: Result<Place, String>,
    /// The most that as-at copies may take, and what they take now, where that can be seen.
    pub(super) max_copy_bytes: u64,
    pub(super) copy_bytes: Option<u64>,
    /// Whether anything has been kept yet.
    pub(super) begun: bool,
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
        let usual = Path::new(DEFAULT_CONFIG);
        if file.is_none() && host::entry(usual) == Entry::Missing {
            return Self { machine, configuration: Configuration::None, site: None };
        }
        let file = file.unwrap_or(usual);
        match Config::load(file) {
            Err(problem) => Self { machine, configuration: Configuration::Wrong(problem), site: None },
            Ok(config) => {
                let configuration =
                    Configuration::Read { file: file.to_owned(), stores: config.stores.len() };
                let site = Site {
                    stores: stores(&config, lvm.as_ref()),
                    state: state(&config),
                    listeners: listeners(&config),
                };
                Self { machine, configuration, site: Some(site) }
            }
        }
    }
}

fn stores(config: &Config, lvm: Result<&Lvm, &asat_host::lvm::Error>) -> Vec<Store> {
    let store = |(name, store): (&asat_core::StoreName, &crate::config::StoreConfig)| Store {
        name: name.to_string(),
        path: store.path.clone(),
        file: host::entry(&store.path),
        place: host::place(&store.path),
        footing: host::footing(&store.path, lvm),
    };
    config.stores.iter().map(store).collect()
}

fn state(config: &Config) -> State {
    State {
        path: config.state.clone(),
        folder: host::entry(&config.state),
        place: host::place(&config.state),
        max_copy_bytes: config.max_copy_bytes,
        copy_bytes: host::bytes_below(&config.copies()),
        begun: host::entry(&config.catalogue()) != Entry::Missing,
    }
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
            Entry::There { bytes, .. } => bytes,
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
