//! What a failed run leaves for whoever looks into it, when the node may be gone: resolver settings, addresses, routes.
//!
//! Owns the reading of `/proc/net`. What cannot be read is said in its place.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use serde::{Deserialize, Serialize};

/// Of this thread, which is what sockets of a check belong to.
const NET: &str = "/proc/thread-self/net";
/// More of one kind is not kept.
const MOST: usize = 16;
/// More of the resolver's settings is not kept.
const RESOLV_CONF_BYTES: usize = 512;

/// What is left of each where there is no room: resolver settings in bytes, and how many of the others.
const LITTLE_RESOLV_CONF_BYTES: usize = 128;
const LITTLE: usize = 3;
/// Of each of these no more than that many bytes.
const LITTLE_ENTRY_BYTES: usize = 40;

/// The network as the node saw it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Evidence {
    /// The beginning of the resolver's settings.
    pub resolv_conf: String,
    /// Own addresses, but for loopback and links.
    pub addresses: Vec<String>,
    /// Routes, but for loopback and links.
    pub routes: Vec<String>,
}

impl Evidence {
    /// Looks around.
    pub(crate) fn gather(resolv_conf: &str) -> Self {
        let mut resolv_conf = resolv_conf.to_owned();
        cut(&mut resolv_conf, RESOLV_CONF_BYTES);
        Self {
            resolv_conf,
            addresses: read([("fib_trie", addresses_v4), ("if_inet6", addresses_v6)]),
            routes: read([("route", routes_v4), ("ipv6_route", routes_v6)]),
        }
    }

    /// Keeps the beginning alone; whether that was any shorter.
    pub(crate) fn shorten(&mut self) -> bool {
        let before = self.clone();
        cut(&mut self.resolv_conf, LITTLE_RESOLV_CONF_BYTES);
        for list in [&mut self.addresses, &mut self.routes] {
            list.truncate(LITTLE);
            for entry in list.iter_mut() {
                cut(entry, LITTLE_ENTRY_BYTES);
            }
        }
        *self != before
    }
}

fn cut(text: &mut String, bytes: usize) {
    text.truncate(text.floor_char_boundary(bytes));
}

type Reading = fn(&str) -> Vec<String>;

fn read(files: [(&str, Reading); 2]) -> Vec<String> {
    let mut seen = Vec::new();
    for (file, reading) in files {
        let path = Path::new(NET).join(file);
        match std::fs::read_to_string(&path) {
            Ok(text) => seen.extend(reading(&text)),
            Err(error) => seen.push(format!("cannot read {}: {error}", path.display())),
        }
    }
    seen.sort();
    seen.dedup();
    seen.truncate(MOST);
    seen
}

/// Addresses stand above the line that says that they are ours.
fn addresses_v4(text: &str) -> Vec<String> {
    let mut last = None;
    let mut found = Vec::new();
    for line in text.lines() {
        if let Some(address) = line.trim_start().strip_prefix("|-- ") {
            last = address.parse::<Ipv4Addr>().ok();
        } else if line.trim_start().starts_with("/32 host LOCAL") {
            found.extend(last.filter(|address| !address.is_loopback()));
        }
    }
    found.iter().map(Ipv4Addr::to_string).collect()
}

fn addresses_v6(text: &str) -> Vec<String> {
    text.lines()
        .filter_map(|line| {
            let address = v6(line.split_whitespace().next()?)?;
            is_of_interest(address).then(|| address.to_string())
        })
        .collect()
}

fn routes_v4(text: &str) -> Vec<String> {
    text.lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            let [link, destination, gateway] = [words.next()?, words.next()?, words.next()?];
            let [destination, gateway] = [v4(destination)?, v4(gateway)?];
            let mask = v4(words.nth(4)?)?;
            let length = mask.to_bits().count_ones();
            Some(route(destination.into(), length, gateway.into(), link))
        })
        .collect()
}

fn routes_v6(text: &str) -> Vec<String> {
    text.lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            let destination = v6(words.next()?)?;
            let length = u32::from_str_radix(words.next()?, 16).ok()?;
            let gateway = v6(words.nth(2)?)?;
            let link = words.last()?;
            let is_own = length == 128 && gateway.is_unspecified();
            let is_shown = link != "lo" && !is_own && !destination.is_multicast();
            (is_shown && !destination.is_unicast_link_local())
                .then(|| route(destination.into(), length, gateway.into(), link))
        })
        .collect()
}

fn route(destination: IpAddr, length: u32, gateway: IpAddr, link: &str) -> String {
    let to = match length {
        0 => "default".to_owned(),
        _ => format!("{destination}/{length}"),
    };
    if gateway.is_unspecified() {
        format!("{to} dev {link}")
    } else {
        format!("{to} via {gateway} dev {link}")
    }
}

fn is_of_interest(address: Ipv6Addr) -> bool {
    !address.is_loopback() && !address.is_unicast_link_local()
}

/// The kernel writes the four bytes as one number of this machine.
fn v4(word: &str) -> Option<Ipv4Addr> {
    let number = u32::from_str_radix(word, 16).ok()?;
    Some(Ipv4Addr::from(number.to_ne_bytes()))
}

fn v6(word: &str) -> Option<Ipv6Addr> {
    if word.len() != 32 {
        return None;
    }
    u128::from_str_radix(word, 16).ok().map(Ipv6Addr::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_without_those_of_loopback_and_links() {
        let trie = "Local:\n  +-- 10.244.1.0/24 2 0 2\n     |-- 10.244.1.0\n        /24 link UNICAST\n     \
                    |-- 10.244.1.7\n        /32 host LOCAL\n     |-- 127.0.0.1\n        /32 host LOCAL\n";
        assert_eq!(addresses_v4(trie), ["10.244.1.7"]);
        let inet6 = "00000000000000000000000000000001 01 80 10 80       lo\n\
                     fd770001000000000000000000000002 02 40 00 82     eth0\n\
                     fe8000000000000070c0f3fffe9d3f6a 02 40 20 80     eth0\n";
        assert_eq!(addresses_v6(inet6), ["fd77:1::2"]);
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn routes_are_read_as_people_write_them() {
        let route = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n\
                     eth0\t00000000\t0101F40A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n\
                     eth0\t0001F40A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n";
        assert_eq!(
            routes_v4(route),
            ["default via 10.244.1.1 dev eth0", "10.244.1.0/24 dev eth0"]
        );
        let none = "0".repeat(32);
        let line = |to: &str, length: &str, via: &str, link: &str| {
            format!(
                "{to} {length} {none} 00 {via} 00000400 00000001 00000000 00000001     {link}\n"
            )
        };
        let own = "fd770001000000000000000000000002";
        let net = "fd770001000000000000000000000000";
        let way = "fd770001000000000000000000000001";
        let link_local = "fe800000000000000000000000000000";
        let text = [
            line(net, "40", &none, "eth0"),
            line(own, "80", &none, "eth0"),
            line(link_local, "40", &none, "eth0"),
            line(&none, "00", way, "eth0"),
            line(&none, "00", &none, "lo"),
        ];
        assert_eq!(
            routes_v6(&text.concat()),
            ["fd77:1::/64 dev eth0", "default via fd77:1::1 dev eth0"]
        );
    }

    #[test]
    fn what_cannot_be_read_is_said() {
        let seen = read([("no-such-file", addresses_v4), ("nor-this", addresses_v6)]);
        assert_eq!(seen.len(), 2);
        assert!(seen.iter().all(|line| line.starts_with("cannot read ")));
    }
}
