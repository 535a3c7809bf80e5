//! A real API server admits every example and refuses every bad twin, as the embedded one does.
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up must fail")]

#[path = "../../simulator/tests/examples/judged.rs"]
mod judged;

use shipshape_testbed::{ControlPlane, Options};

#[tokio::test]
async fn examples_are_admitted_and_their_bad_twins_refused_by_the_field_at_fault() {
    let options = Options {
        controllers: false,
        ..Options::default()
    };
    let plane = ControlPlane::start(options).await.unwrap();
    let client = plane.client("test").await.unwrap();
    judged::assert_examples_are_judged_rightly(&client).await;
}
