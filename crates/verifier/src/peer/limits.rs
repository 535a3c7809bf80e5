//! How much a peer does for others: connections at once, requests a second, echoes for a cookie.
//!
//! Owns the books, all of bounded size. No I/O and no clock: time is an argument.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use tokio::time::Instant;

use super::{Cookie, MOST_PACKETS};

/// Connections that are served at once: of all, and of one address.
const MOST_OPEN: u32 = 256;
const MOST_OPEN_EACH: u32 = 8;
/// Connections that are served without a pause, and how many more each second.
const ALL: Rate = Rate {
    burst: 1000,
    each_second: 500,
};
const EACH: Rate = Rate {
    burst: 20,
    each_second: 2,
};
/// Addresses that are remembered; each is forgotten when its pause is over.
const MOST_SOURCES: usize = 4096;
const BETWEEN_FORGETTING: Duration = Duration::from_secs(1);
/// Cookies that are remembered, and for how long.
const MOST_COOKIES: usize = 4096;
const COOKIE_LIFE: Duration = Duration::from_mins(1);

#[derive(Clone, Copy, Debug)]
struct Rate {
    burst: u32,
    each_second: u32,
}

/// How much of a rate is left.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    left: f64,
    at: Instant,
}

impl Bucket {
    fn full(rate: Rate, now: Instant) -> Self {
        Self {
            left: rate.burst.into(),
            at: now,
        }
    }

    fn fill(&mut self, rate: Rate, now: Instant) {
        let gained =
            now.saturating_duration_since(self.at).as_secs_f64() * f64::from(rate.each_second);
        self.left = (self.left + gained).min(rate.burst.into());
        self.at = now;
    }

    fn has_one(&self) -> bool {
        self.left >= 1.0
    }

    fn take(&mut self) -> bool {
        let is_enough = self.has_one();
        if is_enough {
            self.left -= 1.0;
        }
        is_enough
    }
}

#[derive(Debug)]
struct Source {
    open: u32,
    bucket: Bucket,
}

#[derive(Debug)]
struct Grant {
    of: IpAddr,
    until: Instant,
    arrived: u32,
}

/// What was done for whom.
#[derive(Debug)]
pub(super) struct Limits {
    open: u32,
    bucket: Bucket,
    sources: BTreeMap<IpAddr, Source>,
    /// When old sources were last looked for.
    forgot: Instant,
    cookies: BTreeMap<Cookie, Grant>,
}

