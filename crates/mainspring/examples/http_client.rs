//! An HTTP client with hyper: requests a page several times over one connection.
//!
//! ```text
//! cargo run --features hyper --example http_client -- 127.0.0.1:8890 / 3
//! ```

use http_body_util::{BodyExt, Empty};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use mainspring::hyper::HyperIo;
use mainspring::net::TcpStream;
use mainspring::spawn;
use std::error::Error;

async fn fetch(address: &str, path: &str, times: usize) -> Result<(), Box<dyn Error>> {
    let stream = TcpStream::connect(address).await?;
    let (mut sender, connection) = http1::handshake(HyperIo::new(stream)).await?;
    let connection = spawn(connection);
    for _ in 0..times {
        let request = Request::get(path).header("host", address).body(Empty::<Bytes>::new())?;
        let response = sender.send_request(request).await?;
        let status = response.status();
        let body = response.into_body().collect().await?.to_bytes();
        println!("{status}: {}", String::from_utf8_lossy(&body));
    }
    drop(sender);
    Ok(connection.await??)
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:8890".to_owned());
    let path = arguments.next().unwrap_or_else(|| "/".to_owned());
    let times = arguments.next().map_or(Ok(3), |times| times.parse())?;
    mainspring::run(fetch(&address, &path, times))?
}
