//! `hither cp --cluster`: runs the copy with the Python package, which uses Dask.

use crate::arguments::{Copy, GlobalArgs};
use crate::environment::variable;
use crate::exit::CommandError;
use hither::ThirdParty;
use serde_json::json;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// The variable that names the Python with the package; by default the first one in `PATH`.
const PYTHON: &str = "HITHER_PYTHON";

/// Runs the package's command, or reports that this Python has no package.
const PROGRAM: &str = "\
import importlib.util, sys
if importlib.util.find_spec('hither') is None:
    sys.exit(f'hither: --cluster needs the Python package hither, which {sys.executable} does not '
             'have: install it there from a checkout (pip install .[cluster]), or name another '
             'Python in HITHER_PYTHON')
from hither.cluster.__main__ import main
sys.exit(main(sys.argv[1]))
";

/// The options of a client that the nodes get. They take all others from their own configuration.
const PASSED: [&str; 2] = ["max-connections", "source-address"];

/// Replaces this process with the command of the Python package; returns the error if that fails.
pub(crate) fn run(request: &Copy, common: &GlobalArgs) -> CommandError {
    let [source, destination] = &*request.names else {
        return CommandError::usage("a cluster copies one directory: name it and its destination");
    };
    if let Some(flag) = common.client.given.iter().find(|flag| !PASSED.contains(flag)) {
        let what = format!(
            "--{flag} does not reach the nodes of a cluster: set it in the configuration of each node"
        );
        return CommandError::usage(what);
    }
    let python = variable(PYTHON).unwrap_or_else(|| "python3".to_owned());
    let client = &common.client.options;
    let source_addresses: Vec<_> =
        client.source_addresses.iter().map(ToString::to_string).collect();
    let options = json!({
        "cluster": request.cluster,
        "source": source,
        "destination": destination,
        "max_connections": client.max_connections,
        "source_addresses": source_addresses,
        "bandwidth": request.limits.rate_now(),
        "third_party": request.third_party.map(|mode| match mode {
            ThirdParty::Auto => "auto",
            ThirdParty::Pull => "pull",
            ThirdParty::Push => "push",
        }),
        "include": request.filter.include,
        "exclude": request.filter.exclude,
        "detach": request.detach,
        "quiet": request.quiet,
        "as_json": common.json,
    });
    let error = Command::new(&python).args(["-c", PROGRAM, &options.to_string()]).exec();
    let what = format!("cannot run {python}: install Python, or name one in {PYTHON}");
    CommandError::local(what, error)
}
