//! The work on monoio, with its default driver (io_uring if the kernel has it). monoio has no channels and no
//! `yield_now`: channels are from local-sync, by the same authors, and `yield_now` is from futures-lite.

use crate::rows::Row;
use crate::thread_wake::ThreadWake;
use crate::{
    ANY_PORT, BUFFER, ROUND_TRIPS, TASK_BATCHES, TASKS, TIMERS, WAKE_UPS, YIELDERS, YIELDS, print_port,
    timed, timers,
};
use local_sync::mpsc::bounded;
use monoio::io::{AsyncReadRent, AsyncWriteRentExt};
use monoio::net::{TcpListener, TcpStream};
use monoio::{FusionDriver, RuntimeBuilder};
use std::sync::Arc;
use std::time::Duration;

fn run<T>(future: impl Future<Output = T>) -> T {
    RuntimeBuilder::<FusionDriver>::new().enable_timer().build().unwrap().block_on(future)
}

pub fn work(row: Row) -> Option<Duration> {
    run(async {
        let time = match row {
            Row::SpawnJoin => timed(spawn_and_join()).await,
            Row::Yield => timed(yield_in_turn()).await,
            Row::Timers => timed(timers::set_and_cancel(TIMERS, monoio::time::sleep)).await,
            Row::Channel => timed(ping_pong()).await,
            Row::WakeUp => {
                let wake = Arc::new(ThreadWake::default());
                let thread = Arc::clone(&wake).request(WAKE_UPS);
                monoio::spawn(wake.reply(WAKE_UPS)).await;
                thread.join().unwrap()
            }
            Row::Echo(_) | Row::Memory => return None,
        };
        Some(time)
    })
}

async fn spawn_and_join() {
    let mut tasks = Vec::with_capacity(TASKS);
    for _ in 0..TASK_BATCHES {
        tasks.extend((0..TASKS).map(|number| monoio::spawn(async move { number })));
        for (number, task) in tasks.drain(..).enumerate() {
            assert_eq!(task.await, number);
        }
    }
}

async fn yield_in_turn() {
    let yielder = || async {
        for _ in 0..YIELDS {
            smol::future::yield_now().await;
        }
    };
    let tasks: Vec<_> = (0..YIELDERS).map(|_| monoio::spawn(yielder())).collect();
    for task in tasks {
        task.await;
    }
}

async fn ping_pong() {
    let (ping, mut pings) = bounded::channel::<usize>(1);
    let (pong, mut pongs) = bounded::channel::<usize>(1);
    let server = monoio::spawn(async move {
        while let Some(number) = pings.recv().await {
            assert!(pong.send(number).await.is_ok());
        }
    });
    let client = monoio::spawn(async move {
        for number in 0..ROUND_TRIPS {
            assert!(ping.send(number).await.is_ok());
            assert_eq!(pongs.recv().await, Some(number));
        }
    });
    client.await;
    server.await;
}

pub fn serve() {
    run(async {
        let listener = TcpListener::bind(ANY_PORT).unwrap();
        print_port(listener.local_addr().unwrap());
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            monoio::spawn(echo(stream));
        }
    })
}

async fn echo(mut stream: TcpStream) {
    let _ = stream.set_nodelay(true);
    let mut buffer = Vec::with_capacity(BUFFER);
    loop {
        let (count, filled) = stream.read(buffer).await;
        if !matches!(count, Ok(1..)) {
            return;
        }
        let (sent, emptied) = stream.write_all(filled).await;
        if sent.is_err() {
            return;
        }
        buffer = emptied;
        buffer.clear();
    }
}
