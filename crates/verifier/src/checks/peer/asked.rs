//! One peer: asks it to dial back, and waits until it does or says why not.
//!
//! Owns the worker's side of the words in `peer`, and the sentence about each way to fail.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::time::Duration;

use futures::future::{FusedFuture, FutureExt};
use futures::stream::{FuturesUnordered, StreamExt};
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::dial;
use crate::peer::{Answer, Cookie, Nonce, Request, WORKER_PORTS, random, read_line};
use crate::report::{Phase, Trouble};

/// Between two requests to a peer that is busy.
const PAUSE: Duration = Duration::from_millis(300);
/// How long the nonce may stay behind the word that it was said.
const BEHIND: Duration = Duration::from_secs(1);
/// Connections that are read at once while a peer is waited for; strangers beyond these are turned away.
const MOST_OPEN: usize = 16;
/// How long one of them may take to say its line.
const TO_SAY: Duration = Duration::from_secs(1);
/// Why nothing comes though a peer has dialled.
const SOMETHING_ELSE: &str =
    "it says that it has, and nothing came: something else answers at this address";

/// A peer that was asked to dial back.
pub(super) struct Asked {
    stream: BufReader<TcpStream>,
    listener: TcpListener,
    pub(super) deal: Deal,
}

/// Who was asked, and what is expected.
pub(super) struct Deal {
    peer: SocketAddr,
    nonce: Nonce,
    pub(super) cookie: Cookie,
    pub(super) own: IpAddr,
    /// Our address as the peer sees it.
    seen: IpAddr,
}

/// Asks a peer, again while it is busy and there is time.
pub(super) async fn ask(peer: SocketAddr, until: Instant) -> Result<Asked, Trouble> {
    loop {
        let stream = dial::connect(peer, until)
            .await
            .map_err(|Trouble { phase, message }| {
                Trouble::new(phase, format!("cannot reach the peer: {message}"))
            })?;
        let asked = dial::step(until, Phase::Http, ask_on(peer, stream)).await;
        let asked = asked.map_err(|Trouble { phase, message }| {
            Trouble::new(
                phase,
                format!("connected, but the peer did not answer as one: {message}"),
            )
        })?;
        match asked {
            Some(asked) => return Ok(asked),
            None if Instant::now() + PAUSE < until => sleep(PAUSE).await,
            None => {
                let message = "the peer is busy with others all the time";
                return Err(Trouble::new(Phase::Http, message));
            }
        }
    }
}

/// Asks on a connection; nothing if the peer is busy.
async fn ask_on(peer: SocketAddr, stream: TcpStream) -> io::Result<Option<Asked>> {
    let own = stream.local_addr()?.ip();
    let (listener, port) = listen(own).await?;
    let nonce = Nonce::any()?;
    let mut stream = BufReader::new(stream);
    let request = Request::Dial { port, nonce }.to_string();
    stream.write_all(request.as_bytes()).await?;
    match hear(&mut stream).await? {
        Answer::Cookie { cookie, seen } => Ok(Some(Asked {
            stream,
            listener,
            deal: Deal {
                peer,
                nonce,
                cookie,
                own,
                seen,
            },
        })),
        Answer::Busy => Ok(None),
        answer @ (Answer::Dialled
        | Answer::Unreachable(_)
        | Answer::Count(_)
        | Answer::Refused(_)) => Err(io::Error::other(answer.to_string().trim_end())),
    }
}

async fn hear(stream: &mut BufReader<TcpStream>) -> io::Result<Answer> {
    let line = read_line(stream).await?;
    Answer::parse(&line).ok_or_else(|| io::Error::other("its line is none of a peer"))
}

