//! Hooks.

use crate::{call, new_engine, noting, stopping};
use mainspring_engine::Hooks;
use std::time::Duration;

const ALL: Hooks = Hooks { iteration_begin: true, iteration_end: true, idle: true };

#[test]
fn hooks_that_are_not_set_are_not_called() {
    let engine = new_engine();
    engine.call_at(engine.now() + Duration::from_millis(1), stopping());
    engine.run_forever().unwrap();
    assert!(engine.host().take().is_empty());
}

#[test]
fn hooks_surround_each_iteration() {
    let engine = new_engine();
    engine.set_hooks(ALL);
    engine.call_soon(noting("a"));
    engine.call_soon(call(|engine| engine.call_soon(stopping())));
    engine.run_forever().unwrap();
    assert_eq!(engine.host().take(), ["begin", "a", "end", "begin", "end"]);
}

#[test]
fn idle_is_called_before_a_wait_and_may_prevent_it() {
    let engine = new_engine();
    engine.set_hooks(Hooks { idle: true, ..Hooks::default() });
    // The loop would wait for ever.
    engine.host().in_idle.replace(Some(stopping()));
    engine.run_forever().unwrap();
    assert_eq!(engine.host().take(), ["idle without limit"]);

    engine.call_at(engine.now() + Duration::from_millis(1), stopping());
    engine.run_forever().unwrap();
    assert_eq!(engine.host().take(), ["idle with limit"]);
}

#[test]
fn an_error_of_a_hook_ends_the_run_after_the_end_hook() {
    let engine = new_engine();
    engine.set_hooks(ALL);
    engine.host().fails_in_hooks.set(true);
    engine.call_soon(noting("a"));
    assert_eq!(engine.run_forever().unwrap_err().to_string(), "begin");
    assert_eq!(engine.host().take(), ["begin", "end"]);
    assert_eq!(engine.ready_len(), 1);
}
