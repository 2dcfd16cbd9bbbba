//! The command line: verbs, their arguments and the options that all verbs share.

mod client;
mod copies;
mod explain;
mod federate;
pub(crate) mod help;
mod lots;
mod names;
mod profile;
mod root_setup;
mod serve;
mod simulate;
mod trace;
mod tune;
mod used_options;

pub(crate) use copies::{Check, Copy, Sync, read_list, sources_and_destination};
pub(crate) use explain::{Explain, ExplainedJob, ExplanationArgs};
pub(crate) use federate::Federate;
pub(crate) use lots::Lots;
pub(crate) use names::{Cat, Checksum, Chmod, Du, Find, Ls, Mkdir, Mv, Rm, Stat};
pub(crate) use profile::{Network, Profile, ProfileOf, Storage};
pub(crate) use root_setup::RootSetup;
pub(crate) use serve::Serve;
pub(crate) use simulate::Simulate;
pub(crate) use trace::{Histogram, Import, Replay, Show, Trace};
pub(crate) use tune::Tune;
pub(crate) use used_options::refuse_unused;

use clap::{Args, CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use client::ClientArgs;
use hither::{ClientOptions, TreeUrl, seconds};
use names::help_without_letter;
use std::path::PathBuf;

/// The version. In packages it contains commit and date, which `make packages` sets in the
/// variable.
const VERSION: &str = match option_env!("HITHER_VERSION") {
    Some(version) => version,
    None => env!("CARGO_PKG_VERSION"),
};

/// Remote scientific data, read as if it were here.
#[derive(Debug, Parser)]
#[command(name = "hither", version = VERSION, arg_required_else_help = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
    #[command(flatten)]
    pub(crate) common: GlobalArgs,
}

/// Options that all verbs share.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Common options")]
pub(crate) struct GlobalArgs {
    /// Print JSON instead of text.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Log to the standard error; -vv logs more [default: HITHER_LOG, or off].
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
    /// The options of a client.
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

impl GlobalArgs {
    /// The client options of a command on the file at `url`.
    pub(crate) fn options(&self, url: &str) -> ClientOptions {
        self.client.options.clone().for_file(url)
    }

