//! The table of kernel functions, `kernel_rules.txt`.

use super::KernelRule::{self, Belongs, Copies, Entry, Transparent, TransparentAfterInterrupts};
use crate::category::Category;
use std::collections::HashMap;

const TABLE: &str = include_str!("kernel_rules.txt");

/// The table, indexed for look-ups.
#[derive(Debug, Default)]
pub(super) struct KernelRules {
    by_beginning: HashMap<&'static str, KernelRule>,
    modules: Vec<(&'static str, Category)>,
}

impl KernelRules {
    pub(super) fn new() -> Self {
        let mut rules = Self::default();
        let mut section = "";
        for line in TABLE.lines().filter(|line| !line.starts_with('#')) {
            if let Some(name) = line.strip_prefix('[').and_then(|it| it.strip_suffix(']')) {
                section = name;
                continue;
            }
            match section.strip_prefix("module ").and_then(category) {
                Some(category) => {
                    rules.modules.extend(line.split_whitespace().map(|name| (name, category)));
                }
                None => {
                    let Some(rule) = rule(section) else { continue };
                    rules.by_beginning.extend(line.split_whitespace().map(|name| (name, rule)));
                }
            }
        }
        rules
    }

    /// The rule of a function, whose name may end with ` [module]`; none if the table has no entry.
    pub(super) fn of(&self, name: &str) -> Option<KernelRule> {
        let (name, module) = name.split_once(' ').unwrap_or((name, ""));
        // Compilers append `.isra.0` and similar suffixes to the names of split functions.
        let plain = name.split('.').next().unwrap_or(name);
        if let Some(rule) = self.by_beginning.get(format!("{plain}$").as_str()) {
            return Some(*rule);
        }
        let ends = (1..=plain.len()).rev();
        let mut beginnings = ends.filter_map(|end| plain.get(..end));
        beginnings.find_map(|it| self.by_beginning.get(it)).copied().or_else(|| {
            let module = module.trim_start_matches('[');
            let is_of = |(name, _): &&(&str, Category)| module.starts_with(name);
            self.modules.iter().find(is_of).map(|(_, category)| Belongs(*category))
        })
    }
}

/// The rule of a section.
fn rule(section: &str) -> Option<KernelRule> {
    Some(match section {
        "after_interrupts" => TransparentAfterInterrupts,
        "transparent" => Transparent,
        "copies" => Copies,
        _ => match section.strip_prefix("entry ") {
            Some(name) => Entry(category(name)?),
            None => Belongs(category(section)?),
        },
    })
}

fn category(key: &str) -> Option<Category> {
    Category::ALL.iter().copied().find(|category| category.key() == key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_section_of_the_table_has_a_meaning_and_no_entry_two() {
        let mut count = 0;
        let mut is_module = false;
        for line in TABLE.lines().filter(|line| !line.starts_with('#')) {
            if let Some(name) = line.strip_prefix('[').and_then(|it| it.strip_suffix(']')) {
                let module = name.strip_prefix("module ").and_then(category);
                assert!(rule(name).is_some() || module.is_some(), "[{name}]");
                is_module = module.is_some();
            } else if !is_module {
                count += line.split_whitespace().count();
            }
        }
        assert_eq!(KernelRules::new().by_beginning.len(), count);
    }
}
