//! A sequence of packets to a peer that sends each back: what is lost, and on which way.
//!
//! Owns the pace, the count and the sentence about it. TCP sends again what is lost and so hides it.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tokio::net::UdpSocket;
use tokio::time::{Instant, sleep_until};

use super::peer;
use crate::peer::{Cookie, LONGEST_PACKET, packet, packet_head};
use crate::report::{Phase, Trouble};
use crate::settings::Udp;

/// Between two packets: slow enough for every queue on the way.
const PACE: Duration = Duration::from_millis(10);
/// How long the last packets may take.
const STRAGGLERS: Duration = Duration::from_secs(1);
/// What is kept of a check's time to ask the peer how many have come.
const TO_COUNT: Duration = Duration::from_millis(500);

/// What is known at the end.
struct Tally {
    back: Vec<bool>,
    /// What the system had to say, last.
    complaint: Option<String>,
}

/// Sends a sequence and judges what came back.
pub(super) async fn measure(
    peer: SocketAddr,
    own: IpAddr,
    cookie: Cookie,
    udp: &Udp,
    until: Instant,
) -> Result<String, Trouble> {
    let tally = play(peer, own, cookie, udp, until).await;
    let tally = tally.map_err(|error| Trouble::new(Phase::Connect, error.to_string()))?;
    let back = tally.back.iter().filter(|is_back| **is_back).count();
    let back = u32::try_from(back).unwrap_or(u32::MAX);
    let arrived = if back < udp.packets {
        peer::count(peer, cookie, until).await
    } else {
        Some(back)
    };
    judge(udp, back, arrived, tally.complaint.as_deref())
}

async fn play(
    peer: SocketAddr,
    own: IpAddr,
    cookie: Cookie,
    udp: &Udp,
    until: Instant,
) -> io::Result<Tally> {
    // From the address that the cookie is for.
    let socket = UdpSocket::bind((own, 0)).await?;
    socket.connect(peer).await?;
    let begin = Instant::now();
    let time = until
        .saturating_duration_since(begin)
        .saturating_sub(TO_COUNT);
    let pace = PACE.min(time / 2 / udp.packets);
    let end = begin + time.min(pace * udp.packets + STRAGGLERS);
    let (mut sent, mut missing) = (0, udp.packets);
    let mut tally = Tally {
        back: vec![false; udp.packets as usize],
        complaint: None,
    };
    let mut buffer = [0; LONGEST_PACKET];
    while missing > 0 {
        tokio::select! {
            () = sleep_until(begin + pace * sent), if sent < udp.packets => {
                let result = socket.send(&packet(cookie, sent, udp.bytes)).await;
                tally.complaint = result.err().map(|error| error.to_string()).or(tally.complaint);
                sent += 1;
            }
            received = socket.recv(&mut buffer) => match received {
                Err(error) => tally.complaint = Some(error.to_string()),
                Ok(length) => {
                    let number = numbered(buffer.get(..length).unwrap_or_default(), cookie, udp);
                    if let Some(place) = number.and_then(|number| tally.back.get_mut(number)) {
                        missing -= u32::from(!*place);
                        *place = true;
                    }
                }
            },
            () = sleep_until(end) => break,
        }
    }
    Ok(tally)
}

/// Which packet came back, if it is ours and whole.
fn numbered(packet: &[u8], cookie: Cookie, udp: &Udp) -> Option<usize> {
    let (of, number) = packet_head(packet)?;
    (of == cookie && packet.len() == udp.bytes).then_some(number as usize)
}

fn judge(
    udp: &Udp,
    back: u32,
    arrived: Option<u32>,
    complaint: Option<&str>,
) -> Result<String, Trouble> {
    let Udp {
        packets,
        bytes,
        max_loss_percent,
    } = udp;
    let lost = packets.saturating_sub(back);
    if lost == 0 {
        return Ok(format!("all {packets} packets of {bytes} bytes came back"));
    }
    let ways = match arrived {
        Some(arrived) => format!(
            "{} on the way there, {} on the way back",
            packets.saturating_sub(arrived),
            arrived.saturating_sub(back)
        ),
        None => "on which way is not known".to_owned(),
    };
    let percent = f64::from(lost) * 100.0 / f64::from(*packets);
    let complaint = complaint.map_or(String::new(), |words| format!("; {words}"));
    let said = format!(
        "{packets} packets of {bytes} bytes sent, {lost} lost ({percent:.1} %, {max_loss_percent} % are allowed): {ways}{complaint}"
    );
    if percent > f64::from(*max_loss_percent) {
        return Err(Trouble::new(Phase::Connect, said));
    }
    Ok(said)
}

#[cfg(test)]
mod tests {
    use super::*;

    const UDP: Udp = Udp {
        packets: 200,
        bytes: 1200,
        max_loss_percent: 5,
    };

    #[test]
    fn loss_up_to_what_is_allowed_passes_and_is_told() {
        assert_eq!(
            judge(&UDP, 200, Some(200), None).unwrap(),
            "all 200 packets of 1200 bytes came back"
        );
        assert_eq!(
            judge(&UDP, 190, Some(193), None).unwrap(),
            "200 packets of 1200 bytes sent, 10 lost (5.0 %, 5 % are allowed): 7 on the way there, 3 on the way back"
        );
    }

    #[test]
    fn loss_above_it_fails_and_says_on_which_way() {
        let said =
            |back, arrived, complaint| judge(&UDP, back, arrived, complaint).unwrap_err().message;
        assert!(
            said(189, Some(200), None)
                .contains("11 lost (5.5 %, 5 % are allowed): 0 on the way there, 11 on")
        );
        let nothing = said(0, None, Some("Connection refused"));
        assert!(nothing.contains("200 lost (100.0 %"), "{nothing}");
        assert!(
            nothing.ends_with("on which way is not known; Connection refused"),
            "{nothing}"
        );
    }
}
