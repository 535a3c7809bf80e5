//! Drawn stories: a world, a run, events and troubles, all from one seed.
//!
//! Owns what may be drawn and the swarm of many seeds. Every story must come to its end without a
//! broken invariant: troubles cease after a while. Called by `shipshape simulate --seeds` without a
//! file, and by the tests.

mod events;
mod swarm;
#[cfg(test)]
mod tests;
mod troubles;
mod world;

use std::time::Duration;

use serde_json::{Value, json};
use shipshape_simulator::seed::Seed;

use crate::report::Report;
use crate::scenario::{Scenario, ScenarioError};
use crate::story::{StoryError, Troubles, play_alone_through};

pub use swarm::DrawnSwarm;

/// A story and what its operator goes through.
pub struct Drawn {
    /// The story.
    pub scenario: Scenario,
    /// The troubles.
    pub troubles: Troubles,
}

/// Draws the story of a seed.
pub fn draw(seed: u64) -> Result<Drawn, ScenarioError> {
    let dice = Dice(Seed::new(seed));
    let mut world = dice.fork("world");
    let mut run = dice.fork("run");
    let mut section = world::draw(&mut world);
    let mut spec = world::run_spec(&mut run, &section);
    let sickness = world::control_planes(&mut dice.fork("control planes"), &mut section, &mut spec);
    let mut events = events::draw(&mut dice.fork("events"), &section, &spec);
    events.extend(sickness);
    let document = json!({
        "name": format!("drawn-{seed}"),
        "world": section,
        "settings": world::settings(&mut dice.fork("settings")),
        "intents": [manifest("roll", &spec)],
        "events": events,
        "expect": { "within": "12h", "rest": "1m" },
    });
    let scenario = Scenario::parse(&format!("seed {seed}"), &document.to_string())?;
    let troubles = troubles::draw(&mut dice.fork("troubles"));
    Ok(Drawn { scenario, troubles })
}

/// Plays the story of a seed.
pub fn play(drawn: &Drawn, seed: u64) -> Result<Report, StoryError> {
    Ok(play_alone_through(&drawn.scenario, seed, &drawn.troubles)?.report)
}

/// A NodePatchRun. Failures are acknowledged beforehand, so that none pauses it for ever.
fn manifest(name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "shipshape.dev/v1alpha1",
        "kind": "NodePatchRun",
        "metadata": {
            "name": name, "namespace": "default",
            "annotations": { "shipshape.dev/acknowledged-failures": "99" },
        },
        "spec": spec,
    })
}

/// Chance, in the words of a draw.
struct Dice(Seed);

impl Dice {
    fn fork(&self, name: &str) -> Self {
        Self(self.0.fork(name))
    }

    fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.0.below(most.saturating_sub(least).saturating_add(1))
    }

    fn happens(&mut self, percent: u8) -> bool {
        self.0.happens(percent)
    }

    fn seconds(&mut self, least: u64, most: u64) -> Duration {
        Duration::from_secs(self.between(least, most))
    }

    /// The same, as a scenario writes it.
    fn time(&mut self, least: u64, most: u64) -> String {
        format!("{}s", self.between(least, most))
    }
}
