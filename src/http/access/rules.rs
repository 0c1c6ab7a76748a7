//! Who may, as the configuration says now.

use std::sync::{Arc, PoisonError, RwLock};

use super::Peers;
use crate::config::{Config, Token};

/// Shared by all listeners. What a request began with holds to its end.
#[derive(Clone)]
pub struct Rules(Arc<RwLock<Now>>);

struct Now {
    tokens: Arc<Vec<Token>>,
    peers: Arc<Peers>,
}

impl Rules {
    /// Those of a configuration.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        Self(Arc::new(RwLock::new(Now::of(config))))
    }

    /// From now on those of this configuration.
    pub fn change(&self, config: &Config) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Now::of(config);
    }

    pub(super) fn tokens(&self) -> Arc<Vec<Token>> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner).tokens)
    }

    pub(super) fn peers(&self) -> Arc<Peers> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner).peers)
    }
}

impl Now {
    fn of(config: &Config) -> Self {
        Self { tokens: Arc::new(config.tokens.clone()), peers: Arc::new(Peers::new(config.peers.clone())) }
    }
}
