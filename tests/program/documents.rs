//! What the documents show is true: the quick start of the README, the examples of `docs/versions.md`, `docs/publishing.md` and `docs/api.md`, and every piece of
//! configuration in both are run as they stand, but for the paths of the reader's own folders.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::{Running, World};
use asat::cli::exit_code;
use asat::config::Config;
use asat_core::Code;
use sha2::{Digest, Sha256};

const README: &str = include_str!("../../README.md");
const VERSIONS: &str = include_str!("../../docs/versions.md");
const PUBLISHING: &str = include_str!("../../docs/publishing.md");
const API: &str = include_str!("../../docs/api.md");
const CHANGES: &str = include_str!("../../docs/changes.md");
const TUTORIAL: &str = include_str!("../../docs/tutorial.md");
const TROUBLESHOOTING: &str = include_str!("../../docs/troubleshooting.md");
const CONFIGURE: &str = include_str!("../../docs/configure.md");
const ASAT: &str = env!("CARGO_BIN_EXE_asat");

/// The examples in a language, in order.
fn examples<'a>(document: &'a str, language: &str) -> Vec<&'a str> {
    let begin = format!("\n```{language}\n");
    document.split(begin.as_str()).skip(1).map(|rest| rest.split_once("\n```").unwrap().0).collect()
}

/// The README from one heading to the next.
fn section(heading: &str) -> &'static str {
    let (_, rest) = README.split_once(heading).unwrap();
    rest.split_once("\n## ").unwrap().0
}

