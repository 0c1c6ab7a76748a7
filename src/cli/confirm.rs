//! What is asked before something is done that a person should have meant.

use std::io::{self, IsTerminal as _, Write as _};

use asat_core::{Code, Problem};

use super::signals::Waiting;

/// Asks the person at the terminal. `change` says what is about to be done, and `refusal` that it was not.
///
/// # Errors
/// [`Code::Invalid`] if nobody can be asked, or the answer is not yes.
pub(super) async fn confirm(question: &str, change: &str, refusal: &str) -> Result<(), Problem> {
    let refused = |detail: String| Problem::new(Code::Invalid, detail, "add --yes if you mean it");
    if !io::stdin().is_terminal() {
        return Err(refused(format!("{change}, and there is no terminal to ask on")));
    }
    {
        let _waiting = Waiting::begin();
        // Nobody is there to read the question where it cannot be printed; then no answer comes either.
        let _ = write!(io::stderr(), "{question} [y/N] ");
    }
    let answer = tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        io::stdin().read_line(&mut line).map(|_| line)
    });
    match answer.await {
        Ok(Ok(line)) if ["y", "yes"].contains(&line.trim().to_lowercase().as_str()) => Ok(()),
        _ => Err(refused(refusal.to_owned())),
    }
}
