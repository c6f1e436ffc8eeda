//! The other end of the echo rows: one thread, one epoll, the same for every server.
//!
//! Each connection has one message under way. The client looks for replies without sleeping, so that no server has
//! to wake it.

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

pub const MESSAGE: [u8; 64] = *b"sixty-four bytes that come back as they went, or all is in vain.";

struct Connection {
    socket: TcpStream,
    /// How much of the reply has come.
    received: usize,
}

/// So many echoes came in that time.
#[derive(Default)]
pub struct Echoed {
    pub count: u64,
    pub time: Duration,
}

pub struct Load {
    epoll: OwnedFd,
    connections: Vec<Connection>,
    events: Vec<epoll::Event>,
}

impl Load {
    pub fn new() -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        Ok(Load { epoll, connections: Vec::new(), events: Vec::with_capacity(1024) })
    }

    /// Opens so many more connections. Each sends a message and gets it back: the server has it for sure.
    pub fn connect(&mut self, port: u16, count: usize) -> io::Result<()> {
        for _ in 0..count {
            let mut socket = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
            socket.set_nodelay(true)?;
            // Closed by a reset: thousands of connections a second would else wait for the last of their packets.
            socket2::SockRef::from(&socket).set_linger(Some(Duration::ZERO))?;
            socket.write_all(&MESSAGE)?;
            let mut reply = [0; MESSAGE.len()];
            socket.read_exact(&mut reply)?;
            assert_eq!(reply, MESSAGE, "an echo is what was sent");
            socket.set_nonblocking(true)?;
            let data = EventData::new_u64(self.connections.len() as u64);
            // A message is read as a whole: there is never more to be told of again, which would be the client's time.
            epoll::add(&self.epoll, &socket, data, EventFlags::IN | EventFlags::ET)?;
            self.connections.push(Connection { socket, received: 0 });
        }
        Ok(())
    }

    /// Starts every connection.
    pub fn start(&mut self) -> io::Result<()> {
        self.connections.iter_mut().try_for_each(|connection| connection.socket.write_all(&MESSAGE))
    }

    /// Goes on for `time` or a little longer.
    pub fn run(&mut self, time: Duration) -> io::Result<Echoed> {
        let begun = Instant::now();
        let mut echoed = Echoed::default();
        while echoed.time < time {
            echoed.count += self.turn()?;
            echoed.time = begun.elapsed();
        }
        Ok(echoed)
    }

    /// Takes what has come, and sends the next message where a whole one has.
    fn turn(&mut self) -> io::Result<u64> {
        self.events.clear();
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut self.events), Some(&at_once)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let mut echoes = 0;
        let mut buffer = [0; 2 * MESSAGE.len()];
        for event in &self.events {
            let Some(connection) = self.connections.get_mut(event.data.u64() as usize) else { continue };
            let count = connection.socket.read(&mut buffer)?;
            let expected = MESSAGE.get(connection.received..connection.received + count);
            if count == 0 || expected != buffer.get(..count) {
                return Err(io::Error::other("an echo is not what was sent"));
            }
            connection.received += count;
            if connection.received == MESSAGE.len() {
                connection.received = 0;
                echoes += 1;
                connection.socket.write_all(&MESSAGE)?;
            }
        }
        Ok(echoes)
    }
}
