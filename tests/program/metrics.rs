//! `GET /metrics`, the alert rules and the dashboard: what they say, held against `promtool` and against one another.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use crate::common::World;
use serde_json::{Value, json};

const RULES: &str = include_str!("../../config/alerts.yml");
const DASHBOARD: &str = include_str!("../../config/grafana.json");
const DOCUMENT: &str = include_str!("../../docs/operate.md");

/// A daemon that has published, refused, leased and answered, as its metrics tell it.
fn told() -> &'static str {
    static TOLD: OnceLock<String> = OnceLock::new();
    TOLD.get_or_init(|| {
        let world = world();
        world.publish("first");
        world.settled("report@1");
        for _ in 0..3 {
            world.publish("first");
        }
        world.sqlite().execute("insert into ledger values (2)", []).unwrap();
        // The bucket was asked something then.
        let published = world.send("POST", "/snapshots", &json!({ "label": "second", "wait": "remote" }));
        assert_eq!(published.status, 201, "{published}");
        world.settled("report@2");
        world.open("report@1");
        for path in ["/versions/report@99", "/v1/versions/report@99"] {
            world.get(path).expect_problem(404, "unknown_version");
        }
        world.get("/no/such/path").expect_problem(404, "not_found");
        world.send("POST", "/snapshots", &json!({ "store": "other" })).expect_problem(404, "unknown_store");
        // What does not get as far as the engine.
        let json = ("Content-Type", "application/json");
        world.request("POST", "/snapshots", &[json], b"{").expect_problem(400, "malformed");
        world.request("POST", "/snapshots", &[json], b"[]").expect_problem(422, "invalid");
        world.request("POST", "/snapshots", &[], b"{}").expect_problem(415, "unsupported_media_type");
        world.send("POST", "/snapshots", &json!({ "set": "s", "store": "t" })).expect_problem(422, "invalid");
        let answer = world.get("/metrics");
        assert_eq!(answer.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
        String::from_utf8(answer.body).unwrap()
    })
}

fn world() -> World {
    let mut world = World::new();
    let bucket = world.path("bucket");
    std::fs::create_dir(&bucket).unwrap();
    world.config = format!("[remote]\nurl = \"file://{}\"", bucket.display());
    let made = world.asat(&["remote", "init", "--url", &format!("file://{}", bucket.display())]);
    assert!(made.status.success(), "{made:?}");
    world.sqlite().execute_batch("create table ledger(n); insert into ledger values (1)").unwrap();
    world.start_under_contract();
    world
}

/// The value of a series, as it is written.
fn value<'a>(text: &'a str, series: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '))
}

/// The type and the help of each metric.
fn families(text: &str) -> BTreeMap<&str, (&str, &str)> {
    let said = |what| text.lines().filter_map(move |line| line.strip_prefix(what)?.split_once(' '));
    let helps: BTreeMap<&str, &str> = said("# HELP ").collect();
    said("# TYPE ").map(|(name, kind)| (name, (kind, helps[name]))).collect()
}

/// Runs `promtool`, and answers what it prints.
fn promtool(arguments: &[&str], input: &str) -> String {
    let mut command = Command::new("promtool");
    command.args(arguments).current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("config"));
    let mut promtool =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    promtool.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = promtool.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(output.status.success(), "{arguments:?}: {said}");
    said
}

/// The metrics that a query names.
fn named(query: &str) -> BTreeSet<String> {
    let words = query.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("asat_") || word.starts_with("process_")).map(family).collect()
}

/// The metric that a series belongs to.
fn family(series: &str) -> String {
    let known = families(told());
    let parts = ["_bucket", "_sum", "_count"].into_iter();
    let of_histogram =
        parts.filter_map(|part| series.strip_suffix(part)).find(|name| known.contains_key(name));
    of_histogram.unwrap_or(series).to_owned()
}

#[test]
fn what_prometheus_thinks_of_the_metrics_is_nothing() {
    assert_eq!(promtool(&["check", "metrics"], told()), "");
}