impl Limits {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            open: 0,
            bucket: Bucket::full(ALL, now),
            sources: BTreeMap::new(),
            forgot: now,
            cookies: BTreeMap::new(),
        }
    }

    /// Whether one more connection of this address is served. If so, `leave` must follow.
    pub(super) fn enter(&mut self, from: IpAddr, now: Instant) -> bool {
        self.bucket.fill(ALL, now);
        if self.open >= MOST_OPEN || !self.bucket.has_one() || !self.has_room(from, now) {
            return false;
        }
        let fresh = || Source {
            open: 0,
            bucket: Bucket::full(EACH, now),
        };
        let source = self.sources.entry(from).or_insert_with(fresh);
        source.bucket.fill(EACH, now);
        // What one address asks for too much does not cost the others.
        if source.open >= MOST_OPEN_EACH || !source.bucket.take() || !self.bucket.take() {
            return false;
        }
        source.open += 1;
        self.open += 1;
        true
    }

    pub(super) fn leave(&mut self, from: IpAddr) {
        self.open = self.open.saturating_sub(1);
        if let Some(source) = self.sources.get_mut(&from) {
            source.open = source.open.saturating_sub(1);
        }
    }

    /// Whether the books have a page for this address. Old ones are looked for seldom, so that a crowd does not buy work.
    fn has_room(&mut self, from: IpAddr, now: Instant) -> bool {
        let is_full = self.sources.len() >= MOST_SOURCES;
        if is_full && now.saturating_duration_since(self.forgot) >= BETWEEN_FORGETTING {
            self.forgot = now;
            self.forget_sources(now);
        }
        self.sources.len() < MOST_SOURCES || self.sources.contains_key(&from)
    }

    fn forget_sources(&mut self, now: Instant) {
        self.sources.retain(|_, source| {
            source.bucket.fill(EACH, now);
            source.open > 0 || source.bucket.left < EACH.burst.into()
        });
    }

    /// Remembers a cookie for an address, if there is room.
    pub(super) fn grant(&mut self, cookie: Cookie, of: IpAddr, now: Instant) -> bool {
        if self.cookies.len() >= MOST_COOKIES {
            self.cookies.retain(|_, grant| grant.until > now);
        }
        let has_room = self.cookies.len() < MOST_COOKIES;
        if has_room {
            let until = now + COOKIE_LIFE;
            self.cookies.insert(
                cookie,
                Grant {
                    of,
                    until,
                    arrived: 0,
                },
            );
        }
        has_room
    }

    /// Whether a packet with this cookie is echoed to this address.
    pub(super) fn spend(&mut self, cookie: Cookie, from: IpAddr, now: Instant) -> bool {
        let Some(grant) = self.cookies.get_mut(&cookie) else {
            return false;
        };
        let is_good = grant.of == from && grant.until > now && grant.arrived < MOST_PACKETS;
        if is_good {
            grant.arrived += 1;
        }
        is_good
    }

    /// How many packets with this cookie have come from its address.
    pub(super) fn arrived(&self, cookie: Cookie, from: IpAddr) -> Option<u32> {
        let grant = self.cookies.get(&cookie)?;
        (grant.of == from).then_some(grant.arrived)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn ip(number: u32) -> IpAddr {
        Ipv4Addr::from_bits(0x0a00_0000 + number).into()
    }

    #[tokio::test]
    async fn one_address_gets_its_burst_and_then_its_rate() {
        let now = Instant::now();
        let mut limits = Limits::new(now);
        let mut serve = |now| {
            let is_served = limits.enter(ip(1), now);
            if is_served {
                limits.leave(ip(1));
            }
            is_served
        };
        assert_eq!((0..100).filter(|_| serve(now)).count(), 20);
        let later = now + Duration::from_secs(3);
        assert_eq!((0..100).filter(|_| serve(later)).count(), 6);
    }

    #[tokio::test]
    async fn connections_that_stay_are_bounded_by_address_and_in_all() {
        let now = Instant::now();
        let mut limits = Limits::new(now);
        assert_eq!((0..20).filter(|_| limits.enter(ip(0), now)).count(), 8);
        let all = (1..500)
            .filter(|number| limits.enter(ip(*number), now))
            .count();
        assert_eq!(all, 248);
        limits.leave(ip(0));
        assert!(limits.enter(ip(0), now));
    }

    #[tokio::test]
    async fn a_crowd_is_bounded_and_forgotten() {
        let begin = Instant::now();
        let mut limits = Limits::new(begin);
        for number in 0..100_000 {
            // Ten a millisecond: twenty times what is allowed.
            let now = begin + Duration::from_millis((number / 10).into());
            if limits.enter(ip(number), now) {
                limits.leave(ip(number));
            }
            assert!(limits.sources.len() <= MOST_SOURCES);
        }
        let rested = begin + Duration::from_mins(1);
        assert!(limits.enter(ip(1_000_000), rested));
    }

    #[tokio::test]
    async fn a_cookie_is_good_for_its_address_its_time_and_its_packets() {
        let now = Instant::now();
        let mut limits = Limits::new(now);
        assert!(limits.grant(Cookie(1), ip(1), now));
        assert!(!limits.spend(Cookie(2), ip(1), now));
        assert!(!limits.spend(Cookie(1), ip(2), now));
        assert!(!limits.spend(Cookie(1), ip(1), now + COOKIE_LIFE));
        let echoed = (0..5000)
            .filter(|_| limits.spend(Cookie(1), ip(1), now))
            .count();
        assert_eq!(echoed, MOST_PACKETS as usize);
        assert_eq!(limits.arrived(Cookie(1), ip(1)), Some(MOST_PACKETS));
        assert_eq!(limits.arrived(Cookie(1), ip(2)), None);
    }

    #[tokio::test]
    async fn cookies_are_bounded_and_old_ones_make_room() {
        let now = Instant::now();
        let mut limits = Limits::new(now);
        let granted = (0..10_000).filter(|number| limits.grant(Cookie(*number), ip(1), now));
        assert_eq!(granted.count(), MOST_COOKIES);
        assert!(limits.grant(Cookie(20_000), ip(1), now + COOKIE_LIFE));
        assert_eq!(limits.cookies.len(), 1);
    }
}
