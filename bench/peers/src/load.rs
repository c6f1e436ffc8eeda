//! The client of the echo rows: one thread, one epoll, the same for every server.
//!
//! Each connection has one message in flight. The client polls without sleeping, so that no server has to wake it.

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

pub const MESSAGE: [u8; 64] = *b"a test message of sixty-four bytes; the server must echo it back";

struct Connection {
    socket: TcpStream,
    /// Bytes of the reply received so far.
    received: usize,
}

/// The number of echoes in a time.
#[derive(Default)]
pub struct EchoCount {
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

    /// Opens `count` more connections. Each exchanges one message, so the server has accepted it.
    pub fn connect(&mut self, port: u16, count: usize) -> io::Result<()> {
        for _ in 0..count {
            let mut socket = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
            socket.set_nodelay(true)?;
            // Close with a reset: otherwise thousands of connections per second would stay in TIME_WAIT.
            socket2::SockRef::from(&socket).set_linger(Some(Duration::ZERO))?;
            socket.write_all(&MESSAGE)?;
            let mut reply = [0; MESSAGE.len()];
            socket.read_exact(&mut reply)?;
            assert_eq!(reply, MESSAGE, "the echo differs from the message");
            socket.set_nonblocking(true)?;
            let data = EventData::new_u64(self.connections.len() as u64);
            // Edge-triggered: a message is read whole, so no event needs to be repeated.
            epoll::add(&self.epoll, &socket, data, EventFlags::IN | EventFlags::ET)?;
            self.connections.push(Connection { socket, received: 0 });
        }
        Ok(())
    }

    /// Sends the first message on every connection.
    pub fn start(&mut self) -> io::Result<()> {
        self.connections.iter_mut().try_for_each(|connection| connection.socket.write_all(&MESSAGE))
    }

    /// Exchanges messages for `time` or slightly longer.
    pub fn run(&mut self, time: Duration) -> io::Result<EchoCount> {
        let start = Instant::now();
        let mut echoed = EchoCount::default();
        while echoed.time < time {
            echoed.count += self.poll_once()?;
            echoed.time = start.elapsed();
        }
        Ok(echoed)
    }

    /// Receives available data, and sends the next message on each connection with a complete reply.
    fn poll_once(&mut self) -> io::Result<u64> {
        self.events.clear();
        let no_wait = Timespec { tv_sec: 0, tv_nsec: 0 };
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut self.events), Some(&no_wait)) {
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
                return Err(io::Error::other("the echo differs from the message"));
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
