//! `completions`, `man` and `configuration`: the command line, told to a shell and to a reader, and what can be configured.

use std::fs;
use std::io;
use std::path::Path;

use asat_core::{Code, Problem};
use clap::CommandFactory;
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

use super::args::Cli;
use super::output::{Failure, Output};
use super::{completing, exit, when};
use crate::config::reference;

pub(super) fn completions(shell: Shell, output: &Output) -> Result<(), Failure> {
    output.raw(&completing::script(shell)?)
}

/// Prints a configuration with every key, or the same as a document.
pub(super) fn configuration(as_document: bool, output: &Output) -> Result<(), Failure> {
    let text = if as_document { reference::markdown() } else { reference::SAMPLE.to_owned() };
    output.raw(text.as_bytes())
}

/// The command line without the commands that are hidden, which completion would offer all the same.
pub(super) fn told() -> clap::Command {
    let whole = Cli::command();
    let commands = whole.get_subcommands().filter(|command| !command.is_hide_set()).cloned();
    clap::Command::new("asat")
        .version(env!("CARGO_PKG_VERSION"))
        .args(whole.get_arguments().cloned())
        .subcommands(commands)
}

pub(super) fn manual(folder: &Path, output: &Output) -> Result<(), Failure> {
    let written = pages().and_then(|pages| {
        fs::create_dir_all(folder)?;
        for (name, page) in &pages {
            fs::write(folder.join(name), page)?;
        }
        Ok(pages.len())
    });
    let count = written.map_err(|error| {
        let detail = format!("cannot write the manual pages to {}: {error}", folder.display());
        Problem::new(Code::Internal, detail, "name a folder that you may write to")
    })?;
    output.remark(&format!("{count} pages written to {}", folder.display()));
    Ok(())
}

/// Every page under its file name: one for the program, one for each command, and one for each command of these.
fn pages() -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut program = Cli::command().disable_help_subcommand(true);
    program.build();
    with_commands(program).into_iter().map(page).collect()
}

pub(super) fn with_commands(command: clap::Command) -> Vec<clap::Command> {
    let told =
        command.get_subcommands().filter(|command| !command.is_hide_set() && command.get_name() != "help");
    let below: Vec<clap::Command> = told.cloned().flat_map(with_commands).collect();
    std::iter::once(command).chain(below).collect()
}

/// A page with its parts in the usual order, and the exit codes in a section of their own.
fn page(command: clap::Command) -> io::Result<(String, Vec<u8>)> {
    let has_commands = command.has_subcommands();
    // The help of the program ends with the exit codes, which have a section of their own here.
    let notes = match command.get_name() {
        "asat" => Some(when::GRAMMAR.to_owned()),
        _ => command.get_after_help().map(ToString::to_string),
    };
    let man =
        Man::new(command.after_help("")).manual("asat").source(concat!("asat ", env!("CARGO_PKG_VERSION")));
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if has_commands {
        man.render_subcommands_section(&mut page)?;
    }
    if let Some(notes) = notes {
        section("NOTES", &notes).to_writer(&mut page)?;
    }
    exit_status().to_writer(&mut page)?;
    Ok((man.get_filename(), page))
}

/// A section of paragraphs; lines that are set in stay as they are.
fn section(title: &str, text: &str) -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", [title]);
    for line in text.lines().filter(|line| !line.is_empty()) {
        if line.starts_with(' ') {
            roff.control("nf", []).text([roman(line)]).control("fi", []);
        } else {
            roff.control("PP", []).text([roman(line)]);
        }
    }
    roff
}

fn exit_status() -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", ["EXIT STATUS"]);
    for (code, meaning) in exit::MEANINGS {
        roff.control("TP", ["5"]).text([roman(code.to_string())]).text([roman(meaning)]);
    }
    roff
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nobody types what the daemon starts for itself.
    #[test]
    fn hidden_commands_are_named_nowhere() {
        let hidden: Vec<String> = Cli::command()
            .get_subcommands()
            .filter(|command| command.is_hide_set())
            .map(|command| command.get_name().to_owned())
            .collect();
        assert_eq!(hidden, ["brake", "store-worker", "query-worker"]);
        let mut texts = vec![Cli::command().render_long_help().to_string()];
        texts.extend(pages().unwrap().into_iter().map(|(name, page)| name + &String::from_utf8_lossy(&page)));
        texts.push(super::told().render_long_help().to_string());
        for text in &texts {
            assert!(
                !text.contains("brake") && !text.contains("store-worker") && text.contains("publish"),
                "{text}"
            );
        }
    }

    #[test]
    fn every_command_has_a_page() {
        let pages = pages().unwrap();
        let names: Vec<&str> = pages.iter().map(|(name, _)| name.as_str()).collect();
        for name in ["asat.1", "asat-publish.1", "asat-as-of.1", "asat-verify.1"] {
            assert!(names.contains(&name), "{names:?}");
        }
        let page = |wanted: &str| {
            let (_, page) = pages.iter().find(|(name, _)| name == wanted).unwrap();
            String::from_utf8_lossy(page).into_owned()
        };
        assert!(page("asat.1").contains("month\\-end") && page("asat-exec.1").contains("ASAT_PATH"));
        for (name, page) in &pages {
            let page = String::from_utf8_lossy(page);
            assert!(page.contains(".SH \"EXIT STATUS\"") && page.contains("no room"), "{name}\n{page}");
            assert!(page.contains("token\\-file"), "{name} says nothing of the options for all\n{page}");
        }
    }
}
