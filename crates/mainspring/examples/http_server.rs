//! An HTTP server with hyper.
//!
//! ```text
//! cargo run --release --features hyper --example http_server
//! ```
//!
//! To put load on it, use `wrk -t1 -c64 http://127.0.0.1:8890/`, or the load generator of this repository, which checks
//! every reply:
//!
//! ```text
//! cargo run --release --manifest-path bench/native/Cargo.toml --bin loadgen -- \
//!     echo --kind http --tcp 127.0.0.1:8890 --conns 64 --warmup 1 --duration 5
//! ```

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use mainspring::hyper::{HyperIo, HyperTimer};
use mainspring::net::TcpListener;
use mainspring::spawn;
use std::convert::Infallible;
use std::io;

async fn hello(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(Full::from("Hello, World!")))
}

async fn serve() -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:8890").await?;
    println!("listening at http://{}", listener.local_addr());
    let mut http = http1::Builder::new();
    // Without a timer there is no timeout for the headers of a request.
    http.timer(HyperTimer::current()).pipeline_flush(true);
    loop {
        let (stream, peer) = listener.accept().await?;
        let connection = http.serve_connection(HyperIo::new(stream), service_fn(hello));
        spawn(async move {
            if let Err(error) = connection.await {
                println!("{peer}: {error}");
            }
        });
    }
}

fn main() -> Result<(), mainspring::Error> {
    mainspring::run(serve())??;
    Ok(())
}
