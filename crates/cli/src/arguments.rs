//! What may stand on the command line.

mod credentials;
mod serve;
mod trace;

pub(crate) use serve::Serve;
pub(crate) use trace::{Histogram, Import, Replay, Show, Trace};

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use credentials::CredentialArgs;
use hither::{Algorithm, ClientOptions, Mirror, PageChecksums, TreeUrl, byte_size, duration};
use std::path::PathBuf;
use std::time::Duration;

const EXIT_CODES: &str = "\
Exit codes: 0 done, 1 internal or local failure, 2 wrong usage or expression, 3 no such file, tree or branch, \
4 credentials, 5 server or network, 6 timeout, 7 corrupt or not the format, 8 unsupported, 9 the file changed, \
10 exists already, 11 no space left, 130 interrupted.";

/// The version; in packages with commit and date, which `make packages` puts into the variable.
const VERSION: &str = match option_env!("HITHER_VERSION") {
    Some(version) => version,
    None => env!("CARGO_PKG_VERSION"),
};

/// Remote scientific data, read as if it were here.
#[derive(Debug, Parser)]
#[command(name = "hither", version = VERSION, after_help = EXIT_CODES, arg_required_else_help = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
    #[command(flatten)]
    pub(crate) common: GlobalArgs,
}

/// What every verb takes.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct GlobalArgs {
    /// Print one JSON object instead of text.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Most connections to a server [default: 64, or what the configuration says].
    #[arg(long, global = true, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) connections: Option<u16>,
    /// Where to remember servers and files between runs [default: the user's cache folder].
    #[arg(long, global = true, value_name = "DIR", conflicts_with = "no_store")]
    pub(crate) store: Option<PathBuf>,
    /// Remember nothing and use nothing remembered.
    #[arg(long, global = true)]
    pub(crate) no_store: bool,
    /// Keep parts of files that were read on disk, beside what is remembered, at most so many bytes (as 500M or 20G), 0
    /// for none [default: none, or what the configuration says].
    #[arg(long, global = true, value_name = "SIZE", value_parser = byte_size)]
    pub(crate) disk_cache: Option<u64>,
    /// Use what is remembered of a file without asking whether it has changed since, for so long after that was last
    /// asked (as 90s, 30m, 12h or 7d) [default: 0, or what the configuration says: always ask].
    #[arg(long, global = true, value_name = "DURATION", value_parser = duration)]
    pub(crate) staleness: Option<Duration>,
    /// Seconds to wait for a connection [default: 15].
    #[arg(long, global = true, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) connect_timeout: Option<f64>,
    /// Seconds to wait without a byte arriving [default: 30, and 60 for the start of an answer].
    #[arg(long, global = true, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) stall_timeout: Option<f64>,
    /// What is held against checksums of its pages over root:// in clear: never, long (runs of 64 KiB and more, where the
    /// server can) or always (servers that cannot are refused) [default: never, or what the configuration says].
    #[arg(long, global = true, value_name = "WHAT")]
    pub(crate) verify: Option<PageChecksums>,
    /// Another URL of the same file, to be used when the first one fails; may be given several times.
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) replica: Vec<String>,
    /// Proxy for all servers, as in `http://USER:PASSWORD@HOST:PORT`; empty for none [default: http_proxy, https_proxy,
    /// all_proxy and no_proxy of the environment].
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) proxy: Option<String>,
    /// Take any certificate of a server for good: whoever is on the way can read and change everything.
    #[arg(long, global = true)]
    pub(crate) insecure: bool,
    /// Write a trace of all reads of remote and local files; `hither trace show` looks at it. `%p` stands for the number of
    /// the process.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// Configuration file [default: hither/config.toml in the user's configuration folder].
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Who to be.
    #[command(flatten)]
    pub(crate) credentials: CredentialArgs,
}

