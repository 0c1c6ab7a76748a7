//! `init`: a first configuration for a store, and what to type next.

use std::fmt::Write as _;
use std::fs::{self, File, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};

use asat_client::Server;
use asat_core::{Code, Problem, StoreName};
use serde::Serialize;

use super::args::InitArgs;
use super::output::{Failure, Output};
use super::sidecar;
use crate::config::{Config, MOST_TEXT};
use crate::doctor::{self, DEFAULT_CONFIG, Finding, Group, Level};
use crate::text::clean;

/// How the file of a SQLite database begins (<https://www.sqlite.org/fileformat2.html>).
const MAGIC: &[u8; 16] = b"SQLite format 3\0";
/// So much of the file says what it is: byte 18 says whether it is in WAL mode.
const HEAD: usize = 20;
/// What byte 18 is then.
const WAL: u8 = 2;
/// The service of the package.
const SERVICE: &str = "asat.service";

/// The command that runs the daemon, and does not end.
const SERVE: &str = "asat serve";

/// What was written and found.
#[derive(Serialize)]
struct Begun {
    config: PathBuf,
    store: String,
    path: PathBuf,
    /// `wal`, `rollback`, or nothing if the file is empty yet.
    journal: Option<&'static str>,
    /// Whether the store was added to a configuration that was there and had none.
    #[serde(rename = "added")]
    is_added: bool,
    /// Whether asat can work so.
    ok: bool,
    findings: Vec<Finding>,
    /// The commands to type next.
    next: Vec<String>,
}

pub(super) fn init(args: &InitArgs, output: &Output) -> Result<(), Failure> {
    let (path, journal) = database(&args.store)?;
    let store = args.name.clone().map_or_else(|| named_after(&path), Ok)?;
    let config = std::path::absolute(&args.config.file).unwrap_or_else(|_| args.config.file.clone());
    // What a link leads to is written, and the link stays.
    let config = fs::canonicalize(&config).unwrap_or(config);
    check_no_database(&config, &path)?;
    let plan = plan(args, &config, &store, &path)?;
    put(&config, &plan).map_err(|error| cannot_write(&config, &error))?;

    let report = doctor::examine(Some(&config));
    let tells = |finding: &Finding| [Group::Store, Group::State].contains(&finding.group);
    let mut findings: Vec<Finding> = report.findings.into_iter().filter(tells).collect();
    findings.extend(journal.map(|journal| of_journal(journal, &store)));
    let ok = findings.iter().all(|finding| finding.level != Level::Problem);
    let next = next(&config, plan.socket.as_deref(), &store);
    let is_added = plan.is_added;
    let begun = Begun { config, store: store.to_string(), path, journal, is_added, ok, findings, next };
    output.done(&begun, text)?;
    if ok {
        return Ok(());
    }
    let detail = format!("{} is written, and asat cannot work so yet", begun.config.display());
    Err(Problem::new(Code::Configuration, detail, "do what the lines that begin with `problem` say").into())
}

/// What to do if a file cannot be the configuration.
const ANOTHER: &str = "name another file for the configuration with --config FILE";

/// Why a file is not written.
fn refused(config: &Path, what: &str, hint: &str) -> Problem {
    Problem::new(Code::Invalid, format!("{} {what}, and nothing was changed", config.display()), hint)
}

/// Refuses a file for the configuration that belongs to a database: SQLite, or a program that has it open, would go on without it.
fn check_no_database(config: &Path, store: &Path) -> Result<(), Problem> {
    let refused = |what: &str| Err(refused(config, what, ANOTHER));
    let place = |path: &Path| fs::metadata(path).map(|found| (found.dev(), found.ino())).ok();
    if place(config).is_some() && place(config) == place(store) {
        return refused("is the store itself");
    }
    match sidecar::database_of(config) {
        Some(database) => refused(&format!("belongs to the database {}", database.display())),
        None => Ok(()),
    }
}

/// The path of the database, and its journal mode if it has one already.
fn database(path: &Path) -> Result<(PathBuf, Option<&'static str>), Problem> {
    let shown = path.display();
    let unreadable = |code, error: io::Error| {
        let hint = match error.kind() {
            io::ErrorKind::PermissionDenied => "let this user read it, or run asat as one who may",
            _ => "name the file of the database with --store",
        };
        Problem::new(code, format!("cannot read {shown}: {error}"), hint)
    };
    let path = fs::canonicalize(path).map_err(|error| unreadable(Code::StoreMissing, error))?;
    if !path.is_file() {
        let detail = format!("{shown} is no file, and so no database");
        return Err(Problem::new(
            Code::StoreUnreadable,
            detail,
            "name the file of the database with --store",
        ));
    }
    let mut head = Vec::with_capacity(HEAD);
    File::open(&path)
        .and_then(|file| file.take(20).read_to_end(&mut head))
        .map_err(|error| unreadable(Code::StoreUnreadable, error))?;
    match (head.get(..MAGIC.len()), head.get(18)) {
        _ if head.is_empty() => Ok((path, None)),
        (Some(magic), Some(mode)) if magic == MAGIC => {
            Ok((path, Some(if *mode == WAL { "wal" } else { "rollback" })))
        }
        _ => {
            let detail = format!("{shown} is no SQLite database: it does not begin as one");
            let hint = "name the file of the database; one that is encrypted as a whole cannot be kept";
            Err(Problem::new(Code::StoreUnreadable, detail, hint))
        }
    }
}

