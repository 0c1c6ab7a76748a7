//! What of a changed configuration a running daemon can go by, and what it cannot before it starts anew.

use std::fmt;

use asat_core::{Problem, StoreName};

use super::{Config, validate};

/// A key whose change has to wait for the next start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Later {
    /// One of the daemon's own.
    Key(&'static str),
    /// One of a store.
    Store(StoreName, &'static str),
}

impl fmt::Display for Later {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(key) => f.write_str(key),
            Self::Store(name, key) => write!(f, "{key} of store {name}"),
        }
    }
}

impl Config {
    /// This configuration with what `new` changes and a running daemon can go by, and the keys that it cannot, which are as
    /// they were.
    ///
    /// # Errors
    /// [`asat_core::Code::Configuration`], where the two together make no sense.
    pub fn reloaded(&self, new: Self) -> Result<(Self, Vec<Later>), Problem> {
        let mut later = Vec::new();
        let mut merged = new;
        let mut keep = |is_same: bool, key| {
            if !is_same {
                later.push(Later::Key(key));
            }
        };
        keep(merged.state == self.state, "state");
        keep(merged.mounts == self.mounts, "mounts");
        keep(merged.listen.unix == self.listen.unix, "listen.unix");
        keep(merged.listen.unix_mode == self.listen.unix_mode, "listen.unix_mode");
        keep(merged.listen.tcp == self.listen.tcp, "listen.tcp");
        keep(merged.listen.max_connections == self.listen.max_connections, "listen.max_connections");
        keep(merged.listen.max_downloads == self.listen.max_downloads, "listen.max_downloads");
        keep(
            merged.listen.max_downloads_per_caller == self.listen.max_downloads_per_caller,
            "listen.max_downloads_per_caller",
        );
        keep(merged.listen.request_timeout == self.listen.request_timeout, "listen.request_timeout");
        keep(merged.fuse == self.fuse, "[fuse]");
        keep(merged.log == self.log, "[log]");
        keep(merged.queries == self.queries, "[query]");
        keep(merged.remote == self.remote, "[remote]");
        keep(merged.follow == self.follow, "[follow]");
        keep(merged.lvm_timeout == self.lvm_timeout, "lvm.timeout");
        merged.state.clone_from(&self.state);
        merged.mounts.clone_from(&self.mounts);
        merged.listen.clone_from(&self.listen);
        merged.fuse.clone_from(&self.fuse);
        merged.log = self.log;
        merged.queries = self.queries;
        merged.remote.clone_from(&self.remote);
        merged.follow.clone_from(&self.follow);
        merged.lvm_timeout = self.lvm_timeout;
        for (name, store) in &mut merged.stores {
            let Some(running) = self.stores.get(name) else { continue };
            let fixed = [
                (store.path == running.path, "path"),
                (store.backend == running.backend, "backend"),
                (store.clones == running.clones, "clones"),
            ];
            let changed = fixed.into_iter().filter(|(is_same, _)| !is_same);
            later.extend(changed.map(|(_, key)| Later::Store(name.clone(), key)));
            store.path.clone_from(&running.path);
            store.backend = running.backend;
            store.clones.clone_from(&running.clones);
        }
        // A key that stays as it was may not go with one that is new, as where two stores exchange their files.
        validate::check_together(&merged).map_err(|problem| {
            let waiting = later.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            let detail = format!("{}, as long as these are as they were: {waiting}", problem.detail);
            Problem { detail, hint: "restart asat, so that all of it changes at once".to_owned(), ..problem }
        })?;
        Ok((merged, later))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const STORES: &str =
        "[[store]]\nname = \"a\"\npath = \"/a/a.db\"\n[[store]]\nname = \"b\"\npath = \"/b/b.db\"\n";

    fn parse(text: &str) -> Config {
        Config::parse(text, Path::new("/etc/asat")).unwrap()
    }

    /// What waits for a start, where the one text takes the place of the other.
    fn later(before: &str, after: &str) -> (Config, Vec<String>) {
        let (merged, later) = parse(before).reloaded(parse(after)).unwrap();
        (merged, later.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn each_key_changes_at_once_or_is_named() {
        let named: [(&str, &[&str]); 18] = [
            ("state = \"/other\"", &["state"]),
            ("mounts = \"/other\"", &["mounts"]),
            ("[listen]\nunix = \"/other\"", &["listen.unix"]),
            ("[listen]\nunix_mode = \"0600\"", &["listen.unix_mode"]),
            ("[listen]\nmax_connections = 9", &["listen.max_connections"]),
            ("[listen]\nmax_downloads = 9", &["listen.max_downloads"]),
            ("[listen]\nmax_downloads_per_caller = 9", &["listen.max_downloads_per_caller"]),
            ("[listen]\nrequest_timeout = \"9s\"", &["listen.request_timeout"]),
            ("[fuse]\nroot = \"/run/asat/versions\"", &["[fuse]"]),
            ("[log]\nlevel = \"warn\"", &["[log]"]),
            ("[remote]\nurl = \"s3://history\"", &["[remote]"]),
            ("[follow]\nurl = \"s3://history\"", &["[follow]"]),
            ("[lvm]\ntimeout = \"1s\"", &["lvm.timeout"]),
            (
                "[copies]\nmax_size = \"1 GiB\"\nmax_lease = \"1d\"\nmax_leases = 9\n[retention]\ngrace = \"1d\"",
                &[],
            ),
            ("stop_timeout = \"1s\"", &[]),
            ("[clock]\nmax_off = \"9d\"", &[]),
            ("[archive]\ncompaction_rate = \"1 MiB/s\"", &[]),
            ("[guard]\nlasting = \"9s\"", &[]),
        ];
        for (text, expected) in named {
            let (merged, later) = later("", text);
            assert_eq!(later, expected, "{text}");
            let is_as_before = format!("{merged:?}") == format!("{:?}", parse(""));
            assert_eq!(is_as_before, !expected.is_empty(), "{text}");
        }
    }

    #[test]
    fn of_a_store_that_stays_all_changes_but_where_it_is_and_how_it_is_cut() {
        let changed = "[[store]]\nname = \"a\"\npath = \"/a/other.db\"\nbackend = \"reflink\"\nclones = \"/clones\"\n\
            unique_labels = true\nexpect = \"every hour\"\nmax_hold = \"1s\"\n[[store.check]]\nname = \"sound\"\nbuiltin = \"quick_check\"\n\
            [store.watch]\nmarker = \"select 1\"\n[store.retention]\nkeep = \"daily forever\"\nat_least = 3\n";
        let (merged, later) = later(STORES, changed);
        assert_eq!(later, ["path of store a", "backend of store a", "clones of store a"]);
        let names: Vec<&str> = merged.stores.keys().map(StoreName::as_str).collect();
        assert_eq!(names, ["a"]);
        let a = merged.stores.values().next().unwrap();
        assert_eq!((a.path.as_path(), a.backend, &a.clones), (Path::new("/a/a.db"), None, &None));
        assert!(a.unique_labels && a.expect.is_some() && a.checks.len() == 1 && a.watch.is_some());
        assert_eq!((a.retention.at_least, a.max_hold.as_secs()), (3, 1));
    }

    #[test]
    fn a_store_may_come_or_have_another_name_at_once() {
        let (merged, later) = later(STORES, &STORES.replace("\"b\"", "\"c\""));
        assert!(later.is_empty(), "{later:?}");
        assert_eq!(merged.stores.keys().map(StoreName::as_str).collect::<Vec<_>>(), ["a", "c"]);
    }

    #[test]
    fn what_makes_no_sense_before_a_start_is_refused_as_a_whole() {
        let exchanged =
            STORES.replace("/a/a.db", "/x").replace("/b/b.db", "/a/a.db").replace("\"b\"", "\"c\"");
        let refused = parse(STORES).reloaded(parse(&exchanged)).unwrap_err();
        assert!(refused.detail.contains("have the same file /a/a.db"), "{refused}");
        assert!(refused.detail.ends_with("as they were: path of store a"), "{refused}");
        assert!(refused.hint.contains("restart"), "{refused}");
    }
}