impl GlobalArgs {
    /// The options of a client for a command about the file at `url`.
    pub(crate) fn options(&self, url: &str) -> ClientOptions {
        let elsewhere = self.replica.clone();
        let mirror = Mirror { prefix: url.to_owned(), elsewhere };
        ClientOptions {
            connections: self.connections,
            store: self.store.clone(),
            no_store: self.no_store,
            disk_cache: self.disk_cache,
            staleness: self.staleness,
            connect_timeout: self.connect_timeout,
            stall_timeout: self.stall_timeout,
            verify: self.verify,
            mirrors: if self.replica.is_empty() { Vec::new() } else { vec![mirror] },
            proxy: self.proxy.clone(),
            insecure: self.insecure,
            trace: self.trace.clone(),
            credentials: (&self.credentials).into(),
        }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Draw a histogram of an expression over a tree.
    #[command(
        after_help = "Example: hither draw http://host/path/file.root:T rawtr --where 'E33>5' --png hist.png"
    )]
    Draw(Draw),
    /// Run a draw and show where the time went.
    #[command(
        after_help = "Example: hither explain http://host/path/file.root:T rawtr --where 'E33>5'"
    )]
    Explain(Draw),
    /// List trees, branches, types, baskets and sizes.
    #[command(after_help = "Example: hither tree http://host/path/file.root:T")]
    Tree(Tree),
    /// List the names in directories.
    #[command(after_help = "Example: hither ls -l https://host/data/run7/")]
    Ls(Ls),
    /// Show kind, size, date and version of files and directories.
    #[command(after_help = "Example: hither stat http://host/path/file.root")]
    Stat(Stat),
    /// Make directories.
    #[command(after_help = "Example: hither mkdir -p https://host/data/2026/run7")]
    Mkdir(Mkdir),
    /// Remove files and directories. Links are removed, not followed.
    #[command(after_help = "Example: hither rm -r https://host/data/2026/run7")]
    Rm(Rm),
    /// Rename files and directories, or move them into another directory of the same server.
    #[command(after_help = "Example: hither mv https://host/data/new.root https://host/data/run7/")]
    Mv(Mv),
    /// Show checksums of files: the server's if it tells one, else computed from the file's bytes.
    #[command(after_help = "Example: hither checksum --algorithm md5 https://host/data/file.root")]
    Checksum(Checksum),
    /// Show which servers of an XRootD cluster have a file.
    #[command(after_help = "Example: hither locate root://host//data/file.root")]
    Locate(Locate),
    /// Have files fetched from tape to disk, on XRootD servers that have tapes.
    #[command(after_help = "Example: hither prepare root://host//data/run7/*.root")]
    Prepare(Prepare),
    /// Change the rights of files and directories on XRootD servers.
    #[command(after_help = "Example: hither chmod 640 root://host//data/file.root")]
    Chmod(Chmod),
    /// Copy files and directories, near and far, in any direction.
    #[command(
        after_help = "Example: hither cp -r http://host/path/run7 /data/\n\nA copy that was interrupted goes on where it ended when the same command is given again."
    )]
    Cp(Copy),
    /// Write the bytes of a file to the standard output.
    #[command(after_help = "Example: hither cat --range 0-3 http://host/path/file.root")]
    Cat {
        /// First and last byte, as in HTTP: `0-99`, `100-` to the end, `-50` for the last fifty.
        #[arg(long, value_name = "A-B", allow_hyphen_values = true)]
        range: Option<String>,
        /// File.
        url: String,
    },
    /// Serve a directory over HTTP: to this machine and for reading, unless told otherwise.
    #[command(after_help = "Example: hither serve /data --listen 0.0.0.0:8080")]
    Serve(Serve),
    /// Look at traces of reads, make them from other programs' records, read again what they say.
    #[command(subcommand)]
    Trace(Trace),
    /// Print the script that completes words in a shell.
    #[command(
        after_help = "Example: hither completions bash > ~/.local/share/bash-completion/completions/hither"
    )]
    Completions {
        /// Shell.
        shell: Shell,
    },
    /// Write man pages into a directory, for packages.
    #[command(hide = true)]
    Man {
        /// Directory.
        #[arg(value_name = "DIR")]
        directory: PathBuf,
    },
}

impl Command {
    /// The URL of the file that the command is about, the first one if there are several.
    pub(crate) fn url(&self) -> String {
        match self {
            Self::Draw(Draw { target, .. })
            | Self::Explain(Draw { target, .. })
            | Self::Tree(Tree { target: Some(target), .. }) => TreeUrl::parse(target).url,
            Self::Tree(Tree { target: None, .. }) => String::new(),
            Self::Cat { url, .. } => url.clone(),
            Self::Trace(trace) => trace.url(),
            Self::Serve(_) | Self::Completions { .. } | Self::Man { .. } => String::new(),
            Self::Ls(Ls { urls, .. })
            | Self::Stat(Stat { urls, .. })
            | Self::Locate(Locate { urls })
            | Self::Prepare(Prepare { urls, .. })
            | Self::Chmod(Chmod { urls, .. })
            | Self::Mkdir(Mkdir { urls, .. })
            | Self::Rm(Rm { urls, .. })
            | Self::Mv(Mv { urls, .. })
            | Self::Checksum(Checksum { urls, .. }) => urls.first().cloned().unwrap_or_default(),
            Self::Cp(Copy { names, .. }) => names.first().cloned().unwrap_or_default(),
        }
    }
}