    /// These options without the store and the trace: what earlier runs have learned would change
    /// the measurement.
    pub(crate) fn without_store(&self) -> Self {
        let mut alone = self.clone();
        let options = &mut alone.client.options;
        options.store = None;
        options.no_store = true;
        options.trace = None;
        alone
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Draw a histogram of an expression.
    #[command(
        after_help = "Example: hither draw http://host/path/file.root:T rawtr --where 'E33>5' --png hist.png"
    )]
    Draw(Draw),
    /// Run a job, and name its bottleneck.
    #[command(
        after_help = "Example: hither explain draw http://host/path/file.root:T rawtr --where 'E33>5'"
    )]
    Explain(Explain),
    /// List trees, branches, types and sizes.
    #[command(after_help = "Example: hither tree http://host/path/file.root:T")]
    Tree(Tree),
    /// List directories.
    #[command(disable_help_flag = true, arg = help_without_letter(), after_help = "Example: hither ls -l https://host/data/run7/")]
    Ls(Ls),
    /// Find files and directories.
    #[command(
        after_help = "Example: hither find https://host/data --name '*.root' --size +1G --newer 7d"
    )]
    Find(Find),
    /// Sum up the sizes of files.
    #[command(disable_help_flag = true, arg = help_without_letter(), after_help = "Example: hither du -h https://host/data/*")]
    Du(Du),
    /// Show kind, size, date and version.
    #[command(after_help = "Example: hither stat http://host/path/file.root")]
    Stat(Stat),
    /// Create directories.
    #[command(after_help = "Example: hither mkdir -p https://host/data/2026/run7")]
    Mkdir(Mkdir),
    /// Remove files and directories.
    #[command(
        after_help = "Links are removed, not followed.\n\nExample: hither rm -r https://host/data/2026/run7"
    )]
    Rm(Rm),
    /// Move or rename on one server.
    #[command(
        override_usage = "hither mv [OPTIONS] <SRC>... <DST>",
        after_help = "Example: hither mv https://host/data/new.root https://host/data/run7/"
    )]
    Mv(Mv),
    /// Show checksums of files.
    #[command(
        after_help = "The server's checksum if it has one, else computed from the bytes of the file. The lines are those of md5sum and sha256sum.\n\nExample: hither checksum -a md5 'https://host/run7/*' > run7.md5; hither checksum --check run7.md5"
    )]
    Checksum(Checksum),
    /// List the XRootD servers of files.
    #[command(after_help = "Example: hither locate root://host//data/file.root")]
    Locate(Locate),
    /// Bring files from tape to disk.
    #[command(
        after_help = "Example: hither stage --wait https://host/data/a.root https://host/data/b.root"
    )]
    Stage(Stage),
    /// Change permissions (XRootD).
    #[command(after_help = "Example: hither chmod 640 root://host//data/file.root")]
    Chmod(Chmod),
    /// Copy files and directories.
    #[command(
        override_usage = "hither cp [OPTIONS] <SRC>... <DST>",
        after_help = "The same command resumes an interrupted copy.\n\nExample: hither cp -r http://host/path/run7 /data/"
    )]
    Cp(Copy),
    /// Make a directory equal to another.
    #[command(
        after_help = "Nothing is deleted without --delete, nor after any failure.\n\nExample: hither sync --delete https://host/data/run7 /data/run7"
    )]
    Sync(Sync),
    /// Compare the files of two directories.
    #[command(
        after_help = "Prints + for what only SRC has, - for what only DST has, and * for what differs. Directories without files are not compared.\n\nExample: hither check https://host/data/run7 /data/run7"
    )]
    Check(Check),
    /// Write files to standard output.
    #[command(after_help = "Example: hither cat --range 0-3 http://host/path/file.root")]
    Cat(Cat),
    /// Reserve space on a server of hither.
    #[command(subcommand)]
    Lots(Lots),
    /// Serve a directory over HTTP.
    #[command(after_help = "Example: hither serve /data --listen 0.0.0.0:8080")]
    Serve(Serve),
    /// Serve many storages as one.
    #[command(after_help = "Example: hither federate --config federation.toml")]
    Federate(Federate),
    /// Show where a server's time goes.
    #[command(
        override_usage = "hither profile [OPTIONS] [--pid <P> | --unit <NAME> | -- <CMD>...]\n       hither profile storage [OPTIONS] <PATH>\n       hither profile network [OPTIONS] <URL>",
        after_help = "Needs root to see the kernel and other users' processes.\n\nExample: hither profile --unit nginx --seconds 60 --html nginx.html"
    )]
    Profile(Profile),
    /// Build and register the plug-in for ROOT.
    #[command(
        after_help = "With it, TFile::Open and all that is over it read and write through hither; docs/guides/root.md is the guide.\n\nExample: hither root-setup"
    )]
    RootSetup(RootSetup),
    /// Simulate a recorded job elsewhere.
    #[command(
        after_help = "Lists make a grid: every combination is a run in virtual time. Copying the files first and reading without prefetching are compared with prefetching.\n\nExample: hither simulate job.trace --latency 0.2ms,20ms,100ms --block learned,25k,100k --html job.html"
    )]
    Simulate(Simulate),
    /// Show, import and replay read traces.
    #[command(subcommand)]
    Trace(Trace),
    /// Compare settings of transfers by measurement.
    #[command(subcommand)]
    Tune(Tune),
    /// Show the options of all commands.
    Options,
    /// Print a shell completion script.
    #[command(
        after_help = "Example: hither completions bash > ~/.local/share/bash-completion/completions/hither"
    )]
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Copy what a cluster hands to this node.
    #[command(hide = true)]
    Mover(Mover),
    /// Run the command of `[tape]` for the server at the other end of the standard input.
    #[command(hide = true)]
    TapeHelper,
    /// Write man pages to a directory.
    #[command(hide = true)]
    Man {
        /// The directory.
        #[arg(value_name = "DIR")]
        directory: PathBuf,
    },
}

impl Command {
    /// The first URL on the command line, or the empty string.
    pub(crate) fn url(&self) -> String {
        match self {
            Self::Draw(Draw { target, .. }) | Self::Tree(Tree { target: Some(target), .. }) => {
                TreeUrl::parse(target).url
            }
            Self::Tree(Tree { target: None, .. }) => String::new(),
            Self::Explain(explain) => explain.url(),
            Self::Trace(trace) => trace.url(),
            Self::Simulate(request) => request.like.clone().unwrap_or_default(),
            Self::Lots(lots) => lots.url().to_owned(),
            Self::Serve(_)
            | Self::Federate(_)
            | Self::Profile(_)
            | Self::Tune(_)
            | Self::RootSetup(_)
            | Self::Options
            | Self::Completions { .. }
            | Self::Mover(_)
            | Self::TapeHelper
            | Self::Man { .. } => String::new(),
            Self::Ls(Ls { urls, .. })
            | Self::Find(Find { urls, .. })
            | Self::Du(Du { urls, .. })
            | Self::Cat(Cat { urls, .. })
            | Self::Stat(Stat { urls, .. })
            | Self::Locate(Locate { urls })
            | Self::Stage(Stage { urls, .. })
            | Self::Chmod(Chmod { urls, .. })
            | Self::Mkdir(Mkdir { urls, .. })
            | Self::Rm(Rm { urls, .. })
            | Self::Mv(Mv { urls, .. })
            | Self::Checksum(Checksum { urls, .. }) => urls.first().cloned().unwrap_or_default(),
            Self::Cp(Copy { names, .. }) => names.first().cloned().unwrap_or_default(),
            Self::Sync(Sync { source, .. }) | Self::Check(Check { source, .. }) => source.clone(),
        }
    }
}