/// A name for the store, after its file.
fn named_after(path: &Path) -> Result<StoreName, Problem> {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let name: String = stem.chars().map(|c| if fits(c) { c } else { '-' }).collect();
    name.parse().map_err(|_| {
        let detail = format!("no name for the store can be made of {:?}", clean(&stem));
        Problem::new(Code::Invalid, detail, "choose one with --name")
    })
}

/// What is to be written, and where the daemon listens by it.
struct Plan {
    content: String,
    socket: Option<PathBuf>,
    /// Whether the store is added to a configuration that had none.
    is_added: bool,
    /// The file that gives way.
    before: Option<fs::Metadata>,
}

/// Says what is to be written, once it is known to be right.
fn plan(args: &InitArgs, config: &Path, store: &StoreName, path: &Path) -> Result<Plan, Problem> {
    let section = format!("[[store]]\nname = \"{store}\"\npath = {}\n", quoted(path)?);
    let before = fs::symlink_metadata(config).ok();
    match &before {
        Some(there) if !args.force => {
            check_replaceable(config, there)?;
            return added(args, config, &section, before);
        }
        Some(there) => check_replaceable(config, there)?,
        None => {}
    }
    let folder = config.parent().unwrap_or(Path::new("/"));
    let is_default = config == Path::new(DEFAULT_CONFIG);
    let state = match &args.state {
        Some(state) => std::path::absolute(state).unwrap_or_else(|_| state.clone()),
        None if is_default => PathBuf::from("/var/lib/asat"),
        None => folder.join("state"),
    };
    let socket = if is_default { PathBuf::from("/run/asat/asat.sock") } else { folder.join("asat.sock") };
    let content = format!(
        "# The configuration of asat. `asat configuration` prints every key with its default and what it is for.\n\
         state = {}\n\n[listen]\nunix = {}\n\n{section}",
        quoted(&state)?,
        quoted(&socket)?,
    );
    Config::parse(&content, folder)?;
    Ok(Plan { content, socket: Some(socket), is_added: false, before })
}

/// Refuses to replace what can be no configuration, however broken: a database, say.
fn check_replaceable(config: &Path, there: &fs::Metadata) -> Result<(), Problem> {
    let refused = |what: &str| Err(refused(config, what, ANOTHER));
    if there.is_symlink() {
        return refused("is a symbolic link that leads nowhere");
    }
    if !there.is_file() {
        return refused("is no file");
    }
    if there.len() == 0 && config.extension().is_none_or(|extension| extension != "toml") {
        return refused("is empty, as a new database is");
    }
    if there.len() > MOST_TEXT {
        return refused("is longer than any configuration");
    }
    let bytes = fs::read(config).map_err(|error| cannot_write(config, &error))?;
    match std::str::from_utf8(&bytes) {
        Ok(text) if !text.contains('\0') => Ok(()),
        _ => refused("is no text, and so no configuration"),
    }
}

/// The configuration that is there, with its first store: a package brings one that has none.
fn added(
    args: &InitArgs,
    config: &Path,
    section: &str,
    before: Option<fs::Metadata>,
) -> Result<Plan, Problem> {
    let refused = |what: &str, hint: &str| refused(config, what, hint);
    let found = Config::load(config)?;
    if !found.stores.is_empty() || found.follow.is_some() {
        let hint =
            "add a [[store]] section to it, name another file with --config, or replace it with --force";
        return Err(refused("is there already", hint));
    }
    if args.state.is_some() {
        return Err(refused("says already which folder `state` is", "leave --state out, or change it there"));
    }
    let text = fs::read_to_string(config).map_err(|error| cannot_write(config, &error))?;
    let content = format!("{}\n\n{section}", text.trim_end());
    Config::parse(&content, config.parent().unwrap_or(Path::new("/")))?;
    Ok(Plan { content, socket: found.listen.unix, is_added: true, before })
}

/// A path as it is written in the configuration.
fn quoted(path: &Path) -> Result<String, Problem> {
    // A text in JSON is one in TOML.
    let text = path.to_str().and_then(|text| serde_json::to_string(text).ok());
    text.ok_or_else(|| {
        let detail = format!("{} is not written in UTF-8, as the configuration is", path.display());
        Problem::new(Code::Invalid, detail, "rename it, or make a symbolic link to it")
    })
}

