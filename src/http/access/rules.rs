//! Who may, as the configuration says now.

use std::sync::Arc;

use arc_swap::ArcSwap;

use super::Peers;
use super::address::Refusals;
use super::sessions::Sessions;
use crate::config::{Config, FollowConfig, Token};

/// Shared by all listeners. What a request began with holds to its end.
#[derive(Clone)]
pub struct Rules {
    now: Arc<ArcSwap<Now>>,
    sessions: Arc<Sessions>,
    refusals: Arc<Refusals>,
    /// It does not change while the daemon runs.
    follow: Option<Arc<FollowConfig>>,
}

struct Now {
    tokens: Arc<Vec<Token>>,
    peers: Arc<Peers>,
}

impl Rules {
    /// Those of a configuration.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        let now = Arc::new(ArcSwap::from_pointee(Now::of(config)));
        let follow = config.follow.clone().map(Arc::new);
        Self { now, sessions: Arc::default(), refusals: Arc::default(), follow }
    }

    /// From now on those of this configuration.
    pub fn change(&self, config: &Config) {
        self.now.store(Arc::new(Now::of(config)));
    }

    pub(super) fn tokens(&self) -> Arc<Vec<Token>> {
        Arc::clone(&self.now.load().tokens)
    }

    /// The sessions that were begun with its tokens. They outlast a change, as long as their tokens do.
    pub(super) fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    /// What is said of tokens that do not count.
    pub(super) fn refusals(&self) -> &Refusals {
        &self.refusals
    }

    /// The bucket that is followed, if one is.
    pub(super) fn follow(&self) -> Option<&FollowConfig> {
        self.follow.as_deref()
    }

    pub(super) fn peers(&self) -> Arc<Peers> {
        Arc::clone(&self.now.load().peers)
    }
}

impl Now {
    fn of(config: &Config) -> Self {
        Self { tokens: Arc::new(config.tokens.clone()), peers: Arc::new(Peers::new(config.peers.clone())) }
    }
}