/// Arguments of `hither mover`.
#[derive(Debug, Args)]
pub(crate) struct Mover {
    /// The folder of the mover's leases, or with `--list` the file that holds the URL of the tree;
    /// - for standard input. All users of a machine see arguments, and a query may be a token.
    pub(crate) place: String,
    /// List the tree, an object on each line, instead.
    #[arg(long)]
    pub(crate) list: bool,
    #[command(flatten)]
    pub(crate) filter: copies::FilterArgs,
    /// End after this time without leases.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub(crate) idle: u64,
}

/// Arguments of `hither tree`.
#[derive(Debug, Args)]
pub(crate) struct Tree {
    /// Show which branches programs read.
    #[arg(long, requires = "target")]
    pub(crate) learned: bool,
    /// Export learned branches as JSON; - for standard output.
    #[arg(long, value_name = "FILE", requires = "target", conflicts_with = "learned")]
    pub(crate) export: Option<PathBuf>,
    /// Import learned branches; - for standard input.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["learned", "export", "target"])]
    pub(crate) import: Option<PathBuf>,
    /// The file, and the tree if only one is wanted.
    #[arg(value_name = "URL[:TREE]", required_unless_present = "import")]
    pub(crate) target: Option<String>,
}

/// Arguments of `hither locate`.
#[derive(Debug, Args)]
pub(crate) struct Locate {
    /// The files, on root:// or roots:// servers, or patterns.
    #[arg(value_name = "URL", required = true)]
    pub(crate) urls: Vec<String>,
}

/// Arguments of `hither stage`.
#[derive(Debug, Args)]
pub(crate) struct Stage {
    /// Wait until all files are on disk.
    #[arg(long)]
    pub(crate) wait: bool,
    /// Limit the wait.
    #[arg(long, value_name = "SECONDS", value_parser = seconds, requires = "wait")]
    pub(crate) timeout: Option<f64>,
    /// Release the files from disk.
    #[arg(long, conflicts_with_all = ["wait", "priority", "cancel", "status"])]
    pub(crate) release: bool,
    /// Cancel a request.
    #[arg(long, conflicts_with_all = ["wait", "priority", "status"], requires = "request")]
    pub(crate) cancel: bool,
    /// Show where the files are, and stage nothing.
    #[arg(long, conflicts_with_all = ["wait", "priority"])]
    pub(crate) status: bool,
    /// Name the request to release or cancel.
    #[arg(long, value_name = "ID")]
    pub(crate) request: Option<String>,
    /// Set the priority; 3 is highest (root:// only).
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=3))]
    pub(crate) priority: u8,
    /// The files, on https://, root:// or roots:// servers, or patterns.
    #[arg(value_name = "URL", required = true)]
    pub(crate) urls: Vec<String>,
}

/// Arguments of `hither draw`.
#[derive(Debug, Args)]
pub(crate) struct Draw {
    /// The file, and the tree if there are several.
    #[arg(value_name = "URL[:TREE]")]
    pub(crate) target: String,
    /// The expression, as in TTree::Draw.
    #[arg(value_name = "EXPR", allow_hyphen_values = true)]
    pub(crate) expression: String,
    /// Weight values by this expression; 0 excludes.
    #[arg(long = "where", value_name = "CUT", allow_hyphen_values = true)]
    pub(crate) cut: Option<String>,
    /// Set the number of bins.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) bins: u32,
    /// Set the axis limits [default: from the values].
    #[arg(long, value_name = "LO:HI", allow_hyphen_values = true, value_parser = limits)]
    pub(crate) range: Option<(f64, f64)>,
    /// Read only these entries, B excluded.
    #[arg(long, value_name = "A:B", value_parser = entries)]
    pub(crate) entries: Option<(u64, u64)>,
    #[command(flatten)]
    pub(crate) images: ImageFiles,
}

