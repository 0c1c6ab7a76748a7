//! The command line: arguments in, text or JSON out, and an exit code by the kind of error.
//!
//! Everything but `serve` and what concerns the program itself is a client of the daemon's HTTP face. A command
//! has its own file or shares one with its kin; what they all need stands beside them: the client, the
//! printer, the bar, and the words for times and sizes.

mod archive;
mod args;
mod audit;
mod brake;
mod capacity;
mod clock;
mod commands;
mod completing;
mod confirm;
mod diff;
mod doctor;
mod document;
mod environment;
mod events;
mod exec;
mod exit;
mod export;
mod find;
mod history;
mod init;
mod keep;
mod leases;
mod lines;
mod marks;
mod mistakes;
mod new_token;
mod open;
mod output;
mod pager;
mod progress;
mod publish;
mod query_worker;
mod remote;
mod restore;
mod retention;
mod retire;
mod sidecar;
mod signals;
mod sql;
mod status;
mod store_worker;
mod stores;
mod table;
mod tag;
mod token;
mod typed;
mod versions;
mod when;
mod why;

use std::io::Write as _;
use std::process::ExitCode;

use asat_core::{Code, Problem, StoreName};
use clap::Parser;

use args::{
    ArchiveArgs, ArchiveCommand, BackupArgs, Cli, Command, Globals, ImportArgs, ManArgs, RebuildArgs,
    RemoteArgs, RemoteCommand, ServeArgs, TokenArgs, TokenCommand, UpgradeArgs,
};
pub use exit::exit_code;
use output::{Failure, Output};
use progress::Bars;
use signals::Signals;

use crate::config::Config;
use crate::text;
use asat_client::Client;
use asat_wire::{BackedUp, Imported, Rebuilt};

/// Runs the command that the arguments name.
#[must_use]
pub fn run() -> ExitCode {
    completing::answer();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            say(&error);
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(exit::USAGE));
        }
    };
    let output = Output::new(cli.globals.json);
    match dispatch(&cli, &output) {
        Ok(()) | Err(Failure::OutputClosed) => ExitCode::SUCCESS,
        Err(Failure::Problem(problem)) => {
            output.problem(&problem);
            let code = exit_code(problem.code);
            // For a command that says so if versions differ, that is no error.
            let is_taken = code == exit::DIFFER && matches!(cli.command, Command::Diff(_));
            ExitCode::from(if is_taken { exit::USAGE } else { code })
        }
        Err(Failure::DamageFound) => ExitCode::from(exit_code(Code::Damaged)),
        Err(Failure::Differ) => ExitCode::from(exit::DIFFER),
        Err(Failure::AlarmOn) => ExitCode::from(exit::ALARM),
        Err(Failure::Exit(code)) => ExitCode::from(code),
        Err(Failure::Interrupted(signal)) => ExitCode::from(exit::INTERRUPTED.saturating_add(signal)),
    }
}

/// Says what the parser of the arguments says: help and version, too.
fn say(error: &clap::Error) {
    let hint = mistakes::hint(error);
    if error.use_stderr() && mistakes::wants_json(std::env::args_os()) {
        return Output::new(true).problem(&mistakes::problem(error, hint));
    }
    if error.use_stderr() {
        // A mistake begins as every other problem does.
        let told = mistakes::without_tips(&error.render().ansi().to_string(), hint.is_some());
        let text = told.replacen("error:", "asat:", 1);
        // Nobody is left to be told if even this cannot be printed.
        let _ = anstream::stderr().write_all(text.as_bytes());
    } else {
        let _ = error.print();
    }
    if let Some(hint) = hint {
        Output::new(false).beside(&format!("hint: {}", text::clean(&hint)));
    }
}

