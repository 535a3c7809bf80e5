//! The peer itself: dials back whoever asks, and echoes packets.
//!
//! Owns the sockets. Dials only the address from which it was asked, at a port of workers, and echoes only packets with
//! a cookie that this address was given, each once and as it came: it can be turned against nobody else. What it
//! does at once, each second and for how long is bounded. Called by `shipshape peer`.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpSocket, TcpStream, UdpSocket};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use super::limits::Limits;
use super::{Answer, Cookie, LONGEST_LINE, LONGEST_PACKET, Nonce, Request, packet_head, read_line};

/// How long a request may take to come.
const TO_ASK: Duration = Duration::from_secs(2);
/// How long it is tried to dial back.
const TO_DIAL: Duration = Duration::from_secs(3);
/// How long one connection may take in all.
const TO_SERVE: Duration = Duration::from_secs(8);
/// Addresses of this machine at which packets are echoed.
const MOST_ADDRESSES: usize = 16;
/// The pause when the system has no more sockets to give.
const PAUSE: Duration = Duration::from_millis(100);

/// A peer that listens.
#[derive(Debug)]
pub struct Responder {
    listener: TcpListener,
    books: Arc<Books>,
}

/// What all connections share.
#[derive(Debug)]
struct Books {
    limits: Mutex<Limits>,
    /// Who echoes packets, by the address at which it was asked: an echo comes from where the packet went, whatever other
    /// addresses the machine has.
    echoes: Mutex<BTreeMap<IpAddr, JoinHandle<()>>>,
}

impl Responder {
    /// Begins to listen. Packets are listened for at each address once it was asked there.
    pub async fn bind(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let books = Books {
            limits: Mutex::new(Limits::new(Instant::now())),
            echoes: Mutex::default(),
        };
        Ok(Self {
            listener,
            books: Arc::new(books),
        })
    }

    /// Where it listens.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves for ever.
    pub async fn serve(&self) {
        loop {
            match self.listener.accept().await {
                Ok((stream, from)) => self.welcome(stream, from),
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    sleep(PAUSE).await;
                }
            }
        }
    }

    fn welcome(&self, stream: TcpStream, from: SocketAddr) {
        let Some(visit) = Visit::begin(&self.books, canonical(from).ip()) else {
            // A word that cannot be sent at once is not worth waiting for.
            drop(stream.try_write(Answer::Busy.to_string().as_bytes()));
            return;
        };
        tokio::spawn(async move {
            match timeout(TO_SERVE, visit.serve(stream, canonical(from))).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::debug!(%from, %error, "a connection ended early"),
                Err(_) => tracing::debug!(%from, "a connection took too long"),
            }
        });
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        for echo in locked(&self.books.echoes).values() {
            echo.abort();
        }
    }
}

/// Sees to it that packets to this address are echoed.
async fn ensure_echo(books: &Arc<Books>, own: SocketAddr) -> io::Result<()> {
    let (is_known, known) = {
        let echoes = locked(&books.echoes);
        (echoes.contains_key(&own.ip()), echoes.len())
    };
    if is_known {
        return Ok(());
    }
    if known >= MOST_ADDRESSES {
        return Err(io::Error::other(
            "too many addresses of this machine were asked",
        ));
    }
    let socket = match UdpSocket::bind(own).await {
        Ok(socket) => socket,
        // Another connection was faster.
        Err(_) if locked(&books.echoes).contains_key(&own.ip()) => return Ok(()),
        Err(error) => return Err(error),
    };
    let task = tokio::spawn(echo(socket, Arc::downgrade(books)));
    locked(&books.echoes).insert(own.ip(), task);
    Ok(())
}

async fn echo(socket: UdpSocket, books: Weak<Books>) {
    // One byte more, so that a packet that is too long shows.
    let mut buffer = [0; LONGEST_PACKET + 1];
    loop {
        let (length, from) = match socket.recv_from(&mut buffer).await {
            Ok(received) => received,
            Err(error) => {
                tracing::debug!(%error, "cannot receive a packet");
                sleep(PAUSE).await;
                continue;
            }
        };
        let Some(books) = books.upgrade() else {
            return;
        };
        let packet = buffer.get(..length).unwrap_or_default();
        let head = packet_head(packet).filter(|_| length <= LONGEST_PACKET);
        let is_good = head.is_some_and(|(cookie, _)| {
            locked(&books.limits).spend(cookie, from.ip(), Instant::now())
        });
        // A full buffer loses the packet, as a network would.
        if is_good && let Err(error) = socket.try_send_to(packet, from) {
            tracing::debug!(%from, %error, "cannot echo a packet");
        }
    }
}

