//! The embedded cloud, alone and against the contract of providers.

use std::time::Duration;

use async_trait::async_trait;
use shipshape_engine::machine::{GroupId, MachineId, MachineState, Token};
use shipshape_provider::contract::faults::{FaultCheck, FaultStage};
use shipshape_provider::contract::{Check, Stage};
use shipshape_provider::{Error, Provider, ReplacementRequest};

use super::*;

fn spec() -> CloudSpec {
    CloudSpec {
        region: "north".to_owned(),
        groups: vec![GroupSpec {
            id: "workers".to_owned(),
            image: "image-2".to_owned(),
            running_image: Some("image-1".to_owned()),
            zones: vec!["a".to_owned(), "b".to_owned(), "c".to_owned()],
            min: 0,
            max: 6,
            desired: 3,
            labels: BTreeMap::new(),
            taints: Vec::new(),
            size: MachineSize::default(),
        }],
        ..CloudSpec::default()
    }
}

/// A cloud whose timers run on this runtime.
fn start(clock: Clock) -> Cloud {
    let cloud = Cloud::new(&spec(), clock, &Seed::new(1));
    tokio::spawn(cloud.clone().run());
    cloud
}

fn virtual_clock() -> Clock {
    Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap())
}

fn request(token: &str) -> ReplacementRequest {
    ReplacementRequest {
        token: Token::from(token),
        group: GroupId::from("workers"),
        zone: "b".to_owned(),
        replaces: MachineId::from("workers-002"),
        tags: BTreeMap::new(),
    }
}

async fn minutes(count: u64) {
    tokio::time::sleep(Duration::from_secs(60 * count)).await;
}

fn live(cloud: &Cloud) -> Vec<String> {
    let ready = cloud
        .machines()
        .into_iter()
        .filter(|machine| machine.state == MachineState::Ready);
    ready.map(|machine| machine.id.0).collect()
}

struct Local<P> {
    provider: P,
}

#[async_trait]
impl<P: Provider> Stage for Local<P> {
    fn provider(&self) -> &dyn Provider {
        &self.provider
    }

    fn group(&self) -> GroupId {
        GroupId::from("workers")
    }

    fn running(&self) -> MachineId {
        MachineId::from("workers-001")
    }

