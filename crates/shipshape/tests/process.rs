//! The binary as a process: how the demo ends when somebody asks it to, and the ends of a range.
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up must fail")]

use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

/// Far longer than an end takes, far shorter than the roll.
const PATIENCE: Duration = Duration::from_mins(1);

/// Starts a roll that takes many minutes, asks it to end while it is under way, and gives the code
/// and the last words.
async fn asked_to_end(signal: &str, options: &[&str]) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_shipshape"))
        .args(["demo", "--nodes", "30", "--speed", "1", "--kubeconfig"])
        .arg(folder.path().join("kubeconfig"))
        .args(options)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let id = child.id().unwrap().to_string();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    while let Some(line) = lines.next_line().await.unwrap() {
        if line.contains("Provision") {
            break;
        }
    }
    let sent = Command::new("kill").args(["-s", signal, &id]).status();
    assert!(sent.await.unwrap().success());
    let ended = tokio::time::timeout(PATIENCE, child.wait_with_output());
    let ended = ended.await.unwrap().unwrap();
    let words = String::from_utf8_lossy(&ended.stderr).into_owned();
    (ended.status.code(), words)
}

#[tokio::test]
async fn ctrl_c_in_the_middle_of_the_roll_ends_the_demo_with_a_word() {
    for options in [&[][..], &["--once"]] {
        let (code, words) = asked_to_end("INT", options).await;
        assert_eq!(code, Some(130), "{words}");
        assert!(words.contains("the cluster is gone"), "{words}");
    }
}

#[tokio::test]
async fn a_terminated_demo_ends_with_a_word() {
    let (code, words) = asked_to_end("TERM", &[]).await;
    assert_eq!(code, Some(143), "{words}");
    assert!(words.contains("the cluster is gone"), "{words}");
}

#[tokio::test]
async fn the_highest_seed_is_played_and_a_full_disk_is_named() {
    let scenario = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../scenarios/unsupported-provider.yaml"
    );
    let simulate = |stdout: Stdio| {
        let seed = u64::MAX.to_string();
        Command::new(env!("CARGO_BIN_EXE_shipshape"))
            .args(["simulate", scenario, "--seed", &seed])
            .stdout(stdout)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
            .wait_with_output()
    };
    let played = simulate(Stdio::piped()).await.unwrap();
    assert_eq!(played.status.code(), Some(0), "{played:?}");
    let full = std::fs::File::options()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let refused = simulate(full.into()).await.unwrap();
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    let words = String::from_utf8_lossy(&refused.stderr);
    assert!(words.contains("No space left on device"), "{words}");
}
