//! Credentials and endpoints come from the environment alone. A process cannot change its own
//! environment safely, so this test starts itself again with another one.

#![expect(
    clippy::unwrap_used,
    reason = "the steps of the tests are functions, which the lint does not take for tests"
)]

use std::process::{Command, Output};
use std::time::Duration;

use shipshape_api::{AwsProvider, ProviderRef};
use shipshape_cluster::Clock;
use shipshape_engine::machine::{GroupId, MachineId};
use shipshape_provider::{Error, ProviderSource};
use shipshape_provider_aws::{ClientSettings, PaceSettings, Regions};
use shipshape_simulator::cloud::aws::{self, Services};
use shipshape_simulator::cloud::{Cloud, CloudSpec, GroupSpec, MachineNames};
use shipshape_simulator::seed::Seed;
use tokio::net::TcpListener;
use tracing_subscriber::filter::LevelFilter;

const MACHINE: &str = "SHIPSHAPE_TEST_MACHINE";
const SECRET: &str = "wJalrXUtnFEMIK7MDENGbPxRfiCYKEY";

fn block() -> ProviderRef {
    ProviderRef {
        r#type: "aws".to_owned(),
        aws: Some(AwsProvider {
            region: "north".to_owned(),
            ..AwsProvider::default()
        }),
    }
}

/// The child's part: reads a machine and its group, and says what it found. Without its variable it
/// has nothing to do.
#[tokio::test]
async fn child() {
    let Ok(machine) = std::env::var(MACHINE) else {
        return;
    };
    tracing_subscriber::fmt()
        .with_max_level(LevelFilter::TRACE)
        .init();
    let regions = Regions::new(ClientSettings {
        pace: PaceSettings {
            deadline: Duration::from_secs(2),
            ..PaceSettings::default()
        },
        ..ClientSettings::default()
    });
    let provider = regions.provider(&block()).await;
    let provider = match provider {
        Ok(provider) => provider,
        Err(error) => return println!("FOUND {error}"),
    };
    match provider.machine(&MachineId(machine)).await {
        Ok(machine) => println!("FOUND {} in {:?}", machine.id, machine.group),
        Err(Error::Denied { .. }) => println!("FOUND no credentials"),
        Err(error) => println!("FOUND {error}"),
    }
    let group = provider.group(&GroupId::from("workers")).await;
    println!("GROUP {:?}", group.map(|group| group.desired));
}

fn again(machine: &MachineId, variables: &[(&str, &str)]) -> Output {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture"])
        .env_clear()
        .env(MACHINE, machine.as_str())
        .env("AWS_EC2_METADATA_DISABLED", "true")
        .envs(variables.iter().copied())
        .output()
        .unwrap()
}

async fn cloud() -> (Cloud, String) {
    let spec = CloudSpec {
        groups: vec![GroupSpec::new("workers", "image", 1)],
        names: MachineNames::Aws,
        ..CloudSpec::default()
    };
    let cloud = Cloud::new(&spec, Clock::System, &Seed::new(1));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(aws::serve(
        cloud.handle("nobody"),
        Services::default(),
        listener,
    ));
    (cloud, endpoint)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn endpoints_and_credentials_come_from_the_environment_and_stay_out_of_the_log() {
    let (cloud, endpoint) = cloud().await;
    let machine = cloud.machines().into_iter().next().unwrap().id;
    let keys = [
        ("AWS_ACCESS_KEY_ID", "environment"),
        ("AWS_SECRET_ACCESS_KEY", SECRET),
        ("AWS_SESSION_TOKEN", "a-token-that-is-as-secret"),
    ];
    let one = [("AWS_ENDPOINT_URL", endpoint.as_str())];
    let each = [
        ("AWS_ENDPOINT_URL", "http://127.0.0.1:1"),
        ("AWS_ENDPOINT_URL_EC2", endpoint.as_str()),
        ("AWS_ENDPOINT_URL_AUTO_SCALING", endpoint.as_str()),
    ];
    for endpoints in [&one[..], &each] {
        let output = again(&machine, &[&keys[..], endpoints].concat());
        let text = String::from_utf8(output.stdout).unwrap();
        let found = format!("FOUND {machine} in Some(GroupId(\"workers\"))");
        assert!(text.contains(&found), "{text}");
        assert!(text.contains("GROUP Ok(1)"), "{text}");
        // The log is on at its finest, and tells of calls.
        assert!(text.contains("TRACE"), "{text}");
        assert!(!text.contains(SECRET), "{text}");
        assert!(!text.contains("a-token-that-is-as-secret"), "{text}");
    }
    let log = cloud.log();
    assert!(log.iter().all(|call| call.caller == "environment"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_credentials_are_told_as_such() {
    let (cloud, endpoint) = cloud().await;
    let machine = cloud.machines().into_iter().next().unwrap().id;
    let output = again(&machine, &[("AWS_ENDPOINT_URL", endpoint.as_str())]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("FOUND no credentials"), "{text}");
    assert!(text.contains("GROUP Err(Denied"), "{text}");
}
