//! The binary as a process: how the demo ends when somebody asks it to, and the ends of a range,
//! the picture in the README.
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
    let kubeconfig = folder.path().join("kubeconfig");
    let mut child = Command::new(env!("CARGO_BIN_EXE_shipshape"))
        .args(["demo", "--nodes", "30", "--speed", "1", "--kubeconfig"])
        .arg(&kubeconfig)
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
    assert!(kubeconfig.exists());
    let sent = Command::new("kill").args(["-s", signal, &id]).status();
    assert!(sent.await.unwrap().success());
    let ended = tokio::time::timeout(PATIENCE, child.wait_with_output());
    let ended = ended.await.unwrap().unwrap();
    let words = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(!kubeconfig.exists(), "the kubeconfig goes with the cluster");
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
    let scenario = scenario("unsupported-provider");
    let simulate = |stdout: Stdio| {
        let seed = u64::MAX.to_string();
        Command::new(env!("CARGO_BIN_EXE_shipshape"))
            .args(["simulate", &scenario, "--seed", &seed])
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
    assert!(
        words.contains("cannot write to standard output: No space left on device"),
        "{words}"
    );
}

/// A command whose reader takes one line and goes; gives the code and the complaints.
async fn read_by_head(arguments: &[&str]) -> (Option<i32>, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_shipshape"))
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.next_line().await.unwrap().is_some());
    drop(lines);
    let ended = tokio::time::timeout(PATIENCE, child.wait_with_output());
    let ended = ended.await.unwrap().unwrap();
    let words = String::from_utf8_lossy(&ended.stderr).into_owned();
    (ended.status.code(), words)
}

#[tokio::test]
async fn whoever_prints_for_long_ends_in_silence_when_nobody_reads() {
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    let demo = ["demo", "--nodes", "30", "--speed", "1", "--kubeconfig"];
    let demo = [&demo[..], &[kubeconfig.to_str().unwrap()]].concat();
    let scenario = scenario("unsupported-provider");
    let simulate = ["simulate", &scenario, "--seeds", "0..100000"];
    for arguments in [&demo[..], &simulate] {
        let ended = read_by_head(arguments).await;
        assert_eq!(ended, (Some(141), String::new()), "{arguments:?}");
    }
    assert!(!kubeconfig.exists());
}

fn scenario(name: &str) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios");
    format!("{folder}/{name}.yaml")
}

/// Runs a command to its end.
async fn run(arguments: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_shipshape"))
        .args(arguments)
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(PATIENCE, output).await.unwrap();
    let output = output.unwrap();
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), words)
}

#[tokio::test]
async fn what_would_be_played_in_vain_is_refused_before_the_play() {
    let folder = tempfile::tempdir().unwrap();
    let good = scenario("unsupported-provider");
    let file = folder.path().join("hangs.yaml");
    let text = std::fs::read_to_string(&good).unwrap();
    let text = format!("{text}\nsettings: {{ sweep: {{ every: 0s }} }}\n");
    std::fs::write(&file, text).unwrap();
    let hangs = file.to_str().unwrap();
    let nowhere = folder.path().join("no/such/roll.svg");
    let nowhere = nowhere.to_str().unwrap();
    // A play that nobody would wait for the end of.
    let seeds = ["simulate", "--seeds", "0..100000", "--log-level", "bogus"];
    let table = [
        (
            &["simulate", hangs][..],
            "settings.sweep.every is 0s; right would be",
        ),
        (
            &["simulate", &good, "--timeline", nowhere],
            "cannot write --timeline",
        ),
        (&seeds, "--log-level is \"bogus\""),
    ];
    for (arguments, expected) in table {
        let (code, words) = run(arguments).await;
        assert_eq!(code, Some(2), "{words}");
        assert!(words.contains(expected), "{words}");
    }
}

#[tokio::test]
async fn a_picture_that_is_there_stays_while_the_play_is_refused_and_none_is_left_behind() {
    let folder = tempfile::tempdir().unwrap();
    let picture = folder.path().join("roll.svg");
    let file = picture.to_str().unwrap();
    let arguments = ["simulate", "no/such/file.yaml", "--timeline", file];
    assert_eq!(run(&arguments).await.0, Some(2));
    assert!(!picture.exists());
    std::fs::write(&picture, "a picture").unwrap();
    assert_eq!(run(&arguments).await.0, Some(2));
    assert_eq!(std::fs::read_to_string(&picture).unwrap(), "a picture");
}

/// The picture of a command in the README: the indented lines after its name.
fn picture(command: &str) -> Vec<String> {
    let readme = concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md");
    let readme = std::fs::read_to_string(readme).unwrap();
    let after = readme.split_once(command).unwrap().1;
    let lines = after.lines().skip_while(|line| !line.starts_with("    "));
    let lines = lines.take_while(|line| line.starts_with("    "));
    let lines = lines.filter_map(|line| line.strip_prefix("    "));
    lines.map(|line| line.trim_end().to_owned()).collect()
}

#[tokio::test]
async fn the_readme_shows_what_the_demo_prints() {
    let options = ["demo", "--nodes", "3", "--once", "--speed", "max"];
    let demo = Command::new(env!("CARGO_BIN_EXE_shipshape"))
        .args(options)
        .output();
    let printed = demo.await.unwrap().stdout;
    let printed = String::from_utf8(printed).unwrap();
    let mut printed_lines = printed.lines().map(str::trim_end);
    let picture = picture(&options.join(" "));
    assert!(picture.len() > 10, "{picture:?}");
    for line in picture.iter().filter(|line| *line != "...") {
        let is_printed = printed_lines.any(|one| one == line);
        assert!(is_printed, "{line}\nis not printed here:\n{printed}");
    }
}
