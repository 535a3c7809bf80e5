//! What this provider promises beyond the contract.

use std::time::Duration;

use futures::future::join_all;
use shipshape_engine::machine::{ImageId, MachineId, MachineState};
use shipshape_provider::contract::Stage;
use shipshape_provider::{Error, Provider};
use shipshape_provider_aws::{AwsSettings, ClientSettings, FullGroups, Placement};
use shipshape_simulator::cloud::aws::Services;
use tokio::time::{sleep, timeout};

use crate::stage::{Wired, connect, quick, settings};

fn run_and_attach() -> Services {
    Services {
        group_launch: false,
        ..Services::default()
    }
}

#[tokio::test]
async fn machines_read_at_once_are_described_in_one_call() {
    let stage = Wired::start_with(
        Services {
            page: 500,
            ..Services::default()
        },
        120,
        quick(),
    )
    .await;
    let ids: Vec<MachineId> = stage.live().into_iter().map(|it| it.id).collect();
    let read = join_all(ids.iter().map(|id| stage.provider.machine(id))).await;
    assert_eq!(read.iter().filter(|it| it.is_ok()).count(), 120);
    assert_eq!(stage.count("DescribeInstances"), 1);
    // Fifty instances are the most that the group's side tells at once.
    assert_eq!(stage.count("DescribeAutoScalingInstances"), 3);
}

#[tokio::test]
async fn a_process_that_dies_between_run_and_attach_leaves_a_machine_that_the_next_attaches() {
    let stage = Wired::start(run_and_attach()).await;
    stage
        .cloud
        .adjust(|settings| settings.boot = Duration::from_millis(400));
    let request = stage.request("died");
    let (first, asked) = (stage.provider.clone(), request.clone());
    let dying = tokio::spawn(async move { first.ensure_replacement(&asked).await });
    while stage.count("RunInstances") == 0 {
        sleep(Duration::from_millis(2)).await;
    }
    dying.abort();
    assert_eq!(stage.count("AttachInstances"), 0);

    let next = connect(&stage.endpoint, quick(), settings()).await;
    assert_eq!(next.find_replacement(&request.token).await.unwrap(), None);
    let made = next.ensure_replacement(&request).await.unwrap();
    assert_eq!(made.group, Some(stage.group()));
    let found = next.find_replacement(&request.token).await.unwrap();
    assert_eq!(found.unwrap().id, made.id);
    assert_eq!(stage.count("RunInstances"), 1);
    assert_eq!(stage.cloud.machines().len(), 4);
    assert_eq!(stage.cloud.group_marks(&stage.group()).unwrap().desired, 4);
}

#[tokio::test]
async fn a_process_that_dies_between_launch_and_tags_leaves_a_machine_that_the_next_tags() {
    let stage = Wired::start(Services::default()).await;
    stage
        .provider
        .ensure_replacement(&stage.request("first"))
        .await
        .unwrap();
    let request = stage.request("second");
    let (first, asked) = (stage.provider.clone(), request.clone());
    let launched = stage.count("LaunchInstances");
    let dying = tokio::spawn(async move { first.ensure_replacement(&asked).await });
    while stage.count("LaunchInstances") == launched {
        tokio::task::yield_now().await;
    }
    dying.abort();
    let machines = stage.cloud.machines().len();
    let next = connect(&stage.endpoint, quick(), settings()).await;
    let made = next.ensure_replacement(&request).await.unwrap();
    assert_eq!(stage.cloud.machines().len(), machines);
    let machine = next.machine(&made.id).await.unwrap();
    assert_eq!(machine.tags.get("task").map(String::as_str), Some("second"));
    assert_eq!(
        machine.tags.get("shipshape.dev/cluster-id").unwrap(),
        "test"
    );
}

