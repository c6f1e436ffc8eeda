//! The HTTP service of these tests, and requests to it.

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::{Method, Request, Response, StatusCode};
use mainspring::sleep;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

/// Counts requests and echoes the path and body.
#[derive(Clone, Default)]
pub struct Service {
    pub requests: Rc<Cell<usize>>,
}

impl Service {
    pub async fn answer(self, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, hyper::Error> {
        self.requests.set(self.requests.get() + 1);
        let mut answer = request.uri().path().as_bytes().to_vec();
        if request.method() == Method::GET && request.uri().path() == "/slow" {
            sleep(Duration::from_secs(1)).await;
        }
        answer.extend_from_slice(&request.into_body().collect().await?.to_bytes());
        Ok(Response::new(Full::from(answer)))
    }
}

/// A request and its expected answer.
pub fn request(number: usize) -> (Request<Full<Bytes>>, Vec<u8>) {
    let path = format!("/request/{number}");
    let body: Vec<u8> = (0..number * 37 % 5000).map(|step| (step + number) as u8).collect();
    let expected = [path.as_bytes(), &body].concat();
    let request = Request::post(format!("http://localhost{path}")).body(Full::from(body)).unwrap();
    (request, expected)
}

/// Checks a response.
pub async fn check(response: Response<Incoming>, expected: &[u8]) {
    assert_eq!(response.status(), StatusCode::OK);
    let body = response.into_body().collect().await.unwrap().to_bytes();
    assert!(body == expected, "{} bytes for {}", body.len(), expected.len());
}
