//! Keys, types and ranges at every level.

use crate::config::{HASH, check_refused, folder, store};

#[test]
fn keys_that_there_are_not_are_refused_at_every_level() {
    let folder = folder();
    let cases = [
        ("stat = \"state\"".to_owned(), "\"stat\""),
        ("[listen]\nport = 7878".to_owned(), "port"),
        ("[copies]\nmax = \"1 GB\"".to_owned(), "max"),
        ("[stores]\nname = \"a\"".to_owned(), "stores"),
        (store("a", "wal = true"), "wal"),
        (store("a", "[store.retention]\nhourly = 3"), "hourly"),
        (store("a", "[[store.retention.label]]\nlabel = \"a\""), "label"),
        (store("a", "[[store.check]]\nname = \"c\"\nquery = \"select 1\"\nat_most = 3"), "at_most"),
        (format!("[[token]]\nname = \"a\"\nrole = \"read\"\nsha256 = \"{HASH}\"\nexpire = 3"), "expire"),
        ("[[peer]]\nuser = \"root\"\nrole = \"read\"\nuid = 3".to_owned(), "uid"),
        ("[guard]\nbreak = \"2s\"".to_owned(), "break"),
        ("[fuse]\nroot = \"t\"\numask = 7".to_owned(), "umask"),
        ("[clock]\nmax = \"1h\"".to_owned(), "max"),
    ];
    for (text, key) in cases {
        check_refused(folder.path(), &text, &["there is no", key]);
    }
}

#[test]
fn what_is_no_toml_or_of_another_type_is_refused_with_its_place() {
    let folder = folder();
    let cases = [
        ("state = ", "line 2"),
        ("state = \"state\"\nstate = \"other\"", "for the second time"),
        ("state = 7", "state = 7"),
        ("state = [\"a\"]", "state"),
        ("[listen]\nunix_mode = 0o660", "unix_mode"),
        ("store = \"a\"", "store"),
        ("[[store]]\nname = \"a\"", "path"),
        ("[[store]]\npath = \"a.db\"", "name"),
        ("[[token]]\nname = \"a\"\nrole = \"root\"\nsha256 = \"x\"", "root"),
        ("[[token]]\nname = \"a\"\nrole = \"read\"", "sha256"),
        ("{\"state\": \"state\"}", "line 2"),
        ("\u{0}", "line 3"),
    ];
    for (text, said) in cases {
        check_refused(folder.path(), text, &[said]);
    }
    for negative in [
        "keep_snapshots = -1",
        "[store.retention]\nat_least = -3",
        "[store.retention]\nat_least = 4294967296",
        "[store.retention]\nat_most = 200",
    ] {
        check_refused(folder.path(), &store("a", negative), &[negative.rsplit('\n').next().unwrap()]);
    }
}

#[test]
fn what_is_no_toml_is_told_of_in_one_line_as_logs_want_it() {
    for (text, line) in
        [("state = ", "line 1, `state =`: "), ("listen.unix = \"a\"\n\nstate = 7\n", "line 3, `state = 7`: ")]
    {
        let refused = asat::config::Config::parse(text, folder().path()).unwrap_err();
        assert!(refused.detail.starts_with(line) && !refused.detail.contains('\n'), "{refused:?}");
    }
}