#[tokio::test]
async fn a_machine_whose_tags_are_refused_is_known_by_its_token_and_ended_by_nobody() {
    let stage = Wired::start(Services::default()).await;
    stage
        .cloud
        .adjust(|settings| _ = settings.denied_calls.insert("CreateTags".to_owned()));
    let request = stage.request("refused");
    stage
        .cloud
        .adjust(|settings| settings.read_lag = Duration::from_millis(80));
    let refused = stage.provider.ensure_replacement(&request).await;
    assert!(matches!(refused, Err(Error::Denied { .. })), "{refused:?}");
    // By its id nobody would find it, so nobody is to keep that yet.
    let unlisted = stage.provider.find_replacement(&request.token).await;
    assert!(
        matches!(unlisted, Err(Error::NoAnswer { .. })),
        "{unlisted:?}"
    );
    assert_eq!(stage.cloud.machines().len(), 4);
    stage
        .cloud
        .adjust(|settings| settings.read_lag = Duration::ZERO);
    stage.settle().await;
    // It runs, and more time goes by than anything else is remembered for.
    sleep(quick().settle * 2).await;
    let found = stage.provider.find_replacement(&request.token).await;
    let found = found.unwrap().unwrap();
    assert_eq!(found.state, MachineState::Ready);
    assert_eq!(found.group, Some(stage.group()));
    let again = stage.provider.ensure_replacement(&request).await.unwrap();
    assert_eq!(again.id, found.id);
    assert_eq!(stage.count("TerminateInstanceInAutoScalingGroup"), 0);
    assert_eq!(stage.count("TerminateInstances"), 0);
    assert_eq!(stage.live().len(), 4);

    // It gets its tags as soon as they are accepted.
    stage.cloud.adjust(|settings| settings.denied_calls.clear());
    stage
        .provider
        .find_replacement(&request.token)
        .await
        .unwrap();
    let mut machines = stage.cloud.machines().into_iter();
    let machine = machines.find(|it| it.id == found.id).unwrap();
    assert_eq!(
        machine.tags.get("shipshape.dev/token").unwrap(),
        request.token.as_str()
    );
    stage.provider.delete_machine(&found.id).await.unwrap();
    stage.settle().await;
    assert_eq!(stage.live().len(), 3);
}

#[tokio::test]
async fn a_machine_that_is_not_listed_yet_is_shown_as_it_was_made() {
    for services in [Services::default(), run_and_attach()] {
        let client = ClientSettings {
            settle: Duration::from_secs(20),
            ..quick()
        };
        let stage = Wired::start_with(services, 3, client.clone()).await;
        sleep(Duration::from_millis(100)).await;
        stage
            .cloud
            .adjust(|settings| settings.read_lag = Duration::from_millis(80));
        let request = stage.request("lag");
        let made = stage.provider.ensure_replacement(&request).await.unwrap();
        let read = stage.provider.machine(&made.id).await.unwrap();
        assert_eq!(read.id, made.id);
        let again = stage.provider.ensure_replacement(&request).await.unwrap();
        assert_eq!(again.id, made.id);
        assert_eq!(stage.cloud.machines().len(), 4);

        // A new process knows of no machine; what it does not see is not taken for gone.
        let unseen = MachineId::from("i-00000000000000000");
        let next = connect(&stage.endpoint, client, settings()).await;
        assert!(matches!(
            next.machine(&unseen).await,
            Err(Error::NoAnswer { .. })
        ));
    }
}

#[tokio::test]
async fn a_deletion_repeated_before_the_list_shows_it_takes_one_machine_off_the_size() {
    let stage = Wired::start(Services::default()).await;
    sleep(Duration::from_millis(150)).await;
    stage
        .cloud
        .adjust(|settings| settings.read_lag = Duration::from_millis(100));
    let old = stage.running();
    for _ in 0..3 {
        stage.provider.delete_machine(&old).await.unwrap();
    }
    assert!(stage.count("TerminateInstanceInAutoScalingGroup") > 1);
    assert_eq!(stage.cloud.group_marks(&stage.group()).unwrap().desired, 2);
}

#[tokio::test]
async fn a_held_group_is_not_rebalanced_and_is_given_back() {
    let stage = Wired::start(Services::default()).await;
    let before = stage.cloud.group_marks(&stage.group()).unwrap();
    let request = stage.request("hold");
    stage.provider.ensure_replacement(&request).await.unwrap();
    let held = stage.cloud.group_marks(&stage.group()).unwrap();
    assert!(held.suspended.contains("AZRebalance"));
    assert_eq!(
        held.tags.get("shipshape.dev/held").unwrap(),
        "group/us/test"
    );

    // Another cluster's end does not end this hold.
    let other = AwsSettings {
        cluster_id: Some("other".to_owned()),
        ..settings()
    };
    let other = connect(&stage.endpoint, quick(), other).await;
    other.restore_groups().await.unwrap();
    assert_eq!(stage.cloud.group_marks(&stage.group()).unwrap(), held);

    stage.settle().await;
    stage
        .provider
        .delete_machine(&request.replaces)
        .await
        .unwrap();
    // A process that has not begun the hold can end it.
    let next = connect(&stage.endpoint, quick(), settings()).await;
    next.restore_groups().await.unwrap();
    assert_eq!(stage.cloud.group_marks(&stage.group()).unwrap(), before);
}

