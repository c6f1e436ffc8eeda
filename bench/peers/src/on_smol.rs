//! The work on smol: a `LocalExecutor` on this thread, over async-io.

use crate::rows::Row;
use crate::thread_wake::ThreadWake;
use crate::{
    ANY_PORT, BUFFER, ROUND_TRIPS, TASK_BATCHES, TASKS, TIMERS, WAKE_UPS, YIELDERS, YIELDS, print_port,
    timed, timers,
};
use smol::channel;
use smol::io::{AsyncReadExt, AsyncWriteExt};
use smol::{Async, LocalExecutor, Timer};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

pub fn work(row: Row) -> Option<Duration> {
    let executor = LocalExecutor::new();
    smol::block_on(executor.run(async {
        let time = match row {
            Row::SpawnJoin => timed(spawn_and_join(&executor)).await,
            Row::Yield => timed(yield_in_turn(&executor)).await,
            Row::Timers => timed(timers::set_and_cancel(TIMERS, Timer::after)).await,
            Row::Channel => timed(ping_pong(&executor)).await,
            Row::WakeUp => {
                let wake = Arc::new(ThreadWake::default());
                let thread = Arc::clone(&wake).request(WAKE_UPS);
                executor.spawn(wake.reply(WAKE_UPS)).await;
                thread.join().unwrap()
            }
            Row::Echo(_) | Row::Memory => return None,
        };
        Some(time)
    }))
}

async fn spawn_and_join(executor: &LocalExecutor<'_>) {
    let mut tasks = Vec::with_capacity(TASKS);
    for _ in 0..TASK_BATCHES {
        tasks.extend((0..TASKS).map(|number| executor.spawn(async move { number })));
        for (number, task) in tasks.drain(..).enumerate() {
            assert_eq!(task.await, number);
        }
    }
}

async fn yield_in_turn(executor: &LocalExecutor<'_>) {
    let yielder = || async {
        for _ in 0..YIELDS {
            smol::future::yield_now().await;
        }
    };
    let tasks: Vec<_> = (0..YIELDERS).map(|_| executor.spawn(yielder())).collect();
    for task in tasks {
        task.await;
    }
}

async fn ping_pong(executor: &LocalExecutor<'_>) {
    let (ping, pings) = channel::bounded::<usize>(1);
    let (pong, pongs) = channel::bounded::<usize>(1);
    let server = executor.spawn(async move {
        while let Ok(number) = pings.recv().await {
            pong.send(number).await.unwrap();
        }
    });
    let client = executor.spawn(async move {
        for number in 0..ROUND_TRIPS {
            ping.send(number).await.unwrap();
            assert_eq!(pongs.recv().await, Ok(number));
        }
    });
    client.await;
    server.await;
}

pub fn serve() {
    let executor = LocalExecutor::new();
    smol::block_on(executor.run(async {
        let listener = Async::<TcpListener>::bind(ANY_PORT).unwrap();
        print_port(listener.get_ref().local_addr().unwrap());
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            executor.spawn(echo(stream)).detach();
        }
    }))
}

async fn echo(mut stream: Async<TcpStream>) {
    let _ = stream.get_ref().set_nodelay(true);
    let mut buffer = [0; BUFFER];
    while let Ok(count @ 1..) = stream.read(&mut buffer).await {
        if stream.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
}
