//! Chromium, driven over WebDriver (<https://www.w3.org/TR/webdriver2/>): JSON over HTTP, so that it takes no library.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::common::PATIENCE;

/// How WebDriver marks an element in an answer.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";
/// The Enter key, and the Tab key, as WebDriver writes them.
pub const ENTER: &str = "\u{e007}";
pub const TAB: &str = "\u{e004}";

/// A chromedriver, and the port on which it listens; `None` where it ended before.
fn start_driver() -> Option<(Child, u16)> {
    let mut driver = Command::new("chromedriver")
        .arg("--port=0")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("chromedriver is needed: apt-get install chromium chromium-driver");
    let mut said = BufReader::new(driver.stdout.take().unwrap()).lines().map_while(Result::ok);
    let port = said.find_map(|line| {
        line.split("successfully on port ").nth(1)?.trim_end_matches('.').parse::<u16>().ok()
    });
    let Some(port) = port else {
        driver.wait().unwrap();
        return None;
    };
    // Whatever else it says is not needed, and must not hold it up.
    std::thread::spawn(move || said.for_each(drop));
    Some((driver, port))
}

/// A browser with a profile of its own. It ends with the value.
pub struct Browser {
    driver: Child,
    address: SocketAddr,
    session: String,
    _profile: TempDir,
}

impl Browser {
    pub fn start() -> Self {
        // It looks for a free port and takes it a moment later; where another one was faster, it ends.
        let (driver, port) =
            (0..5).find_map(|_| start_driver()).expect("chromedriver takes a port and says which");
        let profile = tempfile::Builder::new().prefix("asat-test.").tempdir().unwrap();
        let folder = format!("--user-data-dir={}", profile.path().display());
        let arguments = [
            "--headless=new",
            "--no-sandbox",
            "--disable-dev-shm-usage",
            "--disable-gpu",
            "--no-first-run",
            // Nothing moves while it is looked at.
            "--force-prefers-reduced-motion",
            "--window-size=1200,1000",
            &folder,
        ];
        let mut browser = Self {
            driver,
            address: SocketAddr::from(([127, 0, 0, 1], port)),
            session: String::new(),
            _profile: profile,
        };
        let wanted = json!({ "capabilities": { "alwaysMatch": {
            "goog:loggingPrefs": { "browser": "ALL" },
            "goog:chromeOptions": { "args": arguments },
        } } });
        let session = browser.call("POST", "/session", &wanted);
        browser.session = format!("/session/{}", session["sessionId"].as_str().unwrap());
        let patience = u64::try_from(PATIENCE.as_millis()).unwrap();
        browser.post("/timeouts", &json!({ "script": 10_000, "implicit": patience, "pageLoad": patience }));
        browser
    }

