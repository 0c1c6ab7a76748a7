//! Callers on the Unix socket: who they are, says the kernel; what they may do, the configuration.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use asat_core::{By, Code, Problem};
use asat_host::peer::{self, Known};
use tokio::net::UnixStream;

use super::{Caller, Source};
use crate::config::{PeerRule, Role, Who};
use crate::http::work::blocking;

/// For how long it is taken to be so what the machine's lists say of a user.
const FRESH: Duration = Duration::from_secs(10);
/// Of how many users it is kept in mind what the lists say.
const MOST_KNOWN: usize = 1024;

/// The process at the other end of a connection, as it was when it connected; `None` where the kernel does not say.
#[derive(Clone)]
pub struct Peer {
    ids: Option<(u32, u32)>,
    /// Who that was found to be on this connection.
    found: Arc<ArcSwapOption<Found>>,
}

/// Who is at the other end, when that was looked at, and by whose rules.
struct Found {
    caller: Caller,
    at: Instant,
    peers: Arc<Peers>,
}

impl Peer {
    /// Who has connected.
    #[must_use]
    pub fn of(stream: &UnixStream) -> Self {
        let ids = stream.peer_cred().ok().map(|credentials| (credentials.uid(), credentials.gid()));
        Self { ids, found: Arc::default() }
    }

    /// A process of this user and of the group of the same number.
    #[cfg(test)]
    pub(super) fn of_user(uid: u32) -> Self {
        Self { ids: Some((uid, uid)), found: Arc::default() }
    }
}

impl Source for Peer {
    fn source(&self) -> String {
        self.ids.map_or_else(|| "an unknown user".to_owned(), |(user, _)| format!("user {user}"))
    }
}

/// What is known of users, by number and by their process's group.
type Book = HashMap<(u32, u32), (Instant, Arc<Known>)>;

/// What callers may do, and what is known of them.
pub(super) struct Peers {
    rules: Vec<PeerRule>,
    /// The names of root and of the user that the daemon acts for, who may do everything. Neither waits for a look into the
    /// machine's lists, which others may keep busy or which may be on a network.
    always: BTreeMap<u32, Option<String>>,
    own: u32,
    known: Mutex<Book>,
}

impl Peers {
    /// Those to whom these rules apply. If there is none, everybody who could connect may do everything.
    pub(super) fn new(rules: Vec<PeerRule>) -> Self {
        let own = peer::own_user();
        let name = |uid| peer::look_up(uid, uid).ok().and_then(|known| known.name);
        let always = [0, own].into_iter().map(|uid| (uid, name(uid))).collect();
        Self { rules, always, own, known: Mutex::default() }
    }

    /// Who is at the other end.
    ///
    /// # Errors
    /// [`Code::Forbidden`] if the caller has no role.
    pub(super) async fn caller(self: &Arc<Self>, peer: Option<&Peer>) -> Result<Caller, Problem> {
        let Some(peer) = peer else { return self.look_at(None).await };
        if let Some(found) = peer.found.load().as_deref()
            && found.at.elapsed() < FRESH
            && Arc::ptr_eq(&found.peers, self)
        {
            return Ok(found.caller.clone());
        }
        let caller = self.look_at(peer.ids).await?;
        let found = Found { caller: caller.clone(), at: Instant::now(), peers: Arc::clone(self) };
        peer.found.store(Some(Arc::new(found)));
        Ok(caller)
    }

    async fn look_at(self: &Arc<Self>, ids: Option<(u32, u32)>) -> Result<Caller, Problem> {
        let Some((uid, gid)) = ids else {
            if self.rules.is_empty() {
                return Ok(Caller {
                    role: Role::Admin,
                    by: By { actor: "uid unknown".to_owned(), request: None },
                });
            }
            let detail = "the kernel does not say who is at the other end of the socket";
            return Err(Problem::new(Code::Forbidden, detail, "connect from this machine, without a relay"));
        };
        if let Some(name) = self.always.get(&uid) {
            return Ok(Caller { role: Role::Admin, by: By::user(uid, name.as_deref()) });
        }
        let known = match self.remembered((uid, gid)) {
            Some(known) => known,
            None => {
                let peers = Arc::clone(self);
                blocking(move || Ok(peers.look_up((uid, gid)))).await?
            }
        };
        let by = By::user(uid, known.name.as_deref());
        match role(&self.rules, self.own, uid, &known.groups) {
            Some(role) => Ok(Caller { role, by }),
            None => {
                let detail = format!(
                    "{} may do nothing here: no [[peer]] names this user or one of the user's groups",
                    by.actor
                );
                let hint =
                    "have the user, or one of the user's groups, added to the configuration as a [[peer]]";
                Err(Problem::new(Code::Forbidden, detail, hint))
            }
        }
    }