#[test]
fn what_has_happened_is_counted() {
    let text = told();
    let counted = [
        ("asat_publications_total{store=\"report\",outcome=\"new\"}", "2"),
        ("asat_publication_failures_total{code=\"unknown_store\"}", "1"),
        ("asat_publication_failures_total{code=\"malformed\"}", "1"),
        ("asat_publication_failures_total{code=\"invalid\"}", "2"),
        ("asat_publication_failures_total{code=\"unsupported_media_type\"}", "1"),
        ("asat_publication_failures_total{code=\"store_busy\"}", "0"),
        ("asat_connections_turned_away_total{outcome=\"refused\"}", "0"),
        ("asat_guard_actions_total{action=\"extend\",outcome=\"failed\"}", "0"),
        ("asat_versions{store=\"report\",state=\"ready\"}", "2"),
        ("asat_versions{store=\"report\",state=\"lost\"}", "0"),
        ("asat_archive_lag_seconds{store=\"report\"}", "0.0"),
        ("asat_leases{store=\"report\"}", "1"),
        ("asat_guard_degraded", "0"),
        ("asat_http_requests_total{route=\"/versions/{id}/mounts\",method=\"POST\",status=\"201\"}", "1"),
        ("asat_http_requests_total{route=\"/versions/{id}\",method=\"GET\",status=\"404\"}", "2"),
        ("asat_http_requests_total{route=\"none\",method=\"GET\",status=\"404\"}", "1"),
        ("asat_http_requests_total{route=\"/snapshots\",method=\"POST\",status=\"404\"}", "1"),
        ("asat_build_info{version=\"0.1.0\"}", "1"),
    ];
    for (series, expected) in counted {
        assert_eq!(value(text, series), Some(expected), "{series}:\n{text}");
    }
    let number = |series: &str| value(text, series).unwrap().parse::<f64>().unwrap();
    // Whether the same is recorded again, or known, depends on what can be seen of the store.
    let again = ["reused", "known"]
        .map(|how| number(&format!("asat_publications_total{{store=\"report\",outcome=\"{how}\"}}")));
    assert!((again.iter().sum::<f64>() - 3.0).abs() < 0.1, "{again:?}");
    assert!(number("asat_writer_blocked_seconds_count{store=\"report\"}") >= 2.0);
    let archived = "asat_store_bytes{store=\"report\",holding=\"archive\"}";
    assert!(number(archived) > 100.0 && number("process_resident_memory_bytes") > 1e6);
    assert!(number("asat_newest_version_timestamp_seconds{store=\"report\"}") > 1.7e9);
}

#[test]
fn what_a_start_takes_over_from_the_archives_is_no_publication() {
    let mut world = world();
    world.publish("first");
    assert!(world.stop().success());
    std::fs::remove_file(world.path("state/catalogue.db")).unwrap();
    world.start();
    assert_eq!(world.get("/versions/report@1").json()["state"], "ready");
    let text = String::from_utf8(world.get("/metrics").body).unwrap();
    for outcome in ["new", "reused", "known"] {
        let series = format!("asat_publications_total{{store=\"report\",outcome=\"{outcome}\"}}");
        assert_eq!(value(&text, &series), Some("0"), "{series}:\n{text}");
    }
    assert_eq!(value(&text, "asat_publication_seconds_count{store=\"report\"}"), Some("0"), "{text}");
}

#[test]
fn labels_are_none_of_the_callers_text_and_no_versions() {
    let text = told();
    assert!(!text.contains('@') && !text.contains("/no/such"), "{text}");
}

#[test]
fn a_metric_says_what_it_is_and_in_what_unit() {
    // What is no amount, and so has no unit: how many there are, and what is or is not.
    const COUNTS: [&str; 15] = [
        "asat_build_info",
        "asat_versions",
        "asat_leases",
        "asat_store_late",
        "asat_watch_failing",
        "asat_remote_failing",
        "asat_follow_failing",
        "asat_remote_pending_versions",
        "asat_open_effects",
        "asat_guard_targets",
        "asat_guard_degraded",
        "asat_guard_alarms",
        "asat_brake_held",
        "process_open_fds",
        "process_max_fds",
    ];
    for (name, (kind, help)) in families(told()) {
        assert!(help.ends_with('.') && help.len() > 10, "{name}: {help}");
        let units = ["_seconds", "_bytes", "_ratio"];
        let has_unit = match kind {
            "counter" => name.ends_with("_total"),
            "histogram" => name.ends_with("_seconds"),
            "gauge" => units.iter().any(|unit| name.contains(unit)) || COUNTS.contains(&name),
            other => panic!("{name} is a {other}"),
        };
        assert!(has_unit, "{name} is a {kind}");
    }
}