/// Listens at a port that peers dial; which one is left to chance, and one that is taken is passed over.
async fn listen(own: IpAddr) -> io::Result<(TcpListener, u16)> {
    let [chance] = random()?;
    let mut ports: Vec<u16> = WORKER_PORTS.collect();
    let middle = usize::from(chance) % ports.len();
    ports.rotate_left(middle);
    let mut last = io::Error::other("there is no port to listen at");
    for port in ports {
        match TcpListener::bind((own, port)).await {
            Ok(listener) => return Ok((listener, port)),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// What is heard while a dial-back is waited for.
enum Heard {
    /// The nonce, from this address.
    Nonce(IpAddr),
    /// Something else.
    Noise,
}

impl Asked {
    /// Waits until the nonce comes from the peer, or the peer says that it cannot.
    pub(super) async fn wait(self, until: Instant) -> Result<String, Trouble> {
        let Self {
            mut stream,
            listener,
            deal,
        } = self;
        // Heard in one piece: half a line must not get lost when something else happens first.
        let mut answer = pin!(hear(&mut stream).fuse());
        let mut visitors = FuturesUnordered::new();
        let mut end = until;
        let mut late = "it has not dialled back in time".to_owned();
        loop {
            tokio::select! {
                // What has arrived counts before what the peer says of it.
                biased;
                Some(heard) = visitors.next() => if let Heard::Nonce(from) = heard {
                    return deal.judge_source(from);
                },
                accepted = listener.accept(), if visitors.len() < MOST_OPEN => match accepted {
                    Ok((stream, from)) => visitors.push(listen_to(stream, from, deal.nonce)),
                    Err(error) => return Err(deal.no_way_back(&format!("cannot be waited for: {error}"))),
                },
                answer = &mut answer, if !answer.is_terminated() => match answer {
                    Ok(Answer::Dialled) => {
                        end = until.min(Instant::now() + BEHIND);
                        SOMETHING_ELSE.clone_into(&mut late);
                    }
                    Ok(answer) => return Err(deal.no_way_back(answer.to_string().trim_end())),
                    // A peer that ends says nothing of the way; what it dialled may still come.
                    Err(error) => late = format!("the peer fell silent: {error}"),
                },
                () = sleep_until(end) => return Err(deal.no_way_back(&late)),
            }
        }
    }
}

impl Deal {
    fn judge_source(&self, from: IpAddr) -> Result<String, Trouble> {
        if from != self.peer.ip() {
            let message = format!(
                "the dial-back came from {from} and not from the peer: is it behind a Service with an address of \
                 its own (use a headless one), or is its address translated on the way?"
            );
            return Err(Trouble::new(Phase::Connect, message));
        }
        Ok(match self.translated() {
            None => "dialled back".to_owned(),
            Some(how) => format!("dialled back; {how}"),
        })
    }

    fn no_way_back(&self, why: &str) -> Trouble {
        let how = self
            .translated()
            .map_or(String::new(), |how| format!("; {how}"));
        let message = format!("the peer could not reach this node: no route back? ({why}{how})");
        Trouble::new(Phase::Connect, message)
    }

    /// What the peer makes of our address, where it is not the one that we have.
    fn translated(&self) -> Option<String> {
        let Self { own, seen, .. } = self;
        (own != seen).then(|| format!("it sees this node as {seen} instead of {own}"))
    }
}

async fn listen_to(stream: TcpStream, from: SocketAddr, nonce: Nonce) -> Heard {
    let mut stream = BufReader::new(stream);
    match timeout(TO_SAY, read_line(&mut stream)).await {
        Ok(Ok(line)) if line == nonce.line().trim_end() => Heard::Nonce(from.ip().to_canonical()),
        _ => Heard::Noise,
    }
}

/// Asks a peer on a connection of its own how many packets have come.
pub(in crate::checks) async fn count(
    peer: SocketAddr,
    cookie: Cookie,
    until: Instant,
) -> Option<u32> {
    let mut stream = BufReader::new(dial::connect(peer, until).await.ok()?);
    let work = async {
        let request = Request::Count(cookie).to_string();
        stream.write_all(request.as_bytes()).await?;
        hear(&mut stream).await
    };
    match dial::step(until, Phase::Http, work).await {
        Ok(Answer::Count(count)) => Some(count),
        _ => None,
    }
}
