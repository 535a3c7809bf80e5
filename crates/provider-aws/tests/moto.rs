//! The provider against moto, which nobody here has written: the outside witness of signatures, wire
//! form and order of calls. It knows no client tokens, no lag and no faults; the embedded cloud does.
//!
//! Needs `testbed/moto/install.sh`. Run by `.ci/run` with `--include-ignored`.

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "the steps of the tests are functions, which the lint does not take for tests"
)]

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use async_trait::async_trait;
use shipshape_engine::machine::{GroupId, MachineId, MachineState};
use shipshape_provider::Provider;
use shipshape_provider::contract::{Check, Stage};
use shipshape_provider_aws::{Aws, AwsSettings, ClientSettings, Regions};
use tokio::net::TcpStream;

const REGION: &str = "eu-central-1";

fn testbed() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testbed/moto")
}

/// moto on a free port; it ends with this value.
struct Moto {
    child: Child,
    programs: PathBuf,
    endpoint: String,
}

impl Moto {
    async fn start() -> Self {
        let installed = Command::new(testbed().join("install.sh")).output().unwrap();
        assert!(installed.status.success(), "{installed:?}");
        let programs = String::from_utf8(installed.stdout).unwrap();
        let programs = PathBuf::from(programs.trim());
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap();
        drop(free);
        let child = Command::new(programs.join("moto_server"))
            .args(["-H", "127.0.0.1", "-p", &address.port().to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let moto = Self {
            child,
            programs,
            endpoint: format!("http://{address}"),
        };
        for _ in 0..600 {
            if TcpStream::connect(address).await.is_ok() {
                return moto;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("moto does not listen on {address}");
    }

    /// An empty cloud but for one group, and the provider of a fresh process.
    async fn stage(&self, kind: &str) -> Set {
        let set = Command::new(self.programs.join("python"))
            .arg(testbed().join("stage.py"))
            .args([&self.endpoint, kind])
            .output()
            .unwrap();
        assert!(set.status.success(), "{set:?}");
        let running = String::from_utf8(set.stdout).unwrap();
        let regions = Regions::at(
            &self.endpoint,
            "operator",
            "secret",
            ClientSettings {
                poll: Duration::from_millis(50),
                ..ClientSettings::default()
            },
        );
        let settings = AwsSettings {
            region: REGION.to_owned(),
            cluster_id: Some("test".to_owned()),
            ..AwsSettings::default()
        };
        Set {
            provider: regions.open(settings).await.unwrap(),
            running: MachineId::from(running.trim()),
        }
    }
}

impl Drop for Moto {
    fn drop(&mut self) {
        // An error here means that it is gone already, which is what we want.
        if self.child.kill().is_ok() {
            drop(self.child.wait());
        }
    }
}

struct Set {
    provider: Aws,
    running: MachineId,
}

#[async_trait]
impl Stage for Set {
    fn provider(&self) -> &dyn Provider {
        &self.provider
    }

    fn group(&self) -> GroupId {
        GroupId::from("workers")
    }

    fn running(&self) -> MachineId {
        self.running.clone()
    }

    /// In moto everything happens at once.
    async fn settle(&self) {}
}

#[tokio::test]
#[ignore = "needs moto: testbed/moto/install.sh"]
async fn moto_sees_the_contract_kept() {
    let moto = Moto::start().await;
    for kind in ["plain", "mixed"] {
        for check in Check::ALL {
            let stage = moto.stage(kind).await;
            let result = check.run(&stage).await;
            result.unwrap_or_else(|breach| panic!("{check:?}, {kind}: {breach}"));
        }
    }
}

#[tokio::test]
#[ignore = "needs moto: testbed/moto/install.sh"]
async fn moto_sees_the_groups_of_the_cluster_and_their_machines() {
    let moto = Moto::start().await;
    let stage = moto.stage("plain").await;
    let groups = stage.provider.groups().await.unwrap();
    let ids: Vec<&str> = groups.iter().map(|group| group.id.as_str()).collect();
    assert_eq!(ids, ["workers"]);
    let machine = stage.provider.machine(&stage.running).await.unwrap();
    assert_eq!(machine.state, MachineState::Ready);
    assert_eq!(machine.group, Some(stage.group()));
    let name = format!("aws:///{}/{}", machine.zone, machine.id);
    assert_eq!(machine.provider_id.as_str(), name);
}
