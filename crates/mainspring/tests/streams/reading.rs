//! `StreamReader`: returned data, buffered data, and when receiving pauses.

use crate::{on_pairs, settle};
use mainspring::net::{ReadError, UnixStream};
use mainspring::sync::Event;
use mainspring::{spawn, timeout};
use mainspring_engine::READ_SIZE;
use std::io;
use std::rc::Rc;
use std::time::Duration;
use test_support::pattern;

/// Writes the pieces one by one, so that each arrives alone.
async fn dribble(stream: &UnixStream, pieces: &[&[u8]]) {
    for piece in pieces {
        stream.write_all(piece).await.unwrap();
        settle().await;
    }
}

#[test]
fn a_separator_split_at_any_byte_is_found() {
    on_pairs("a split separator", async |near, far| {
        for cut in 0..=8 {
            let (first, second) = b"ab\r\n\r\ncd".split_at(cut);
            dribble(&near, &[first, second]).await;
            assert_eq!(far.read_until(b"\r\n\r\n").await.unwrap(), b"ab\r\n\r\n");
            assert_eq!(far.read_exactly(2).await.unwrap(), b"cd");
        }
    });
}

#[test]
fn a_separator_that_arrives_byte_by_byte_is_found() {
    on_pairs("byte by byte", async |near, far| {
        let reading = spawn(async move { far.read_until(b"aab").await.map(|found| (found, far)) });
        dribble(&near, &[b"a", b"a", b"a", b"a", b"b", b"x"]).await;
        let (found, far) = reading.await.unwrap().unwrap();
        assert_eq!(found, b"aaaab");
        assert_eq!(far.read_some(10).await.unwrap(), b"x");
    });
}

#[test]
fn lines_are_returned_one_by_one_and_the_last_needs_no_newline() {
    on_pairs("lines", async |near, far| {
        near.write_all(b"one\n\nthree").await.unwrap();
        near.shutdown();
        for line in [&b"one\n"[..], b"\n", b"three", b"", b""] {
            assert_eq!(far.read_line().await.unwrap(), line);
        }
        assert!(far.split().0.at_eof());
    });
}

#[test]
fn a_line_beyond_the_limit_is_an_error_and_stays_buffered() {
    on_pairs("a long line", async |near, far| {
        far.split().0.set_limit(8);
        near.write_all(b"123456789").await.unwrap();
        for _ in 0..2 {
            match far.read_line().await.unwrap_err() {
                ReadError::LimitOverrun { consumed, buffered, limit } => {
                    assert_eq!((consumed, buffered, limit), (9, 9, 8));
                }
                other => panic!("{other:?}"),
            }
        }
        near.write_all(b"0\nrest\n").await.unwrap();
        settle().await;
        // Found, but beyond the limit.
        match far.read_line().await.unwrap_err() {
            ReadError::LimitOverrun { consumed: 10, buffered: 16, limit: 8 } => {}
            other => panic!("{other:?}"),
        }
        assert_eq!(far.read_exactly(10).await.unwrap(), b"1234567890");
        assert_eq!(far.read_line().await.unwrap(), b"\n");
        assert_eq!(far.read_line().await.unwrap(), b"rest\n");
    });
}

#[test]
fn a_separator_just_within_the_limit_is_found() {
    on_pairs("the limit itself", async |near, far| {
        far.split().0.set_limit(4);
        near.write_all(b"1234\n1234").await.unwrap();
        assert_eq!(far.read_line().await.unwrap(), b"1234\n");
        near.write_all(b"\n").await.unwrap();
        assert_eq!(far.read_line().await.unwrap(), b"1234\n");
    });
}

