//! What a shell offers after Tab: commands and options, and the stores, versions and tags that the daemon has.
//!
//! The script that a shell reads at its start runs this program for each Tab, with what was typed so far. So there is one description of
//! the command line, and a script that was installed long ago still offers what there is now. What is typed as `--server` is not looked at:
//! the environment says which daemon is asked.

use std::env;
use std::ffi::OsStr;
use std::time::Duration;

use asat_client::{Client, Request};
use asat_core::{Code, Problem};
use asat_wire::{TagList, Version, VersionList};
use clap::Command;
use clap_complete::Shell;
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use clap_complete::env::{CompleteEnv, Shells};

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

/// Answers a shell if one asks, and ends the process then. What a script passes begins with `--`, so a variable that is left in the environment
/// keeps no command from its work.
pub(super) fn answer() {
    if env::args_os().nth(1).is_none_or(|first| first != "--") {
        return;
    }
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
        let is_path = arg.get_value_names().is_some_and(|names| names.iter().any(|name| name == "PATH"));
        if is_path {
            return arg;
        }
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
    beginning_with(typed, all_stores())
}

/// The tags of all stores.
fn tags(typed: &OsStr) -> Vec<CompletionCandidate> {
    let tags = ask(|client| async move {
        let mut tags = Vec::new();
        for store in stores::every(&client).await? {
            tags.extend(tags_of(&client, &store).await?);
        }
        Ok(tags)
    });
    let mut tags = tags.unwrap_or_default();
    tags.sort_unstable();
    tags.dedup();
    beginning_with(typed, tags)
}

/// The versions of the only store that can be meant, or else the newest of each.
fn versions(typed: &OsStr) -> Vec<CompletionCandidate> {
    let text = typed.to_string_lossy();
    let mut stores = all_stores();
    match text.split_once('@') {
        Some((store, _)) => stores.retain(|known| known == store),
        None => stores.retain(|known| known.starts_with(&*text)),
    }
    let latest = |store: &String| CompletionCandidate::new(format!("{store}@latest"));
    let mut all: Vec<CompletionCandidate> = stores.iter().map(latest).collect();
    if let [store] = stores.as_slice() {
        let name = store.clone();
        let tags = ask(|client| async move { tags_of(&client, &name).await }).unwrap_or_default();
        all.extend(tags.iter().map(|tag| CompletionCandidate::new(format!("{store}@{tag}"))));
        let newest =
            Request::get(&["versions"]).query("store", Some(store)).query("limit", Some(MOST_VERSIONS));
        let listed: Option<VersionList> = ask(|client| async move { client.ask(&newest).await });
        all.extend(listed.into_iter().flat_map(|list| list.versions).map(|version| offered(&version)));
    }
    all.retain(|candidate| is_offered(&candidate.get_value().to_string_lossy(), &text));
    all
}

fn all_stores() -> Vec<String> {
    ask(|client| async move { stores::every(&client).await }).unwrap_or_default()
}

/// A version with what tells it from the others, which most shells show beside it.
fn offered(version: &Version) -> CompletionCandidate {
    let label = version.publications.first().and_then(|publication| publication.label.as_deref()).map(clean);
    CompletionCandidate::new(&version.id).help(label.map(Into::into))
}

async fn tags_of(client: &Client, store: &str) -> Result<Vec<String>, Problem> {
    let list: TagList = client.ask(&Request::get(&["stores", store, "tags"])).await?;
    Ok(list.tags.into_iter().map(|tag| tag.name).collect())
}

fn beginning_with(typed: &OsStr, names: Vec<String>) -> Vec<CompletionCandidate> {
    let typed = typed.to_string_lossy();
    names.into_iter().filter(|name| is_offered(name, &typed)).map(CompletionCandidate::new).collect()
}

/// Whether a name continues what is typed. Shells write it as it is onto the line that they run, so one with other characters than names have is
/// not offered: whatever answered is no daemon of asat.
fn is_offered(name: &str, typed: &str) -> bool {
    name.starts_with(typed) && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.@".contains(c))
}

/// Asks the daemon that the environment names. If that fails or takes too long, nothing is offered: an error would end up in what is being typed.
fn ask<T, F: Future<Output = Result<T, Problem>>>(asking: impl FnOnce(Client) -> F) -> Option<T> {
    let globals = Globals { server: None, token_file: None, json: false, timeout: Some(PATIENCE) };
    let token = environment::token_file(&globals).as_deref().map(token::read).transpose().ok()?;
    let client = Client::new(&environment::server(&globals).ok()?, token, globals.timeout);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    let answered =
        runtime.block_on(async { tokio::time::timeout(PATIENCE, asking(client)).await.ok()?.ok() });
    // A look-up of a host's name cannot be cancelled, and nobody waits for it any more.
    runtime.shutdown_background();
    answered
}