#[tokio::test]
async fn a_full_group_is_raised_only_where_allowed_and_put_back() {
    for services in [Services::default(), run_and_attach()] {
        let client = ClientSettings {
            full_groups: FullGroups::Raise,
            ..quick()
        };
        let stage = Wired::start_with(services, 1, client).await;
        let respectful = connect(&stage.endpoint, quick(), settings()).await;
        respectful
            .ensure_replacement(&stage.request("one"))
            .await
            .unwrap();
        let refused = respectful.ensure_replacement(&stage.request("two")).await;
        let Err(Error::NoCapacity { message, .. }) = refused else {
            panic!("{refused:?}");
        };
        assert!(message.contains("raiseMax"), "{message}");

        let request = stage.request("two");
        let mut made = stage.provider.ensure_replacement(&request).await;
        for _ in 0..5 {
            if made.is_err() {
                made = stage.provider.ensure_replacement(&request).await;
            }
        }
        made.unwrap();
        let raised = stage.cloud.group_marks(&stage.group()).unwrap();
        assert_eq!((raised.max, raised.desired), (3, 3));
        assert_eq!(raised.tags.get("shipshape.dev/original-max").unwrap(), "2");
        stage.settle().await;
        stage
            .provider
            .delete_machine(&request.replaces)
            .await
            .unwrap();
        let after = stage.cloud.group_marks(&stage.group()).unwrap();
        assert_eq!((after.max, after.desired), (2, 2));
        assert!(!after.tags.contains_key("shipshape.dev/original-max"));
    }
}

#[tokio::test]
async fn another_zone_is_used_only_where_allowed() {
    let stage = Wired::start(Services::default()).await;
    let request = stage.request("zone");
    stage
        .cloud
        .adjust(|settings| _ = settings.full_zones.insert(request.zone.clone()));
    let strict = stage.provider.ensure_replacement(&request).await;
    assert!(
        matches!(strict, Err(Error::NoCapacity { .. })),
        "{strict:?}"
    );

    let loose = AwsSettings {
        placement: Placement::OtherZonesToo,
        ..settings()
    };
    let loose = connect(&stage.endpoint, quick(), loose).await;
    let early = loose.ensure_replacement(&request).await;
    assert!(matches!(early, Err(Error::NoAnswer { .. })), "{early:?}");
    sleep(quick().settle).await;
    let made = loose.ensure_replacement(&request).await.unwrap();
    assert_ne!(made.zone, request.zone);
    let again = loose.ensure_replacement(&request).await.unwrap();
    assert_eq!(again.id, made.id);
    assert_eq!(stage.cloud.machines().len(), 4);
}

#[tokio::test]
async fn throttled_calls_are_repeated_with_growing_waits_until_they_pass() {
    let stage = Wired::start(Services::default()).await;
    stage
        .cloud
        .adjust(|settings| settings.calls_per_second = Some(1));
    let ids: Vec<MachineId> = stage.live().into_iter().map(|it| it.id).collect();
    let read = timeout(Duration::from_secs(5), stage.provider.machine(&ids[0])).await;
    read.unwrap().unwrap();
    let throttled = stage.cloud.log();
    let throttled = throttled
        .iter()
        .filter(|record| record.result.contains("RequestLimitExceeded"));
    let throttled = throttled.count();
    // 10 ms, doubled up to 200 ms: a second holds fewer than a dozen.
    assert!((1..=20).contains(&throttled), "{throttled}");
}

#[tokio::test]
async fn an_image_is_set_whichever_version_the_group_follows() {
    let stage = Wired::start(Services::default()).await;
    for (number, version) in ["$Latest", "$Default", "1"].into_iter().enumerate() {
        stage.cloud.set_template_version(&stage.group(), version);
        let image = ImageId(format!("image-{version}-{number}"));
        for _ in 0..2 {
            let group = stage.group();
            let set = stage.provider.set_group_image(&group, &image).await;
            set.unwrap();
        }
        let group = stage.provider.group(&stage.group()).await.unwrap();
        assert_eq!(group.image, image, "{version}");
    }
    assert_eq!(stage.count("CreateLaunchTemplateVersion"), 3);
}

#[tokio::test]
async fn a_cloud_that_is_away_gives_no_answer() {
    let gone = connect("http://127.0.0.1:1", quick(), settings()).await;
    let id = MachineId::from("i-00000000000000000");
    assert!(matches!(
        gone.machine(&id).await,
        Err(Error::NoAnswer { .. })
    ));
}
