//! A stage: the embedded cloud, its services on a free port, and a provider that calls them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use async_trait::async_trait;
use shipshape_cluster::Clock;
use shipshape_engine::machine::{GroupId, Machine, MachineId, MachineState, Token};
use shipshape_provider::contract::Stage;
use shipshape_provider::contract::faults::FaultStage;
use shipshape_provider::{Provider, ReplacementRequest};
use shipshape_provider_aws::{Aws, AwsSettings, ClientSettings, PaceSettings, Regions};
use shipshape_simulator::cloud::aws::{self, Services};
use shipshape_simulator::cloud::{Cloud, CloudSpec, GroupSpec, MachineNames};
use shipshape_simulator::seed::Seed;
use tokio::net::TcpListener;

/// The name under which calls are logged: the access key.
pub(crate) const CALLER: &str = "operator";
pub(crate) const SECRET: &str = "a-secret-that-is-never-shown";

pub(crate) struct Wired {
    pub(crate) cloud: Cloud,
    pub(crate) provider: Aws,
    pub(crate) endpoint: String,
    /// A machine that was there from the start.
    old: Machine,
}

/// Waits that suit a cloud whose machines boot in milliseconds.
pub(crate) fn quick() -> ClientSettings {
    ClientSettings {
        settle: Duration::from_millis(300),
        run_wait: Duration::from_secs(5),
        poll: Duration::from_millis(5),
        window: Duration::from_millis(5),
        pace: PaceSettings {
            reads_per_second: 2_000,
            writes_per_second: 2_000,
            attempt: Duration::from_millis(500),
            deadline: Duration::from_millis(2_500),
            first_wait: Duration::from_millis(10),
            longest_wait: Duration::from_millis(200),
            ..PaceSettings::default()
        },
        ..ClientSettings::default()
    }
}

pub(crate) fn settings() -> AwsSettings {
    AwsSettings {
        region: "north".to_owned(),
        cluster_id: Some("test".to_owned()),
        ..AwsSettings::default()
    }
}

impl Wired {
    pub(crate) async fn start(services: Services) -> Self {
        Self::start_with(services, 3, quick()).await
    }

    pub(crate) async fn start_with(
        services: Services,
        machines: u32,
        client: ClientSettings,
    ) -> Self {
        let mut group = GroupSpec::new("workers", "image-2", machines);
        group.running_image = Some("image-1".to_owned());
        let mut spec = CloudSpec {
            region: "north".to_owned(),
            groups: vec![group],
            names: MachineNames::Aws,
            ..CloudSpec::default()
        };
        spec.settings.boot = Duration::from_millis(20);
        spec.settings.terminate = Duration::from_millis(20);
        let cloud = Cloud::new(&spec, Clock::System, &Seed::new(1));
        tokio::spawn(cloud.clone().run());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(aws::serve(cloud.handle("nobody"), services, listener));
        let provider = connect(&endpoint, client, settings()).await;
        let old = cloud.machines().into_iter().next().unwrap();
        Self {
            cloud,
            provider,
            endpoint,
            old,
        }
    }

    /// How often a call was made.
    pub(crate) fn count(&self, call: &str) -> usize {
        let log = self.cloud.log();
        log.iter().filter(|record| record.call == call).count()
    }

    /// A request to replace a running machine.
    pub(crate) fn request(&self, token: &str) -> ReplacementRequest {
        let machine = self.old.clone();
        ReplacementRequest {
            token: Token::from(token),
            group: self.group(),
            zone: machine.zone,
            replaces: machine.id,
            tags: BTreeMap::from([("task".to_owned(), token.to_owned())]),
        }
    }

    pub(crate) fn live(&self) -> Vec<Machine> {
        let machines = self.cloud.machines().into_iter();
        machines
            .filter(|machine| machine.state == MachineState::Ready)
            .collect()
    }
}

/// A provider as a fresh process would make it: nothing is remembered.
pub(crate) async fn connect(endpoint: &str, client: ClientSettings, settings: AwsSettings) -> Aws {
    let regions = Regions::at(endpoint, CALLER, SECRET, client);
    regions.open(settings).await.unwrap()
}

#[async_trait]
impl Stage for Wired {
    fn provider(&self) -> &dyn Provider {
        &self.provider
    }

    fn group(&self) -> GroupId {
        GroupId::from("workers")
    }

    fn running(&self) -> MachineId {
        self.old.id.clone()
    }

    /// Real time cannot be skipped, so this waits for the states themselves.
    async fn settle(&self) {
        let moving = |machine: &Machine| {
            matches!(
                machine.state,
                MachineState::Creating | MachineState::Terminating
            )
        };
        while self.cloud.machines().iter().any(moving) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

impl FaultStage for Wired {
    fn lose_answers(&self, all: bool) {
        let percent = if all { 100 } else { 0 };
        self.cloud
            .adjust(|settings| settings.lost_answers = percent);
    }

    fn fill_zones(&self, full: bool) {
        let zones: BTreeSet<String> = ["a", "b", "c"].map(str::to_owned).into();
        let zones = if full { zones } else { BTreeSet::new() };
        self.cloud.adjust(|settings| settings.full_zones = zones);
    }

    fn limit_calls(&self, per_second: Option<u32>) {
        self.cloud
            .adjust(|settings| settings.calls_per_second = per_second);
    }

    fn made(&self) -> usize {
        self.cloud.machines().len()
    }
}
