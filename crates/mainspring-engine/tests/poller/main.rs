//! The poller contract, as behaviours that every back end shows, and what is particular to each back end.
//!
//! A behaviour is written once, over any way to open a back end; adding a back end is one line here.
#![cfg(not(loom))]

#[macro_use]
extern crate test_support;

mod accepting;
mod claims;
mod fake;
mod refusal;
mod registration;
mod support;
mod waiting;

use mainspring_engine::poller::open_epoll;
use mainspring_engine::testing::{FakePoller, open_epoll_coarse};

/// Runs every behaviour of the contract on a back end.
macro_rules! contract {
    ($open:expr) => {
        contract!($open, registration:
            an_event_names_the_key_of_the_registration,
            what_is_not_claimed_is_announced_again,
            an_end_that_comes_with_the_last_bytes_is_announced_after_them,
            what_is_left_when_the_interest_changes_is_announced_after_it,
            only_wanted_directions_are_announced,
            a_descriptor_taken_out_is_silent_even_when_its_peer_hangs_up,
            a_descriptor_that_was_closed_can_be_taken_out,
            a_change_of_a_lost_registration_makes_it_anew,
            a_reused_number_is_announced_under_its_new_key_only,
            registering_twice_keeps_the_later_key,
            a_pipe_can_be_watched_until_its_writer_goes,
            a_regular_file_is_refused_with_permission_denied,
        );
        contract!($open, claims:
            recv_gives_bytes_then_would_block_then_the_end,
            a_half_closed_peer_is_announced_as_inbound_and_can_still_be_sent_to,
            a_reset_is_announced_to_a_writer_and_told_by_the_claim,
            sending_to_a_peer_that_is_gone_is_an_error_and_no_signal,
            several_chunks_arrive_in_order,
            more_chunks_than_the_kernel_takes_at_once_are_sent_in_part,
            sending_nothing_sends_nothing,
            what_follows_the_urgent_mark_is_announced_after_a_short_recv,
            what_follows_a_message_with_a_descriptor_is_announced_after_a_short_recv,
            a_peer_that_does_not_read_makes_sends_short_until_it_reads,
        );
        contract!($open, accepting:
            a_connection_comes_nonblocking_and_close_on_exec,
            without_a_connection_accept_would_block,
            an_ipv4_peer_is_named,
            an_ipv6_peer_is_named,
            a_unix_peer_is_named_by_path,
            a_unix_peer_is_named_by_abstract_name,
            a_unix_peer_without_a_name_has_an_empty_one,
            a_unix_path_that_fills_the_address_is_named_whole,
        );
        contract!($open, waiting:
            a_wait_is_never_shorter_than_its_timeout,
            a_huge_timeout_is_no_error,
            a_wait_without_timeout_ends_with_an_event_from_another_thread,
            a_wake_up_is_announced_once_for_every_write_and_nobody_reads_it,
            a_signal_interrupts_the_wait,
            events_are_added_to_those_already_there,
            more_events_than_one_wait_brings_are_all_brought_by_the_next_ones,
            a_wait_returns_no_more_events_than_it_may,
        );
    };
    ($open:expr, $room:ident: $($behaviour:ident,)*) => {
        mod $room {
            $(
                #[test]
                fn $behaviour() {
                    crate::$room::$behaviour($open);
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

mod on_the_fake {
    contract!(|| crate::FakePoller::open().unwrap().0);
}