#[test]
fn the_document_lists_each_metric_with_its_type_and_labels() {
    let (_, rest) = DOCUMENT.split_once("\n## Metrics\n").unwrap();
    let section = rest.split("\n## ").next().unwrap();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | "));
    let documented: BTreeMap<&str, &str> =
        rows.map(|(name, rest)| (name, rest.split(" | ").next().unwrap())).collect();
    let exported: BTreeMap<&str, &str> =
        families(told()).into_iter().map(|(name, (kind, _))| (name, kind)).collect();
    assert_eq!(documented, exported);
    for series in told().lines().filter(|line| !line.starts_with('#')) {
        let (name, labels) = series.split_once('{').unwrap_or((series.split(' ').next().unwrap(), ""));
        let name = family(name);
        let row = section.lines().find(|line| line.starts_with(&format!("| `{name}` |"))).unwrap();
        for label in labels.split("=\"").filter_map(|part| part.rsplit(['"', ',']).next()).filter(|label| {
            !label.is_empty() && label.chars().all(|c| c.is_ascii_lowercase()) && *label != "le"
        }) {
            assert!(row.contains(&format!("`{label}`")), "{name} has the label {label}: {row}");
        }
    }
}

#[test]
fn the_alert_rules_are_sound_and_do_what_their_tests_say() {
    promtool(&["check", "rules", "alerts.yml"], "");
    promtool(&["test", "rules", "alerts.test.yml"], "");
    let known = families(told());
    for metric in named(RULES) {
        assert!(known.contains_key(metric.as_str()), "a rule names {metric}");
    }
    let tests = include_str!("../../config/alerts.test.yml");
    for alert in RULES.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")) {
        assert!(tests.contains(alert), "{alert} is not tested");
        assert!(DOCUMENT.contains(&format!("| `{alert}` |")), "{alert} is not documented");
    }
}

#[test]
fn the_dashboard_shows_each_metric_and_no_other() {
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let (mut shown, mut ids) = (BTreeSet::new(), BTreeSet::new());
    for panel in panels {
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{panel:#}");
        assert!(!panel["title"].as_str().unwrap().is_empty());
        let place = ["x", "y", "w", "h"].map(|side| panel["gridPos"][side].as_u64().unwrap());
        assert!(place[0] + place[2] <= 24, "{panel:#}");
        for target in panel["targets"].as_array().into_iter().flatten() {
            assert_eq!(target["datasource"]["uid"], "${source}");
            shown.extend(named(target["expr"].as_str().unwrap()));
        }
    }
    let exported: BTreeSet<String> = families(told()).into_keys().map(str::to_owned).collect();
    assert_eq!(shown, exported);
    assert!(dashboard["schemaVersion"].as_u64().unwrap() >= 36);
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    let queries = variables.iter().filter_map(|variable| variable["definition"].as_str());
    assert!(queries.flat_map(named).all(|metric| exported.contains(&metric)));
    // Every query is one that Prometheus takes, once Grafana has put in what stands for something.
    let rules = panels.iter().flat_map(|panel| panel["targets"].as_array().into_iter().flatten()).enumerate();
    let rules = rules.map(|(number, target)| {
        let query = target["expr"].as_str().unwrap().replace("$__rate_interval", "1m");
        format!("  - {{record: \"panel:{number}\", expr: {}}}\n", json!(query))
    });
    let rules = format!("groups:\n- name: panels\n  rules:\n{}", rules.collect::<String>());
    let folder = tempfile::Builder::new().prefix("asat-test.").tempdir().unwrap();
    let file = folder.path().join("panels.yml");
    std::fs::write(&file, rules).unwrap();
    promtool(&["check", "rules", file.to_str().unwrap()], "");
}
