//! Variables of tasks: who sees what, and for how long.

use crate::support::{Log, assert_leaves_nothing, collect_reports, new_loop, run_on, run_one_pass};
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
fn a_task_sees_what_was_set_when_it_was_started_and_keeps_what_it_sets_to_itself() {
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
fn what_the_main_future_sets_is_gone_when_it_ends() {
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
fn children_of_a_group_inherit() {
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
fn a_token_gives_back_what_was_before() {
    let first = A.set(1);
    let second = A.set(2);
    second.reset();
    assert_eq!(A.get(), Some(1));
    first.reset();
    assert_eq!(A.get(), None);
}

#[test]
fn a_builder_gives_a_task_another_context() {
    let event_loop = new_loop();
    run_on(&event_loop, async {
        A.set(1);
        let mine = copy_context();
        mine.run(|| B.set(2));
        assert_eq!(B.get(), None, "what is set in a context stays there");
        let look = || async { (A.get(), B.get()) };
        assert_eq!(TaskBuilder::new().context(mine.clone()).spawn(look()).await, Ok((Some(1), Some(2))));
        assert_eq!(TaskBuilder::new().context(Context::new()).spawn(look()).await, Ok((None, None)));
        assert_eq!(mine.run(|| B.get()), Some(2));
    });
}

#[test]
fn a_context_may_be_run_within_itself_and_survives_a_panic() {
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
fn a_scope_is_seen_inside_only_also_by_destructors() {
    struct Look(Log<Option<i32>>);
    impl Drop for Look {
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
        let look = Look(log.clone());
        let given_up = A.scope(9, async move {
            let _look = look;
            pending::<()>().await;
        });
        assert!(mainspring::timeout(std::time::Duration::ZERO, given_up).await.is_err());
        assert_eq!(A.get(), Some(1));
    });
    log.assert([Some(9)]);
}

#[test]
fn a_scope_that_panics_gives_back_what_was_before() {
    let event_loop = new_loop();
    let task = event_loop.spawn(async {
        A.set(1);
        let failing = spawn(A.scope(2, async { panic!("inside") }));
        drop(failing.await);
        let here = std::panic::catch_unwind(|| A.sync_scope(3, || panic!("inside")));
        assert!(here.is_err());
        A.get()
    });
    assert_eq!(run_on(&event_loop, task.unwrap()), Ok(Some(1)));
}

#[test]
fn many_scopes_of_one_variable_side_by_side_do_not_mix() {
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
fn values_are_let_go_when_the_last_task_that_has_them_ends() {
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
    assert_eq!(Rc::strong_count(&value), 2, "the child has it");
    child.cancel();
    run_one_pass(&event_loop);
    assert_eq!(Rc::strong_count(&value), 1, "although the child's handle is here");
    assert_leaves_nothing(&event_loop);
}

#[test]
fn a_value_whose_destructor_panics_or_uses_variables_does_no_harm() {
    struct Nasty;
    impl Drop for Nasty {
        fn drop(&mut self) {
            A.set(A.get().unwrap_or(0) + 1);
            panic!("a value's destructor");
        }
    }
    static NASTY: ContextVar<Rc<Nasty>> = ContextVar::new("nasty");
    let event_loop = new_loop();
    let reports = collect_reports(&event_loop);
    let task = event_loop.spawn(async {
        NASTY.set(Rc::new(Nasty));
        "result"
    });
    assert_eq!(run_on(&event_loop, task.unwrap()), Ok("result"));
    assert_eq!(reports.entries().len(), 1);
    assert_leaves_nothing(&event_loop);
}

#[test]
fn variables_are_their_own_wherever_they_are_moved() {
    let variable: ContextVar<u8> = ContextVar::new("local");
    variable.set(1);
    let moved = Box::new(variable);
    assert_eq!(moved.get(), Some(1));
    assert_eq!(ContextVar::<u8>::new("local").get(), None, "the name is no key");
}

#[test]
fn other_threads_have_values_of_their_own() {
    A.set(1);
    std::thread::spawn(|| assert_eq!(A.get(), None)).join().unwrap();
}

/// One thing a task does.
#[derive(Clone, Debug)]
enum Deed {
    Set(usize, i32),
    Scoped(usize, i32, Vec<Deed>),
    Child(Vec<Deed>),
    Yield,
    Check,
}

fn deeds() -> impl Strategy<Value = Vec<Deed>> {
    let leaf = prop_oneof![
        (0..2usize, 0..100).prop_map(|(variable, value)| Deed::Set(variable, value)),
        Just(Deed::Yield),
        Just(Deed::Check),
    ];
    let deed = leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            (0..2usize, 0..100, prop::collection::vec(inner.clone(), 0..6))
                .prop_map(|(variable, value, deeds)| Deed::Scoped(variable, value, deeds)),
            prop::collection::vec(inner, 0..6).prop_map(Deed::Child),
        ]
    });
    prop::collection::vec(deed, 0..12)
}

fn variable(number: usize) -> &'static ContextVar<i32> {
    [&A, &B][number]
}

/// Does what the deeds say, with the model as a plain value that is passed on.
fn act(
    deeds: Vec<Deed>,
    mut model: [Option<i32>; 2],
) -> std::pin::Pin<Box<dyn Future<Output = [Option<i32>; 2]>>> {
    Box::pin(async move {
        let mut children = Vec::new();
        for deed in deeds {
            match deed {
                Deed::Set(number, value) => {
                    variable(number).set(value);
                    model[number] = Some(value);
                }
                Deed::Scoped(number, value, deeds) => {
                    let outside = model[number];
                    model[number] = Some(value);
                    model = variable(number).scope(value, act(deeds, model)).await;
                    model[number] = outside;
                }
                Deed::Child(deeds) => children.push(spawn(act(deeds, model))),
                Deed::Yield => yield_now().await,
                Deed::Check => {}
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
    fn variables_are_values_that_are_passed_on(deeds in deeds()) {
        let event_loop = new_loop();
        run_on(&event_loop, act(deeds, [None, None]));
        prop_assert_eq!([A.get(), B.get()], [None, None]);
    }
}
