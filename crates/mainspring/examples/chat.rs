//! A chat server: each line goes to all other clients. One task per connection; the only shared state is a map.
//!
//! ```text
//! cargo run --example chat                 # the server
//! nc 127.0.0.1 8892                        # a client, in another terminal; start two or more
//! ```

use mainspring::net::{StreamReader, StreamWriter, start_server};
use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;

/// A client with more queued bytes does not read; it is disconnected.
const MAX_QUEUED_BYTES: usize = 1024 * 1024;

/// The writers of all clients, by address.
#[derive(Default)]
struct Room(RefCell<HashMap<SocketAddr, Rc<StreamWriter>>>);

impl Room {
    fn broadcast(&self, sender: SocketAddr, message: &[u8]) {
        let writers: Vec<_> = self.0.borrow().values().cloned().collect();
        for writer in writers.iter().filter(|writer| writer.peer_addr() != Some(sender)) {
            writer.writelines(&[sender.to_string().as_bytes(), b": ", message]);
            if writer.transport().get_write_buffer_size() > MAX_QUEUED_BYTES {
                writer.transport().abort();
            }
        }
    }
}

async fn serve(room: Rc<Room>, reader: StreamReader, writer: StreamWriter) -> io::Result<()> {
    let Some(client) = writer.peer_addr() else { return Ok(()) };
    room.0.borrow_mut().insert(client, Rc::new(writer));
    room.broadcast(client, b"(joins)\n");
    // No `?` here: the client is removed also after an error.
    let outcome = loop {
        match reader.read_line().await {
            Ok(line) if line.is_empty() => break Ok(()),
            Ok(line) => room.broadcast(client, &line),
            Err(error) => break Err(error.into()),
        }
    };
    room.0.borrow_mut().remove(&client);
    room.broadcast(client, b"(leaves)\n");
    outcome
}

fn main() -> Result<(), mainspring::Error> {
    mainspring::run(async {
        let room = Rc::new(Room::default());
        let server =
            start_server("127.0.0.1:8892", move |reader, writer| serve(Rc::clone(&room), reader, writer));
        let server = server.await?;
        println!("listening at {}", server.local_addr());
        server.serve_forever().await?;
        Ok(())
    })?
}
