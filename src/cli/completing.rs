//! What a shell offers after Tab: commands and options, and the stores, versions and tags that the daemon has.
//!
//! The script that a shell reads at its start runs this program for each Tab, with what was typed so far. So there is one description of
//! the command line, and nothing that a shell knows can be old.

use std::ffi::OsStr;
use std::time::Duration;

use asat_client::{Client, Request};
use asat_core::{Code, Problem};
use asat_wire::{TagList, Version, VersionList};
use clap::Command;
use clap_complete::Shell;
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use clap_complete::env::{CompleteEnv, Shells};
use serde::de::DeserializeOwned;

use super::args::Globals;
use super::{document, environment, stores, token};
use crate::text::clean;

/// The variable by which a shell's script asks.
const VARIABLE: &str = "ASAT_COMPLETE";
/// How long the daemon may take for an answer: somebody waits at the keyboard.
const PATIENCE: Duration = Duration::from_millis(500);
/// So many of the newest versions are offered.
const MOST_VERSIONS: &str = "30";
/// Bash takes `@` for the end of a word otherwise, and `report@12` for three words.
const WHOLE_VERSIONS: &str = "COMP_WORDBREAKS=${COMP_WORDBREAKS//@/}\n";

/// Answers a shell if one asks, and ends the process then.
pub(super) fn answer() {
    CompleteEnv::with_factory(|| offering(document::told())).var(VARIABLE).complete();
}

/// The script by which a shell asks.
///
/// # Errors
/// If there is none for this shell.
pub(super) fn script(shell: Shell) -> Result<Vec<u8>, Problem> {
    let mut script = if shell == Shell::Bash { WHOLE_VERSIONS.into() } else { Vec::new() };
    let shells = Shells::builtins();
    let written = shells
        .completer(&shell.to_string())
        .map(|completer| completer.write_registration(VARIABLE, "asat", "asat", "asat", &mut script));
    match written {
        Some(Ok(())) => Ok(script),
        _ => Err(Problem::new(Code::Internal, format!("there is no completion for {shell}"), "")),
    }
}

/// The command line with what the daemon has for the arguments that name it.
fn offering(command: Command) -> Command {
    let named = command.mut_args(|arg| {
        let offered = match arg.get_id().as_str() {
            "version" | "versions" | "wanted" => versions,
            "store" => names,
            "tag" => tags,
            _ => return arg,
        };
        arg.add(ArgValueCompleter::new(offered))
    });
    named.mut_subcommands(offering)
}

/// The names of stores.
fn names(typed: &OsStr) -> Vec<CompletionCandidate> {
    let stores = ask(|client| async move { stores::every(&client).await });
    beginning_with(typed, stores.unwrap_or_default())
}

/// The tags of all stores.
fn tags(typed: &OsStr) -> Vec<CompletionCandidate> {
    let stores = ask(|client| async move { stores::every(&client).await }).unwrap_or_default();
    let mut tags: Vec<String> = stores.iter().flat_map(|store| tags_of(store)).collect();
    tags.sort_unstable();
    tags.dedup();
    beginning_with(typed, tags)
}

/// The versions of the only store that can be meant, or else the newest of each.
fn versions(typed: &OsStr) -> Vec<CompletionCandidate> {
    let text = typed.to_string_lossy();
    let mut stores = ask(|client| async move { stores::every(&client).await }).unwrap_or_default();
    match text.split_once('@') {
        Some((store, _)) => stores.retain(|known| known == store),
        None => stores.retain(|known| known.starts_with(&*text)),
    }
    let latest = |store: &String| CompletionCandidate::new(format!("{store}@latest"));
    let mut all: Vec<CompletionCandidate> = stores.iter().map(latest).collect();
    if let [store] = stores.as_slice() {
        all.extend(tags_of(store).iter().map(|tag| CompletionCandidate::new(format!("{store}@{tag}"))));
        let path =
            Request::get(&["versions"]).query("store", Some(store)).query("limit", Some(MOST_VERSIONS));
        let listed: Option<VersionList> = asked(path);
        all.extend(listed.into_iter().flat_map(|list| list.versions).map(|version| offered(&version)));
    }
    all.retain(|candidate| candidate.get_value().to_string_lossy().starts_with(&*text));
    all
}

/// A version with what tells it from the others, which most shells show beside it.
fn offered(version: &Version) -> CompletionCandidate {
    let label = version.publications.first().and_then(|publication| publication.label.as_deref()).map(clean);
    CompletionCandidate::new(&version.id).help(label.map(Into::into))
}

fn tags_of(store: &str) -> Vec<String> {
    let list: Option<TagList> = asked(Request::get(&["stores", store, "tags"]));
    list.into_iter().flat_map(|list| list.tags).map(|tag| tag.name).collect()
}

fn beginning_with(typed: &OsStr, names: Vec<String>) -> Vec<CompletionCandidate> {
    let typed = typed.to_string_lossy();
    names.into_iter().filter(|name| name.starts_with(&*typed)).map(CompletionCandidate::new).collect()
}

fn asked<T: DeserializeOwned>(request: Request) -> Option<T> {
    ask(|client| async move { client.ask(&request).await })
}

/// Asks the daemon that the environment names. If that fails, nothing is offered: an error would end up in what is being typed.
fn ask<T, F: Future<Output = Result<T, Problem>>>(asking: impl FnOnce(Client) -> F) -> Option<T> {
    let globals = Globals { server: None, token_file: None, json: false, timeout: Some(PATIENCE) };
    let token = environment::token_file(&globals).as_deref().map(token::read).transpose().ok()?;
    let client = Client::new(&environment::server(&globals).ok()?, token, globals.timeout);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    let answered = runtime.block_on(asking(client)).ok();
    // A look-up of a host's name cannot be cancelled, and nobody waits for it any more.
    runtime.shutdown_background();
    answered
}