#[test]
fn values_out_of_their_range_are_refused_by_their_key() {
    let folder = folder();
    let token = |hash: &str| format!("[[token]]\nname = \"a\"\nrole = \"read\"\nsha256 = \"{hash}\"");
    let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    let long = "l".repeat(108);
    let cases = [
        ("stop_timeout = \"soon\"".to_owned(), "stop_timeout", "for example"),
        ("stop_timeout = \"20\"".to_owned(), "stop_timeout", "a unit"),
        ("stop_timeout = \"\"".to_owned(), "stop_timeout", "for example"),
        ("stop_timeout = \"-5s\"".to_owned(), "stop_timeout", "must be longer than 0s"),
        ("stop_timeout = \"0s\"".to_owned(), "stop_timeout", "must be longer than 0s"),
        ("stop_timeout = \"1 month\"".to_owned(), "stop_timeout", "no fixed length"),
        ("[copies]\nmax_size = \"big\"".to_owned(), "copies.max_size", "10 GiB"),
        ("[copies]\nmax_size = \"-1 GB\"".to_owned(), "copies.max_size", "10 GiB"),
        ("[copies]\nmax_size = \"0\"".to_owned(), "copies.max_size", "10 GiB"),
        ("[copies]\nmax_lease = \"900ms\"".to_owned(), "copies.max_lease", "one second"),
        ("[clock]\nmax_jump = \"59s\"".to_owned(), "clock.max_jump", "shorter than a minute"),
        ("[clock]\nmax_off = \"0s\"".to_owned(), "clock.max_off", "0s"),
        ("[clock]\naccept_after = \"soon\"".to_owned(), "clock.accept_after", "soon"),
        ("[copies]\nmax_leases = 0".to_owned(), "copies.max_leases", "nobody could open"),
        (
            "[copies]\nmax_leases = 5\nmax_leases_per_caller = 6".to_owned(),
            "copies.max_leases_per_caller",
            "more than copies.max_leases (5)",
        ),
        ("[copies]\nmax_lease = \"200 years\"".to_owned(), "copies.max_lease", "no fixed length"),
        ("[copies]\nmax_lease = \"60000d\"".to_owned(), "copies.max_lease", "136 years"),
        ("[lvm]\ntimeout = \"0s\"".to_owned(), "lvm.timeout", "must be longer than 0s"),
        ("[fuse]\nroot = \"\"".to_owned(), "fuse.root", "is empty"),
        ("[fuse]\nroot = \".\"".to_owned(), "fuse.root", "would hide"),
        ("state = \"all/state\"\n[fuse]\nroot = \"all\"".to_owned(), "fuse.root", "would hide"),
        ("mounts = \"all/mnt\"\n[fuse]\nroot = \"all\"".to_owned(), "fuse.root", "would hide"),
        (store("a", "") + "[fuse]\nroot = \"..\"", "fuse.root", "would hide"),
        ("[fuse]\nroot = \"t\"\nmode = \"0640\"".to_owned(), "fuse.mode", "0440"),
        ("[fuse]\nroot = \"t\"\nmode = \"0550\"".to_owned(), "fuse.mode", "0440"),
        ("[fuse]\nroot = \"t\"\nmode = \"0\"".to_owned(), "fuse.mode", "0440"),
        ("[fuse]\nroot = \"t\"\nmode = \"+440\"".to_owned(), "fuse.mode", "0440"),
        ("[fuse]\nroot = \"t\"\nmode = \"r--\"".to_owned(), "fuse.mode", "0440"),
        ("[fuse]\nroot = \"t\"\ngroup = \"no such group\"".to_owned(), "fuse.group", "no group"),
        ("state = \"\"".to_owned(), "state", "is empty"),
        ("[listen]\nunix = \"\"".to_owned(), "listen.unix", "is empty"),
        ("[listen]\nunix_mode = \"rw-rw----\"".to_owned(), "listen.unix_mode", "0660"),
        ("[listen]\nunix_mode = \"0888\"".to_owned(), "listen.unix_mode", "0660"),
        ("[listen]\nmax_connections = 0".to_owned(), "listen.max_connections", "1000"),
        ("[listen]\nmax_connections = 100001".to_owned(), "listen.max_connections", "1000"),
        ("[listen]\nmax_downloads = 0".to_owned(), "listen.max_downloads", "64"),
        ("[listen]\nmax_downloads_per_caller = 100001".to_owned(), "listen.max_downloads_per_caller", "32"),
        ("[listen]\nrequest_timeout = \"99ms\"".to_owned(), "listen.request_timeout", "30s"),
        ("[listen]\nrequest_timeout = \"2h\"".to_owned(), "listen.request_timeout", "30s"),
        ("[listen]\nrequest_timeout = \"soon\"".to_owned(), "listen.request_timeout", "s"),
        ("[listen]\nunix_mode = \"4777\"".to_owned(), "listen.unix_mode", "0660"),
        ("[listen]\nunix_mode = \"+660\"".to_owned(), "listen.unix_mode", "0660"),
        ("[listen]\nunix_mode = \"\"".to_owned(), "listen.unix_mode", "0660"),
        (format!("[listen]\nunix = \"/{long}\""), "listen.unix", "a shorter path"),
        ("[listen]\ntcp = \"localhost\"".to_owned(), "listen.tcp", "127.0.0.1:7878"),
        ("[listen]\ntcp = \"127.0.0.1:99999\"".to_owned(), "listen.tcp", "127.0.0.1:7878"),
        ("[listen]\ntcp = \"127.0.0.1:7878\"".to_owned(), "listen.tcp", "[[token]]"),
        (token("abc"), "token.sha256", "asat token new"),
        (token(&HASH[1..]), "token.sha256", "asat token new"),
        (token(&HASH.replace('b', "g")), "token.sha256", "asat token new"),
        (token(&format!("+{}", &HASH[1..])), "token.sha256", "asat token new"),
        (token(&"ü".repeat(32)), "token.sha256", "asat token new"),
        (token(empty), "token.sha256", "empty text"),
        (store("a", "busy_timeout = \"fast\""), "store.busy_timeout", "90s"),
        (store("a", "max_hold = \"-1s\""), "store.max_hold", "90s"),
        (store("a", "backend = \"zfs\""), "store.backend", "\\\"pages\\\""),
        (
            store("a", "backend = \"reflink\"\nsnapshot_size = \"1 GiB\""),
            "store.snapshot_size",
            "leave it out",
        ),
        (store("a", "backend = \"zfs\""), "store.backend", "does not have"),
        (store("a", "clones = \"stores\""), "store.clones", "name a folder of its own"),
        (store("a", "backend = \"reflink\"\ntrim = true"), "store.trim", "leave it out"),
        (store("a", "backend = \"pages\"\nclones = \"elsewhere\""), "store.clones", "leave it out"),
        (store("a", "backend = \"lvm-thin\"\nclones = \"elsewhere\""), "store.clones", "leave it out"),
        (store("a", "backend = \"pages\"\nkeep_snapshots = 1"), "store.keep_snapshots", "leave it out"),
        (store("a", "backend = \"pages\"\nsnapshot_size = \"1 GiB\""), "store.snapshot_size", "leave it out"),
        (store("a", "backend = \"pages\"\ntrim = true"), "store.trim", "leave it out"),
        (store("a", "snapshot_size = \"all\""), "store.snapshot_size", "500 MB"),
        ("mounts = \"\"".to_owned(), "mounts", "is empty"),
        (store("a", "[store.retention]\nat_most = \"all\""), "store.retention.at_most", "10 GiB"),
        (store("a", "[store.retention]\nat_most = \"0 GB\""), "store.retention.at_most", "no room"),
        (store("a", "[store.retention]\nat_least = 0"), "store.retention.at_least", "newest version always"),
        (store("a", "[store.retention]\nat_least = 3"), "store.retention.at_least", "has no effect"),
        ("[[store]]\nname = \"a\"\npath = \"\"".to_owned(), "store.path", "is empty"),
    ];
    for (text, key, said) in cases {
        check_refused(folder.path(), &text, &[&format!("{key}: "), &said.replace("\\\"", "\"")]);
    }
}