    fn remembered(&self, key: (u32, u32)) -> Option<Arc<Known>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&key).filter(|(at, _)| at.elapsed() < FRESH).map(|(_, known)| Arc::clone(known))
    }

    /// What the machine's lists say. If they cannot be read, what the kernel says is all that is known.
    fn look_up(&self, key @ (uid, gid): (u32, u32)) -> Arc<Known> {
        let found = peer::look_up(uid, gid).unwrap_or_else(|error| {
            tracing::warn!("the groups of uid {uid} cannot be looked up: {error}");
            Known { name: None, groups: vec![gid] }
        });
        let found = Arc::new(found);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MOST_KNOWN {
            known.clear();
        }
        known.insert(key, (Instant::now(), Arc::clone(&found)));
        found
    }
}

/// The highest role that somebody has.
fn role(rules: &[PeerRule], own: u32, uid: u32, groups: &[u32]) -> Option<Role> {
    if rules.is_empty() || uid == 0 || uid == own {
        return Some(Role::Admin);
    }
    let meant = |rule: &&PeerRule| match rule.who {
        Who::User(user) => user == uid,
        Who::Group(group) => groups.contains(&group),
    };
    rules.iter().filter(meant).map(|rule| rule.role).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_has_the_highest_role_of_himself_and_his_groups() {
        let rule = |who, role| PeerRule { who, role };
        let rules = [
            rule(Who::User(1000), Role::Publish),
            rule(Who::Group(50), Role::Read),
            rule(Who::Group(60), Role::Admin),
            rule(Who::User(1000), Role::Read),
        ];
        let cases: [(u32, &[u32], Option<Role>); 9] = [
            (1000, &[], Some(Role::Publish)),
            (1000, &[50], Some(Role::Publish)),
            (1000, &[50, 60], Some(Role::Admin)),
            (1001, &[50, 51], Some(Role::Read)),
            (1001, &[1000], None),
            (1001, &[], None),
            (50, &[7], None),
            (0, &[], Some(Role::Admin)),
            (7, &[], Some(Role::Admin)),
        ];
        for (uid, groups, expected) in cases {
            assert_eq!(role(&rules, 7, uid, groups), expected, "{uid} {groups:?}");
            assert_eq!(role(&[], 7, uid, groups), Some(Role::Admin), "without rules the socket decides");
        }
    }

    #[test]
    fn root_and_the_daemons_own_user_are_known_while_every_thread_is_busy() {
        super::super::while_threads_are_busy(async {
            let peers = Arc::new(Peers::new(vec![PeerRule { who: Who::User(1), role: Role::Read }]));
            for uid in [0, peer::own_user()] {
                let caller =
                    tokio::time::timeout(Duration::from_secs(20), peers.look_at(Some((uid, uid)))).await;
                assert_eq!(caller.unwrap().map(|caller| caller.role), Ok(Role::Admin), "{uid}");
            }
        });
    }

    #[tokio::test]
    async fn who_has_no_role_is_refused_by_his_number() {
        let nobody = PeerRule { who: Who::User(3_999_999_998), role: Role::Read };
        let peers = Arc::new(Peers::new(vec![nobody]));
        let refused = peers.look_at(Some((3_999_999_999, 3_999_999_999))).await.err().unwrap();
        assert_eq!(refused.code, Code::Forbidden);
        assert!(refused.detail.starts_with("uid 3999999999 may do nothing"), "{refused}");
        let peer = Peer { ids: Some((3_999_999_998, 7)), found: Arc::default() };
        let known = Caller { role: Role::Read, by: By::user(3_999_999_998, None) };
        assert_eq!(peers.caller(Some(&peer)).await, Ok(known.clone()));
        assert_eq!(peer.found.load().as_ref().map(|found| found.caller.clone()), Some(known.clone()));
        assert_eq!(peers.caller(Some(&peer)).await, Ok(known));
        let barred = Arc::new(Peers::new(vec![PeerRule { who: Who::User(1), role: Role::Read }]));
        assert!(barred.caller(Some(&peer)).await.is_err(), "other rules hold since");
        let nameless = Peer { ids: None, found: Arc::default() };
        for unknown in [None, Some(&nameless)] {
            assert_eq!(peers.caller(unknown).await.err().map(|problem| problem.code), Some(Code::Forbidden));
            let open = Arc::new(Peers::new(Vec::new()));
            assert_eq!(open.caller(unknown).await.map(|caller| caller.role), Ok(Role::Admin));
        }
    }
}