/// A connection that counts as open until it is dropped.
struct Visit {
    books: Arc<Books>,
    from: IpAddr,
}

impl Visit {
    fn begin(books: &Arc<Books>, from: IpAddr) -> Option<Self> {
        let is_served = locked(&books.limits).enter(from, Instant::now());
        let books = books.clone();
        // Only one that was let in leaves: a value that is made in vain would count as having gone.
        is_served.then(|| Self { books, from })
    }

    async fn serve(&self, stream: TcpStream, from: SocketAddr) -> io::Result<()> {
        let own = canonical(stream.local_addr()?);
        let mut stream = BufReader::with_capacity(LONGEST_LINE, stream);
        let request = match timeout(TO_ASK, read_line(&mut stream)).await {
            Ok(Ok(line)) => Request::parse(&line),
            Ok(Err(error)) if error.kind() == io::ErrorKind::InvalidData => Err(error.to_string()),
            Ok(Err(error)) => return Err(error),
            Err(_) => Err("no request came in time".to_owned()),
        };
        tracing::debug!(%from, ?request, "asked");
        let last = match request {
            Err(complaint) => Answer::Refused(complaint),
            Ok(Request::Count(cookie)) => self.count(cookie),
            Ok(Request::Dial { port, nonce }) => {
                let cookie = Cookie::any()?;
                if locked(&self.books.limits).grant(cookie, self.from, Instant::now()) {
                    if let Err(error) = ensure_echo(&self.books, own).await {
                        tracing::warn!(%own, %error, "cannot echo packets");
                    }
                    let seen = self.from;
                    say(&mut stream, &Answer::Cookie { cookie, seen }).await?;
                    let mut back = from;
                    back.set_port(port);
                    dial_back(own.ip(), back, nonce).await
                } else {
                    Answer::Busy
                }
            }
        };
        say(&mut stream, &last).await?;
        stream.shutdown().await
    }

    fn count(&self, cookie: Cookie) -> Answer {
        match locked(&self.books.limits).arrived(cookie, self.from) {
            Some(count) => Answer::Count(count),
            None => Answer::Refused("this cookie is not known".to_owned()),
        }
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        locked(&self.books.limits).leave(self.from);
    }
}

async fn say(stream: &mut BufReader<TcpStream>, answer: &Answer) -> io::Result<()> {
    stream.write_all(answer.to_string().as_bytes()).await
}

/// Dials from the address that was asked, so that the asker knows who it is.
async fn dial_back(own: IpAddr, back: SocketAddr, nonce: Nonce) -> Answer {
    let work = async {
        let socket = match own {
            IpAddr::V4(_) => TcpSocket::new_v4()?,
            IpAddr::V6(_) => TcpSocket::new_v6()?,
        };
        if !is_link_local(own) {
            socket.bind(SocketAddr::new(own, 0))?;
        }
        let mut stream = socket.connect(back).await?;
        stream.write_all(nonce.line().as_bytes()).await?;
        stream.shutdown().await
    };
    match timeout(TO_DIAL, work).await {
        Ok(Ok(())) => Answer::Dialled,
        Ok(Err(error)) => Answer::Unreachable(error.to_string()),
        Err(_) => Answer::Unreachable("no answer in time".to_owned()),
    }
}

/// An address that means something on one link only, which the kernel must choose.
fn is_link_local(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(_) => false,
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    }
}

/// A socket of both families shows addresses of IPv4 in the clothes of IPv6.
fn canonical(mut from: SocketAddr) -> SocketAddr {
    let ip = from.ip().to_canonical();
    if ip != from.ip() {
        from = SocketAddr::new(ip, from.port());
    }
    from
}

/// The books are whole after every call, so a panic elsewhere has not harmed them.
fn locked<T>(books: &Mutex<T>) -> MutexGuard<'_, T> {
    books.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    #[tokio::test]
    async fn those_that_are_turned_away_make_no_room_for_more() {
        let responder = Responder::bind("127.0.0.1:0".parse().unwrap()).await;
        let responder = responder.unwrap();
        let address = responder.address().unwrap();
        let serving = tokio::spawn(async move { responder.serve().await });
        let mut held = Vec::new();
        for _ in 0..12 {
            held.push(TcpStream::connect(address).await.unwrap());
        }
        let mut busy = 0;
        for mut stream in held {
            let mut answer = String::new();
            drop(stream.read_to_string(&mut answer).await);
            busy += usize::from(answer == Answer::Busy.to_string());
        }
        serving.abort();
        assert_eq!(busy, 4, "eight at once and no more");
    }
}
