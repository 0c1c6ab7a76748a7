//! `/docs` says what the OpenAPI document says, and nothing else.

use serde_json::{Value, json};

use crate::page::site::Site;

#[test]
fn every_operation_and_every_object_of_the_document_stands_there() {
    let site = Site::start();
    let document = site.world.get("/openapi.json").json();
    let browser = site.browser("read");
    browser.go(&site.url("/docs"));
    let shown = browser.run("return [...document.querySelectorAll('.operation')].map((one) => [one.id, one.querySelector('h3').innerText])");
    let shown: Vec<(String, String)> = serde_json::from_value(shown).unwrap();
    let mut operations = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            operations += 1;
            let id = operation["operationId"].as_str().unwrap();
            let title = format!("{} {path}", method.to_uppercase());
            assert!(shown.contains(&(id.to_owned(), title.clone())), "{title} is not in {shown:?}");
            let text = browser.text(&format!("#{id}"));
            let parameters =
                operation["parameters"].as_array().into_iter().flatten().map(|parameter| &parameter["name"]);
            let statuses =
                operation["responses"].as_object().unwrap().keys().map(|status| Value::from(status.as_str()));
            for said in parameters.cloned().chain(statuses).chain([operation["summary"].clone()]) {
                let said = said.as_str().unwrap().replace('`', "").replace('\n', " ");
                assert!(text.contains(&said), "{said:?} is not in {text}");
            }
        }
    }
    assert_eq!(shown.len(), operations);
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        let text = browser.text(&format!("#object-{name}"));
        for field in schema["properties"].as_object().into_iter().flat_map(serde_json::Map::keys) {
            assert!(text.contains(field.as_str()), "{name}.{field} is not in {text}");
        }
    }
    let body = browser.text("#publish");
    assert!(body.contains("at most 200 characters; for example 2026-11-19 close"), "{body}");
    assert!(body.contains("role publish"), "{body}");
    for code in
        document["components"]["schemas"]["ProblemBody"]["properties"]["code"]["enum"].as_array().unwrap()
    {
        assert!(browser.text("#problems").contains(code.as_str().unwrap()), "{code}");
    }
}

#[test]
fn its_examples_work() {
    let site = Site::start();
    site.publish_change("first");
    let page = String::from_utf8(site.world.get("/docs").body).unwrap();
    let commands: Vec<String> = page
        .split("<pre")
        .skip(1)
        .map(|rest| {
            let code = rest.split_once("<code>").unwrap().1.split_once("</code>").unwrap().0;
            code.replace("&#39;", "'")
                .replace("&#34;", "\"")
                .replace("&#38;", "&")
                .replace("&#60;", "<")
                .replace("&#62;", ">")
        })
        .collect();
    assert!(commands.len() > 25, "{commands:?}");
    let socket = site.world.socket();
    for command in
        commands.iter().filter(|command| !command.contains("/events") && !command.contains("/database"))
    {
        let command = command.replace("/run/asat/asat.sock", socket.to_str().unwrap());
        let command = format!("{command} --silent --write-out ' %{{http_code}}'");
        let output = std::process::Command::new("sh").args(["-c", &command]).output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        let (answer, status) = said.rsplit_once(' ').unwrap();
        // Of what it names, not everything is there; but it is understood.
        assert!(["200", "201", "204", "404", "409", "410", "422"].contains(&status), "{command}\n{said}");
        if status == "422" {
            let problem: Value = serde_json::from_str(answer).unwrap();
            assert_ne!(problem["code"], json!("malformed"), "{command}\n{said}");
        }
    }
    let published = commands.iter().find(|command| command.contains("/snapshots")).unwrap();
    assert!(
        published.contains("-d '{") && published.contains("\"label\":\"2026-11-19 close\""),
        "{published}"
    );
}
