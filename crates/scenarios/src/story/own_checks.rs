//! The checks that the operator of a story runs itself: as the network of its world has it.
//!
//! Owns how long they take. Must not know what they lead to.

use std::time::Duration;

use async_trait::async_trait;
use shipshape_controllers::OwnChecks;
use shipshape_simulator::actors::checked;
use shipshape_simulator::cloud::Cloud;

/// How long checks take.
const CHECKS: Duration = Duration::from_secs(2);

/// The network that the operator is in: that of every node, but for what is wrong with an image.
pub(super) struct OperatorNetwork(pub(super) Cloud);

#[async_trait]
impl OwnChecks for OperatorNetwork {
    async fn run(&self, _: &[(String, String)]) -> (i32, String) {
        tokio::time::sleep(CHECKS).await;
        checked(self.0.network_of(""))
    }
}
