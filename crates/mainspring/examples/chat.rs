//! A chat: what one says, all the others hear. A task for each connection, and nothing shared but a list.
//!
//! ```text
//! cargo run --example chat                 # the room
//! nc 127.0.0.1 8892                        # a guest, in another terminal; and another one
//! ```

use mainspring::net::{StreamReader, StreamWriter, start_server};
use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;

/// A guest who has so many bytes waiting does not listen, and is shown out.
const PATIENCE: usize = 1024 * 1024;

/// Everybody's writer, by address.
#[derive(Default)]
struct Room(RefCell<HashMap<SocketAddr, Rc<StreamWriter>>>);

impl Room {
    fn say(&self, speaker: SocketAddr, words: &[u8]) {
        let listeners: Vec<_> = self.0.borrow().values().cloned().collect();
        for listener in listeners.iter().filter(|listener| listener.peer_addr() != Some(speaker)) {
            listener.writelines(&[speaker.to_string().as_bytes(), b": ", words]);
            if listener.transport().get_write_buffer_size() > PATIENCE {
                listener.transport().abort();
            }
        }
    }
}

async fn attend(room: Rc<Room>, reader: StreamReader, writer: StreamWriter) -> io::Result<()> {
    let Some(guest) = writer.peer_addr() else { return Ok(()) };
    room.0.borrow_mut().insert(guest, Rc::new(writer));
    room.say(guest, b"(comes in)\n");
    // However it ends, the guest has left.
    let outcome = loop {
        match reader.read_line().await {
            Ok(line) if line.is_empty() => break Ok(()),
            Ok(line) => room.say(guest, &line),
            Err(error) => break Err(error.into()),
        }
    };
    room.0.borrow_mut().remove(&guest);
    room.say(guest, b"(leaves)\n");
    outcome
}

fn main() -> Result<(), mainspring::Error> {
    mainspring::run(async {
        let room = Rc::new(Room::default());
        let server =
            start_server("127.0.0.1:8892", move |reader, writer| attend(Rc::clone(&room), reader, writer));
        let server = server.await?;
        println!("the room is open at {}", server.local_addr());
        server.serve_forever().await?;
        Ok(())
    })?
}
