//! A daemon with a store that listens on TCP, and a browser that is signed in to it.

use std::net::{SocketAddr, TcpStream};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::common::{Answer, PATIENCE, World, exchange};
use crate::page::browser::Browser;

pub struct Site {
    pub world: World,
    pub address: SocketAddr,
}

/// The configuration of a token whose text is its role's name.
pub fn token(role: &str) -> String {
    let digest: String = Sha256::digest(role).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("\n[[token]]\nname = \"the {role}er\"\nrole = \"{role}\"\nsha256 = \"{digest}\"")
}

/// One for each role.
pub fn all_tokens() -> String {
    ["read", "publish", "admin"].map(token).concat()
}

impl Site {
    pub fn start() -> Self {
        Self::with(&all_tokens())
    }

    /// The same with other tokens.
    pub fn with(tokens: &str) -> Self {
        Self::of(World::new(), tokens)
    }

    /// The same of this world.
    pub fn of(mut world: World, tokens: &str) -> Self {
        world.config = format!("tcp = \"127.0.0.1:0\"{tokens}");
        world.sqlite().execute_batch("create table ledger(entry text)").unwrap();
        let log = world.start();
        let address = log.split("http://").nth(1).and_then(|rest| rest.split_whitespace().next());
        Self { address: address.unwrap().parse().unwrap(), world }
    }

    /// Changes the store and publishes it with more than a label.
    pub fn publish(&self, body: &Value) -> Value {
        self.world.sqlite().execute("insert into ledger values (?1)", [body.to_string()]).unwrap();
        let answer = self.world.send("POST", "/snapshots", body);
        assert_eq!(answer.status, 201, "{answer}");
        answer.json()
    }

    /// The same with a label alone.
    pub fn publish_change(&self, label: &str) -> Value {
        self.publish(&json!({ "label": label }))
    }

    /// The labels of all publications that there are.
    pub fn labels(&self) -> Vec<String> {
        let versions = self.world.get("/versions").json();
        let publications = versions["versions"].as_array().unwrap().iter().flat_map(|version| {
            version["publications"].as_array().unwrap().iter().map(|publication| publication["label"].clone())
        });
        publications.map(|label| label.as_str().unwrap_or_default().to_owned()).collect()
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// A request over TCP, of which these headers are all.
    pub fn call(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        exchange(stream, method, path, headers, body.as_bytes()).unwrap()
    }

    /// Signs in without a browser; answers the cookie as a browser would send it back.
    pub fn session(&self, role: &str) -> String {
        let form = [("Content-Type", "application/x-www-form-urlencoded")];
        let answer = self.call("POST", "/sign-in", &form, &format!("token={role}"));
        assert_eq!((answer.status, answer.header("location")), (303, Some("/")), "{answer}");
        answer.header("set-cookie").unwrap().split(';').next().unwrap().to_owned()
    }

    /// A browser in which somebody of this role has signed in, as a person would, and sees the status page.
    pub fn browser(&self, role: &str) -> Browser {
        let browser = Browser::start();
        browser.go(&self.url("/"));
        browser.fill("#token", role);
        browser.follow("form button.main");
        browser.wait_until(
            "document.querySelector('#versions') && document.querySelector('#live').innerText === 'live'",
        );
        // The form itself was answered with 401, which the console says.
        browser.complaints();
        browser
    }
}