/// What to look into, and what for.
#[derive(Debug, Args)]
pub(crate) struct Tree {
    /// Show which branches programs read of the trees, as far as it was learned from reads of single baskets.
    #[arg(long, requires = "target")]
    pub(crate) learned: bool,
    /// Write what was learned of the trees as JSON, for other machines; `-` for the standard output.
    #[arg(long, value_name = "FILE", requires = "target", conflicts_with = "learned")]
    pub(crate) export: Option<PathBuf>,
    /// Take in what `--export` wrote; `-` for the standard input.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["learned", "export", "target"])]
    pub(crate) import: Option<PathBuf>,
    /// File, and the tree if only one is wanted.
    #[arg(value_name = "URL[:TREE]", required_unless_present = "import")]
    pub(crate) target: Option<String>,
}

/// What to list, and how.
#[derive(Debug, Args)]
pub(crate) struct Ls {
    /// Show kind, size and date as well.
    #[arg(short, long)]
    pub(crate) long: bool,
    /// Go into directories. Links are shown, not followed.
    #[arg(short = 'R', long)]
    pub(crate) recursive: bool,
    /// Show names that begin with a dot as well.
    #[arg(short, long)]
    pub(crate) all: bool,
    /// Directories; a file is shown as itself.
    #[arg(value_name = "URL", required = true)]
    pub(crate) urls: Vec<String>,
}

/// What to look at.
#[derive(Debug, Args)]
pub(crate) struct Stat {
    /// Show extended attributes as well, which XRootD servers may keep with files.
    #[arg(long)]
    pub(crate) attributes: bool,
    /// Files and directories.
    #[arg(value_name = "URL", required = true)]
    pub(crate) urls: Vec<String>,
}

/// What to look for.
#[derive(Debug, Args)]
pub(crate) struct Locate {
    /// Files, on servers of root:// or roots://.
    #[arg(value_name = "URL", required = true)]
    pub(crate) urls: Vec<String>,
}

/// What to have fetched.
#[derive(Debug, Args)]
pub(crate) struct Prepare {
    /// The files are not needed on disk any more.
    #[arg(long, conflicts_with = "priority")]
    pub(crate) evict: bool,
    /// 0 to 3: the highest is served first.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=3))]
    pub(crate) priority: u8,
    /// Files, on servers of root:// or roots://.
    #[arg(value_name = "URL", required = true)]
    pub(crate) urls: Vec<String>,
}

/// What may be done with what.
#[derive(Debug, Args)]
pub(crate) struct Chmod {
    /// Three octal digits: the rights of the owner, of the group, and of others.
    #[arg(value_name = "MODE", value_parser = octal)]
    pub(crate) mode: u16,
    /// Files and directories, on servers of root:// or roots://.
    #[arg(value_name = "URL", required = true)]
    pub(crate) urls: Vec<String>,
}

fn octal(text: &str) -> Result<u16, String> {
    let mode = u16::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777);
    mode.ok_or_else(|| "expected three octal digits, as in 640".to_owned())
}

/// What to make.
#[derive(Debug, Args)]
pub(crate) struct Mkdir {
    /// Make the directories above as well; those that exist are no error.
    #[arg(short, long)]
    pub(crate) parents: bool,
    /// Directories.
    #[arg(value_name = "URL", required = true)]
    pub(crate) urls: Vec<String>,
}

/// What to remove.
#[derive(Debug, Args)]
pub(crate) struct Rm {
    /// Remove directories with all that is in them.
    #[arg(short, long)]
    pub(crate) recursive: bool,
    /// What does not exist is no error.
    #[arg(short, long)]
    pub(crate) force: bool,
    /// Remove everything on a server if its root is named; never on this machine.
    #[arg(long, requires = "recursive")]
    pub(crate) no_preserve_root: bool,
    /// Files, and with -r directories.
    #[arg(value_name = "URL", required = true)]
    pub(crate) urls: Vec<String>,
}

