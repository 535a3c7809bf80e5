//! What a panic does: it ends the process, wherever it happens.
//!
//! Owns the hook. Without it a panic ends one task of the runtime, and a process that looks alive
//! works on without its controllers.

use std::sync::atomic::{AtomicI32, Ordering};

use crate::output::complain;

/// The exit code of a process that met a defect of its own.
const DEFECT: i32 = 101;

/// The same for the command that is run, should it have promised another.
static CODE: AtomicI32 = AtomicI32::new(DEFECT);

/// From now on a panic ends the process with this code.
pub(crate) fn end_with(code: i32) {
    CODE.store(code, Ordering::Relaxed);
}

/// From now on a panic in any task or thread ends the process.
pub(crate) fn end_the_process() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        report(info);
        complain("this is a defect of Shipshape, and it cannot go on");
        end();
    }));
}

#[expect(
    clippy::exit,
    reason = "a hook cannot return an exit code, and unwinding ends one task alone"
)]
fn end() {
    std::process::exit(CODE.load(Ordering::Relaxed));
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    const CHILD: &str = "panics::tests::child_whose_task_panics";

    #[test]
    #[ignore = "started by the test below, in a process of its own"]
    fn child_whose_task_panics() {
        super::end_the_process();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let task = tokio::spawn(async { panic!("a defect") });
            // The test harness would end a failing test with the same code: this one would pass.
            assert!(task.await.is_err());
        });
    }

    #[test]
    fn panic_of_a_task_ends_the_process_with_a_word_and_a_code() {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", CHILD, "--ignored", "--nocapture"])
            .output()
            .unwrap();
        let words = String::from_utf8_lossy(&child.stderr);
        assert_eq!(child.status.code(), Some(super::DEFECT), "{words}");
        assert!(words.contains("a defect of Shipshape"), "{words}");
    }
}
