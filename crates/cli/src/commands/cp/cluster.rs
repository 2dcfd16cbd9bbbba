//! `hither cp --cluster`: runs the copy with the Python package, which uses Dask.

use crate::arguments::{Copy, GlobalArgs};
use crate::environment::variable;
use crate::exit::CommandError;
use hither::ThirdParty;
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
sys.exit(main())
";

/// Replaces this process with the command of the Python package; returns the error if that fails.
pub(crate) fn run(request: &Copy, common: &GlobalArgs) -> CommandError {
    let [source, destination] = &*request.names else {
        return CommandError::usage("a cluster copies one directory: name it and its destination");
    };
    let python = variable(PYTHON).unwrap_or_else(|| "python3".to_owned());
    let mut command = Command::new(&python);
    command.args(["-c", PROGRAM]).args(request.filter.patterns());
    command.args(request.cluster.iter().map(|cluster| format!("--cluster={cluster}")));
    let options = &common.client.options;
    command.args(options.max_connections.map(|most| format!("--max-connections={most}")));
    command.args(options.source_addresses.iter().map(|it| format!("--source-address={it}")));
    command.args(request.limits.rate_now().map(|rate| format!("--bandwidth={rate}")));
    command.args(request.third_party.map(|mode| match mode {
        ThirdParty::Auto => "--third-party=auto",
        ThirdParty::Pull => "--third-party=pull",
        ThirdParty::Push => "--third-party=push",
    }));
    let flags = [(request.detach, "--detach"), (request.quiet, "--quiet"), (common.json, "--json")];
    command.args(flags.iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| flag));
    let error = command.arg("--").args([source, destination]).exec();
    let what = format!("cannot run {python}: install Python, or name one in {PYTHON}");
    CommandError::local(what, error)
}