/// Does what needs no daemon here, and hands the rest to the client.
fn dispatch(cli: &Cli, output: &Output) -> Result<(), Failure> {
    match &cli.command {
        Command::Serve(args) if args.check => check(args, output),
        Command::Serve(args) => Ok(crate::daemon::main(&args.config.file)?),
        Command::Brake(args) => brake::brake(args, output),
        Command::StoreWorker(args) => store_worker::work(args),
        Command::QueryWorker => query_worker::work(),
        Command::Import(args) => import(args, output),
        Command::Backup(args) => backup(args, output),
        Command::RebuildCatalogue(args) => rebuild(args, output),
        Command::Archive(ArchiveArgs { command: ArchiveCommand::Upgrade(args) }) => upgrade(args, output),
        Command::Remote(RemoteArgs { command }) if !asks(command) => remote::work(command, output),
        Command::Init(args) => init::init(args, output),
        Command::Token(TokenArgs { command: TokenCommand::New(args) }) => new_token::make(args, output),
        Command::Doctor(args) => doctor::doctor(args, output),
        Command::Configuration(args) => document::configuration(args.markdown, output),
        Command::Completions(args) => document::completions(args.shell, output),
        Command::Man(ManArgs { dir: Some(dir), .. }) => document::manual(dir, output),
        Command::Man(_) => output.raw(commands::markdown().as_bytes()),
        command => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.map_err(|e| Problem::new(Code::Internal, e.to_string(), ""))?;
            let mut signals = Signals::listen()?;
            let result = runtime.block_on(ask(command, &cli.globals, output, &mut signals));
            // A look-up of a host's name cannot be cancelled, and nobody waits for it any more.
            runtime.shutdown_background();
            result
        }
    }
}

/// Whether a command about the bucket asks the daemon, and not the bucket.
fn asks(command: &RemoteCommand) -> bool {
    matches!(
        command,
        RemoteCommand::Status { .. } | RemoteCommand::Push { .. } | RemoteCommand::TakeOver { .. }
    )
}

/// Runs a command that talks to the daemon. What holds a lease gives it back if a signal ends the command.
async fn ask(
    command: &Command,
    globals: &Globals,
    output: &Output,
    signals: &mut Signals,
) -> Result<(), Failure> {
    let token = environment::token_file(globals).as_deref().map(token::read).transpose()?;
    let client = Client::new(&environment::server(globals)?, token, globals.timeout);
    let bars = Bars::new(&client, globals.json);
    match command {
        Command::Exec(args) => exec::exec(args, &client, &bars, output, signals).await,
        Command::Open(args) => open::open(args, &client, &bars, output, signals).await,
        command => signals.end(ask_without_lease(command, &client, &bars, output)).await,
    }
}

/// Runs a command that cleans up behind itself if it is dropped.
async fn ask_without_lease(
    command: &Command,
    client: &Client,
    bars: &Bars<'_>,
    output: &Output,
) -> Result<(), Failure> {
    match command {
        Command::Publish(args) => publish::publish(args, client, bars, output).await,
        Command::Ls(args) => versions::ls(args, client, output).await,
        Command::Show(args) => versions::show(args, client, output).await,
        Command::AsOf(args) => versions::as_of(args, client, output).await,
        Command::Diff(args) => diff::diff(args, client, bars, output).await,
        Command::History(args) => history::history(args, client, bars, output).await,
        Command::Sql(args) => sql::sql(args, client, output).await,
        Command::Close(args) => open::close(args, client, output).await,
        Command::Renew(args) => open::renew(args, client, output).await,
        Command::Leases(args) => leases::leases(args, client, output).await,
        Command::Pin(args) => keep::pin(args, client, output).await,
        Command::Unpin(args) => keep::unpin(args, client, output).await,
        Command::Tag(args) => tag::tag(args, client, output).await,
        Command::Retire(args) => retire::retire(args, client, output).await,
        Command::Unretire(args) => retire::unretire(args, client, output).await,
        Command::Restore(args) => restore::restore(args, client, bars, output).await,
        Command::Status => status::status(client, output).await,
        Command::Stores => stores::stores(client, output).await,
        Command::Archive(ArchiveArgs { command: ArchiveCommand::Stats { store } }) => {
            archive::archive(store.as_ref(), client, bars, output).await
        }
        Command::Remote(RemoteArgs { command }) => remote::ask(command, client, output).await,
        Command::Retention(args) => retention::retention(args, client, bars, output).await,
        Command::Verify(args) => stores::verify(args, client, bars, output).await,
        Command::Export(args) => export::export(args, client, bars, output).await,
        Command::Capacity(args) => capacity::capacity(args, client, output).await,
        Command::Clock(args) => clock::clock(args, client, output).await,
        Command::Acknowledge(args) => capacity::acknowledge(args, client, output).await,
        Command::Why(args) => why::why(args, client, output).await,
        Command::Audit(args) => audit::audit(args, client, output).await,
        Command::Events => events::events(client, output).await,
        Command::Exec(_)
        | Command::Open(_)
        | Command::Serve(_)
        | Command::Import(_)
        | Command::Backup(_)
        | Command::RebuildCatalogue(_)
        | Command::Archive(ArchiveArgs { command: ArchiveCommand::Upgrade(_) })
        | Command::Brake(_)
        | Command::StoreWorker(_)
        | Command::QueryWorker
        | Command::Init(_)
        | Command::Token(_)
        | Command::Doctor(_)
        | Command::Configuration(_)
        | Command::Completions(_)
        | Command::Man(_) => {
            Err(Problem::new(Code::Internal, "this command is run in another way", "").into())
        }
    }
}

