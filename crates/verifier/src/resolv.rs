//! The pod's resolver settings, `/etc/resolv.conf`, as far as checks need them.
//!
//! Owns its syntax and the order in which a short name is completed. Must not ask anybody.

use std::net::IpAddr;

/// What a resolver asks when nothing is said.
const USUAL_NDOTS: usize = 1;
/// More dots than this are not looked at.
const MOST_NDOTS: usize = 15;

/// What the file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ResolvConf {
    /// Whom to ask, in this order.
    pub(crate) servers: Vec<Server>,
    /// What short names are completed with.
    pub(crate) search: Vec<String>,
    /// Names with fewer dots than this are completed first.
    pub(crate) ndots: usize,
}

/// A name server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Server {
    /// Its address.
    pub(crate) address: IpAddr,
    /// The interface to go through, by name or number, where the address says nothing without.
    pub(crate) zone: Option<String>,
}

impl ResolvConf {
    /// Reads the text; what it does not know it leaves aside, as resolvers do.
    pub(crate) fn parse(text: &str) -> Self {
        let mut conf = Self {
            servers: Vec::new(),
            search: Vec::new(),
            ndots: USUAL_NDOTS,
        };
        for line in text.lines() {
            let line = line.split(['#', ';']).next().unwrap_or_default();
            let mut words = line.split_whitespace();
            match words.next() {
                Some("nameserver") => conf.servers.extend(words.next().and_then(server)),
                Some("search" | "domain") => {
                    let domains = words.map(|word| word.trim_end_matches('.').to_ascii_lowercase());
                    // The last line of its kind counts.
                    conf.search = domains.filter(|domain| !domain.is_empty()).collect();
                }
                Some("options") => {
                    let ndots = words
                        .filter_map(|word| word.strip_prefix("ndots:")?.parse().ok())
                        .next_back();
                    conf.ndots = ndots.unwrap_or(conf.ndots).min(MOST_NDOTS);
                }
                Some(_) | None => {}
            }
        }
        conf
    }

    /// The full names that a name may stand for, in the order in which they are asked for.
    pub(crate) fn candidates(&self, name: &str) -> Vec<String> {
        let completed = self.search.iter().map(|domain| format!("{name}.{domain}"));
        let bare = std::iter::once(name.to_owned());
        if name.matches('.').count() >= self.ndots {
            bare.chain(completed).collect()
        } else {
            completed.chain(bare).collect()
        }
    }

    /// The shortest form of a full name that the search list completes, if there is one.
    pub(crate) fn short_form(&self, name: &str) -> Option<String> {
        self.search
            .iter()
            .filter_map(|domain| name.strip_suffix(domain.as_str())?.strip_suffix('.'))
            .min_by_key(|short| short.len())
            .map(str::to_owned)
    }
}

/// An address, perhaps with the interface to go through.
fn server(word: &str) -> Option<Server> {
    let (address, zone) = word.split_once('%').unwrap_or((word, ""));
    Some(Server {
        address: address.parse().ok()?,
        zone: Some(zone.to_owned()).filter(|zone| !zone.is_empty()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_a_pod() -> ResolvConf {
        ResolvConf::parse(
            "# made by the kubelet\n\
             search shop.svc.cluster.local svc.cluster.local cluster.local.\n\
             nameserver 10.96.0.10\nnameserver fd00::10%eth0\nnameserver nonsense\n\
             options ndots:5 edns0 ; more\nsortlist 1.2.3.4\n",
        )
    }

    #[test]
    fn what_a_kubelet_writes_is_read() {
        let conf = of_a_pod();
        let server = |address: &str, zone: Option<&str>| Server {
            address: address.parse().unwrap(),
            zone: zone.map(str::to_owned),
        };
        let expected = [server("10.96.0.10", None), server("fd00::10", Some("eth0"))];
        assert_eq!(conf.servers, expected);
        assert_eq!(
            conf.search,
            [
                "shop.svc.cluster.local",
                "svc.cluster.local",
                "cluster.local"
            ]
        );
        assert_eq!(conf.ndots, 5);
    }

    #[test]
    fn short_names_are_completed_before_they_are_asked_for_as_they_are() {
        let conf = of_a_pod();
        assert_eq!(
            conf.candidates("kubernetes.default"),
            [
                "kubernetes.default.shop.svc.cluster.local",
                "kubernetes.default.svc.cluster.local",
                "kubernetes.default.cluster.local",
                "kubernetes.default",
            ]
        );
        assert_eq!(
            conf.candidates("a.b.c.d.e.f").first().unwrap(),
            "a.b.c.d.e.f"
        );
    }

    #[test]
    fn the_short_form_is_the_shortest_that_the_search_list_completes() {
        let conf = of_a_pod();
        let short = conf.short_form("kubernetes.default.svc.cluster.local");
        assert_eq!(short.as_deref(), Some("kubernetes.default"));
        assert_eq!(conf.short_form("example.com"), None);
        assert_eq!(conf.short_form("cluster.local"), None);
    }
}
