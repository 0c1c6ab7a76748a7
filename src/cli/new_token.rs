//! `token new`: a token is made and shown once; what stays is its SHA-256.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use asat_core::{Code, Problem, check_line};
use asat_host::random::secret as secret_bytes;
use asat_wire::hex;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::args::NewTokenArgs;
use super::open::user_at_host;
use super::output::{Failure, Output};
use crate::config::check_tokens;
use crate::secret;
use crate::text::clean;

/// More than any file of tokens holds.
const MAX_TOKENS: u64 = 1 << 20;

/// A token that was made.
#[derive(Serialize)]
struct Made {
    name: String,
    role: String,
    /// The token, unless it is in a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<String>,
    /// The file that it is in.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    sha256: String,
    /// What the configuration needs.
    section: String,
    /// The file of tokens that has it already.
    #[serde(skip_serializing_if = "Option::is_none")]
    added_to: Option<String>,
}

pub(super) fn make(args: &NewTokenArgs, output: &Output) -> Result<(), Failure> {
    let name = args.name.clone().unwrap_or_else(user_at_host);
    check_line("the token's name", Some(&name), 100)?;
    let today = Timestamp::now().to_zoned(TimeZone::UTC).date();
    if let Some(day) = args.expires.filter(|day| *day < today) {
        let detail = format!("the token would expire on {day}, which is past");
        return Err(Problem::new(
            Code::Invalid,
            detail,
            "choose a day from today on with --expires, or leave it out",
        )
        .into());
    }
    let token = random()?;
    let sha256 = hex(&Sha256::digest(&token));
    let section = section(&name, args, &sha256)?;
    // What may be refused is looked at before anything is written.
    let tokens = args.add.as_deref().map(|file| open_tokens(file, &name, &section)).transpose()?;
    if let Some(file) = &args.to {
        write_token(file, &token)?;
    }
    if let Some((mut file, path)) = tokens.zip(args.add.as_deref()) {
        file.write_all(format!("\n{section}").as_bytes())
            .and_then(|()| file.sync_all())
            .map_err(|error| cannot("add the token to", path, &error))?;
    }
    let shown = |path: &Path| path.display().to_string();
    let made = Made {
        name,
        role: args.role.clone(),
        token: args.to.is_none().then_some(token),
        file: args.to.as_deref().map(shown),
        sha256,
        section,
        added_to: args.add.as_deref().map(shown),
    };
    show(&made, output).map_err(|failure| match (failure, &made.token) {
        (Failure::Problem(problem), Some(_)) => lost(problem, &made).into(),
        (Failure::OutputClosed, Some(_)) => {
            lost(Problem::new(Code::Internal, "nobody reads the output", ""), &made).into()
        }
        (failure, _) => failure,
    })
}

/// A token that was not shown is of no use to anybody.
fn lost(problem: Problem, made: &Made) -> Problem {
    let remove = made.added_to.as_ref().map_or_else(String::new, |file| {
        format!("remove the section of the token {:?} from {file}, and ", made.name)
    });
    let detail = format!("the token is lost: {}", problem.detail);
    Problem { detail, hint: format!("{remove}make another one, with --to FILE"), ..problem }
}

/// Prints the token; if it goes to a file or a program, alone, and the rest beside it.
fn show(made: &Made, output: &Output) -> Result<(), Failure> {
    let rest = what_to_do(made);
    match &made.token {
        Some(token) if !io::stdout().is_terminal() && !output.is_json() => {
            output.beside(&rest);
            output.print(made, |_| token.clone())
        }
        Some(token) => output.print(made, |_| format!("{token}\n\n{rest}")),
        None => output.answer(made, |_| rest),
    }
}

fn what_to_do(made: &Made) -> String {
    let mut text = match &made.file {
        Some(file) => {
            format!("The token is in {}: asat --token-file {0} shows it to the daemon.\n", clean(file))
        }
        None => "The token is shown once: keep it in a file that only its user may read.\n".to_owned(),
    };
    let _ = match &made.added_to {
        Some(file) => writeln!(text, "Its SHA-256 is in {}.", clean(file)),
        None => writeln!(
            text,
            "Put this into the configuration, or into the file that listen.tokens names there:\n\n{}",
            made.section
        ),
    };
    text.push_str(
        "It takes effect when the daemon reads its configuration again: systemctl reload asat, or kill -HUP PID",
    );
    text
}

/// The token: hexadecimal digits, so that nothing has to be quoted.
fn random() -> Result<String, Problem> {
    let bytes = secret_bytes().map_err(|error| {
        Problem::new(Code::Internal, format!("the kernel gives no random bytes: {error}"), "")
    })?;
    Ok(hex(&bytes))
}

/// What the configuration needs to know of a token.
fn section(name: &str, args: &NewTokenArgs, sha256: &str) -> Result<String, Problem> {
    // A text in JSON is one in TOML.
    let name = serde_json::to_string(name).map_err(|error| {
        Problem::new(Code::Internal, format!("cannot write the token's name: {error}"), "")
    })?;
    let mut text = format!("[[token]]\nname = {name}\nrole = \"{}\"\nsha256 = \"{sha256}\"\n", args.role);
    if let Some(day) = args.expires {
        let _ = writeln!(text, "expires = \"{day}\"");
    }
    Ok(text)
}

/// Opens a file of tokens at its end, once it is known that the new one fits.
fn open_tokens(path: &Path, name: &str, section: &str) -> Result<File, Problem> {
    let text = secret::read("the file of tokens", path, MAX_TOKENS).map_err(|problem| {
        if path.exists() {
            return problem;
        }
        let hint = format!("make it first, for the service: install -m 640 -o root -g asat /dev/null {0}; for a daemon of your own: install -m 600 /dev/null {0}", path.display());
        Problem { hint, ..problem }
    })?;
    let names = check_tokens(&format!("{text}\n{section}")).map_err(|problem| Problem {
        detail: format!("{}: {}", path.display(), problem.detail),
        ..problem
    })?;
    if names.iter().filter(|other| *other == name).count() > 1 {
        let detail = format!("{} has a token named {name:?} already", path.display());
        return Err(Problem::new(Code::Invalid, detail, "choose another name with --name"));
    }
    OpenOptions::new().append(true).open(path).map_err(|error| cannot("add the token to", path, &error))
}

fn write_token(path: &Path, token: &str) -> Result<(), Problem> {
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let written = made.and_then(|mut file| {
        file.write_all(format!("{token}\n").as_bytes())?;
        file.sync_all()
    });
    written.map_err(|error| cannot("write the token to", path, &error))
}

fn cannot(what: &str, path: &Path, error: &io::Error) -> Problem {
    let hint = match error.kind() {
        io::ErrorKind::AlreadyExists => "name a new file: a token that is in use is not replaced",
        _ => "name a file that you may write",
    };
    Problem::new(Code::Invalid, format!("cannot {what} {}: {error}", path.display()), hint)
}
