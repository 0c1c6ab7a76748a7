//! Who may, as the configuration says now.

use std::sync::Arc;

use arc_swap::ArcSwap;

use super::Peers;
use crate::config::{Config, Token};

/// Shared by all listeners. What a request began with holds to its end.
#[derive(Clone)]
pub struct Rules(Arc<ArcSwap<Now>>);

struct Now {
    tokens: Arc<Vec<Token>>,
    peers: Arc<Peers>,
}

impl Rules {
    /// Those of a configuration.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        Self(Arc::new(ArcSwap::from_pointee(Now::of(config))))
    }

    /// From now on those of this configuration.
    pub fn change(&self, config: &Config) {
        self.0.store(Arc::new(Now::of(config)));
    }

    pub(super) fn tokens(&self) -> Arc<Vec<Token>> {
        Arc::clone(&self.0.load().tokens)
    }

    pub(super) fn peers(&self) -> Arc<Peers> {
        Arc::clone(&self.0.load().peers)
    }
}

impl Now {
    fn of(config: &Config) -> Self {
        Self { tokens: Arc::new(config.tokens.clone()), peers: Arc::new(Peers::new(config.peers.clone())) }
    }
}
