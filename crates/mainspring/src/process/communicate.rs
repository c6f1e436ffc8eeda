//! `communicate`: writes the input and reads both outputs concurrently.

use super::child_handle::{Child, ChildStdin};
use crate::net::StreamReader;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

impl Child {
    /// Writes `input`, closes the child's input, reads output and error to their ends, and waits for the exit:
    /// asyncio's `communicate`. Reading and writing are concurrent, so that they cannot deadlock.
    ///
    /// A stream that is not piped, or was taken, is `None`. It is not an error if the process does not read all of
    /// its input.
    ///
    /// Cancel safety: not safe; the output read so far is lost, and the pipes are closed.
    ///
    /// ```
    /// use mainspring::process::{Command, Stdio};
    ///
    /// # mainspring::run(async {
    /// let mut child = Command::new("sort").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    /// let (sorted, nothing) = child.communicate(Some(b"b\na\n")).await?;
    /// assert_eq!((sorted.as_deref(), nothing), (Some(&b"a\nb\n"[..]), None));
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub async fn communicate(
        &mut self,
        input: Option<&[u8]>,
    ) -> io::Result<(Option<Vec<u8>>, Option<Vec<u8>>)> {
        let (stdin, stdout, stderr) = (self.stdin.take(), self.stdout.take(), self.stderr.take());
        let (fed, stdout, stderr) =
            join3(feed(stdin, input.unwrap_or_default()), read(stdout), read(stderr)).await;
        fed?;
        let output = (stdout?, stderr?);
        self.wait().await?;
        Ok(output)
    }
}

/// Writes the input and closes it.
async fn feed(stdin: Option<ChildStdin>, input: &[u8]) -> io::Result<()> {
    let Some(stdin) = stdin else { return Ok(()) };
    let written = async {
        stdin.write_all(input).await?;
        stdin.close();
        stdin.wait_closed().await
    };
    match written.await {
        Err(error) if matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) => {
            Ok(())
        }
        written => written,
    }
}

async fn read(pipe: Option<StreamReader>) -> io::Result<Option<Vec<u8>>> {
    match pipe {
        Some(pipe) => pipe.read_to_end().await.map(Some),
        None => Ok(None),
    }
}

/// Runs three futures concurrently in this task.
async fn join3<A: Future, B: Future, C: Future>(a: A, b: B, c: C) -> (A::Output, B::Output, C::Output) {
    let (mut a, mut b, mut c) = (pin!(a), pin!(b), pin!(c));
    let (mut first, mut second, mut third) = (None, None, None);
    poll_fn(move |cx| {
        poll_into(&mut first, a.as_mut(), cx);
        poll_into(&mut second, b.as_mut(), cx);
        poll_into(&mut third, c.as_mut(), cx);
        if first.is_none() || second.is_none() || third.is_none() {
            return Poll::Pending;
        }
        match (first.take(), second.take(), third.take()) {
            (Some(first), Some(second), Some(third)) => Poll::Ready((first, second, third)),
            _ => Poll::Pending,
        }
    })
    .await
}

fn poll_into<F: Future>(output: &mut Option<F::Output>, future: Pin<&mut F>, cx: &mut Context<'_>) {
    if output.is_none()
        && let Poll::Ready(ready) = future.poll(cx)
    {
        *output = Some(ready);
    }
}
