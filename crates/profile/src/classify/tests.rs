//! Rules on recorded stacks and on single stacks.
//!
//! `stacks/*.folded` were recorded with `perf record -a -g -e cpu-clock` on Linux 6.18 while each
//! server sent and received a file over loopback, and contain the most frequent stacks of its
//! process and of the kernel's threads, in the form of [`crate::tally`].

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Parses a line ``process;module`function;function_[k] COUNT`` and returns its class.
fn class_of(classifier: &Classifier, line: &str) -> (Class, u64) {
    let (stack, count) = line.rsplit_once(' ').unwrap();
    let mut kernel = Vec::new();
    let mut user = None;
    for frame in stack.split(';').skip(1).collect::<Vec<_>>().into_iter().rev() {
        match (frame.strip_suffix("_[k]"), frame.split_once('`')) {
            (Some("?"), _) => kernel.push(None),
            (Some(name), _) => kernel.push(Some(name)),
            (None, Some((module, name))) if user.is_none() => {
                user = Some((module, Some(name).filter(|it| *it != "?")));
            }
            _ => {}
        }
    }
    let owner = if stack.starts_with("swapper") { Owner::Idle } else { Owner::Profiled };
    (classifier.classify(&Stack { owner, kernel: &kernel, user }), count.parse().unwrap())
}

fn category(line: &str) -> Category {
    class_of(&Classifier::new(), line).0.category
}

/// Shares of the categories in a recording, without idle, in percent.
fn shares(recording: &str) -> BTreeMap<Category, f64> {
    let classifier = Classifier::new();
    let mut counts: BTreeMap<Category, u64> = BTreeMap::new();
    for line in recording.lines() {
        let (class, count) = class_of(&classifier, line);
        *counts.entry(class.category).or_default() += count;
    }
    counts.remove(&Category::Idle);
    let all: u64 = counts.values().sum();
    counts.into_iter().map(|(it, count)| (it, 100.0 * count as f64 / all as f64)).collect()
}

/// The unclassified share, and the largest categories, of each recording.
#[test]
fn recorded_servers_are_classified() {
    for (name, recording, largest) in [
        ("nginx", include_str!("stacks/nginx.folded"), [Category::Copies, Category::Network]),
        ("xrootd", include_str!("stacks/xrootd.folded"), [Category::Checksums, Category::Copies]),
        ("hither", include_str!("stacks/hither.folded"), [Category::Copies, Category::Network]),
    ] {
        let shares = shares(recording);
        let of = |category| shares.get(&category).copied().unwrap_or_default();
        let unclassified = of(Category::Unknown) + of(Category::RestOfKernel);
        assert!(unclassified <= 5.0, "{name}: {unclassified} % are not classified: {shares:?}");
        assert!(largest.iter().all(|it| of(*it) > 10.0), "{name}: {shares:?}");
    }
}

#[test]
fn the_innermost_function_with_a_purpose_decides() {
    const CALL: &str = "server;entry_SYSCALL_64_after_hwframe_[k];do_syscall_64_[k];";
    for (frames, expected) in [
        ("ksys_write_[k];tcp_sendmsg_[k];_raw_spin_lock_[k]", Category::Network),
        (
            "ksys_write_[k];vfs_write_[k];ext4_file_write_iter_[k];kmem_cache_alloc_[k]",
            Category::FileIo,
        ),
        (
            "ksys_read_[k];filemap_read_[k];_copy_to_iter_[k];__check_object_size_[k]",
            Category::Copies,
        ),
        ("__schedule_[k];finish_task_switch.isra.0_[k]", Category::Scheduler),
        ("start_xmit [virtio_net]_[k];virtqueue_add_outbuf_[k]", Category::NicDriver),
        ("odd_function [nvme]_[k]", Category::Block),
        ("syscall_exit_work_[k]", Category::SystemCalls),
        ("__x64_sys_getppid_[k];odd_function_[k]", Category::RestOfKernel),
        ("?_[k]", Category::RestOfKernel),
    ] {
        assert_eq!(category(&format!("{CALL}{frames} 1")), expected, "{frames}");
    }
    assert_eq!(category("server;?_[k];?_[k] 1"), Category::Unknown);
}