/// Image files of a plot.
#[derive(Debug, Args)]
pub(crate) struct ImageFiles {
    /// Write a PNG image.
    #[arg(long, value_name = "FILE")]
    pub(crate) png: Option<PathBuf>,
    /// Write an SVG image.
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
}

/// The parser of the command line, with the help of all verbs.
pub(crate) fn parser() -> clap::Command {
    help::with_help(Arguments::command())
}

fn limits(text: &str) -> Result<(f64, f64), String> {
    let (lo, hi) = text.split_once(':').ok_or("expected two numbers, LO:HI")?;
    let number = |text: &str| match text.trim().parse::<f64>() {
        Ok(number) if number.is_finite() => Ok(number),
        _ => Err(format!("{text:?} is not a number")),
    };
    let lo = number(lo)?;
    let hi = number(hi)?;
    (lo < hi).then_some((lo, hi)).ok_or_else(|| format!("{lo} is not below {hi}"))
}

fn entries(text: &str) -> Result<(u64, u64), String> {
    let (first, end) = text.split_once(':').ok_or("expected two numbers, A:B")?;
    let number = |text: &str, empty: u64| match text.trim() {
        "" => Ok(empty),
        text => text.parse::<u64>().map_err(|_| format!("{text:?} is not an entry number")),
    };
    let first = number(first, 0)?;
    let end = number(end, u64::MAX)?;
    (first <= end).then_some((first, end)).ok_or_else(|| format!("{first} is beyond {end}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::FromArgMatches;

    #[test]
    fn the_command_line_is_consistent() {
        parser().debug_assert();
    }

    /// A command line of each verb.
    const LINES: [&str; 42] = [
        "draw u e",
        "tree u",
        "cat u v",
        "cp a b c",
        "sync a b",
        "check a b",
        "ls u v",
        "find u v",
        "du u v",
        "stat u v",
        "checksum u v",
        "mkdir u v",
        "mv a b c",
        "rm u v",
        "chmod 640 u v",
        "locate u v",
        "stage u v",
        "serve d",
        "federate --check-config",
        "lots reserve u --bytes=1 --lease=1d",
        "lots show u",
        "lots renew u i --lease=1d",
        "lots release u i",
        "explain draw u e",
        "explain cp a b c",
        "explain cat u v",
        "explain serve l",
        "profile --seconds=1",
        "profile storage d",
        "profile network u",
        "trace show t",
        "trace import f --format=strace --output=t",
        "trace replay t u",
        "simulate t",
        "tune sweep f",
        "root-setup",
        "completions bash",
        "options",
        "man d",
        "mover d",
        "tape-helper",
        "cp a b --recursive",
    ];

    /// The command that `words` mean, as text.
    fn meaning(words: &[&str]) -> String {
        let matches = parser().try_get_matches_from(words).unwrap_or_else(|error| {
            panic!("{words:?}: {error}");
        });
        format!("{:?}", Arguments::from_arg_matches(&matches).unwrap().command)
    }

    #[test]
    fn options_stand_anywhere_between_the_arguments_of_every_verb() {
        let mut met = std::collections::BTreeSet::new();
        for line in LINES {
            let words: Vec<_> = std::iter::once("hither").chain(line.split(' ')).collect();
            let expected = meaning(&words);
            let mut verb = Arguments::command();
            let mut first = 1;
            while let Some(inner) =
                words.get(first).and_then(|it| verb.find_subcommand(it)).cloned()
            {
                met.insert(words[1..=first].join(" "));
                (verb, first) = (inner, first + 1);
            }
            for at in first..=words.len() {
                for option in [&["-v"][..], &["--json"], &["--max-connections", "7"]] {
                    let words = [&words[..at], option, &words[at..]].concat();
                    assert_eq!(meaning(&words), expected, "{words:?}");
                }
            }
        }
        let mut verbs = vec![(String::new(), Arguments::command())];
        while let Some((path, verb)) = verbs.pop() {
            assert!(path.is_empty() || met.contains(&path), "{path:?} is not in the table");
            for inner in verb.get_subcommands() {
                let path = format!("{path} {}", inner.get_name()).trim_start().to_owned();
                verbs.push((path, inner.clone()));
            }
        }
    }

    #[test]
    fn limits_and_entries_are_checked() {
        assert_eq!(limits("-1.5:2"), Ok((-1.5, 2.0)));
        assert!(limits("2:1").is_err() && limits("1").is_err() && limits("nan:1").is_err());
        assert_eq!(entries("10:20"), Ok((10, 20)));
        assert_eq!(entries(":20"), Ok((0, 20)));
        assert_eq!(entries("10:"), Ok((10, u64::MAX)));
        assert!(entries("3:2").is_err() && entries("a:2").is_err());
    }
}
