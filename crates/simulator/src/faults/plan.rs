//! Which requests meet which fault.
//!
//! Owns plain values; must not keep count (`Faults` does).

use std::time::Duration;

use http::Method;

use super::Asked;

/// What can befall a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It arrives late.
    Delay(Duration),
    /// It never arrives; the client sees a broken connection.
    Drop,
    /// It takes effect, and its answer is lost.
    LoseAnswer,
    /// It arrives twice; the client sees the second answer.
    Duplicate,
    /// It is refused with this code and reason, without effect.
    Fail {
        /// HTTP status code.
        code: u16,
        /// Reason, as Kubernetes words it.
        reason: String,
    },
    /// A list shows what the last one showed.
    StaleList,
    /// A list comes back without what is in it.
    EmptyList,
    /// The events of a watch come so much later.
    LagWatch(Duration),
    /// A watch breaks after so long.
    BreakWatch(Duration),
    /// The client dies before the request arrives.
    CrashBefore,
    /// The client dies after the request took effect.
    CrashAfter,
}

/// One rule: these requests, this fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Only requests with this method; any when not set.
    pub method: Option<Method>,
    /// Only requests whose path and query contain this. A cloud call is called `cloud NAME`, one of etcd
    /// `etcd NAME`.
    pub path: String,
    /// Only watches.
    pub watches: bool,
    /// Only requests with this effect, see [`super::Faults::effects`]; any when not set.
    pub effect: Option<String>,
    /// This many requests pass unharmed first.
    pub skip: u32,
    /// At most this many requests are struck; no limit when not set.
    pub times: Option<u32>,
    /// How many of a hundred requests are struck, by the seed.
    pub percent: u8,
    /// What befalls them.
    pub fault: Fault,
}

impl Rule {
    /// Every request is struck; narrow it with the other methods.
    pub fn always(fault: Fault) -> Self {
        Self {
            method: None,
            path: String::new(),
            watches: false,
            effect: None,
            skip: 0,
            times: None,
            percent: 100,
            fault,
        }
    }

    /// Only requests with this method and this in their path.
    pub fn on(mut self, method: Method, path: &str) -> Self {
        self.method = Some(method);
        path.clone_into(&mut self.path);
        self
    }

    /// Only requests with this in their path.
    pub fn on_path(mut self, path: &str) -> Self {
        path.clone_into(&mut self.path);
        self
    }

    /// Only watches of resources whose path contains this.
    pub fn on_watches(mut self, path: &str) -> Self {
        self.method = Some(Method::GET);
        self.watches = true;
        path.clone_into(&mut self.path);
        self
    }

    /// Only requests with this effect.
    pub fn with_effect(mut self, effect: &str) -> Self {
        self.effect = Some(effect.to_owned());
        self
    }

    /// Only the request number `number`, counted from one.
    pub fn only(mut self, number: u32) -> Self {
        self.skip = number.saturating_sub(1);
        self.times = Some(1);
        self
    }

    /// Only so many of a hundred.
    pub fn sometimes(mut self, percent: u8) -> Self {
        self.percent = percent;
        self
    }

    pub(super) fn matches(&self, asked: &Asked) -> bool {
        (self.method.is_none() || self.method == asked.method)
            && (self.effect.is_none() || self.effect == asked.effect)
            && (!self.watches || asked.path.contains("watch="))
            && asked.path.contains(&self.path)
    }
}

/// Rules, of which the first that strikes counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The rules.
    pub rules: Vec<Rule>,
}

impl Plan {
    /// A plan of these rules.
    pub fn of(rules: impl IntoIterator<Item = Rule>) -> Self {
        Self {
            rules: rules.into_iter().collect(),
        }
    }

    pub(super) fn has_stale_lists(&self) -> bool {
        self.rules.iter().any(|rule| rule.fault == Fault::StaleList)
    }
}
