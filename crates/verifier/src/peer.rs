//! What a worker and its peers say to each other: lines over TCP, and packets with a small head over UDP.
//!
//! Owns the words of both sides, their limits and ports. Must not touch the network, but for reading a line.
//!
//! A worker asks `dial PORT NONCE`; the peer answers `cookie COOKIE ADDRESS`, dials the worker back, says the nonce
//! there, and tells on the first connection whether that went well. The cookie lets packets be echoed.

mod limits;
mod responder;

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::ops::RangeInclusive;

use rustls::crypto::SecureRandom;
use tokio::io::{AsyncRead, AsyncReadExt};

pub use self::responder::Responder;

/// Where a peer listens, by TCP and UDP, unless it is told otherwise.
pub const PEER_PORT: u16 = 47_299;
/// Where workers wait to be dialled back. A peer dials nothing else: no service has its usual port here.
pub const WORKER_PORTS: RangeInclusive<u16> = 47_300..=47_399;
/// Most packets of one sequence, and most that a peer echoes for one cookie.
pub(crate) const MOST_PACKETS: u32 = 1000;
/// Longest packet that is echoed; it fits through usual tunnels in one piece.
pub(crate) const LONGEST_PACKET: usize = 1400;
/// Magic, cookie and number.
pub(crate) const PACKET_HEAD: usize = 20;

/// Longest line of either side.
const LONGEST_LINE: usize = 160;
/// What every line of an asker and of a dial-back begins with.
const PROTOCOL: &str = "shipshape-peer/1";
const MAGIC: [u8; 8] = *b"SHIPPEER";

/// Proves that who says it was asked by us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Nonce(u128);

/// Proves that a packet comes from an address that can be dialled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Cookie(u64);

/// What a peer is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// To dial the asker back at a port and say the nonce there.
    Dial { port: u16, nonce: Nonce },
    /// How many packets with this cookie have arrived.
    Count(Cookie),
}

/// What a peer says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Packets with this cookie are echoed; the asker is seen under this address.
    Cookie {
        cookie: Cookie,
        seen: IpAddr,
    },
    /// The nonce was said at the asker's port.
    Dialled,
    /// The asker's port could not be dialled.
    Unreachable(String),
    Count(u32),
    /// Too much is going on; later is better.
    Busy,
    /// The request is wrong.
    Refused(String),
}

impl Nonce {
    pub(crate) fn any() -> io::Result<Self> {
        random().map(u128::from_be_bytes).map(Self)
    }

    /// The line of a dial-back.
    pub(crate) fn line(self) -> String {
        format!("{PROTOCOL} nonce {:032x}\n", self.0)
    }
}

impl Cookie {
    pub(crate) fn any() -> io::Result<Self> {
        random().map(u64::from_be_bytes).map(Self)
    }
}

/// Chance that nobody can guess.
pub(crate) fn random<const BYTES: usize>() -> io::Result<[u8; BYTES]> {
    let mut bytes = [0; BYTES];
    let source: &dyn SecureRandom = rustls::crypto::ring::default_provider().secure_random;
    match source.fill(&mut bytes) {
        Ok(()) => Ok(bytes),
        Err(_) => Err(io::Error::other("the system has no random bytes to give")),
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dial { port, nonce } => writeln!(f, "{PROTOCOL} dial {port} {:032x}", nonce.0),
            Self::Count(cookie) => writeln!(f, "{PROTOCOL} count {:016x}", cookie.0),
        }
    }
}

impl Request {
    /// Reads a line; the complaint is for whoever sent it.
    pub(crate) fn parse(line: &str) -> Result<Self, String> {
        let words: Vec<&str> = line.split(' ').collect();
        match words.as_slice() {
            [PROTOCOL, "dial", port, nonce] => {
                let port = port.parse().ok().filter(|port| WORKER_PORTS.contains(port));
                let port = port.ok_or_else(|| {
                    let (first, last) = (WORKER_PORTS.start(), WORKER_PORTS.end());
                    format!("ports from {first} to {last} are dialled")
                })?;
                let nonce = hex(nonce, 32).ok_or("a nonce has 32 hexadecimal digits")?;
                let nonce = Nonce(nonce);
                Ok(Self::Dial { port, nonce })
            }
            [PROTOCOL, "count", cookie] => {
                let digits = hex(cookie, 16).and_then(|value| u64::try_from(value).ok());
                let cookie = digits.ok_or("a cookie has 16 hexadecimal digits")?;
                Ok(Self::Count(Cookie(cookie)))
            }
            _ => Err(format!(
                "a line such as {PROTOCOL} dial PORT NONCE is expected"
            )),
        }
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cookie { cookie, seen } => writeln!(f, "cookie {:016x} {seen}", cookie.0),
            Self::Dialled => writeln!(f, "dialled"),
            Self::Unreachable(why) => writeln!(f, "unreachable {why}"),
            Self::Count(count) => writeln!(f, "count {count}"),
            Self::Busy => writeln!(f, "busy"),
            Self::Refused(why) => writeln!(f, "refused {why}"),
        }
    }
}

