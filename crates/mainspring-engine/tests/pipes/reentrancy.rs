//! Every callback performs every action on its own transport and on that of the other end.

use crate::host::{Reader, TestLoop, Transport, Writer, pipe};
use mainspring_engine::transport::{ReadPipe, WaterMarks, WritePipe};
use std::rc::Rc;
use test_support::pattern;
use test_support::{TestBackend, isolated, now_testing};

type Action = fn(&Transport<Reader>, &Transport<Writer>);

const ACTIONS: [(&str, Action); 9] = [
    ("close the reader", |reader, _| {
        reader.with(ReadPipe::close);
    }),
    ("close the writer", |_, writer| {
        writer.with(WritePipe::close);
    }),
    ("abort the writer", |_, writer| {
        writer.with(|pipe, cx| pipe.abort(cx, None));
    }),
    ("pause", |reader, _| {
        reader.with(ReadPipe::pause_reading);
    }),
    ("pause and resume", |reader, _| {
        reader.with(ReadPipe::pause_reading);
        reader.with(ReadPipe::resume_reading);
    }),
    ("write a little", |_, writer| writer.write(b"!")),
    ("write much", |_, writer| writer.write(pattern(200_000))),
    ("lower the marks", |_, writer| {
        writer.with(|pipe, cx| pipe.set_water_marks(cx, WaterMarks { high: 0, low: 0 }));
    }),
    ("all of it", |reader, writer| {
        for (name, action) in &ACTIONS {
            if *name != "all of it" {
                action(reader, writer);
            }
        }
    }),
];

#[test]
fn every_callback_may_do_anything_and_connection_lost_comes_once() {
    isolated(|| {
        for on in TestBackend::ALL {
            for at in ["made", "data", "eof", "lost", "pause", "resume"] {
                for (name, action) in ACTIONS {
                    now_testing(&format!("{name} in {at} on {on:?}"));
                    run(on, at, action);
                }
            }
        }
    });
}

fn run(on: TestBackend, at: &'static str, action: Action) {
    let test_loop = TestLoop::new(on);
    let (read_end, write_end) = pipe();
    let (reader, reader_told) = test_loop.reader(read_end);
    let (writer, writer_told) = test_loop.writer(write_end);
    for recorder in [&reader_told, &writer_told] {
        let (reader, writer) = (reader.clone(), writer.clone());
        let times = std::cell::Cell::new(0);
        *recorder.hook.borrow_mut() = Some(Rc::new(move |name| {
            if name == at && times.replace(times.get() + 1) < 3 {
                action(&reader, &writer);
            }
        }));
    }
    test_loop.run_iterations(2);
    writer.write(pattern(150_000));
    test_loop.run_iterations(10);
    writer.write(pattern(10));
    reader.with(ReadPipe::resume_reading);
    writer.with(WritePipe::close);
    let is_over = || reader_told.count("lost") == 1 && writer_told.count("lost") == 1;
    for _ in 0..200 {
        if is_over() {
            break;
        }
        reader.with(ReadPipe::resume_reading);
        test_loop.run_once();
    }
    if !is_over() {
        reader.with(ReadPipe::close);
        test_loop.until("both are lost", is_over);
    }
    test_loop.run_iterations(3);
    for recorder in [&reader_told, &writer_told] {
        let log = recorder.take_log();
        assert_eq!(log.iter().filter(|entry| entry.starts_with("lost")).count(), 1, "{log:?}");
        assert!(log.last().unwrap().starts_with("lost"), "{log:?}");
        assert_eq!(log.iter().filter(|entry| *entry == "made").count(), 1, "{log:?}");
    }
    assert_eq!((test_loop.engine.ready_len(), test_loop.engine.registered_len()), (0, 0));
}
