//! Samples by call chain, and their sums.
//!
//! During the profile each sample only increments a counter: names in programs are looked up at the
//! end, so that this takes no time during the profile. At the end each chain gets its class. The
//! busy time of a CPU, which its counters give, is divided among the classes of its samples.
//!
//! Memory: [`MAX_STACKS`] different chains; samples beyond them count as unknown.

use crate::category::Category;
use crate::classify::{Class, Classifier, Context, Stack};
use crate::kernel_symbols::KernelSymbols;
use crate::sampler::Sample;
use crate::target::{Process, Processes};
use crate::user_symbols::{Location, UserSymbols};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashMap};

const MAX_STACKS: usize = 100_000;

/// A call chain on a CPU. Kernel functions are numbers of [`KernelSymbols`].
#[derive(Debug, PartialEq, Eq, Hash)]
struct StackKey {
    cpu: u32,
    process: Process,
    kernel: Box<[Option<u32>]>,
    user: Box<[Location]>,
}

/// A program or library with the build-id of its file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ModuleId {
    /// The last part of its path.
    pub name: String,
    /// The build-id in hexadecimal digits; none if the file has none.
    pub build_id: Option<String>,
}

/// All samples so far.
#[derive(Debug)]
pub(crate) struct Tally {
    kernel: KernelSymbols,
    user: UserSymbols,
    stacks: HashMap<StackKey, u64>,
    beyond: BTreeMap<u32, u64>,
    pub(crate) samples: u64,
}

/// The classes of the samples of each CPU, with their counts.
pub(crate) type CpuClasses = BTreeMap<u32, Vec<(Class, u64)>>;

/// All samples with their names and classes.
#[derive(Debug, Default)]
pub(crate) struct Classified {
    pub(crate) cpus: CpuClasses,
    /// Call chains in the format of flame graphs, outermost function first, with their counts.
    pub(crate) folded: BTreeMap<String, u64>,
    pub(crate) modules: Vec<ModuleId>,
}

impl Tally {
    pub(crate) fn new(kernel: KernelSymbols) -> Self {
        let user = UserSymbols::default();
        Self { kernel, user, stacks: HashMap::new(), beyond: BTreeMap::new(), samples: 0 }
    }

    pub(crate) fn has_kernel_names(&self) -> bool {
        !self.kernel.is_empty()
    }

    /// Begins a round of samples.
    pub(crate) fn begin_round(&mut self) {
        self.user.begin_round();
    }

    /// Counts a sample.
    pub(crate) fn add(&mut self, sample: &Sample, processes: &mut Processes) {
        self.samples += 1;
        let kernel = sample.kernel.iter().map(|address| self.kernel.find(*address)).collect();
        // Without frame pointers a chain ends in values that are not addresses; the rest is
        // ignored.
        let locate = |address: &u64| self.user.locate(sample.process, *address);
        let user = sample.user.iter().map_while(locate).collect();
        let process = processes.get(sample.process);
        let key = StackKey { cpu: sample.cpu, process, kernel, user };
        if self.stacks.len() < MAX_STACKS || self.stacks.contains_key(&key) {
            *self.stacks.entry(key).or_default() += 1;
        } else {
            *self.beyond.entry(sample.cpu).or_default() += 1;
        }
    }

    /// Looks up all names and assigns a class to each chain.
    pub(crate) fn classify(mut self) -> Classified {
        let mut offsets: BTreeMap<u32, BTreeSet<u64>> = BTreeMap::new();
        for location in self.stacks.keys().flat_map(|key| &key.user) {
            offsets.entry(location.module).or_default().insert(location.offset);
        }
        let mut found = Classified::default();
        let mut names: HashMap<Location, String> = HashMap::new();
        for (module, offsets) in offsets {
            let Some(file) = self.user.modules.get_mut(module as usize) else { continue };
            let symbols = file.symbols(&offsets);
            let named = symbols.names.into_iter();
            names.extend(named.map(|(offset, name)| (Location { module, offset }, name)));
            found.modules.push(ModuleId { name: file.name.clone(), build_id: symbols.build_id });
        }
        let classifier = Classifier::new();
        for (key, count) in &self.stacks {
            let kernel: Vec<Option<&str>> =
                key.kernel.iter().map(|it| it.and_then(|it| self.kernel.name(it))).collect();
            let user: Vec<(&str, Option<&str>)> = key
                .user
                .iter()
                .filter_map(|location| {
                    let module = self.user.modules.get(location.module as usize)?;
                    Some((module.name.as_str(), names.get(location).map(String::as_str)))
                })
                .collect();
            let owner = key.process.owner;
            let stack = Stack { owner, kernel: &kernel, user: user.first().copied() };
            let class = classifier.classify(&stack);
            *found.folded.entry(folded(&key.process.name, &kernel, &user)).or_default() += count;
            found.cpus.entry(key.cpu).or_default().push((class, *count));
        }
        for (cpu, count) in self.beyond {
            let class = Class {
                category: Category::Unknown,
                context: Context::OtherKernel,
                copied_for: None,
                is_skid: false,
                part: None,
            };
            found.cpus.entry(cpu).or_default().push((class, count));
        }
        found
    }
}