    /// Sends a command. The driver keeps its connections, so the answer ends where it says.
    fn try_call(&self, method: &str, path: &str, body: &Value) -> std::io::Result<Value> {
        let mut stream = TcpStream::connect(self.address)?;
        stream.set_read_timeout(Some(2 * PATIENCE))?;
        let body = if method == "POST" { body.to_string() } else { String::new() };
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nContent-Length: {}\r\n\r\n",
            self.address,
            body.len()
        );
        stream.write_all((head + &body).as_bytes())?;
        let mut reader = BufReader::new(stream);
        let (mut line, mut length) = (String::new(), 0);
        while reader.read_line(&mut line)? > 2 {
            let header = line.split_once(':').filter(|(name, _)| name.eq_ignore_ascii_case("content-length"));
            length = header.and_then(|(_, value)| value.trim().parse().ok()).unwrap_or(length);
            line.clear();
        }
        let mut answer = vec![0; length];
        reader.read_exact(&mut answer)?;
        let value = serde_json::from_slice::<Value>(&answer)?["value"].take();
        if value["error"].is_null() { Ok(value) } else { Err(std::io::Error::other(value.to_string())) }
    }

    fn call(&self, method: &str, path: &str, body: &Value) -> Value {
        self.try_call(method, path, body).unwrap_or_else(|error| panic!("{method} {path} {body}: {error}"))
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        self.call("POST", &format!("{}{path}", self.session), body)
    }

    /// A command of Chromium's own protocol.
    pub fn chromium(&self, command: &str, parameters: &Value) -> Value {
        self.post("/goog/cdp/execute", &json!({ "cmd": command, "params": parameters }))
    }

    pub fn go(&self, url: &str) {
        self.post("/url", &json!({ "url": url }));
    }

    /// What a script in the page returns.
    pub fn run(&self, script: &str) -> Value {
        self.post("/execute/sync", &json!({ "script": script, "args": [] }))
    }

    /// What a promise in the page comes to.
    pub fn settle(&self, promise: &str) -> Value {
        let script = format!(
            "const done = arguments[0]; ({promise}).then(done, (error) => done(`failed: ${{error}}`))"
        );
        self.post("/execute/async", &json!({ "script": script, "args": [] }))
    }

    /// Waits until an expression in the page is true, be it on the next page: a script ends with the page that it looks at.
    pub fn wait_until(&self, expression: &str) {
        let script = "const [expression, done] = arguments, holds = new Function(`return (${expression})`), began = Date.now();
            (function look() {
                if (holds()) done(true); else if (Date.now() - began > 1000) done(false); else setTimeout(look, 10);
            })();";
        let (path, body) =
            (format!("{}/execute/async", self.session), json!({ "script": script, "args": [expression] }));
        let deadline = Instant::now() + PATIENCE;
        while !matches!(self.try_call("POST", &path, &body), Ok(Value::Bool(true))) {
            assert!(Instant::now() < deadline, "it never held that {expression}:\n{}", self.text("body"));
        }
    }

    /// Waits until there is such an element, be it on the next page.
    pub fn wait_for(&self, selector: &str) {
        self.element(selector);
    }

    fn element(&self, selector: &str) -> String {
        let found = self.post("/element", &json!({ "using": "css selector", "value": selector }));
        format!("/element/{}", found[ELEMENT].as_str().unwrap())
    }

    /// Clicks as a person would: on what is at that place. Where the page has just changed there, once more.
    pub fn click(&self, selector: &str) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let path = format!("{}{}/click", self.session, self.element(selector));
            match self.try_call("POST", &path, &json!({})) {
                Ok(_) => return,
                Err(error) => {
                    let error = error.to_string();
                    let moved = error.contains("stale element") || error.contains("click intercepted");
                    assert!(moved && Instant::now() < deadline, "{selector}: {error}");
                }
            }
        }
    }

    /// Clicks on what leads to another page, and waits until it is there. A click alone may be over before the
    /// browser has begun to leave, and what is looked for next would be sought on the page before.
    pub fn follow(&self, selector: &str) {
        let before = format!("{}{}/name", self.session, self.element("html"));
        self.click(selector);
        let deadline = Instant::now() + PATIENCE;
        while self.try_call("GET", &before, &Value::Null).is_ok() {
            assert!(Instant::now() < deadline, "{selector} led nowhere:\n{}", self.text("body"));
        }
        let (script, asked) = (
            format!("{}/execute/sync", self.session),
            json!({ "script": "return document.readyState", "args": [] }),
        );
        while !matches!(self.try_call("POST", &script, &asked), Ok(state) if state == "complete") {
            assert!(Instant::now() < deadline, "what {selector} leads to is never there");
        }
    }

    /// Types into a field.
    pub fn fill(&self, selector: &str, text: &str) {
        let element = self.element(selector);
        self.post(&format!("{element}/value"), &json!({ "text": text }));
    }

    /// Presses keys one after another, wherever the focus is.
    pub fn press(&self, keys: &str) {
        let key = |key: char| {
            [json!({ "type": "keyDown", "value": key }), json!({ "type": "keyUp", "value": key })]
        };
        let strokes: Vec<Value> = keys.chars().flat_map(key).collect();
        self.post(
            "/actions",
            &json!({ "actions": [{ "type": "key", "id": "keyboard", "actions": strokes }] }),
        );
    }

    /// The text of an element, as it is seen.
    pub fn text(&self, selector: &str) -> String {
        let text = self.run(&format!("return document.querySelector({})?.innerText ?? ''", json!(selector)));
        text.as_str().unwrap().to_owned()
    }

    /// How wide the window is, how high, and what its user has chosen.
    pub fn emulate(&self, width: u32, height: u32, scheme: &str) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.chromium("Emulation.setDeviceMetricsOverride", &size);
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.chromium("Emulation.setEmulatedMedia", &json!({ "features": features }));
    }

    /// A picture of the window, as base64 of a PNG file.
    pub fn screenshot(&self) -> String {
        let picture = self.call("GET", &format!("{}/screenshot", self.session), &Value::Null);
        picture.as_str().unwrap().to_owned()
    }

    /// What the console has complained of since it was asked last.
    pub fn complaints(&self) -> Vec<String> {
        let entries = self.post("/se/log", &json!({ "type": "browser" }));
        let bad = |entry: &&Value| entry["level"] == "SEVERE" || entry["level"] == "WARNING";
        entries.as_array().unwrap().iter().filter(bad).map(|entry| entry["message"].to_string()).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The driver ends its browser with the session; one that never began has none.
        let _ = self.try_call("DELETE", &self.session, &Value::Null);
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}
