//! mainspring beside tokio, smol and monoio: builds and runs `bench/peers`, with the arguments given here.
//!
//! The measuring program is a crate outside of the workspace. So the other runtimes are not dependencies of mainspring,
//! and testing it does not build them.

use std::path::Path;
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let arguments = std::env::args_os().skip(1).filter(|argument| argument != "--bench");
    let status = Command::new(cargo)
        .args(["run", "--quiet", "--release"])
        .arg("--manifest-path")
        .arg(root.join("bench/peers/Cargo.toml"))
        .arg("--target-dir")
        .arg(root.join("target/peers"))
        .arg("--")
        .args(arguments)
        .status();
    match status {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("peers: cargo cannot be started: {error}");
            ExitCode::FAILURE
        }
    }
}