/// Runs commands as a reader would who has `asat` in his path; answers what they print.
fn run(folder: &Path, commands: &str) -> String {
    let path = format!("{}:{}", Path::new(ASAT).parent().unwrap().display(), std::env::var("PATH").unwrap());
    let mut bash = Command::new("bash");
    bash.args(["-euo", "pipefail", "-c", commands]).current_dir(folder).env("PATH", path);
    let output = bash.env("ASAT_SERVER", "unix:asat.sock").stdin(Stdio::null()).output().unwrap();
    let (said, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{commands}\n{said}\n{errors}");
    said.into_owned()
}

#[test]
fn the_document_of_all_commands_is_what_the_program_prints() {
    let printed = run(Path::new("/"), "asat man --markdown");
    let document = include_str!("../../docs/commands.md");
    assert!(printed == document, "run: cargo run -- man --markdown > docs/commands.md");
}

#[test]
fn the_document_of_all_keys_is_what_the_program_prints() {
    let printed = run(Path::new("/"), "asat configuration --markdown");
    assert!(printed == CONFIGURE, "run: cargo run -- configuration --markdown > docs/configure.md");
    // What it prints without the option is a configuration.
    let folder = tempfile::Builder::new().prefix("asat-test.").tempdir().unwrap();
    run(folder.path(), "umask 022; asat configuration > asat.toml; asat serve --check --config asat.toml");
}

/// The daemon of the `asat.toml` in a folder, once it is ready.
fn serve(folder: &Path) -> Running {
    let mut command = Command::new(ASAT);
    command.args(["serve", "--config", "asat.toml"]).current_dir(folder);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let mut daemon = Running::spawn(command);
    daemon.wait_for("listen: ready").unwrap();
    daemon
}

#[test]
fn the_quick_start_of_the_readme_runs_from_its_first_line_to_its_last() {
    let folder = tempfile::Builder::new().prefix("asat-test.").tempdir().unwrap();
    let [begin, months_later, over_http, with_a_page] = examples(section("## Quick start"), "sh")[..] else {
        panic!("the quick start has another number of examples");
    };
    let begin = begin.replace("/tmp/asat-try", folder.path().to_str().unwrap());
    let (prepare, last) = begin.trim_end().rsplit_once('\n').unwrap();
    assert!(last.starts_with("asat serve --config asat.toml "), "{last}");
    // The program under test is built already.
    run(folder.path(), &format!("make() {{ [ \"$*\" = build ]; }}\n{prepare}"));
    let serve = || serve(folder.path());
    let mut daemon = serve();
    let months_later = months_later.replace("/tmp/asat-try", folder.path().to_str().unwrap());
    let said = run(folder.path(), &months_later);
    assert!(said.contains("2026-11-20 close") && said.contains("\n2026-11-19|100\n"), "{said}");
    // The store is again what it was at the first version.
    assert_eq!(run(folder.path(), "sqlite3 report.db 'select * from sale'"), "2026-11-19|100\n");
    let said = run(folder.path(), over_http);
    assert!(said.ends_with("2026-11-19|999\n"), "{said}");
    daemon.terminate();
    assert!(daemon.exit().success());
    // Others may use the port that is written there.
    let (listener, with_a_page) = (std::net::TcpListener::bind("127.0.0.1:0").unwrap(), with_a_page);
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    run(folder.path(), &with_a_page.replace("127.0.0.1:7878", &address));
    let mut daemon = serve();
    let page = format!("curl -s -H \"Authorization: Bearer $(cat token)\" http://{address}/");
    let page = run(folder.path(), &page);
    assert!(page.contains("All is well"), "{page}");
    daemon.terminate();
    assert!(daemon.exit().success());
}

/// What the tutorial prints differs from run to run in instants, sizes and durations, which it leaves out; so whole lines that have none are
/// looked for.
#[test]
fn the_tutorial_runs_from_its_first_line_to_its_last() {
    let folder = tempfile::Builder::new().prefix("asat-test.").tempdir().unwrap();
    let serve = || serve(folder.path());
    let (mut daemon, mut said) = (None, String::new());
    for chapter in TUTORIAL.split("\n## ") {
        for (nth, example) in examples(chapter, "sh").into_iter().enumerate() {
            match example {
                "asat serve --config asat.toml" => daemon = Some(serve()),
                _ => said += &run(folder.path(), example),
            }
            if chapter.starts_with("After `kill -9`") && nth == 0 {
                drop(daemon.take());
                daemon = Some(serve());
            }
        }
    }
    for line in [
        "A-100|53210.0",
        "A-100|47889.0",
        "~ instrument='FUND'  close: 20.0 -> 20.5",
        "  ~ account='A-100' instrument='BOND'  quantity: 520 -> 530",
        "FUND,20.5,21.25",
        "report@1.db: OK",
        "the audit trail is what was written: 6 entries",
    ] {
        let shown = examples(TUTORIAL, "text").into_iter().flat_map(str::lines);
        assert!(shown.clone().any(|shown| shown == line), "docs/tutorial.md does not show: {line}");
        assert!(said.lines().any(|said| said == line), "{line}\n{said}");
    }
    let mut daemon = daemon.unwrap();
    daemon.terminate();
    assert!(daemon.exit().success());
}

#[test]
fn the_document_of_troubles_lists_each_code_with_its_exit_code() {
    let (_, table) = TROUBLESHOOTING.split_once("\n## All codes\n").unwrap();
    for code in Code::ALL {
        let (text, exit) = (code.text().0, exit_code(code));
        let is_of_code = |line: &&str| line.starts_with(&format!("| `{text}` | "));
        let row = table.lines().find(is_of_code);
        let row = row.unwrap_or_else(|| panic!("docs/troubleshooting.md leaves out {text}"));
        assert_eq!(row.split(" | ").nth(2), Some(exit.to_string().as_str()), "{row}");
    }
}

/// The example's commands print what is printed beside them, but for instants.
#[test]
fn the_example_of_what_changed_runs() {
    let folder = tempfile::Builder::new().prefix("asat-test.").tempdir().unwrap();
    let mut examples_in_order = examples(CHANGES, "sh").into_iter();
    let (prepare, last) = examples_in_order.next().unwrap().rsplit_once('\n').unwrap();
    assert_eq!(last, "asat serve --config asat.toml");
    run(folder.path(), prepare);
    let mut daemon = serve(folder.path());
    let said: Vec<String> = examples_in_order.map(|example| run(folder.path(), example)).collect();
    let [_, totals, rows, history, all] = said.as_slice() else {
        panic!("docs/changes.md has other examples");
    };
    assert_eq!(totals, "certified,now\n425.0,305.0\n");
    let [shown_rows, shown_history] = examples(CHANGES, "text")[..] else {
        panic!("docs/changes.md shows other answers");
    };
    assert_eq!(rows.trim_end(), shown_rows);
    let without_instants = |text: &str| {
        let line = |line: &str| match line.split_once(" (") {
            Some((start, rest)) if line.starts_with("report@") => {
                format!("{}{}", start.split("  ").next().unwrap(), rest.split_once(')').unwrap().1)
            }
            _ => line.to_owned(),
        };
        text.trim_end().lines().map(line).collect::<Vec<_>>()
    };
    assert_eq!(without_instants(history), without_instants(shown_history));
    assert!(all.contains("2,250.0,205.0,update,2\n") && all.contains("3,75.0,,delete,3\n"), "{all}");
    daemon.terminate();
    assert!(daemon.exit().success());
}

#[test]
fn the_examples_of_publishing_run() {
    let mut world = World::new();
    world.sqlite().execute_batch("create table t (n)").unwrap();
    world.start();
    for n in 1..=12 {
        world.sqlite().execute("insert into t values (?1)", [n]).unwrap();
        world.publish(&n.to_string());
    }
    let of_one_store = |example: &&str| !example.contains("set");
    let examples: Vec<&str> = examples(PUBLISHING, "sh").into_iter().filter(of_one_store).collect();
    assert!(examples.len() > 1);
    for example in examples {
        run(world.socket().parent().unwrap(), example);
    }
    assert!(world.stop().success());
}

#[test]
fn the_examples_of_publishing_sets_run() {
    let mut world = World::new();
    let content = "create table t (n); insert into t values (1)";
    world.sqlite().execute_batch(content).unwrap();
    world.add_store("ledger", content, "");
    "[[set]]\nname = \"month-end\"\nstores = [\"ledger\", \"report\"]".clone_into(&mut world.config);
    world.start();
    let examples: Vec<&str> =
        examples(PUBLISHING, "sh").into_iter().filter(|example| example.contains("set")).collect();
    assert_eq!(examples.len(), 1);
    let said = run(world.socket().parent().unwrap(), examples[0]);
    assert!(said.contains("month-end published as of") && said.contains("ledger@1"), "{said}");
    assert!(world.stop().success());
}

#[test]
fn the_clients_of_the_api_document_run_over_tcp_and_over_the_unix_socket() {
    let mut world = World::new();
    world.sqlite().execute_batch("create table t (n)").unwrap();
    let digest: String = Sha256::digest("a token").iter().map(|byte| format!("{byte:02x}")).collect();
    world.config = format!(
        "tcp = \"127.0.0.1:0\"\n[[token]]\nname = \"report server\"\nrole = \"publish\"\nsha256 = \"{digest}\""
    );
    let log = world.start();
    let url = log
        .split("listening on ")
        .find_map(|rest| rest.starts_with("http://").then(|| rest.lines().next().unwrap()));
    let folder = world.socket().parent().unwrap().to_owned();
    let python = |program: &str| {
        let mut command = Command::new("python3");
        command
            .args(["-c", program])
            .current_dir(&folder)
            .env("ASAT_TOKEN", "a token")
            .env("ASAT_URL", url.unwrap());
        let output = command.output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{program}\n{errors}");
        String::from_utf8(output.stdout).unwrap()
    };
    let [over_tcp, over_the_socket] = examples(API, "python")[..] else {
        panic!("docs/api.md has other examples")
    };
    assert!(
        over_tcp.lines().filter(|line| !line.is_empty()).count() <= 10,
        "it is said to be ten lines long"
    );
    // The second time it is the same publication.
    for _ in 0..2 {
        let uri = python(over_tcp);
        let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY | rusqlite::OpenFlags::SQLITE_OPEN_URI;
        rusqlite::Connection::open_with_flags(uri.trim(), flags).unwrap().prepare("select n from t").unwrap();
    }
    assert_eq!(world.get("/versions/report@1").json()["publications"].as_array().unwrap().len(), 1);
    assert_eq!(python(over_the_socket), "report@1\n");
    assert!(world.stop().success());
}

#[test]
fn every_piece_of_configuration_that_is_shown_is_taken() {
    let folder = tempfile::Builder::new().prefix("asat-test.").tempdir().unwrap();
    let shown: Vec<&str> =
        [VERSIONS, PUBLISHING, CHANGES].into_iter().flat_map(|document| examples(document, "toml")).collect();
    assert!(shown.len() > 5);
    for text in shown {
        let mut whole = String::from("state = \"state\"\n");
        // What is said of a store, is said of the one above it.
        if text.starts_with("[store.") || text.starts_with("[[store.") {
            whole += "[[store]]\nname = \"report\"\npath = \"report.db\"\n";
        }
        whole += text;
        let named = "[[store]]\nname = \"report\"\npath = \"report.db\"";
        if whole.contains("[[store]]") && !whole.contains("name = \"report\"") {
            whole = whole.replacen("[[store]]", named, 1);
        }
        let file = folder.path().join("asat.toml");
        fs::write(&file, &whole).unwrap();
        if let Err(problem) = Config::load(&file) {
            panic!("{whole}\n{problem}");
        }
    }
}
