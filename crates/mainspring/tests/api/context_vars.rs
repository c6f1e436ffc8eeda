//! `ContextVar` and `Context`: inheritance, scopes, lifetime of values.

use crate::support::{Log, assert_leaves_nothing, collect_reports, new_loop, run_on, run_one_iteration};
use mainspring::context::{Context, ContextVar, copy_context};
use mainspring::{TaskBuilder, TaskGroup, gather, spawn, yield_now};
use proptest::prelude::*;
use std::convert::Infallible;
use std::future::pending;
use std::rc::Rc;

static A: ContextVar<i32> = ContextVar::new("a");
static B: ContextVar<i32> = ContextVar::new("b");
static SHARED: ContextVar<Rc<()>> = ContextVar::new("shared");

#[test]
fn a_task_inherits_a_copy_of_the_context_of_its_spawner() {
    let event_loop = new_loop();
    run_on(&event_loop, async {
        A.set(1);
        let child = spawn(async {
            assert_eq!(A.get(), Some(1));
            A.set(2);
            let grandchild = spawn(async { (A.get(), B.get()) });
            B.set(3);
            yield_now().await;
            (A.get(), B.get(), grandchild.await.unwrap())
        });
        A.set(10);
        assert_eq!(child.await, Ok((Some(2), Some(3), (Some(2), None))));
        assert_eq!((A.get(), B.get()), (Some(10), None));
    });
}

#[test]
fn values_set_by_the_main_future_are_unset_when_it_ends() {
    let event_loop = new_loop();
    run_on(&event_loop, async {
        A.set(1);
        yield_now().await;
        assert_eq!(A.get(), Some(1));
    });
    assert_eq!(A.get(), None);
    let token = A.set(5);
    assert_eq!(run_on(&event_loop, async { A.get() }), Some(5));
    token.reset();
    assert_eq!(A.get(), None);
}

#[test]
fn children_of_a_task_group_inherit_the_context() {
    let event_loop = new_loop();
    let seen = run_on(&event_loop, async {
        A.set(4);
        TaskGroup::scope(|group| async move {
            Ok::<_, Infallible>(group.spawn_ok(async { A.get() }).await.unwrap())
        })
        .await
    });
    assert_eq!(seen.unwrap(), Some(4));
}

#[test]
fn a_token_restores_the_previous_value() {
    let first = A.set(1);
    let second = A.set(2);
    second.reset();
    assert_eq!(A.get(), Some(1));
    first.reset();
    assert_eq!(A.get(), None);
}

#[test]
fn a_task_builder_can_set_the_context() {
    let event_loop = new_loop();
    run_on(&event_loop, async {
        A.set(1);
        let context = copy_context();
        context.run(|| B.set(2));
        assert_eq!(B.get(), None, "a value set in a context is visible only there");
        let read = || async { (A.get(), B.get()) };
        assert_eq!(TaskBuilder::new().context(context.clone()).spawn(read()).await, Ok((Some(1), Some(2))));
        assert_eq!(TaskBuilder::new().context(Context::new()).spawn(read()).await, Ok((None, None)));
        assert_eq!(context.run(|| B.get()), Some(2));
    });
}

#[test]
fn a_context_may_be_entered_recursively_and_survives_a_panic() {
    let context = Context::new();
    context.run(|| A.set(1));
    context.run(|| {
        context.run(|| assert_eq!(A.get(), Some(1)));
        assert_eq!(A.get(), Some(1));
    });
    let panicked =
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| context.run(|| panic!("inside"))));
    assert!(panicked.is_err());
    assert_eq!(A.get(), None);
    assert_eq!(context.run(|| A.get()), Some(1));
}

#[test]
fn a_scoped_value_is_visible_only_inside_the_scope_and_in_its_destructors() {
    struct LogOnDrop(Log<Option<i32>>);
    impl Drop for LogOnDrop {
        fn drop(&mut self) {
            self.0.add(A.get());
        }
    }
    let event_loop = new_loop();
    let log = Log::new();
    run_on(&event_loop, async {
        A.set(1);
        let inside = A.scope(2, async {
            assert_eq!(A.get(), Some(2));
            A.set(3);
            yield_now().await;
            let nested = A.sync_scope(4, || A.get());
            (A.get(), nested)
        });
        let beside = async {
            yield_now().await;
            A.get()
        };
        assert_eq!(mainspring::join((inside, beside)).await, ((Some(3), Some(4)), Some(1)));
        let guard = LogOnDrop(log.clone());
        let cancelled = A.scope(9, async move {
            let _guard = guard;
            pending::<()>().await;
        });
        assert!(mainspring::timeout(std::time::Duration::ZERO, cancelled).await.is_err());
        assert_eq!(A.get(), Some(1));
    });
    log.assert([Some(9)]);
}

