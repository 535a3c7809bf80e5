//! The options of `shipshape peer`.

use std::net::{Ipv6Addr, SocketAddr};

use clap::Args;
use shipshape_verifier::PEER_PORT;

use super::LogFormat;

pub(super) const PEER: &str =
    "It dials only the address from which it was asked, at ports 47300 to 47399, and echoes only \
packets with a cookie that this address was given.

Examples:
  shipshape peer                           in a pod: every address, port 47299
  shipshape peer --listen 10.0.1.7:47299   one address of a machine";

/// Both families.
const USUAL: SocketAddr = SocketAddr::new(std::net::IpAddr::V6(Ipv6Addr::UNSPECIFIED), PEER_PORT);

#[derive(Args, Debug)]
pub(crate) struct PeerOptions {
    /// Where to listen, by TCP and UDP.
    #[arg(long, value_name = "ADDRESS:PORT", env = "PEER_LISTEN", default_value_t = USUAL)]
    pub(crate) listen: SocketAddr,
    /// Form of the logs.
    #[arg(long, value_enum, env = "LOG_FORMAT", default_value = "json")]
    pub(crate) log_format: LogFormat,
    /// Least important level that is logged.
    #[arg(long, value_name = "LEVEL", env = "LOG_LEVEL", default_value = "info")]
    pub(crate) log_level: String,
}
