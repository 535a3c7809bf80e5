//! The provider against the embedded cloud's AWS services on loopback: the contract, in both ways of
//! launching, and what this provider promises beyond it.

#![expect(
    clippy::unwrap_used,
    reason = "the steps of the tests are functions, which the lint does not take for tests"
)]

#[path = "embedded/behaviour.rs"]
mod behaviour;
#[path = "embedded/stage.rs"]
mod stage;

use shipshape_provider::contract::Check;
use shipshape_provider::contract::faults::FaultCheck;
use shipshape_simulator::cloud::aws::Services;
use stage::Wired;

/// Groups launch machines themselves, or EC2 does.
const WAYS: [bool; 2] = [true, false];

fn services(group_launch: bool) -> Services {
    // Small pages, so that lists have several.
    Services {
        group_launch,
        page: 2,
    }
}

#[tokio::test]
async fn the_provider_keeps_the_contract_over_the_wire() {
    for group_launch in WAYS {
        for check in Check::ALL {
            let stage = Wired::start(services(group_launch)).await;
            let result = check.run(&stage).await;
            result.unwrap_or_else(|breach| panic!("{check:?}, {group_launch}: {breach}"));
        }
    }
}

#[tokio::test]
async fn the_provider_keeps_the_contract_while_the_cloud_misbehaves() {
    for group_launch in WAYS {
        for check in FaultCheck::ALL {
            let stage = Wired::start(services(group_launch)).await;
            let result = check.run(&stage).await;
            result.unwrap_or_else(|breach| panic!("{check:?}, {group_launch}: {breach}"));
        }
    }
}