impl Answer {
    /// Reads a line; nothing if it is none of a peer.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "cookie" => {
                let (cookie, seen) = rest.split_once(' ')?;
                let cookie = Cookie(u64::try_from(hex(cookie, 16)?).ok()?);
                let seen = seen.parse().ok()?;
                Some(Self::Cookie { cookie, seen })
            }
            "dialled" => Some(Self::Dialled),
            "unreachable" => Some(Self::Unreachable(rest.to_owned())),
            "count" => rest.parse().ok().map(Self::Count),
            "busy" => Some(Self::Busy),
            "refused" => Some(Self::Refused(rest.to_owned())),
            _ => None,
        }
    }
}

/// A packet of a sequence, filled up to a length.
pub(crate) fn packet(cookie: Cookie, number: u32, length: usize) -> Vec<u8> {
    let mut packet = MAGIC.to_vec();
    packet.extend(cookie.0.to_be_bytes());
    packet.extend(number.to_be_bytes());
    packet.resize(length.max(PACKET_HEAD), 0);
    packet
}

/// Cookie and number of a packet, if it is one.
pub(crate) fn packet_head(packet: &[u8]) -> Option<(Cookie, u32)> {
    let rest = packet.strip_prefix(&MAGIC)?;
    let (cookie, rest) = rest.split_first_chunk()?;
    let number = rest.first_chunk()?;
    Some((
        Cookie(u64::from_be_bytes(*cookie)),
        u32::from_be_bytes(*number),
    ))
}

/// A number by exactly so many digits; the library would take a sign too.
fn hex(text: &str, digits: usize) -> Option<u128> {
    let is_right = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_right.then(|| u128::from_str_radix(text, 16).ok())?
}

/// Reads a line, without its end. The stream should be buffered.
pub(crate) async fn read_line(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<String> {
    let mut line = Vec::new();
    loop {
        match stream.read_u8().await? {
            b'\n' => break,
            _ if line.len() == LONGEST_LINE => {
                let message = format!("a line of more than {LONGEST_LINE} bytes");
                return Err(io::Error::new(io::ErrorKind::InvalidData, message));
            }
            byte => line.push(byte),
        }
    }
    // What is not text is not understood either, and told so.
    Ok(String::from_utf8_lossy(&line).trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_one_side_says_the_other_understands() {
        let (nonce, cookie) = (Nonce(7), Cookie(u64::MAX));
        for request in [
            Request::Dial {
                port: 47_300,
                nonce,
            },
            Request::Count(cookie),
        ] {
            let line = request.to_string();
            assert_eq!(Request::parse(line.trim_end()), Ok(request), "{line}");
        }
        for answer in [
            Answer::Cookie {
                cookie,
                seen: "fd00::1".parse().unwrap(),
            },
            Answer::Dialled,
            Answer::Unreachable("no route".to_owned()),
            Answer::Count(12),
            Answer::Busy,
            Answer::Refused("no".to_owned()),
        ] {
            let line = answer.to_string();
            assert_eq!(Answer::parse(line.trim_end()), Some(answer), "{line}");
        }
    }

    #[test]
    fn only_ports_of_workers_are_dialled_and_an_address_cannot_be_named() {
        let nonce = "0".repeat(32);
        for port in [
            "22", "443", "1023", "6443", "10250", "30000", "47299", "47400", "0", "99999",
        ] {
            let complaint = Request::parse(&format!("{PROTOCOL} dial {port} {nonce}")).unwrap_err();
            assert!(complaint.contains("47300 to 47399"), "{port}: {complaint}");
        }
        for wrong in [
            format!("{PROTOCOL} dial 10.0.0.1:47300 {nonce}"),
            format!("{PROTOCOL} dial 10.0.0.1 47300 {nonce}"),
            format!("{PROTOCOL} dial 47300 {}", "+".repeat(32)),
            format!("{PROTOCOL} dial 47300 {nonce}0"),
            format!("{PROTOCOL} count 1"),
            "GET / HTTP/1.1".to_owned(),
            String::new(),
        ] {
            assert!(Request::parse(&wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_packet_says_whose_it_is_and_which() {
        let packet = packet(Cookie(5), 9, 1200);
        assert_eq!(packet.len(), 1200);
        assert_eq!(packet_head(&packet), Some((Cookie(5), 9)));
        assert_eq!(packet_head(packet.get(..PACKET_HEAD - 1).unwrap()), None);
        assert_eq!(packet_head(b"anything else that is long enough"), None);
    }

    #[tokio::test]
    async fn a_line_ends_and_has_a_longest() {
        assert_eq!(read_line(&mut b"a b\r\nc".as_slice()).await.unwrap(), "a b");
        assert!(read_line(&mut b"no end".as_slice()).await.is_err());
        let long = "x".repeat(LONGEST_LINE + 1) + "\n";
        assert!(read_line(&mut long.as_bytes()).await.is_err());
    }

    proptest! {
        #[test]
        fn no_line_and_no_packet_brings_a_reader_down(line in ".{0,200}", bytes: Vec<u8>) {
            drop((Request::parse(&line), Answer::parse(&line), packet_head(&bytes)));
        }
    }
}
