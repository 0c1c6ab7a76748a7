//! Who may do what: tokens, peers, and who may write the file that says so.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use asat::config::{Config, PeerRule, Role, Who};

use crate::config::{HASH, STATE, check_refused, folder, refused};

fn with_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_file_of_tokens_is_read_only_where_nobody_else_can() {
    let folder = folder();
    let path = folder.path().join("tokens.toml");
    let token = format!("[[token]]\nname = \"a\"\nrole = \"read\"\nsha256 = \"{HASH}\"\n");
    let text = "listen.tcp = \"127.0.0.1:0\"\nlisten.tokens = \"tokens.toml\"";
    check_refused(folder.path(), text, &["listen.tokens", "tokens.toml", "cannot be read"]);
    fs::write(&path, &token).unwrap();
    for mode in [0o644, 0o660, 0o606, 0o777] {
        with_mode(&path, mode);
        let mends = format!("run: chmod g-w,o-rwx {}", path.display());
        check_refused(folder.path(), text, &["listen.tokens", &format!("{mode:04o}"), &mends]);
    }
    with_mode(&path, 0o640);
    let config = Config::parse(text, folder.path()).unwrap();
    assert_eq!((config.tokens.len(), config.tokens[0].name.as_str()), (1, "a"));
    let both = Config::parse(&format!("{text}\n{}", token.replace("\"a\"", "\"b\"")), folder.path()).unwrap();
    assert_eq!(both.tokens.iter().map(|token| token.name.as_str()).collect::<Vec<_>>(), ["b", "a"]);

    for (wrong, part) in [
        ("state = \"x\"".to_owned(), "there is a key that is not known here"),
        ("[[store]]\nname = \"x\"".to_owned(), "these are known: token"),
        ("secret".to_owned(), "[[token]]"),
        (format!("{token}secret = \"s3cret-text\""), "there is a key that is not known here"),
        (token.replace(HASH, "s3cret-text"), "token.sha256"),
        (token.replace("read", "s3cret"), "is not known; these are known: read, publish, admin"),
        ("x".repeat((1 << 20) + 1), "longer than"),
    ] {
        fs::write(&path, wrong).unwrap();
        let problem = Config::parse(text, folder.path()).unwrap_err();
        assert!(
            problem.detail.starts_with("listen.tokens: ") && problem.to_string().contains(part),
            "{problem}"
        );
        assert!(!problem.to_string().contains("s3cret"), "{problem}");
    }
    fs::write(&path, "").unwrap();
    let problem = Config::parse(text, folder.path()).unwrap_err();
    assert!(problem.detail.starts_with("listen.tcp") && problem.hint.contains("listen.tokens"), "{problem}");
}

#[test]
fn a_configuration_that_says_who_may_do_what_is_written_by_its_owner_alone() {
    let folder = folder();
    let file = folder.path().join("asat.toml");
    let token = format!("[[token]]\nname = \"a\"\nrole = \"read\"\nsha256 = \"{HASH}\"");
    for text in [&token, "[[peer]]\nuser = \"root\"\nrole = \"read\""] {
        fs::write(&file, format!("{STATE}{text}")).unwrap();
        for mode in [0o664, 0o646, 0o622] {
            with_mode(&file, mode);
            let log = refused(&file);
            assert!(log.contains("run: chmod go-w") && log.contains("asat.toml"), "{log}");
        }
        for mode in [0o644, 0o600] {
            with_mode(&file, mode);
            assert!(Config::load(&file).is_ok(), "{mode:o}");
        }
    }
    fs::write(&file, STATE).unwrap();
    with_mode(&file, 0o666);
    assert!(Config::load(&file).is_ok(), "it says nothing of who may do what");
}

#[test]
fn until_when_a_token_counts_is_a_day_or_an_instant() {
    let parse = |expires: &str| {
        let token =
            format!("[[token]]\nname = \"a\"\nrole = \"read\"\nsha256 = \"{HASH}\"\nexpires = {expires}");
        Config::parse(&token, Path::new("/")).map(|config| config.tokens[0].expires_at.unwrap().to_string())
    };
    for (text, expected) in [
        ("\"2027-06-30\"", "2027-07-01T00:00:00Z"),
        ("2027-06-30", "2027-07-01T00:00:00Z"),
        ("\"2028-02-29\"", "2028-03-01T00:00:00Z"),
        ("\"2027-06-30T12:00:00+02:00\"", "2027-06-30T10:00:00Z"),
        ("2027-06-30T12:00:00Z", "2027-06-30T12:00:00Z"),
    ] {
        assert_eq!(parse(text).as_deref(), Ok(expected), "{text}");
    }
    for text in [
        "\"\"",
        "\"tomorrow\"",
        "\"2027-02-29\"",
        "\"20270630\"",
        "\"2027-06-30T12:00:00\"",
        "\"30d\"",
        "2027-06-30T12:00:00",
        "12:00:00",
        "3",
        "true",
        "[]",
        "\"9999-12-31\"",
        "\"99999-01-01\"",
    ] {
        let problem = parse(text).unwrap_err();
        assert!(problem.detail.starts_with("token.expires: of token \"a\""), "{text}: {problem}");
    }
}

#[test]
fn a_peer_is_one_user_or_one_group_of_the_machine() {
    let parse =
        |peer: &str| Config::parse(&format!("[[peer]]\n{peer}"), Path::new("/")).map(|config| config.peers);
    let role = "role = \"publish\"";
    let rule = |who| vec![PeerRule { who, role: Role::Publish }];
    assert_eq!(parse(&format!("user = \"root\"\n{role}")), Ok(rule(Who::User(0))));
    assert_eq!(parse(&format!("group = \"root\"\n{role}")), Ok(rule(Who::Group(0))));
    assert_eq!(parse(&format!("user = \"4711\"\n{role}")), Ok(rule(Who::User(4711))));
    for (peer, parts) in [
        (format!("user = \"no such user\"\n{role}"), ["peer.user", "no such user"]),
        (format!("user = \"\"\n{role}"), ["peer.user", "there is no user"]),
        (format!("user = \"-1\"\n{role}"), ["peer.user", "there is no user"]),
        (format!("user = \"4294967296\"\n{role}"), ["peer.user", "there is no user"]),
        (format!("group = \"no such group\"\n{role}"), ["peer.group", "no such group"]),
        (format!("user = \"root\"\ngroup = \"root\"\n{role}"), ["peer", "both"]),
        (role.to_owned(), ["peer", "neither user nor group"]),
        ("user = \"root\"".to_owned(), ["is missing", "role"]),
        ("user = \"root\"\nrole = \"owner\"".to_owned(), ["cannot be", "owner"]),
    ] {
        let problem = parse(&peer).unwrap_err();
        assert!(parts.iter().all(|part| problem.detail.contains(part)), "{peer}: {problem}");
    }
}
