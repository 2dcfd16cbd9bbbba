//! Rules that assign a category to each sample.
//!
//! A sample has a *context* (idle, interrupt, softirq, system call, kernel thread, page fault or
//! user) and a *category*. The context follows from the innermost function that marks the entry
//! into a context. The category follows from the first function, from the innermost outwards, that
//! shows the purpose of the work: locks, allocators, RCU and memcpy do not show it and are charged
//! to their callers. The search ends at the mark, so an interrupt is not charged to the code that
//! it interrupts.
//!
//! Two figures are counted across the categories. Copies between the kernel and programs are a
//! category of their own, and are also counted by the category that they were made for. And the
//! clock cannot sample code that disables interrupts: such a sample appears where they are enabled
//! again. It is charged to the caller, which is correct for a lock and the code that it protects.
//! The share of such samples is reported as *skid*.

mod kernel_rules;
mod user_rules;

use crate::category::Category;
use kernel_rules::KernelRules;
use std::cell::RefCell;
use std::collections::HashMap;

/// The context of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Context {
    Idle,
    Interrupt,
    Softirq,
    SystemCall,
    PageFault,
    KernelThread,
    User,
    /// In the kernel, without a mark.
    OtherKernel,
}

impl Context {
    /// The name in JSON.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Interrupt => "interrupt",
            Self::Softirq => "softirq",
            Self::SystemCall => "system_call",
            Self::PageFault => "page_fault",
            Self::KernelThread => "kernel_thread",
            Self::User => "user",
            Self::OtherKernel => "other_kernel",
        }
    }
}

/// The owner of the process that was sampled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Owner {
    /// No process: the idle thread of a CPU.
    Idle,
    /// This process.
    Profiler,
    /// The profiled processes.
    Profiled,
    /// All others.
    Other,
}

/// A call chain with names, the innermost function first.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stack<'a> {
    pub(crate) owner: Owner,
    /// Functions of the kernel; none for a function without a name.
    pub(crate) kernel: &'a [Option<&'a str>],
    /// Module and function of the innermost frame outside the kernel, if they are known.
    pub(crate) user: Option<(&'a str, Option<&'a str>)>,
}

/// The treatment of a function of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KernelRule {
    /// Does not show the purpose.
    Transparent,
    /// Does not show the purpose; as the innermost function it stands for code with disabled
    /// interrupts.
    TransparentAfterInterrupts,
    /// Copies between kernel and program.
    Copies,
    /// Work of this category.
    Belongs(Category),
    /// An entry into the kernel: its category holds unless it called a function without a rule.
    Entry(Category),
}

/// The class of a sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Class {
    pub(crate) category: Category,
    pub(crate) context: Context,
    /// The category that a copy was made for.
    pub(crate) copied_for: Option<Category>,
    pub(crate) is_skid: bool,
    /// The part of the program, for time spent in it.
    pub(crate) part: Option<String>,
}

/// The rules, with a cache of their results.
#[derive(Debug)]
pub(crate) struct Classifier {
    rules: KernelRules,
    known: RefCell<HashMap<String, Option<KernelRule>>>,
}

impl Classifier {
    pub(crate) fn new() -> Self {
        Self { rules: KernelRules::new(), known: RefCell::new(HashMap::new()) }
    }

    fn rule(&self, name: &str) -> Option<KernelRule> {
        if let Some(rule) = self.known.borrow().get(name) {
            return *rule;
        }
        let rule = self.rules.of(name);
        self.known.borrow_mut().insert(name.to_owned(), rule);
        rule
    }

    /// Returns the class of a sample.
    pub(crate) fn classify(&self, stack: &Stack<'_>) -> Class {
        let (context, end) = context(stack);
        let of =
            |category| Class { category, context, copied_for: None, is_skid: false, part: None };
        match stack.owner {
            _ if is_interrupt(context) => {}
            Owner::Idle => return Class { context: Context::Idle, ..of(Category::Idle) },
            Owner::Profiler => return of(Category::Profiler),
            Owner::Other if context != Context::KernelThread => {
                return of(Category::OtherProcesses);
            }
            _ => {}
        }
        if !stack.kernel.is_empty() {
            let frames = stack.kernel.get(..end).unwrap_or(stack.kernel);
            return self.of_kernel(frames, context);
        }
        let Some((module, function)) = stack.user else { return of(Category::Unknown) };
        let category = user_rules::category(module, function);
        let part = (category == Category::Application)
            .then(|| user_rules::part(module, function).to_owned());
        Class { part, ..of(category) }
    }

    fn of_kernel(&self, frames: &[Option<&str>], context: Context) -> Class {
        let rule = |name: &Option<&str>| name.map(|name| self.rule(name));
        let is_skid = frames
            .first()
            .is_some_and(|it| rule(it) == Some(Some(KernelRule::TransparentAfterInterrupts)));
        let mut is_copy = false;
        // Set once a function without a rule, or without a name, was found between the sample and
        // its entry.
        let mut is_unclear = false;
        let mut is_unnamed = !frames.is_empty();
        let mut found = None;
        for name in frames {
            is_unnamed &= name.is_none();
            match rule(name) {
                Some(Some(KernelRule::Belongs(category))) => found = Some(category),
                Some(Some(KernelRule::Entry(category))) if !is_unclear => found = Some(category),
                Some(Some(KernelRule::Entry(_))) => break,
                Some(Some(KernelRule::Copies)) => is_copy |= !is_unclear,
                Some(Some(_)) => {}
                Some(None) | None => is_unclear = true,
            }
            if found.is_some() {
                break;
            }
        }
        let purpose = match found {
            Some(category) => category,
            None if is_unnamed => Category::Unknown,
            // Interrupts were enabled again, and no work of the softirq had begun.
            None if is_interrupt(context) && !is_unclear => Category::Interrupts,
            None => Category::RestOfKernel,
        };
        let category = if is_copy { Category::Copies } else { purpose };
        Class { category, context, copied_for: is_copy.then_some(purpose), is_skid, part: None }
    }
}

fn is_interrupt(context: Context) -> bool {
    matches!(context, Context::Interrupt | Context::Softirq)
}

/// The context of a stack, and the number of its kernel functions inside the mark.
fn context(stack: &Stack<'_>) -> (Context, usize) {
    let marked = |name: &str| {
        let name = name.split(['.', ' ']).next().unwrap_or(name);
        Some(match name {
            "handle_softirqs" | "__do_softirq" | "run_ksoftirqd" => Context::Softirq,
            "common_interrupt" | "asm_common_interrupt" | "el1_interrupt" | "el0_interrupt" => {
                Context::Interrupt
            }
            "do_syscall_64" | "entry_SYSCALL_64_after_hwframe" | "invoke_syscall" => {
                Context::SystemCall
            }
            "asm_exc_page_fault" | "exc_page_fault" | "do_page_fault" => Context::PageFault,
            "kthread" => Context::KernelThread,
            _ if name.starts_with("sysvec_") || name.starts_with("asm_sysvec_") => {
                Context::Interrupt
            }
            _ => return None,
        })
    };
    for (name, number) in stack.kernel.iter().zip(1..) {
        if let Some(context) = name.and_then(marked) {
            return (context, number);
        }
    }
    let unmarked = if stack.kernel.is_empty() { Context::User } else { Context::OtherKernel };
    (unmarked, stack.kernel.len())
}

#[cfg(test)]
mod tests;