/// Reads the configuration as the daemon would.
fn check(args: &ServeArgs, output: &Output) -> Result<(), Failure> {
    let config = Config::load(&args.config.file)?;
    if config.stores.is_empty() && config.follow.is_none() {
        output.remark("there is no [[store]] and no [follow], so nothing can be published or read");
    }
    if config.listen.tcp.is_some_and(|address| !address.ip().to_canonical().is_loopback()) {
        output.remark("listen.tcp is open to other machines, and tokens and data are not encrypted: put a proxy with TLS before it");
    }
    let stores: Vec<StoreName> = config.stores.into_keys().collect();
    output.answer(&stores, |stores| {
        let stores = text::counted(u64::try_from(stores.len()).unwrap_or(u64::MAX), "store");
        format!("{} is sound, and has {stores}", args.config.file.display())
    })
}

/// Takes exported versions in, in the place of the daemon.
fn import(args: &ImportArgs, output: &Output) -> Result<(), Failure> {
    let imported = crate::daemon::import(&args.config.file, &args.folder, &|text| output.remark(text))?;
    output.done(&imported, |Imported { store, imported, recovered, there_already }| {
        let [new, back, known] = [imported, recovered, there_already]
            .map(|versions| u64::try_from(versions.len()).unwrap_or(u64::MAX));
        let back = if back == 0 { String::new() } else { format!(", {back} that were lost put back") };
        format!(
            "{} imported into {}{back}, {known} there already",
            text::counted(new, "version"),
            text::clean(store)
        )
    })
}

/// Copies the catalogue.
fn backup(args: &BackupArgs, output: &Output) -> Result<(), Failure> {
    let copy = crate::daemon::back_up(&args.config.file, &args.to)?;
    output.done(&copy, |BackedUp { path, audit_head, .. }| {
        format!("the catalogue is copied to {path}; its audit trail ends at {audit_head}")
    })
}

/// Makes the catalogue anew, in the place of the daemon.
fn rebuild(args: &RebuildArgs, output: &Output) -> Result<(), Failure> {
    let RebuildArgs { config, replace, installation } = args;
    let rebuilt =
        crate::daemon::rebuild(&config.file, *replace, installation.as_deref(), &|text| output.remark(text))?;
    output.done(&rebuilt, |Rebuilt { versions, damaged, kept, .. }| {
        let versions = text::counted(u64::try_from(versions.len()).unwrap_or(u64::MAX), "version");
        let lost = match damaged.as_slice() {
            [] => String::new(),
            damaged => format!("; lost, since the archives cannot give their pages: {}", damaged.join(", ")),
        };
        let kept =
            kept.as_ref().map_or_else(String::new, |kept| format!("; what was there is kept as {kept}"));
        format!("the catalogue is made anew, with {versions}{lost}{kept}")
    })?;
    if rebuilt.damaged.is_empty() { Ok(()) } else { Err(Failure::DamageFound) }
}

/// Takes archives of an older format over, in the place of the daemon.
fn upgrade(args: &UpgradeArgs, output: &Output) -> Result<(), Failure> {
    let UpgradeArgs { config, store, leave_damaged } = args;
    let upgraded =
        crate::daemon::upgrade(&config.file, store.as_ref(), *leave_damaged, &|text| output.remark(text))?;
    output.done(&upgraded, |upgraded| archive::upgraded(upgraded))?;
    let is_whole = upgraded.iter().all(|upgraded| upgraded.left_out.is_empty());
    if is_whole { Ok(()) } else { Err(Failure::DamageFound) }
}
