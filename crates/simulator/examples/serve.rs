//! Serves an empty embedded cluster on loopback, for a look at it with kubectl.
//!
//! `cargo run -p shipshape-simulator --example serve -- PORT`, then
//! `kubectl --server http://127.0.0.1:PORT get nodes`.

use shipshape_cluster::Clock;
use shipshape_simulator::server::ApiServer;
use tokio::net::TcpListener;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let port: u16 = std::env::args().nth(1).unwrap_or_default().parse()?;
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    ApiServer::new(Clock::System).serve(listener).await?;
    Ok(())
}
