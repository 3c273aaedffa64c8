"""What is recorded of the SDKs that are not run, trait by trait, and the test that stands for each.

`test_listed.py` checks that every test named here exists and that every test of a stand-in is named. A
test is named by its file less `test_`, and its own name less `test_`; `Decided` says why a trait needs no
test, or cannot be met.
"""

from __future__ import annotations

from collections.abc import Mapping

from tests.field_cases.case import Decided

Traits = Mapping[str, str | tuple[str, ...] | Decided]

SERVERS: Mapping[str, Traits] = {
    "go-sdk 3d6450f": {
        "`event: prime`, and `event: close` with `retry:` before it closes a stream itself": (
            "go_server:a_close_event_is_a_poll_that_the_proxy_makes_itself",
            "java_client:a_poll_announced_by_retry_is_hidden_from_it",
        ),
        "a plain GET replays the whole history": "go_server:a_history_replayed_from_its_start_is_heard_once",
        "409 while the stream is attached": (
            "go_server:a_resume_that_meets_409_is_tried_until_the_server_notices"
        ),
        "400 for a malformed cursor": "go_server:a_clients_cursor_never_reaches_the_server",
        "400 for a cursor on a POST": "go_server:a_cursor_on_a_post_does_not_reach_the_server",
        "403 for a Host that is no loopback name": (
            "go_server:a_name_for_the_outside_is_not_shown_to_a_loopback_listener"
        ),
        "400 for an id that is in flight": "go_server:two_calls_in_flight_under_one_id_are_both_answered",
        "404 as text for an unknown session": "go_server:a_restart_between_calls_is_healed",
        "400 unless both types are accepted": "go_server:a_restart_between_calls_is_healed",
        "400 for revisions without sessions": (
            "go_server:a_server_that_knows_sessions_only_refuses_the_probe_itself"
        ),
        "DELETE lets go of streams without a response": (
            "go_server:calls_that_a_delete_let_go_of_are_answered_by_an_error"
        ),
        "an open GET keeps no session alive": Decided(
            "the session is then lost between calls, as after a restart"
        ),
    },
    "csharp-sdk 609499b": {
        "one GET for the life of a session": (
            "csharp_server:a_client_that_reconnects_three_times_costs_the_one_get_that_there_is",
            "csharp_server:a_get_refused_for_life_costs_neither_the_session_nor_a_call",
            "csharp_server:a_stream_given_up_while_its_client_was_away_costs_the_session_nothing",
        ),
        "a GET with a cursor is no second one": (
            "csharp_server:a_broken_get_is_resumed_with_the_servers_own_cursor"
        ),
        "a resume replays and polls on": "csharp_server:a_broken_call_is_resumed_where_its_epoch_is_stated",
        "`Content-Encoding: identity`, and priming on GETs too": (
            "csharp_server:streams_in_the_coding_identity_are_guarded_and_primed_once"
        ),
        "404 with a JSON-RPC error for an unknown session": (
            "csharp_server:a_404_with_a_jsonrpc_error_is_healed_and_never_shown"
        ),
        "DELETE gets 200 for an unknown session": (
            "csharp_server:a_delete_of_a_session_that_the_server_lost_ends_it"
        ),
        "without sessions, 400 for a request that names one": (
            "csharp_server:a_server_without_sessions_is_never_told_of_one"
        ),
        "without sessions, a client that leaves ends its call": (
            "csharp_server:a_client_that_leaves_a_server_without_sessions_ends_its_call"
        ),
    },
    "java-sdk 305e4cb": {
        "nothing is replayed: a cursor gets 200 and silence": (
            "java_server:a_resume_that_stays_silent_for_ever_ends_in_an_answer",
            "java_server:a_break_without_a_proof_is_not_resumed_at_all",
        ),
        "a failed write removes the session": (
            "java_server:a_client_that_leaves_mid_call_costs_no_session",
            "java_server:a_resume_that_stays_silent_for_ever_ends_in_an_answer",
        ),
        "the final response has the session's id": (
            "java_server:final_responses_that_all_have_the_sessions_id_are_each_delivered"
        ),
        "the head of a GET comes with its first event": (
            "java_server:messages_on_a_get_whose_head_comes_with_the_first_of_them_are_heard"
        ),
        "a second GET makes the first mute": (
            "java_server:a_client_that_reconnects_does_not_make_its_stream_mute"
        ),
        "ids of questions hold the session's": (
            "java_server:a_question_with_the_sessions_id_in_its_own_is_answered_to_it"
        ),
    },
    "rust-sdk 4a738b9": {
        "ids are the same in every session": (
            "rust_server:ids_that_are_the_same_in_every_session_lead_into_none_but_the_own"
        ),
        "a resume begins with the last event seen": (
            "rust_server:a_last_event_that_is_replayed_again_is_delivered_once"
        ),
        "an answered stream is forgotten: 200 and nothing": (
            "rust_server:an_answer_that_was_lost_with_its_connection_is_begun_anew",
            "rust_server:an_answer_that_was_lost_and_may_not_be_had_twice_is_an_error",
        ),
        "16 events are kept": "rust_server:events_beyond_the_sixteen_that_are_kept_cost_no_answer",
        "five minutes without an event end the session": (
            "rust_server:a_session_that_dies_under_a_silent_call_ends_in_an_answer"
        ),
        "priming `0` on GETs, and a first event `0`": (
            "rust_server:the_first_message_of_a_get_is_heard_under_the_id_of_its_priming",
            "rust_server:a_get_that_broke_before_its_first_message_is_resumed_at_its_priming",
        ),
        "a plain GET replays what is kept": "rust_server:a_get_that_replays_what_is_kept_is_heard_once",
        "a second GET is a shadow": "rust_server:a_client_that_reconnects_gets_no_shadow_of_its_stream",
        "`initialize` is answered by a primed stream": (
            "rust_server:an_initialize_answered_by_a_primed_stream_opens_a_session"
        ),
        "`retry: 3000` by default": "rust_server:its_retry_lines_do_not_reach_a_java_client",
        "DELETE gets 202": "rust_server:a_delete_is_accepted_by_202",
        "403 for a Host that is not allowed": (
            "go_server:a_name_for_the_outside_is_not_shown_to_a_loopback_listener"
        ),
        "a resume takes an attached stream over": Decided(
            "the proxy resumes only what broke, and holds one connection for a stream"
        ),
    },
    "kotlin-sdk a06d699": {
        "events of a gap are lost, and a resume closes": (
            "kotlin_server:events_of_a_gap_are_lost_and_the_answer_is_begun_anew"
        ),
        "an event without a connection is dropped": (
            "kotlin_server:nothing_is_lost_while_the_client_is_away"
        ),
        "a new GET closes the old": "kotlin_server:a_client_that_reconnects_closes_nothing_on_the_server",
        "the first event has empty data": (
            "kotlin_server:the_empty_event_that_sends_the_head_is_no_message_to_older_clients"
        ),
    },
    "mcp-go 56af04b": {
        "any well-formed session id is accepted": (
            "mcp_go_server:a_restart_under_a_call_opens_a_session_and_trusts_none_made_on_the_spot",
            "mcp_go_server:a_session_made_on_the_spot_between_calls_is_seen_by_its_epoch",
            "mcp_go_server:a_session_made_on_the_spot_without_an_epoch_answers_out_of_one_run",
        ),
        "JSON, or SSE from the first notification on": (
            "mcp_go_server:an_answer_without_notifications_stays_json",
            "mcp_go_server:a_break_before_any_head_is_begun_anew",
        ),
        "ids count over the whole store": "mcp_go_server:ids_that_count_over_the_whole_store_are_no_gap",
        "all streams of a session read one channel": (
            "mcp_go_server:progress_on_another_calls_answer_restarts_neither"
        ),
        "a client that leaves cancels its call": (
            "mcp_go_server:a_client_that_leaves_does_not_cancel_its_call"
        ),
    },
    "agents 0.32.0": {
        "a new GET supersedes the old": (
            "cloudflare_server:a_client_that_reconnects_supersedes_nothing_on_the_server"
        ),
        "the stream of a call is cleared behind its answer": (
            "cloudflare_server:an_answer_cleared_before_it_arrived_is_begun_anew"
        ),
        "a GET without a cursor replays nothing": (
            "cloudflare_server:a_get_that_replays_nothing_is_reopened_and_the_gap_counted"
        ),
    },
}

