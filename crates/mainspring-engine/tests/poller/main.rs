//! The poller contract, tested on every back end, and tests of the fake back end.
//!
//! Each contract test is written once, for any back end. A new back end needs one line here.
#![cfg(not(loom))]

#[macro_use]
extern crate test_support;

mod accepting;
mod epoll_pwait2_refused;
mod fake;
mod recv_send;
mod registration;
mod support;
mod waiting;

use mainspring_engine::poller::open_epoll;
use mainspring_engine::testing::{FakePoller, open_epoll_coarse};

/// Runs every test of the contract on a back end.
macro_rules! contract {
    ($open:expr) => {
        contract!($open, registration:
            an_event_has_the_key_of_the_registration,
            unread_data_is_reported_again,
            eof_is_reported_after_the_last_bytes,
            unread_data_is_reported_after_an_interest_change,
            only_registered_directions_are_reported,
            a_removed_fd_reports_nothing_even_when_its_peer_hangs_up,
            a_closed_fd_can_be_removed,
            changing_a_lost_registration_restores_it,
            a_reused_fd_number_is_reported_under_its_new_key_only,
            registering_twice_keeps_the_later_key,
            a_pipe_can_be_registered_until_its_writer_closes,
            a_regular_file_is_refused_with_permission_denied,
        );
        contract!($open, recv_send:
            recv_returns_bytes_then_would_block_then_eof,
            a_half_closed_peer_is_readable_and_can_still_be_sent_to,
            a_reset_is_reported_as_writable_and_returned_by_recv,
            sending_to_a_closed_peer_is_an_error_without_sigpipe,
            several_chunks_arrive_in_order,
            more_than_iov_max_chunks_are_sent_in_part,
            sending_nothing_sends_nothing,
            data_after_the_urgent_mark_is_reported_after_a_short_recv,
            data_after_a_message_with_an_fd_is_reported_after_a_short_recv,
            a_peer_that_does_not_read_causes_short_sends,
        );
        contract!($open, accepting:
            an_accepted_connection_is_nonblocking_and_close_on_exec,
            without_a_connection_accept_would_block,
            accept_returns_an_ipv4_peer_address,
            accept_returns_an_ipv6_peer_address,
            accept_returns_a_unix_path,
            accept_returns_an_abstract_unix_name,
            accept_returns_an_empty_name_for_an_unnamed_unix_peer,
            accept_returns_a_unix_path_of_maximum_length,
        );
        contract!($open, waiting:
            a_wait_is_never_shorter_than_its_timeout,
            a_huge_timeout_is_no_error,
            a_wait_without_timeout_ends_with_an_event_from_another_thread,
            an_edge_triggered_wake_up_is_reported_once_per_write_without_reading,
            a_signal_interrupts_the_wait,
            events_are_appended,
            events_beyond_one_wait_are_returned_by_the_next,
            a_wait_returns_at_most_the_requested_number_of_events,
        );
    };
    ($open:expr, $module:ident: $($test:ident,)*) => {
        mod $module {
            $(
                #[test]
                fn $test() {
                    crate::$module::$test($open);
                }
            )*
        }
    };
}

mod on_epoll {
    contract!(|| crate::open_epoll().unwrap());
}

mod on_epoll_without_pwait2 {
    contract!(|| crate::open_epoll_coarse().unwrap());
}

mod on_fake {
    contract!(|| crate::FakePoller::open().unwrap().0);
}
