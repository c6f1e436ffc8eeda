//! hyper on this loop: implements the traits of `hyper::rt`. Requires the feature `hyper`.
//!
//! - [`HyperIo`] adapts any stream: TCP, Unix, TLS.
//! - [`HyperExecutor`] runs hyper's tasks on the loop. They need not be `Send`.
//! - [`HyperTimer`] uses the loop's clock, including virtual time.
//!
//! The public API contains traits of hyper 1, so the program has to use hyper 1 as well.
//!
//! ```
//! use http_body_util::{BodyExt, Full};
//! use hyper::body::{Bytes, Incoming};
//! use hyper::{Request, Response};
//! use mainspring::hyper::{HyperIo, HyperTimer};
//! use mainspring::net::{TcpListener, TcpStream};
//!
//! async fn hello(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, hyper::Error> {
//!     Ok(Response::new(Full::from(format!("hello, {}", request.uri().path()))))
//! }
//!
//! mainspring::run(async {
//!     let listener = TcpListener::bind("127.0.0.1:0").await?;
//!     let address = listener.local_addr();
//!     let serving = mainspring::spawn(async move {
//!         let (stream, _) = listener.accept().await?;
//!         let mut server = hyper::server::conn::http1::Builder::new();
//!         server.timer(HyperTimer::current());
//!         server.serve_connection(HyperIo::new(stream), hyper::service::service_fn(hello)).await?;
//!         Ok::<_, Box<dyn std::error::Error>>(())
//!     });
//!
//!     let stream = TcpStream::connect(address).await?;
//!     let (mut sender, connection) = hyper::client::conn::http1::handshake(HyperIo::new(stream)).await?;
//!     mainspring::spawn(connection);
//!     let request = Request::get("/world").body(Full::<Bytes>::default())?;
//!     let body = sender.send_request(request).await?.into_body().collect().await?.to_bytes();
//!     assert_eq!(body, "hello, /world");
//!     drop(sender);
//!     serving.await?
//! })??;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod executor;
mod io;
mod timer;

pub use executor::HyperExecutor;
pub use io::HyperIo;
pub use timer::{HyperSleep, HyperTimer};