#[test]
fn eof_before_the_separator_or_count_returns_the_partial_data() {
    on_pairs("incomplete", async |near, far| {
        near.write_all(b"abc").await.unwrap();
        near.shutdown();
        match far.read_until(b";").await.unwrap_err() {
            ReadError::Incomplete { partial, expected: None } => assert_eq!(partial, b"abc"),
            other => panic!("{other:?}"),
        }
        far.write_all(b"de").await.unwrap();
        far.shutdown();
        match near.read_exactly(3).await.unwrap_err() {
            ReadError::Incomplete { partial, expected: Some(3) } => assert_eq!(partial, b"de"),
            other => panic!("{other:?}"),
        }
        let error = near.read_exact(&mut [0; 3]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        assert!(error.get_ref().unwrap().is::<ReadError>());
    });
}

#[test]
fn reading_zero_bytes_returns_at_once() {
    on_pairs("nothing", async |_near, far| {
        assert_eq!(far.read(&mut []).await.unwrap(), 0);
        assert_eq!(far.read_some(0).await.unwrap(), b"");
        assert_eq!(far.read_exactly(0).await.unwrap(), b"");
    });
}

#[test]
fn a_reader_that_does_not_read_blocks_the_peer() {
    on_pairs("a slow reader", async |near, far| {
        far.split().0.set_limit(1000);
        near.transport().write(pattern(1_000_000));
        settle().await;
        let held = far.split().0.buffered();
        assert!(!far.transport().is_reading() && held > 2000, "{held}");
        assert!(held <= 2000 + READ_SIZE, "one read past the limit at most: {held}");
        // At the limit, receiving resumes.
        far.read_exactly(held - 1000).await.unwrap();
        assert!(far.transport().is_reading());
        settle().await;
        assert!(!far.transport().is_reading());
        near.shutdown();
        let rest = far.read_to_end().await.unwrap();
        assert!(rest == pattern(1_000_000)[held - 1000..]);
    });
}

#[test]
fn a_read_larger_than_the_limit_completes() {
    on_pairs("more than the limit", async |near, far| {
        far.split().0.set_limit(100);
        let sent = pattern(500_000);
        let writing = spawn(async move {
            near.write_all(sent).await.unwrap();
            near
        });
        assert!(far.read_exactly(200_000).await.unwrap() == pattern(500_000)[..200_000]);
        let mut rest = vec![0; 300_000];
        far.read_exact(&mut rest).await.unwrap();
        assert!(rest == pattern(500_000)[200_000..]);
        writing.await.unwrap();
    });
}

#[test]
fn cancelling_any_read_method_loses_no_data() {
    on_pairs("cancelled", async |near, far| {
        async fn cancel<T>(read: impl Future<Output = T>) {
            assert!(timeout(Duration::ZERO, read).await.is_err());
        }
        let mut sent = Vec::new();
        for round in 0..6_u8 {
            near.write_all(&[round]).await.unwrap();
            sent.push(round);
            settle().await;
            match round % 4 {
                0 => cancel(far.read_exactly(100)).await,
                1 => cancel(far.read_until(b"\xff")).await,
                2 => cancel(far.read_to_end()).await,
                _ => cancel(far.read_exact(&mut [0; 100])).await,
            }
            assert_eq!(far.split().0.buffered(), sent.len());
        }
        near.shutdown();
        assert_eq!(far.read_to_end().await.unwrap(), sent);
    });
}

#[test]
fn two_concurrent_readers_together_get_everything() {
    on_pairs("two readers", async |near, far| {
        let far = Rc::new(far);
        let readers = [1, 2].map(|_| {
            let far = Rc::clone(&far);
            spawn(async move {
                let mut all = Vec::new();
                loop {
                    match far.read_some(7).await.unwrap() {
                        none if none.is_empty() => return all,
                        some => all.extend(some),
                    }
                }
            })
        });
        for _ in 0..100 {
            near.write_all(&[1; 30]).await.unwrap();
            settle().await;
        }
        near.shutdown();
        let mut total = 0;
        for reader in readers {
            total += reader.await.unwrap().len();
        }
        assert_eq!(total, 3000);
    });
}

#[test]
fn read_until_survives_another_reader_consuming_searched_data() {
    on_pairs("another reader", async |near, far| {
        let far = Rc::new(far);
        let searching = spawn({
            let far = Rc::clone(&far);
            async move { far.read_until(b"\n").await.unwrap() }
        });
        near.write_all(b"abcdef").await.unwrap();
        settle().await;
        assert_eq!(far.read_exactly(6).await.unwrap(), b"abcdef");
        dribble(&near, &[b"x\n"]).await;
        assert_eq!(searching.await.unwrap(), b"x\n");
    });
}

/// Reads with the method that `choice` selects, and appends the result.
async fn read_somehow(stream: &UnixStream, choice: usize, into: &mut Vec<u8>) -> bool {
    let before = into.len();
    match choice % 5 {
        0 => {
            let mut buffer = [0; 100];
            let count = stream.read(&mut buffer).await.unwrap();
            into.extend_from_slice(&buffer[..count]);
        }
        1 => into.extend(stream.read_some(choice % 3000 + 1).await.unwrap()),
        2 => match stream.read_exactly(choice % 5000 + 1).await {
            Ok(read) | Err(ReadError::Incomplete { partial: read, .. }) => into.extend(read),
            other => panic!("{other:?}"),
        },
        3 => match stream.read_until(&[choice as u8, choice as u8 + 1]).await {
            Ok(read) | Err(ReadError::Incomplete { partial: read, .. }) => into.extend(read),
            Err(ReadError::LimitOverrun { consumed, .. }) => {
                into.extend(stream.read_exactly(consumed).await.unwrap());
            }
            other => panic!("{other:?}"),
        },
        _ => into.extend(stream.read_line().await.unwrap_or_default()),
    }
    into.len() > before
}

#[test]
fn mixing_read_methods_returns_the_written_bytes() {
    on_pairs("any way", async |near, far| {
        far.split().0.set_limit(2000);
        let writing = spawn(async move {
            for piece in pattern(300_000).chunks(977) {
                near.write_all(piece).await.unwrap();
            }
        });
        let (mut all, mut choice) = (Vec::new(), 1_usize);
        let mut is_idle = 0;
        while is_idle < 10 {
            choice = choice.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let has_read = read_somehow(&far, choice >> 33, &mut all).await;
            is_idle = if has_read { 0 } else { is_idle + 1 };
        }
        assert!(all == pattern(300_000), "{} bytes", all.len());
        writing.await.unwrap();
    });
}

#[test]
fn a_reader_completes_only_when_its_line_is_complete() {
    on_pairs("a wake", async |near, far| {
        let event = Rc::new(Event::new());
        let reading = spawn({
            let event = Rc::clone(&event);
            async move {
                let line = far.read_line().await.unwrap();
                event.set();
                line
            }
        });
        dribble(&near, &[b"a", b"b"]).await;
        assert!(!event.is_set());
        dribble(&near, &[b"\n"]).await;
        assert!(event.is_set());
        assert_eq!(reading.await.unwrap(), b"ab\n");
    });
}
