//! Hosts and ports as people write them.
//!
//! Owns their syntax and the sentences about a wrong one. Must not resolve anything.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

/// Longest name in the DNS, without the dot at its end.
const LONGEST_NAME: usize = 253;
/// Longest part of a name.
const LONGEST_LABEL: usize = 63;

/// A host by name or by address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Host {
    Name(String),
    Address(IpAddr),
}

/// Where to dial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) host: Host,
    pub(crate) port: u16,
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
            Self::Address(address) => address.fmt(f),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// A host by name or address, with or without brackets.
pub(crate) fn host(text: &str) -> Result<Host, String> {
    let bare = text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap_or(text);
    match bare.parse() {
        Ok(address) => Ok(Host::Address(address)),
        Err(_) => name(text).map(Host::Name),
    }
}

/// HOST:PORT.
pub(crate) fn target(text: &str) -> Result<Target, String> {
    let wrong = || {
        format!(
            "{text:?} is not HOST:PORT, such as example.com:443, 10.96.0.1:443 or [fd00::1]:443"
        )
    };
    let (before, port) = text.rsplit_once(':').ok_or_else(wrong)?;
    let is_bare_v6 = before.contains(':') && !before.starts_with('[');
    let port = match port.parse::<u16>() {
        Ok(port) if port > 0 && !is_bare_v6 => port,
        Ok(_) | Err(_) => return Err(wrong()),
    };
    Ok(Target {
        host: host(before)?,
        port,
    })
}

/// An address, with a port or on the usual one.
pub(crate) fn address(text: &str, port: u16) -> Result<SocketAddr, String> {
    text.parse()
        .or_else(|_| text.parse().map(|ip: IpAddr| SocketAddr::new(ip, port)))
        .map_err(|_| {
            format!("{text:?} is not an address such as 10.96.0.10, fd00::10 or 10.96.0.10:{port}")
        })
}

/// A name for the DNS, without the dot at its end; addresses are none.
pub(crate) fn name(text: &str) -> Result<String, String> {
    if text.parse::<IpAddr>().is_ok() {
        return Err(format!(
            "{text} is an address, and an address resolves without any name server, so it proves nothing; give a \
             name, or put {text}:PORT into egress to have it dialled"
        ));
    }
    let bare = text.strip_suffix('.').unwrap_or(text);
    if is_like_address(bare) {
        return Err(format!(
            "{text:?} ends in a number, so programs take it for an address (and no such name can be registered); give a \
             name, or put ADDRESS:PORT into egress to have it dialled"
        ));
    }
    let is_label = |label: &str| {
        (1..=LONGEST_LABEL).contains(&label.len())
            && label
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    };
    if bare.len() <= LONGEST_NAME && bare.split('.').all(is_label) {
        return Ok(bare.to_ascii_lowercase());
    }
    Err(format!(
        "{text:?} is not a name for the DNS: parts of at most {LONGEST_LABEL} letters, digits and hyphens, separated \
         by single dots (a name in another script is written in its xn-- form)"
    ))
}

/// Whether the last part is a number, as programs read one: `127.1`, `0x7f.1` and `8.8.8.8.` are addresses to many.
fn is_like_address(bare: &str) -> bool {
    let last = bare.rsplit('.').next().unwrap_or_default();
    let is_of = |digits: &str, is_digit: fn(&u8) -> bool| digits.as_bytes().iter().all(is_digit);
    let hex = last.strip_prefix("0x").or_else(|| last.strip_prefix("0X"));
    let is_decimal = !last.is_empty() && is_of(last, u8::is_ascii_digit);
    is_decimal || hex.is_some_and(|digits| is_of(digits, u8::is_ascii_hexdigit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read_and_shown_alike() {
        for text in ["example.com:443", "10.96.0.1:443", "[fd00::1]:6443", "a:1"] {
            assert_eq!(target(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn a_wrong_target_gets_a_sentence_with_what_would_be_right() {
        for wrong in [
            "example.com",
            "a:0",
            "a:65536",
            "fd00::1",
            "fd00::1:443",
            "a:http",
            "",
        ] {
            let complaint = target(wrong).unwrap_err();
            assert!(
                complaint.contains("is not HOST:PORT, such as"),
                "{complaint}"
            );
        }
        assert!(target("a..b:1").unwrap_err().contains("is not a name"));
    }

    #[test]
    fn an_address_is_no_name_and_the_refusal_says_why() {
        for address in ["8.8.8.8", "fd00::1"] {
            let complaint = name(address).unwrap_err();
            assert!(complaint.contains("proves nothing"), "{complaint}");
        }
    }

    #[test]
    fn what_programs_take_for_an_address_is_no_name() {
        for text in ["8.8.8.8.", "127.1", "a.0x7f", "0x7f.1", "1.2.3.4.5", "9"] {
            let complaint = name(text).unwrap_err();
            assert!(complaint.contains("give a name"), "{complaint}");
            assert!(complaint.contains(text), "{complaint}");
        }
        for right in ["1.example", "0xab.example", "a.b1", "a.1b"] {
            assert!(name(right).is_ok(), "{right}");
        }
    }

    #[test]
    fn names_are_checked_as_a_resolver_would() {
        assert_eq!(name("Example.COM.").unwrap(), "example.com");
        assert_eq!(name("_dns._udp.x").unwrap(), "_dns._udp.x");
        for wrong in [
            "",
            ".",
            "a..b",
            "müller.de",
            "a b",
            &"a".repeat(64),
            &"a.".repeat(128),
        ] {
            assert!(name(wrong).is_err(), "{wrong:?}");
        }
    }
}
