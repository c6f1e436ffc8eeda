//! Any callback doing anything to its own transport, and to the other end's.

use crate::face::{Bench, Reader, Transport, Writer, pipe};
use mainspring_engine::transport::{ReadPipe, WaterMarks, WritePipe};
use std::rc::Rc;
use test_support::pattern;
use test_support::{On, guarded, now_testing};

type Act = fn(&Transport<Reader>, &Transport<Writer>);

const ACTS: [(&str, Act); 9] = [
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
        for (name, act) in &ACTS {
            if *name != "all of it" {
                act(reader, writer);
            }
        }
    }),
];

#[test]
fn each_callback_may_do_anything_and_each_loss_is_told_once() {
    guarded(|| {
        for on in On::ALL {
            for at in ["made", "data", "eof", "lost", "pause", "resume"] {
                for (name, act) in ACTS {
                    now_testing(&format!("{name} in {at} on {on:?}"));
                    play(on, at, act);
                }
            }
        }
    });
}

fn play(on: On, at: &'static str, act: Act) {
    let bench = Bench::new(on);
    let (read_end, write_end) = pipe();
    let (reader, reader_told) = bench.reader(read_end);
    let (writer, writer_told) = bench.writer(write_end);
    for told in [&reader_told, &writer_told] {
        let (reader, writer) = (reader.clone(), writer.clone());
        let times = std::cell::Cell::new(0);
        *told.hook.borrow_mut() = Some(Rc::new(move |name| {
            if name == at && times.replace(times.get() + 1) < 3 {
                act(&reader, &writer);
            }
        }));
    }
    bench.passes(2);
    writer.write(pattern(150_000));
    bench.passes(10);
    writer.write(pattern(10));
    reader.with(ReadPipe::resume_reading);
    writer.with(WritePipe::close);
    let is_over = || reader_told.count("lost") == 1 && writer_told.count("lost") == 1;
    for _ in 0..200 {
        if is_over() {
            break;
        }
        reader.with(ReadPipe::resume_reading);
        bench.pass();
    }
    if !is_over() {
        reader.with(ReadPipe::close);
        bench.until("both are lost", is_over);
    }
    bench.passes(3);
    for told in [&reader_told, &writer_told] {
        let log = told.take_log();
        assert_eq!(log.iter().filter(|told| told.starts_with("lost")).count(), 1, "{log:?}");
        assert!(log.last().unwrap().starts_with("lost"), "{log:?}");
        assert_eq!(log.iter().filter(|told| *told == "made").count(), 1, "{log:?}");
    }
    assert_eq!((bench.engine.ready_len(), bench.engine.registered_len()), (0, 0));
}