/// A chain in one line: the process, functions outside the kernel as ``module`function``, then
/// functions of the kernel, each with the suffix `_[k]`.
fn folded(process: &str, kernel: &[Option<&str>], user: &[(&str, Option<&str>)]) -> String {
    let mut line = process.to_owned();
    for (module, function) in user.iter().rev() {
        line.push(';');
        line.push_str(module);
        line.push('`');
        line.push_str(function.unwrap_or("?"));
    }
    for name in kernel.iter().rev() {
        line.push(';');
        line.push_str(name.unwrap_or("?"));
        line.push_str("_[k]");
    }
    line
}

/// The divided time of the CPUs.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Division {
    /// CPU seconds of each category.
    pub(crate) seconds: BTreeMap<Category, f64>,
    pub(crate) contexts: BTreeMap<Context, f64>,
    /// CPU seconds of copies, by the category that they were made for.
    pub(crate) copies: BTreeMap<Category, f64>,
    /// CPU seconds of the parts of the application.
    pub(crate) parts: BTreeMap<String, f64>,
    /// CPU seconds that were charged to the callers of code that enables interrupts.
    pub(crate) skid: f64,
}

impl Division {
    /// Divides the busy seconds of one CPU among its samples that are not idle.
    pub(crate) fn add_cpu(&mut self, busy_seconds: f64, classes: &[(Class, u64)]) {
        let is_busy = |class: &Class| class.category != Category::Idle;
        let busy: Vec<_> = classes.iter().filter(|(class, _)| is_busy(class)).collect();
        let samples: u64 = busy.iter().map(|(_, count)| count).sum();
        if samples == 0 {
            *self.seconds.entry(Category::Unknown).or_default() += busy_seconds;
        }
        for (class, count) in busy {
            let seconds = busy_seconds * *count as f64 / samples as f64;
            *self.seconds.entry(class.category).or_default() += seconds;
            *self.contexts.entry(class.context).or_default() += seconds;
            if let Some(purpose) = class.copied_for {
                *self.copies.entry(purpose).or_default() += seconds;
            }
            if let Some(part) = &class.part {
                *self.parts.entry(part.clone()).or_default() += seconds;
            }
            if class.is_skid {
                self.skid += seconds;
            }
        }
    }
}

/// Shares in percent with two decimals, in the order of [`Category::ALL`]. Their sum is exactly
/// 100; all time is unknown if there was none.
pub(crate) fn shares(seconds: &BTreeMap<Category, f64>) -> Vec<(Category, f64)> {
    const WHOLE: u32 = 10_000;
    let clean = |seconds: &f64| if seconds.is_finite() { seconds.max(0.0) } else { 0.0 };
    let total: f64 = seconds.values().map(clean).sum();
    let exact = |category: &Category| {
        let own = seconds.get(category).map_or(0.0, clean);
        let share = match total {
            total if total > 0.0 && total.is_finite() => own / total,
            _ => f64::from(u8::from(*category == Category::Unknown)),
        };
        share * f64::from(WHOLE)
    };
    // The largest remainders get the difference that rounding down leaves.
    let mut parts: Vec<(Category, u32, f64)> = Category::ALL
        .iter()
        .map(|category| {
            let exact = exact(category);
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "0 to 10000"
            )]
            let whole = exact.floor() as u32;
            (*category, whole, exact - exact.floor())
        })
        .collect();
    let given: u32 = parts.iter().map(|(_, whole, _)| whole).sum();
    let mut by_remainder: Vec<usize> = (0..parts.len()).collect();
    by_remainder.sort_by(|a, b| parts[*b].2.total_cmp(&parts[*a].2));
    for at in by_remainder.into_iter().take(WHOLE.saturating_sub(given) as usize) {
        parts[at].1 += 1;
    }
    parts.into_iter().map(|(category, whole, _)| (category, f64::from(whole) / 100.0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sum(shares: &[(Category, f64)]) -> f64 {
        shares.iter().map(|(_, share)| share * 100.0).map(f64::round).sum::<f64>() / 100.0
    }

    #[test]
    fn busy_time_is_divided_by_samples_that_are_not_idle() {
        let class = |category, part: Option<&str>| Class {
            category,
            context: Context::User,
            copied_for: None,
            is_skid: false,
            part: part.map(str::to_owned),
        };
        let classes = [
            (class(Category::Idle, None), 500),
            (class(Category::Application, Some("server")), 3),
            (class(Category::Network, None), 1),
        ];
        let mut division = Division::default();
        division.add_cpu(2.0, &classes);
        division.add_cpu(1.0, &[]);
        let expected =
            [(Category::Network, 0.5), (Category::Application, 1.5), (Category::Unknown, 1.0)];
        assert_eq!(division.seconds, BTreeMap::from(expected));
        assert_eq!(division.parts, BTreeMap::from([("server".to_owned(), 1.5)]));
    }

    #[test]
    fn folded_lines_begin_with_the_process() {
        let user = [("libc.so.6", Some("write")), ("server", None)];
        let line = folded("server", &[Some("tcp_sendmsg"), None], &user);
        assert_eq!(line, "server;server`?;libc.so.6`write;?_[k];tcp_sendmsg_[k]");
    }

    proptest! {
        /// Shares are 100 in sum for any samples.
        #[test]
        fn shares_are_100_in_sum(
            seconds in proptest::collection::btree_map(
                proptest::sample::select(Category::ALL), proptest::num::f64::ANY, 0..19)
        ) {
            let shares = shares(&seconds);
            prop_assert_eq!(sum(&shares), 100.0);
            prop_assert!(shares.iter().all(|(_, share)| (0.0..=100.0).contains(share)));
        }
    }
}
