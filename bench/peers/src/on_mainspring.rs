//! The work on mainspring.

use crate::rows::Row;
use crate::thread_wake::ThreadWake;
use crate::{
    ANY_PORT, BUFFER, ROUND_TRIPS, TASK_BATCHES, TASKS, TIMERS, WAKE_UPS, YIELDERS, YIELDS, print_port,
    timed, timers,
};
use mainspring::net::{TcpListener, TcpStream};
use mainspring::sync::mpsc;
use std::sync::Arc;
use std::time::Duration;

fn run<T>(future: impl Future<Output = T>) -> T {
    mainspring::run(future).unwrap_or_else(|error| crate::process::fail(&format!("mainspring: {error}")))
}

pub fn work(row: Row) -> Option<Duration> {
    run(async {
        let time = match row {
            Row::SpawnJoin => timed(spawn_and_join()).await,
            Row::Yield => timed(yield_in_turn()).await,
            Row::Timers => timed(timers::set_and_cancel(TIMERS, mainspring::sleep)).await,
            Row::Channel => timed(ping_pong()).await,
            Row::WakeUp => {
                let wake = Arc::new(ThreadWake::default());
                let thread = Arc::clone(&wake).request(WAKE_UPS);
                mainspring::spawn(wake.reply(WAKE_UPS)).await.unwrap();
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
        tasks.extend((0..TASKS).map(|number| mainspring::spawn(async move { number })));
        for (number, task) in tasks.drain(..).enumerate() {
            assert_eq!(task.await, Ok(number));
        }
    }
}

async fn yield_in_turn() {
    let yielder = || async {
        for _ in 0..YIELDS {
            mainspring::yield_now().await;
        }
    };
    let tasks: Vec<_> = (0..YIELDERS).map(|_| mainspring::spawn(yielder())).collect();
    for task in tasks {
        task.await.unwrap();
    }
}

async fn ping_pong() {
    let (ping, mut pings) = mpsc::channel::<usize>(1);
    let (pong, mut pongs) = mpsc::channel::<usize>(1);
    let server = mainspring::spawn(async move {
        while let Some(number) = pings.recv().await {
            pong.send(number).await.unwrap();
        }
    });
    let client = mainspring::spawn(async move {
        for number in 0..ROUND_TRIPS {
            ping.send(number).await.unwrap();
            assert_eq!(pongs.recv().await, Some(number));
        }
    });
    client.await.unwrap();
    server.await.unwrap();
}

pub fn serve() {
    run(async {
        let listener = TcpListener::bind(ANY_PORT).await.unwrap();
        print_port(listener.local_addr());
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            mainspring::spawn(echo(stream));
        }
    })
}

async fn echo(stream: TcpStream) {
    let mut buffer = [0; BUFFER];
    while let Ok(count @ 1..) = stream.read(&mut buffer).await {
        if stream.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
}
