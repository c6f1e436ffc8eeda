//! TCP: [`TcpStream`] and [`TcpListener`].

mod listener;
mod stream;

pub use listener::TcpListener;
pub use stream::TcpStream;