    async fn settle(&self) {
        minutes(5).await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_embedded_cloud_keeps_the_contract() {
    for check in Check::ALL {
        let cloud = start(virtual_clock());
        let stage = Local {
            provider: cloud.handle("contract"),
        };
        check
            .run(&stage)
            .await
            .unwrap_or_else(|breach| panic!("{check:?}: {breach}"));
    }
}

struct Faulty {
    local: Local<CloudHandle>,
    cloud: Cloud,
}

#[async_trait]
impl Stage for Faulty {
    fn provider(&self) -> &dyn Provider {
        self.local.provider()
    }

    fn group(&self) -> GroupId {
        self.local.group()
    }

    fn running(&self) -> MachineId {
        self.local.running()
    }

    async fn settle(&self) {
        self.local.settle().await;
    }
}

impl FaultStage for Faulty {
    fn lose_answers(&self, all: bool) {
        let percent = if all { 100 } else { 0 };
        self.cloud
            .adjust(|settings| settings.lost_answers = percent);
    }

    fn fill_zones(&self, full: bool) {
        let zones = ["a", "b", "c"].map(str::to_owned);
        let zones = if full { zones.into() } else { BTreeSet::new() };
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

#[tokio::test(start_paused = true)]
async fn the_embedded_cloud_keeps_the_contract_while_it_misbehaves() {
    for check in FaultCheck::ALL {
        let cloud = start(virtual_clock());
        let stage = Faulty {
            local: Local {
                provider: cloud.handle("contract"),
            },
            cloud,
        };
        check
            .run(&stage)
            .await
            .unwrap_or_else(|breach| panic!("{check:?}: {breach}"));
    }
}

#[tokio::test]
async fn the_wire_form_keeps_the_contract() {
    for check in Check::ALL {
        let mut spec = spec();
        spec.settings.boot = Duration::from_millis(5);
        spec.settings.terminate = Duration::from_millis(5);
        let cloud = Cloud::new(&spec, Clock::System, &Seed::new(1));
        tokio::spawn(cloud.clone().run());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(wire::serve(cloud.handle("wire"), listener));
        let stage = Wired {
            provider: wire::RemoteCloud::new(address, "contract").unwrap(),
            cloud,
        };
        check
            .run(&stage)
            .await
            .unwrap_or_else(|breach| panic!("{check:?}: {breach}"));
        assert!(
            stage
                .cloud
                .log()
                .iter()
                .any(|call| call.caller == "contract")
        );
    }
}

struct Wired {
    provider: wire::RemoteCloud,
    cloud: Cloud,
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
        MachineId::from("workers-001")
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

#[tokio::test(start_paused = true)]
async fn a_call_to_nowhere_is_no_answer() {
    let remote = wire::RemoteCloud::new(([127, 0, 0, 1], 1).into(), "test").unwrap();
    assert!(matches!(remote.groups().await, Err(Error::NoAnswer { .. })));
}

#[tokio::test(start_paused = true)]
async fn a_group_that_lost_a_machine_launches_another_from_its_current_image() {
    let cloud = start(virtual_clock());
    cloud.kill_machine(&MachineId::from("workers-002"));
    minutes(5).await;
    assert_eq!(live(&cloud), ["workers-001", "workers-003", "workers-004"]);
    let new = cloud
        .handle("test")
        .machine(&MachineId::from("workers-004"))
        .await
        .unwrap();
    assert_eq!((new.zone.as_str(), new.image.as_str()), ("b", "image-2"));
    assert!(
        cloud
            .log()
            .iter()
            .any(|call| call.caller == "group" && call.call == "launch")
    );
}

#[tokio::test(start_paused = true)]
async fn a_group_scales_in_past_protected_machines() {
    let cloud = start(virtual_clock());
    cloud
        .handle("test")
        .protect(&MachineId::from("workers-001"), true)
        .await
        .unwrap();
    cloud.set_desired(&GroupId::from("workers"), 1).unwrap();
    minutes(10).await;
    assert_eq!(live(&cloud), ["workers-001"]);
}

#[tokio::test(start_paused = true)]
async fn a_deleted_machine_is_not_refilled() {
    let cloud = start(virtual_clock());
    cloud
        .handle("test")
        .delete_machine(&MachineId::from("workers-002"))
        .await
        .unwrap();
    minutes(10).await;
    assert_eq!(live(&cloud), ["workers-001", "workers-003"]);
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_leaves_one_machine_that_the_token_finds() {
    let cloud = start(virtual_clock());
    cloud.adjust(|settings| settings.lost_answers = 100);
    let handle = cloud.handle("test");
    assert!(matches!(
        handle.ensure_replacement(&request("t")).await,
        Err(Error::NoAnswer { .. })
    ));
    cloud.adjust(|settings| settings.lost_answers = 0);
    let found = handle
        .find_replacement(&Token::from("t"))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        handle.ensure_replacement(&request("t")).await.unwrap().id,
        found.id
    );
    assert_eq!(cloud.machines().len(), 4);
    let lost = cloud
        .log()
        .into_iter()
        .find(|call| call.call == "ensureReplacement")
        .unwrap();
    assert!(lost.took_effect());
}

#[tokio::test(start_paused = true)]
async fn a_full_zone_and_a_full_group_make_nothing() {
    let cloud = start(virtual_clock());
    cloud.adjust(|settings| _ = settings.full_zones.insert("b".to_owned()));
    let handle = cloud.handle("test");
    assert!(matches!(
        handle.ensure_replacement(&request("t")).await,
        Err(Error::NoCapacity { .. })
    ));
    cloud.adjust(|settings| settings.full_zones.clear());
    for token in ["t", "u", "v"] {
        handle.ensure_replacement(&request(token)).await.unwrap();
    }
    assert!(matches!(
        handle.ensure_replacement(&request("w")).await,
        Err(Error::NoCapacity { .. })
    ));
    assert_eq!(cloud.machines().len(), 6);
}

#[tokio::test(start_paused = true)]
async fn a_lagging_read_shows_the_past_but_tokens_hold() {
    let cloud = start(virtual_clock());
    minutes(1).await;
    cloud.adjust(|settings| settings.read_lag = Duration::from_secs(10));
    let handle = cloud.handle("test");
    let made = handle.ensure_replacement(&request("t")).await.unwrap();
    assert_eq!(
        handle.find_replacement(&Token::from("t")).await.unwrap(),
        None
    );
    assert_eq!(
        handle.ensure_replacement(&request("t")).await.unwrap().id,
        made.id
    );
    assert_eq!(
        handle.machine(&made.id).await.unwrap().state,
        MachineState::Creating
    );
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert!(
        handle
            .find_replacement(&Token::from("t"))
            .await
            .unwrap()
            .is_some()
    );
}

#[tokio::test(start_paused = true)]
async fn calls_beyond_the_rate_are_throttled_and_change_nothing() {
    let cloud = start(virtual_clock());
    cloud.adjust(|settings| settings.calls_per_second = Some(1));
    let handle = cloud.handle("test");
    handle.groups().await.unwrap();
    assert!(matches!(
        handle.ensure_replacement(&request("t")).await,
        Err(Error::Throttled { .. })
    ));
    assert_eq!(cloud.machines().len(), 3);
    tokio::time::sleep(Duration::from_secs(1)).await;
    handle.ensure_replacement(&request("t")).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_ended_is_forgotten_in_the_end() {
    let cloud = start(virtual_clock());
    let id = MachineId::from("workers-002");
    let handle = cloud.handle("test");
    handle.delete_machine(&id).await.unwrap();
    minutes(5).await;
    assert_eq!(
        handle.machine(&id).await.unwrap().state,
        MachineState::Terminated
    );
    minutes(60).await;
    assert!(matches!(
        handle.machine(&id).await,
        Err(Error::NotFound { .. })
    ));
}