#[test]
fn a_panicking_scope_restores_the_previous_value() {
    let event_loop = new_loop();
    let task = event_loop.spawn(async {
        A.set(1);
        let failing = spawn(A.scope(2, async { panic!("inside") }));
        drop(failing.await);
        let result = std::panic::catch_unwind(|| A.sync_scope(3, || panic!("inside")));
        assert!(result.is_err());
        A.get()
    });
    assert_eq!(run_on(&event_loop, task.unwrap()), Ok(Some(1)));
}

#[test]
fn concurrent_scopes_of_one_variable_are_independent() {
    let event_loop = new_loop();
    let seen = run_on(&event_loop, async {
        gather((0..5).map(|number| {
            A.scope(number, async move {
                for _ in 0..number {
                    yield_now().await;
                    A.set(A.get().unwrap() + 10);
                }
                A.get().unwrap()
            })
        }))
        .await
    });
    assert_eq!(seen, [0, 11, 22, 33, 44]);
}

#[test]
fn a_value_is_dropped_when_the_last_task_that_has_it_ends() {
    let event_loop = new_loop();
    let value = Rc::new(());
    let inside = Rc::clone(&value);
    let task = event_loop
        .spawn(async move {
            SHARED.set(inside);
            let child = spawn(pending::<()>());
            yield_now().await;
            child.handle()
        })
        .unwrap();
    let child = run_on(&event_loop, task).unwrap();
    assert_eq!(Rc::strong_count(&value), 2, "the child holds it");
    child.cancel();
    run_one_iteration(&event_loop);
    assert_eq!(Rc::strong_count(&value), 1, "a handle does not hold it");
    assert_leaves_nothing(&event_loop);
}

#[test]
fn a_value_whose_destructor_panics_and_sets_variables_is_handled() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            A.set(A.get().unwrap_or(0) + 1);
            panic!("a value's destructor");
        }
    }
    static BOMB: ContextVar<Rc<Bomb>> = ContextVar::new("bomb");
    let event_loop = new_loop();
    let reports = collect_reports(&event_loop);
    let task = event_loop.spawn(async {
        BOMB.set(Rc::new(Bomb));
        "result"
    });
    assert_eq!(run_on(&event_loop, task.unwrap()), Ok("result"));
    assert_eq!(reports.entries().len(), 1);
    assert_leaves_nothing(&event_loop);
}

#[test]
fn a_variable_keeps_its_identity_when_moved() {
    let variable: ContextVar<u8> = ContextVar::new("local");
    variable.set(1);
    let moved = Box::new(variable);
    assert_eq!(moved.get(), Some(1));
    assert_eq!(ContextVar::<u8>::new("local").get(), None, "the name is not the identity");
}

#[test]
fn values_are_per_thread() {
    A.set(1);
    std::thread::spawn(|| assert_eq!(A.get(), None)).join().unwrap();
}

/// One action of a task.
#[derive(Clone, Debug)]
enum Action {
    Set(usize, i32),
    Scoped(usize, i32, Vec<Action>),
    Child(Vec<Action>),
    Yield,
    Check,
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    let leaf = prop_oneof![
        (0..2usize, 0..100).prop_map(|(variable, value)| Action::Set(variable, value)),
        Just(Action::Yield),
        Just(Action::Check),
    ];
    let action = leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            (0..2usize, 0..100, prop::collection::vec(inner.clone(), 0..6))
                .prop_map(|(variable, value, actions)| Action::Scoped(variable, value, actions)),
            prop::collection::vec(inner, 0..6).prop_map(Action::Child),
        ]
    });
    prop::collection::vec(action, 0..12)
}

fn variable(number: usize) -> &'static ContextVar<i32> {
    [&A, &B][number]
}

/// Runs the actions. The model is a plain array that each task and scope copies.
fn run_actions(
    actions: Vec<Action>,
    mut model: [Option<i32>; 2],
) -> std::pin::Pin<Box<dyn Future<Output = [Option<i32>; 2]>>> {
    Box::pin(async move {
        let mut children = Vec::new();
        for action in actions {
            match action {
                Action::Set(number, value) => {
                    variable(number).set(value);
                    model[number] = Some(value);
                }
                Action::Scoped(number, value, actions) => {
                    let outside = model[number];
                    model[number] = Some(value);
                    model = variable(number).scope(value, run_actions(actions, model)).await;
                    model[number] = outside;
                }
                Action::Child(actions) => children.push(spawn(run_actions(actions, model))),
                Action::Yield => yield_now().await,
                Action::Check => {}
            }
            assert_eq!([A.get(), B.get()], model);
        }
        for child in children {
            child.await.unwrap();
        }
        assert_eq!([A.get(), B.get()], model);
        model
    })
}

proptest! {
    #[test]
    fn variables_behave_like_copied_values(actions in actions()) {
        let event_loop = new_loop();
        run_on(&event_loop, run_actions(actions, [None, None]));
        prop_assert_eq!([A.get(), B.get()], [None, None]);
    }
}
