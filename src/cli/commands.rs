//! `man --markdown`: every command with what it takes, as a document.
//!
//! It is made of the same definitions as the help and the manual pages, so it says what the program does.

use std::fmt::Write as _;

use clap::{Arg, Command, CommandFactory as _};

use super::args::Cli;
use super::{document, exit};

/// The document of all commands, as Markdown.
pub(super) fn markdown() -> String {
    let mut program = Cli::command().disable_help_subcommand(true);
    program.build();
    let commands = document::with_commands(program);
    let mut text = String::from(
        "# Commands\n\nThis is what `asat man --markdown` prints. `asat COMMAND --help` says the same on a terminal, and `asat man --dir FOLDER` \
         writes manual pages.\n",
    );
    for command in &commands {
        write_command(&mut text, command);
    }
    text.push_str("\n## Exit codes\n\n| code | means |\n|---|---|\n");
    for (code, meaning) in exit::MEANINGS {
        let _ = writeln!(text, "| {code} | {} |", cell(meaning));
    }
    text
}

fn write_command(text: &mut String, command: &Command) {
    let is_program = command.get_name() == "asat";
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
    let title = if is_program { "Options of all commands".to_owned() } else { format!("`{name}`") };
    let _ = write!(text, "\n## {title}\n\n");
    let about = command.get_long_about().or_else(|| command.get_about());
    if let Some(about) = about.filter(|_| !is_program) {
        let _ = write!(text, "{}.\n\n", about.to_string().trim_end_matches('.'));
    }
    let usage = command.clone().render_usage().to_string();
    let _ = write!(text, "```text\n{}\n```\n", usage.trim_start_matches("Usage: ").trim());
    let is_told = |arg: &&Arg| {
        !arg.is_hide_set()
            && (is_program || !arg.is_global_set())
            && !matches!(arg.get_id().as_str(), "help" | "version")
    };
    let told: Vec<&Arg> = command.get_arguments().filter(is_told).collect();
    if !told.is_empty() {
        text.push_str("\n| argument | what it does |\n|---|---|\n");
    }
    for arg in told {
        let _ = writeln!(text, "| `{}` | {} |", cell(&spelled(arg)), cell(&help(arg)));
    }
}

/// An argument as it is typed, with its short form first.
fn spelled(arg: &Arg) -> String {
    let short = arg.get_short().map(|short| format!("-{short}, ")).unwrap_or_default();
    format!("{short}{arg}")
}

/// What an argument does, the values that it takes, and its default.
fn help(arg: &Arg) -> String {
    let mut help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let takes_values = arg.get_action().takes_values();
    let values: Vec<String> = match takes_values {
        true => arg
            .get_possible_values()
            .iter()
            .filter(|value| !value.is_hide_set())
            .map(|value| value.get_name().to_owned())
            .collect(),
        false => Vec::new(),
    };
    if !values.is_empty() {
        let _ = write!(help, " ({})", values.join(", "));
    }
    let defaults: Vec<_> = arg.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    if takes_values && !defaults.is_empty() && !arg.is_hide_default_value_set() {
        let _ = write!(help, "; default: `{}`", defaults.join(" "));
    }
    help
}

/// A text as one cell of a table.
fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_that_is_not_hidden_is_there_with_what_it_takes() {
        let text = markdown();
        for line in [
            "## `asat publish`\n",
            "## `asat token new`\n",
            "| `-s, --server <ADDRESS>` |",
            "| `-l, --label <LABEL>` |",
            "default: `1h`",
            "## Exit codes\n",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
        assert!(!text.contains("store-worker") && !text.contains("--help` |"), "{text}");
    }
}