#[test]
fn an_interrupt_is_not_charged_to_what_it_interrupts() {
    const WRITE: &str =
        "server;do_syscall_64_[k];ext4_file_write_iter_[k];asm_sysvec_apic_timer_interrupt_[k]";
    let classifier = Classifier::new();
    let late = format!("{WRITE};__irq_exit_rcu_[k];handle_softirqs_[k] 1");
    let (class, _) = class_of(&classifier, &late);
    assert_eq!((class.category, class.context), (Category::Interrupts, Context::Softirq));
    assert!(class.is_skid);
    let received = format!("{WRITE};__irq_exit_rcu_[k];handle_softirqs_[k];odd_[k];ip_rcv_[k] 1");
    assert_eq!(category(&received), Category::Network);
    assert_eq!(category(&format!("{WRITE};odd_function_[k] 1")), Category::RestOfKernel);
}

#[test]
fn programs_are_divided_by_library_and_function() {
    let classifier = Classifier::new();
    for (frame, expected, part) in [
        ("libc.so.6`memcpy", Category::Libc, None),
        ("ld-linux-x86-64.so.2`?", Category::Libc, None),
        ("libcrypto.so.3`?", Category::Tls, None),
        ("libcrypto.so.3`sha256_block_data_order", Category::Checksums, None),
        ("libXrdUtils.so.3`crc32c", Category::Checksums, None),
        ("nginx`?", Category::Application, Some("nginx")),
        ("hither`hither_server::server::serve", Category::Application, Some("hither_server")),
        ("hither`<tokio::time::Sleep as core::Future>::poll", Category::Application, Some("tokio")),
        ("hither`ring_core_0_17_14__aes_gcm_enc", Category::Tls, None),
        ("[anonymous]`?", Category::Unknown, None),
    ] {
        let (class, _) = class_of(&classifier, &format!("server;{frame} 1"));
        assert_eq!((class.category, class.part.as_deref()), (expected, part), "{frame}");
    }
}

#[test]
fn only_kernel_work_without_a_process_counts_for_others() {
    let classifier = Classifier::new();
    let of = |owner, names: &[&str]| {
        let kernel: Vec<_> = names.iter().rev().map(|name| Some(*name)).collect();
        let user = Some(("server", None));
        classifier.classify(&Stack { owner, kernel: &kernel, user }).category
    };
    let softirq = ["do_idle", "asm_common_interrupt", "handle_softirqs", "net_rx_action"];
    for owner in [Owner::Idle, Owner::Profiler, Owner::Profiled, Owner::Other] {
        assert_eq!(of(owner, &softirq), Category::Network);
    }
    assert_eq!(of(Owner::Idle, &["do_idle", "tcp_sendmsg"]), Category::Idle);
    assert_eq!(of(Owner::Profiler, &["do_syscall_64", "vfs_read"]), Category::Profiler);
    assert_eq!(of(Owner::Other, &["do_syscall_64", "vfs_read"]), Category::OtherProcesses);
    assert_eq!(of(Owner::Other, &["ret_from_fork", "kthread", "wb_workfn"]), Category::FileIo);
    assert_eq!(of(Owner::Other, &[]), Category::OtherProcesses);
}

proptest! {
    #[test]
    fn any_stack_has_a_class(names in proptest::collection::vec(proptest::option::of("[a-zé_.\\[ ]{0,12}"), 0..9)) {
        let kernel: Vec<Option<&str>> = names.iter().map(Option::as_deref).collect();
        let class = Classifier::new().classify(&Stack { owner: Owner::Profiled, kernel: &kernel, user: None });
        prop_assert!(Category::ALL.contains(&class.category));
    }
}