fn cannot_write(config: &Path, error: &io::Error) -> Problem {
    let detail = format!("cannot write {}: {error}", config.display());
    let hint = match error.kind() {
        io::ErrorKind::NotFound => "make its folder first, or name another file with --config FILE",
        _ => "run it as root, or name a file of your own with --config FILE",
    };
    Problem::new(Code::Configuration, detail, hint)
}

/// Puts the file in its place in one step. One that is replaced gives it its owner and mode.
fn put(config: &Path, plan: &Plan) -> io::Result<()> {
    let folder = config.parent().unwrap_or(Path::new("/"));
    if config == Path::new(DEFAULT_CONFIG) {
        // A package makes this folder; without one, nobody has.
        fs::create_dir_all(folder)?;
    }
    let mut file = tempfile::Builder::new()
        .prefix(".asat-init-")
        .permissions(Permissions::from_mode(0o644))
        .tempfile_in(folder)?;
    file.write_all(plan.content.as_bytes())?;
    if let Some(before) = &plan.before {
        chown(file.path(), Some(before.uid()), Some(before.gid()))?;
        file.as_file().set_permissions(Permissions::from_mode(before.mode() & 0o7777))?;
    }
    file.as_file().sync_all()?;
    match plan.before {
        Some(_) => file.persist(config).map_err(|error| error.error)?,
        // Nobody's file is replaced that came meanwhile.
        None => file.persist_noclobber(config).map_err(|error| error.error)?,
    };
    File::open(folder)?.sync_all()
}

/// What the journal mode means for those who write.
fn of_journal(journal: &str, store: &StoreName) -> Finding {
    let (level, what, advice) = if journal == "wal" {
        (Level::Ok, "in WAL mode: nobody who writes waits for a publication", None)
    } else {
        let what =
            "in a rollback-journal mode: a commit waits while the store is read, for at most `max_hold`";
        (Level::Note, what, Some("use WAL mode if that matters: pragma journal_mode = wal"))
    };
    Finding {
        group: Group::Store,
        subject: Some(store.to_string()),
        check: "journal",
        level,
        what: what.to_owned(),
        advice: advice.map(str::to_owned),
    }
}

fn next(config: &Path, socket: Option<&Path>, store: &StoreName) -> Vec<String> {
    let is_default = config == Path::new(DEFAULT_CONFIG);
    let units = ["/etc/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system"];
    let is_service = units.iter().any(|folder| Path::new(folder).join(SERVICE).exists());
    let start = match (is_default, is_service) {
        (true, true) => "systemctl restart asat".to_owned(),
        (true, false) => SERVE.to_owned(),
        (false, _) => format!("{SERVE} --config {}", config.display()),
    };
    let server = socket.map(|socket| Server::Unix(socket.to_owned()).to_string());
    let elsewhere = server.filter(|server| server != Server::DEFAULT);
    let elsewhere = elsewhere.map(|server| format!("export ASAT_SERVER={server}"));
    let publish = format!("asat publish {store} --label first --certified-by NAME");
    let open = format!("asat open {store}@latest");
    [Some(start), elsewhere, Some(publish), Some("asat status".to_owned()), Some(open)]
        .into_iter()
        .flatten()
        .collect()
}

fn text(begun: &Begun) -> String {
    let how = if begun.is_added { "has now" } else { "is written, with" };
    let mut text = format!("{} {how} the store {}\n\nFound\n", begun.config.display(), begun.store);
    for finding in &begun.findings {
        let _ = writeln!(text, "  {:<7}  {}", finding.level.text(), clean(&finding.what));
        if let Some(advice) = finding.advice.as_deref().filter(|advice| !advice.is_empty()) {
            let _ = writeln!(text, "           hint: {}", clean(advice));
        }
    }
    text.push_str("\nNext\n");
    for command in &begun.next {
        let remark = if command.starts_with(SERVE) {
            "   # runs until Ctrl-C: type the rest in another terminal"
        } else {
            ""
        };
        let _ = writeln!(text, "  {}{remark}", clean(command));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_named_after_its_file() {
        for (path, expected) in [
            ("/srv/report.db", Some("report")),
            ("/srv/daily report (new).sqlite3", Some("daily-report--new-")),
            ("/srv/größe.db", Some("gr--e")),
            ("/srv/.hidden", None),
        ] {
            let name = named_after(Path::new(path)).ok();
            assert_eq!(name.as_ref().map(StoreName::as_str), expected, "{path}");
        }
    }

    #[test]
    fn a_path_is_written_as_the_configuration_reads_it() {
        let path = Path::new("/srv/a \"b\"\\c.db");
        let text = format!("state = \"s\"\n[[store]]\nname = \"report\"\npath = {}\n", quoted(path).unwrap());
        let config = Config::parse(&text, Path::new("/etc/asat")).unwrap();
        assert_eq!(config.stores.values().next().unwrap().path, path);
    }
}
