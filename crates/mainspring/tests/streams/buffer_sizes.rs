//! Reads with buffers of every size, and mixed with `read_line`.

use crate::on_pairs;
use crate::support::TestLoop;
use mainspring::net::UnixStream;
use mainspring::spawn;
use mainspring_engine::testing::Op;
use test_support::{TestBackend, isolated, pattern};

#[test]
fn any_combination_of_message_and_buffer_size_arrives_in_order() {
    on_pairs("sizes", async |near, far| {
        for length in [1, 2, 7, 8, 9, 1019, 1020, 1021, 2040, 5000, 16_384, 70_000, 3] {
            for size in [1, 7, 1019, 1020, 1021, 32_768] {
                let mut buffer = vec![0; size];
                let mut received = Vec::new();
                let sent = pattern(length);
                // The read is pending when the first byte arrives.
                let (reading, writing) = (near.read(&mut buffer), far.write_all(sent));
                let (count, written) = mainspring::join((reading, writing)).await;
                written.unwrap();
                let count = count.unwrap();
                received.extend_from_slice(&buffer[..count]);
                if received.len() < length {
                    received.extend(near.read_exactly(length - received.len()).await.unwrap());
                }
                assert_eq!(received, sent, "{length} bytes, {size} at a time");
            }
        }
    });
}

#[test]
fn read_and_read_line_can_be_mixed() {
    on_pairs("lines and bytes", async |near, far| {
        let sending = spawn(async move {
            for piece in [&b"abc"[..], b"de\nfg", b"h\ni", b"j", b"k\n"] {
                far.write_all(piece).await.unwrap();
                crate::settle().await;
            }
            far
        });
        let mut buffer = [0; 2];
        assert_eq!(near.read(&mut buffer).await.unwrap(), 2);
        assert_eq!(&buffer, b"ab");
        assert_eq!(near.read_line().await.unwrap(), b"cde\n");
        assert_eq!(near.read(&mut buffer).await.unwrap(), 2);
        assert_eq!(near.read_line().await.unwrap(), b"h\n");
        assert_eq!(near.read(&mut buffer[..1]).await.unwrap(), 1);
        assert_eq!(near.read_line().await.unwrap(), b"jk\n");
        drop(sending.await.unwrap());
        assert_eq!(near.read(&mut buffer).await.unwrap(), 0);
    });
}

#[test]
fn small_buffers_get_everything_with_few_recv_calls() {
    for limit in [1, 100, 64 * 1024] {
        isolated(|| {
            let test_loop = TestLoop::new(TestBackend::Fake, format!("small buffers, limit {limit}"));
            test_loop.run(async {
                let (near, far) = UnixStream::pair().unwrap();
                near.split().0.set_limit(limit);
                let sending = spawn(async move { far.write_all(pattern(100_000)).await });
                let (mut received, mut buffer) = (Vec::new(), [0; 7]);
                while let count @ 1.. = near.read(&mut buffer).await.unwrap() {
                    received.extend_from_slice(&buffer[..count]);
                }
                assert_eq!(received, pattern(100_000));
                sending.await.unwrap().unwrap();
            });
            let log = test_loop.control.take_log();
            let recvs = log.iter().filter(|entry| entry.call.op() == Op::Recv).count();
            assert!(recvs < 100, "{recvs} recv calls");
            test_loop.assert_idle();
        });
    }
}
