//! `hexad token`, and the tokens of this program.

use std::io::Write;

use anyhow::{Context, Result};
use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use hexad::cli::SecretValues;
use hexad::random;
use serde::Deserialize;
use serde_json::json;

use crate::server::Server;

/// The environment variable with a token that the server accepts before any record exists.
pub const BOOTSTRAP_TOKEN: &str = "SPIN_VARIABLE_BOOTSTRAP_ADMIN_TOKEN";

/// Random bytes of a token.
const TOKEN_BYTES: usize = 16;

/// The scopes that the server knows. A contract test compares them with its own.
const SCOPES: [&str; 16] = [
    "api",
    "read_api",
    "read_user",
    "create_runner",
    "manage_runner",
    "k8s_proxy",
    "self_rotate",
    "read_repository",
    "write_repository",
    "read_registry",
    "write_registry",
    "read_virtual_registry",
    "write_virtual_registry",
    "read_service_ping",
    "sudo",
    "admin_mode",
];

/// A random token in the form of a personal access token.
pub fn random() -> Result<String> {
    let token = random::token(TOKEN_BYTES).context("the system has no randomness")?;
    Ok(format!("glpat-{token}"))
}

/// The bootstrap token in `secrets`, or a random one that only this process knows.
pub fn bootstrap(secrets: &SecretValues) -> Result<String> {
    secrets.get(BOOTSTRAP_TOKEN).filter(|token| !token.is_empty()).map_or_else(random, Ok)
}

/// Make tokens.
#[derive(Args)]
pub struct Token {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Create(Create),
}

/// Make a token for a user and print it; it is not shown again.
#[derive(Args)]
struct Create {
    /// The user, by name or id.
    #[arg(long, value_name = "NAME")]
    user: String,

    /// A scope of the token; can be repeated.
    #[arg(long = "scope", value_name = "SCOPE", required = true, value_parser = PossibleValuesParser::new(SCOPES))]
    scopes: Vec<String>,

    /// The name of the token.
    #[arg(long, value_name = "TEXT", default_value = "hexad")]
    name: String,

    /// The day on which it stops working, as YYYY-MM-DD [default: after the days in the setting
    /// `default_personal_access_token_lifetime`, 365 unless it is changed; 0 is never].
    #[arg(long, value_name = "DATE")]
    expires: Option<String>,

    #[command(flatten)]
    server: Server,
}

#[derive(Deserialize)]
struct Created {
    token: String,
    expires_at: Option<String>,
}

impl Token {
    pub fn run(self) -> Result<()> {
        let Command::Create(create) = self.command;
        let new_token = json!({
            "username": create.user,
            "scopes": create.scopes,
            "name": create.name,
            "expires_at": create.expires,
        });
        let created: Created = create.server.post_json("personal_access_tokens", &new_token)?;
        let end = created.expires_at.map_or("does not expire".to_owned(), |day| format!("expires on {day}"));
        // Standard output has only the token, for programs.
        let _ = writeln!(std::io::stderr(), "hexad: the token {end}");
        writeln!(std::io::stdout(), "{}", created.token)
            .context("a token was made, but it cannot be written; revoke it and make another one")
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        _token: Token,
    }

    #[test]
    fn the_error_of_an_unknown_scope_lists_all_scopes() {
        let arguments = ["hexad", "create", "--user", "mia", "--scope"];
        let parse = |scope| Program::try_parse_from(arguments.into_iter().chain([scope]));
        let error = parse("zzz").err().unwrap().to_string();
        assert!(error.contains("'zzz'") && SCOPES.iter().all(|scope| error.contains(scope)), "{error}");
        assert!(parse("read_api").is_ok());
    }

    #[test]
    fn random_tokens_look_like_personal_access_tokens() {
        let token = random().unwrap();
        assert!(token.starts_with("glpat-") && token.len() == 38, "{token}");
    }
}
