//! hyper on this loop: the traits of `hyper::rt` for our streams, tasks and timers. Behind the feature `hyper`.
//!
//! - [`HyperIo`] makes a connection of any stream: TCP, Unix sockets, TLS.
//! - [`HyperExecutor`] runs hyper's own tasks on the loop, whether they are `Send` or not.
//! - [`HyperTimer`] gives hyper the loop's time, virtual time included.
//!
//! The names of hyper in the public API are its traits and what those need, so the version that a program uses has to be
//! hyper 1, as here.
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