_RESTARTS = (
    "every_client:a_server_that_restarts_under_a_call_costs_no_client_its_session",
    "every_client:a_server_that_restarts_between_calls_costs_no_client_its_session",
)
_DOWN = "every_client:a_server_that_is_down_for_a_while_costs_no_client_its_session"
_RETURNS = "every_client:a_client_that_drops_and_returns_gets_each_event_once"
_LATE = "every_client:a_client_that_returns_too_late_gets_an_error_it_survives"
_HALF = "every_client:half_an_event_is_shown_to_no_client"
_WITHHELD = "every_client:a_call_that_may_not_run_twice_ends_in_an_error_on_its_own_stream"
_ENDS = "every_client:the_answer_and_the_end_of_its_stream_come_together"

CLIENTS: Mapping[str, Traits] = {
    "go-sdk 3d6450f": {
        "any answer to a resume but 2xx ends the session": (
            _RETURNS,
            _LATE,
            "csharp_server:a_stream_given_up_while_its_client_was_away_costs_the_session_nothing",
        ),
        "five resumes without a new id end it": (
            "go_client:more_resumes_than_it_has_patience_for_each_bring_a_new_id"
        ),
        "a line without a colon is fatal, half an event is handed on": _HALF,
        "another session id is fatal": _RESTARTS,
        "a 404 with a JSON-RPC error keeps a dead session": (
            "go_client:a_session_that_is_lost_for_good_is_told_by_a_404_without_an_error_in_it",
            "csharp_server:a_404_with_a_jsonrpc_error_is_healed_and_never_shown",
        ),
        "other statuses end the session": _DOWN,
        "it reads on behind the answer": _ENDS,
        "it asks `server/discover` first": (
            "go_server:a_server_that_knows_sessions_only_refuses_the_probe_itself",
            "go_client:a_probe_that_meets_no_server_is_not_answered_for_it",
        ),
        "a standalone stream that cannot be opened again ends the session": (
            "go_client:its_standalone_stream_outlives_the_server"
        ),
    },
    "csharp-sdk 609499b": {
        "a 404 closes the client": (
            *_RESTARTS,
            _LATE,
            "csharp_client:a_restart_under_its_standalone_stream_is_never_a_404",
        ),
        "a 4xx to the standalone stream is asked again for ever": (
            "csharp_client:a_cursor_of_a_standalone_stream_that_was_given_up_gets_another"
        ),
        "a clean end without an event is polled for ever": (_RETURNS, _LATE),
        "types of events are not looked at": (
            "csharp_client:events_that_are_no_messages_reach_it_without_data"
        ),
    },
    "java-sdk 305e4cb": {
        "`retry:` is an error of the stream": (
            "java_client:a_poll_announced_by_retry_is_hidden_from_it",
            "rust_server:its_retry_lines_do_not_reach_a_java_client",
        ),
        "comments leak one of 256 units of demand": (
            "java_client:keepalives_use_up_none_of_its_demand",
            "java_client:comments_of_the_server_use_up_none_of_its_demand",
        ),
        "400 and 404 have it negotiate anew": _RESTARTS,
        "nothing is resumed, 20 s to the end of a call": (_RESTARTS[0], _WITHHELD),
        "its GET is never reopened": (
            "java_client:its_standalone_stream_which_it_never_reopens_does_not_end"
        ),
        "the type of an event sticks": "java_client:the_type_of_a_priming_event_sticks_to_nothing",
        "half an event is handed on": _HALF,
        "`initialize` states the latest revision": (
            "java_client:an_initialize_that_states_a_revision_without_sessions_opens_one"
        ),
    },
    "rust-sdk 4a738b9": {
        "a 404 has it negotiate anew and send the message again": (
            "rust_client:a_lost_session_that_is_shown_to_it_costs_one_new_session_and_one_run",
            "rust_client:a_lost_session_that_is_healed_is_not_made_twice",
        ),
        "its other calls fail at that": (
            "rust_client:its_other_calls_outlive_a_restart_that_one_of_them_meets"
        ),
        "a resume is tried without end": _LATE,
        "the content type is compared as written": _RETURNS,
    },
    "kotlin-sdk a06d699": {
        "one job for GETs: a resume ends the standalone stream": (
            "kotlin_client:a_resume_of_a_call_that_ended_its_standalone_stream_loses_no_answer"
        ),
        "a call that failed is resumed once more": (
            "kotlin_client:a_resume_behind_an_error_gives_it_its_standalone_stream_back",
            _LATE,
        ),
        "lines of data are joined without a line end": (
            "kotlin_client:a_message_in_several_lines_of_data_is_still_one"
        ),
        "a resume ends another call's resume": Decided(
            "the client itself gives the first call up; nothing that a proxy writes reaches it"
        ),
    },
    "mcp-go 56af04b": {
        "the first message with an id is the answer": (
            "mcp_go_client:a_foreign_response_on_its_stream_is_not_taken_for_its_own",
            "mcp_go_client:the_answer_to_another_call_is_not_taken_for_its_own",
        ),
        "nothing is resumed": (_RESTARTS[0], _WITHHELD),
        "a 4xx to `initialize` means the oldest transport": (
            "mcp_go_client:an_initialize_without_a_server_is_no_sign_of_the_oldest_transport"
        ),
        "half an event is handed on": _HALF,
    },
}
