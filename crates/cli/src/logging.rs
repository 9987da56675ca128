//! `-v` and `LEGATO_LOG`: what is said beside errors.

use std::io::Write;

use env_logger::Env;

/// Prints messages of this verbosity to standard error: 0 nothing, 1 what a user may want to know, 2 each step.
/// `LEGATO_LOG` says it for each module of the program, as `RUST_LOG` does in others, and takes precedence.
pub fn start(verbosity: u8) {
    let filter = match verbosity {
        0 => "off",
        1 => "legato=info",
        2 => "legato=debug",
        _ => "trace",
    };
    env_logger::Builder::from_env(Env::new().filter_or("LEGATO_LOG", filter))
        .format(|out, record| writeln!(out, "legato: {}: {}", record.level().as_str().to_lowercase(), record.args()))
        .init();
}
