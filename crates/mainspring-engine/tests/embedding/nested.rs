//! A call that runs the loop.

use crate::{call, new_engine, noting, stopping};
use std::time::Duration;

#[test]
fn a_nested_run_runs_each_call_once_and_in_order() {
    let engine = new_engine();
    engine.call_soon(call(|engine| {
        engine.host().note("outer begins");
        engine.call_soon(noting("c"));
        engine.call_soon(stopping());
        engine.call_soon(noting("d"));
        engine.run_forever().unwrap();
        engine.host().note("outer ends");
        engine.call_soon(noting("e"));
        engine.call_soon(stopping());
    }));
    engine.call_soon(noting("a"));
    engine.call_soon(noting("b"));
    engine.run_forever().unwrap();
    assert_eq!(engine.host().take(), ["outer begins", "a", "b", "c", "d", "outer ends", "e"]);
}

#[test]
fn a_stop_ends_the_innermost_run_only() {
    let engine = new_engine();
    engine.call_soon(call(|engine| {
        assert_eq!(engine.run_depth(), 1);
        engine.call_soon(call(|engine| {
            assert_eq!(engine.run_depth(), 2);
            engine.stop();
        }));
        engine.run_forever().unwrap();
        assert!(!engine.is_stopping());
        engine.call_soon(noting("outer continues"));
        engine.call_soon(stopping());
    }));
    engine.run_forever().unwrap();
    assert_eq!(engine.host().take(), ["outer continues"]);
    assert_eq!(engine.run_depth(), 0);
}

#[test]
fn the_stop_of_an_outer_run_waits_for_the_nested_one() {
    let engine = new_engine();
    engine.call_soon(call(|engine| {
        engine.call_soon(call(|engine| {
            engine.stop_run(1);
            assert!(!engine.is_stopping());
            engine.call_soon(noting("nested continues"));
            engine.call_soon(stopping());
        }));
        engine.run_forever().unwrap();
        assert!(engine.is_stopping());
        engine.call_soon(noting("next iteration of the outer run"));
    }));
    engine.run_forever().unwrap();
    assert_eq!(engine.host().take(), ["nested continues"]);
    engine.stop_run(1);
    assert!(!engine.is_stopping(), "there is no run");
}

#[test]
fn a_stop_that_was_meant_for_the_outer_run_does_not_stop_the_nested_one() {
    let engine = new_engine();
    engine.call_soon(call(|engine| {
        engine.stop();
        engine.call_soon(call(|engine| engine.call_soon(stopping())));
        engine.run_forever().unwrap();
        engine.host().note("nested is over");
        engine.call_soon(noting("too late"));
    }));
    engine.run_forever().unwrap();
    assert_eq!(engine.host().take(), ["nested is over"]);
}

#[test]
fn a_nested_run_waits_for_timers_while_the_outer_iteration_is_under_way() {
    let engine = new_engine();
    engine.call_soon(call(|engine| {
        engine.call_at(engine.now() + Duration::from_millis(1), stopping());
        engine.run_forever().unwrap();
        engine.host().note("nested is over");
        engine.stop();
    }));
    engine.call_soon(noting("a"));
    engine.run_forever().unwrap();
    assert_eq!(engine.host().take(), ["a", "nested is over"]);
}

#[test]
fn the_scope_of_a_call_ends_before_its_nested_run() {
    let engine = new_engine();
    engine.call_soon(call(|engine| {
        let before = engine.callback_scope();
        engine.at_scope_end("first part");
        engine.stop();
        engine.call_soon(noting("nested"));
        engine.call_soon(stopping());
        engine.run_forever().unwrap();
        assert_ne!(engine.callback_scope(), before);
        engine.at_scope_end("second part");
        engine.host().note("call returns");
    }));
    engine.run_forever().unwrap();
    let notes = engine.host().take();
    assert_eq!(notes, ["first part ended", "nested", "call returns", "second part ended"]);
}