/// What to move.
#[derive(Debug, Args)]
pub(crate) struct Mv {
    /// Leave targets that exist as they are.
    #[arg(short, long)]
    pub(crate) no_clobber: bool,
    /// Files and directories, and last their new name or the directory that they go into.
    #[arg(value_name = "SRC… DST", required = true, num_args = 2..)]
    pub(crate) urls: Vec<String>,
}

/// What to sum up.
#[derive(Debug, Args)]
pub(crate) struct Checksum {
    /// adler32, crc32c, md5 or sha256.
    #[arg(short, long, value_name = "NAME", default_value = "adler32")]
    pub(crate) algorithm: Algorithm,
    /// Files.
    #[arg(value_name = "URL", required = true)]
    pub(crate) urls: Vec<String>,
}

/// What to copy, and how.
#[derive(Debug, Args)]
pub(crate) struct Copy {
    /// Files and directories, and last where they go: a file, a directory, `-` for the standard output, or /dev/null.
    #[arg(value_name = "SRC… DST", required = true, num_args = 2..)]
    pub(crate) names: Vec<String>,
    /// Copy directories, with all that is in them.
    #[arg(short, long)]
    pub(crate) recursive: bool,
    /// Leave targets that exist as they are.
    #[arg(short, long, conflicts_with = "update")]
    pub(crate) no_clobber: bool,
    /// Leave targets that have the source's size and are not older.
    #[arg(short, long)]
    pub(crate) update: bool,
    /// Compute and compare this checksum of each file: adler32, crc32c, md5, sha256, or none; ALGORITHM:VALUE must come
    /// out [default: adler32 of files that the server knows it of].
    #[arg(long, value_name = "ALGORITHM[:VALUE]")]
    pub(crate) checksum: Option<String>,
    /// Say nothing but what failed.
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

/// What to draw, and how.
#[derive(Debug, Args)]
pub(crate) struct Draw {
    /// File, and the tree in it if there are several.
    #[arg(value_name = "URL[:TREE]")]
    pub(crate) target: String,
    /// What to histogram: branches, numbers, operators and functions as in TTree::Draw.
    #[arg(value_name = "EXPR", allow_hyphen_values = true)]
    pub(crate) expression: String,
    /// Which values to take: an expression used as weight, 0 leaves a value out.
    #[arg(long = "where", value_name = "CUT", allow_hyphen_values = true)]
    pub(crate) cut: Option<String>,
    /// Number of bins.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) bins: u32,
    /// Limits of the axis [default: from the values].
    #[arg(long, value_name = "LO:HI", allow_hyphen_values = true, value_parser = limits)]
    pub(crate) range: Option<(f64, f64)>,
    /// Entries of the tree, the second one excluded.
    #[arg(long, value_name = "A:B", value_parser = entries)]
    pub(crate) entries: Option<(u64, u64)>,
    #[command(flatten)]
    pub(crate) pictures: PictureFiles,
}

/// Where to draw, besides the terminal.
#[derive(Debug, Args)]
pub(crate) struct PictureFiles {
    /// Write the histogram as a PNG picture.
    #[arg(long, value_name = "FILE")]
    pub(crate) png: Option<PathBuf>,
    /// Write the histogram as an SVG picture.
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "expected a number of seconds".to_owned())?;
    let sensible = 0.001..=86_400.0;
    sensible
        .contains(&seconds)
        .then_some(seconds)
        .ok_or_else(|| "expected 0.001 to 86400".to_owned())
}

fn limits(text: &str) -> Result<(f64, f64), String> {
    let (lo, hi) = text.split_once(':').ok_or("expected two numbers, LO:HI")?;
    let number = |text: &str| match text.trim().parse::<f64>() {
        Ok(number) if number.is_finite() => Ok(number),
        _ => Err(format!("{text:?} is not a number")),
    };
    let (lo, hi) = (number(lo)?, number(hi)?);
    (lo < hi).then_some((lo, hi)).ok_or_else(|| format!("{lo} is not below {hi}"))
}

fn entries(text: &str) -> Result<(u64, u64), String> {
    let (first, end) = text.split_once(':').ok_or("expected two numbers, A:B")?;
    let number = |text: &str, empty: u64| match text.trim() {
        "" => Ok(empty),
        text => text.parse::<u64>().map_err(|_| format!("{text:?} is not a number of an entry")),
    };
    let (first, end) = (number(first, 0)?, number(end, u64::MAX)?);
    (first <= end).then_some((first, end)).ok_or_else(|| format!("{first} is beyond {end}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
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
