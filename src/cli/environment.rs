//! What the environment says if an option is left out.
//!
//! The parser of the arguments could read it as well, but would then show these options in the usage of every command, as if they
//! had to be written.

use std::env;
use std::path::PathBuf;

use asat_client::Server;
use asat_core::{Code, Problem};

use super::args::Globals;
use crate::text::clean;

/// Where the daemon listens.
const SERVER: &str = "ASAT_SERVER";
/// The file with the token.
const TOKEN_FILE: &str = "ASAT_TOKEN_FILE";

/// The daemon to ask: the one that is named, that of the environment, or the one where it listens if nobody says otherwise.
///
/// # Errors
/// [`Code::Invalid`] if the environment has something else than an address.
pub(super) fn server(globals: &Globals) -> Result<Server, Problem> {
    match &globals.server {
        Some(server) => Ok(server.clone()),
        None => address(said(SERVER).as_deref()),
    }
}

/// The file with the token to present.
pub(super) fn token_file(globals: &Globals) -> Option<PathBuf> {
    globals
        .token_file
        .clone()
        .or_else(|| env::var_os(TOKEN_FILE).filter(|file| !file.is_empty()).map(PathBuf::from))
}

fn said(name: &str) -> Option<String> {
    env::var_os(name).filter(|value| !value.is_empty()).map(|value| value.to_string_lossy().into_owned())
}

fn address(said: Option<&str>) -> Result<Server, Problem> {
    let text = said.unwrap_or(Server::DEFAULT);
    text.parse().map_err(|hint: String| {
        let hint = if text.starts_with('/') { format!("write unix:{}", clean(text)) } else { hint };
        Problem::new(Code::Invalid, format!("{SERVER} is {:?}, which is no address", clean(text)), hint)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_from_the_environment() {
        assert_eq!(address(None).unwrap().to_string(), Server::DEFAULT);
        assert_eq!(address(Some("unix:/tmp/a.sock")).unwrap().to_string(), "unix:/tmp/a.sock");
        let problem = address(Some("/tmp/a.sock")).unwrap_err();
        assert_eq!((problem.code, problem.hint.as_str()), (Code::Invalid, "write unix:/tmp/a.sock"));
        assert!(address(Some("localhost")).unwrap_err().hint.starts_with("write it as unix:"));
    }
}
