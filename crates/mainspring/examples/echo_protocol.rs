//! An echo server with a protocol: `data_received` writes the data back.
//!
//! ```text
//! cargo run --example echo_protocol
//! ```

use mainspring::{EventLoop, Protocol, Transport};
use std::io;

struct Echo;

impl Protocol for Echo {
    fn connection_made(&self, transport: &Transport) {
        println!("connected: {:?}", transport.peer_addr());
    }

    fn data_received(&self, transport: &Transport, data: &[u8]) {
        transport.write(data);
    }

    // Back-pressure: if the peer does not read, stop reading from it.
    fn pause_writing(&self, transport: &Transport) {
        transport.pause_reading();
    }

    fn resume_writing(&self, transport: &Transport) {
        transport.resume_reading();
    }

    fn connection_lost(&self, transport: &Transport, error: Option<io::Error>) {
        println!("lost: {:?} {error:?}", transport.peer_addr());
    }
}

fn main() -> Result<(), mainspring::Error> {
    mainspring::run(async {
        let server = EventLoop::current().create_server("127.0.0.1:8888", 100, || Echo).await?;
        println!("listening at {}", server.local_addr());
        server.serve_forever().await?;
        Ok(())
    })?
}
