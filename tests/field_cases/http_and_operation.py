"""Cases of HTTP, of headers, of what the server starts by itself, of growth and operation."""

from __future__ import annotations

from collections.abc import Mapping

from tests.field_cases.case import Case, Decided

HTTP_AND_OPERATION: Mapping[str, Case] = {
    # HTTP
    "B23": Case(
        "the server dies inside an answer",
        {
            "a": (
                "plumbing:a_stream_whose_server_dies_has_one_head_and_one_clean_end",
                "plumbing:a_large_answer_whose_server_dies_never_looks_whole",
            ),
            "b": (
                "plumbing:a_stream_whose_server_dies_has_one_head_and_one_clean_end",
                "plumbing:a_large_answer_whose_server_dies_never_looks_whole",
            ),
            "c": "plumbing:an_answer_shorter_than_its_length_is_no_answer",
            "d": (
                "plumbing:a_stream_whose_server_dies_has_one_head_and_one_clean_end",
                "plumbing:a_large_answer_whose_server_dies_never_looks_whole",
            ),
            "outside the guard": "plumbing:outside_the_guard_a_cut_answer_stays_a_cut_answer",
        },
    ),
    "B24": Case(
        "a connection that breaks as it is used again",
        {
            "GET, DELETE, POST": (
                "plumbing:a_request_that_a_warm_connection_swallowed_is_not_sent_by_stealth",
                "traps:hidden_resend_a_request_whose_upstream_drops_is_seen_upstream_once",
            ),
            "FIN in the same tick": (
                "upstream:a_connection_that_the_server_ended_carries_nothing_more",
                "broken:a_server_that_closes_idle_connections_at_once_costs_no_call",
            ),
            "200 times": "broken:a_server_that_closes_idle_connections_at_once_costs_no_call",
            "idle 5 s": "upstream:a_post_never_goes_out_on_a_connection_that_idled_too_long_and_a_get_may",
        },
    ),
    "B25": Case(
        "who left",
        {
            # Not closed at once: the stream is held for the client's return (design 5).
            "a": (
                "plumbing:a_listening_client_that_left_is_held_for_so_long_and_then_let_go",
                "relay:a_client_that_leaves_closes_the_upstream_leg_at_once",
            ),
            "b": "plumbing:a_listening_client_that_left_is_held_for_so_long_and_then_let_go",
            "c": "g5:events_that_came_while_the_client_was_away_are_redelivered",
            "d": (
                "plumbing:a_client_that_only_ended_its_own_direction_gets_its_answer",
                "client:a_client_that_ended_its_direction_only_gets_the_rest_of_a_stream_that_can_be_probed",
            ),
            "e": "plumbing:a_client_that_leaves_between_the_head_and_the_first_event_ends_nothing",
            "f": (
                "plumbing:a_client_that_is_gone_at_the_last_chunk_is_no_failure_of_the_server",
                "traps:failed_write_a_client_that_left_is_no_failure_of_the_upstream",
            ),
            "g": (
                "plumbing:a_waiter_that_leaves_during_a_heal_takes_nobody_with_it",
                "cancel:a_cancel_during_the_heal_takes_the_call_off_the_queue",
            ),
        },
    ),
    "B27": Case(
        "a cookie of one user's in another's request",
        {"jar": "headers:a_cookie_belongs_to_one_exchange"},
    ),
    "B28": Case(
        "a pool that open streams fill",
        {
            "100 GETs and a POST": (
                "growth:open_streams_of_many_clients_keep_no_call_waiting",
                "traps:pool_of_100_open_streams_do_not_keep_a_call_waiting",
                "g8:500_open_streams_are_served_at_once",
            ),
            "limits": "limits:a_request_too_many_of_a_session_is_an_error_and_not_sent",
            "descriptors": (
                "listener:running_out_of_descriptors_pauses_accepting_and_is_told",
                "process:it_raises_its_limit_of_open_files_to_the_hard_one",
            ),
        },
    ),
    "B30": Case(
        "limits that refuse legal traffic",
        {
            "body, token, 140 headers, target": (
                "growth:a_large_request_of_a_session_reaches_the_server_whole",
                "traps:server_limits_large_bodies_headers_and_challenges_pass",
            ),
            "challenge": "growth:a_header_of_9_kilobytes_of_the_servers_reaches_the_client",
            "refusals": (
                "growth:what_is_above_a_limit_is_refused_in_plain_http_and_counted",
                "limits:a_body_too_large_is_refused",
            ),
        },
    ),
    "B32": Case(
        "redirects, and targets byte for byte",
        {
            "307, 301, elsewhere, loop": "headers:a_redirect_is_the_clients_to_follow",
            "inner address": "origins:a_redirect_to_the_servers_own_address_is_one_to_its_path",
            "nothing leaves": "headers:nothing_of_a_session_leaves_the_servers_origin",
            "target": (
                "headers:a_sessions_target_is_kept_byte_for_byte_by_what_the_proxy_sends_itself_too",
                "outside:targets_pass_byte_for_byte",
            ),
        },
    ),
    # headers
    "B33": Case(
        "names that a server allows",
        {
            "loopback names only": "headers:a_server_that_guards_its_names_is_satisfied_or_heard",
            "the public name only": (
                "headers:the_host_that_the_server_sees_is_a_choice_and_the_truth_stands_beside_it"
            ),
            "rebinding": (
                "origins:a_name_that_was_bound_anew_is_forbidden_and_reaches_no_server",
                "downstream:foreign_hosts_and_origins_are_refused_on_loopback",
            ),
        },
    ),
    "B34": Case(
        "challenges that must arrive whole",
        {
            "401, two lines": "headers:every_line_of_a_challenge_passes_in_order",
            "403, scope": "g6:a_refusal_is_the_same",
            "well-known": (
                "headers:documents_about_authorization_are_the_servers_and_it_learns_the_public_name"
            ),
            "on a resume": "headers:a_challenge_on_a_resume_starts_nothing",
            "HEAD": "headers:every_line_of_a_challenge_passes_in_order",
            "never written down": "g9:no_log_line_holds_a_credential_a_session_id_or_a_cursor",
        },
    ),
    "B36": Case(
        "the revision is the client's, and so is Accept",
        {
            "another after a heal": (
                "headers:a_server_that_came_back_with_another_revision_is_negotiated_with_anew"
            ),
            "the proxy's own": "headers:the_proxys_own_requests_carry_the_sessions_version_and_both_types",
            "unknown, missing": "headers:accept_and_version_are_the_clients_own",
            "of an era without sessions": "outside:traffic_outside_the_guard_is_the_same",
            "Accept": "headers:accept_and_version_are_the_clients_own",
            "refused": "headers:a_server_that_does_not_like_accept_or_version_says_so_itself",
        },
    ),
    # what the server starts, and what may have run
    "B38": Case(
        "a question inside a call",
        {
            "elicitation, sampling, roots, ping": (
                "two_way:a_question_inside_a_call_reaches_the_client_before_the_call_ends"
            ),
            "unanswered pings": (
                "two_way:a_server_that_pings_and_hears_nothing_may_close_and_the_call_is_answered"
            ),
            "types": "two_way:a_stream_is_one_however_its_type_is_written",
            "at once": "bytes:the_first_event_is_there_before_the_second_is_made",
            "during a heal": "questions:an_answer_during_a_heal_never_waits",
        },
    ),
    "B39": Case(
        "each message on the stream that the server chose",
        {
            "one segment, and the GET beside it": (
                "two_way:progress_and_result_of_one_segment_come_in_order_and_the_rest_on_its_own_stream"
            ),
            "question on the GET": "two_way:a_question_on_the_get_is_answered_while_the_call_waits_for_it",
            "nobody listens": (
                "two_way:a_question_that_came_while_nobody_listened_is_asked_when_somebody_does"
            ),
            "another session": (
                "two_way:an_answer_behind_a_change_of_session_is_absorbed_and_counted",
                "heals:an_answer_to_a_question_that_is_void_is_acknowledged_and_goes_no_further",
            ),
            "progress before the result": "broken:both_legs_break_and_the_client_returns_to_a_whole_answer",
        },
    ),
    "B40": Case(
        "a call that may have run",
        {
            "a": "two_way:a_call_that_may_have_run_is_run_again_only_where_it_does_no_harm",
            "b": "two_way:a_call_that_may_have_run_is_run_again_only_where_it_does_no_harm",
            "c": "two_way:a_call_that_may_have_run_is_run_again_only_where_it_does_no_harm",
            "d": "two_way:a_call_that_may_have_run_is_run_again_only_where_it_does_no_harm",
            # A server that annotates none of its tools: run again by default (design 9, R28).
            "annotations": (
                "two_way:a_call_that_may_have_run_is_run_again_only_where_it_does_no_harm",
                "g4:what_the_policy_forbids_is_never_sent_twice",
            ),
            "reads": "two_way:what_only_reads_is_asked_once_more",
            "the client repeats": "two_way:a_client_that_asks_again_by_itself_asks_twice",
            "never more than one": (
                "two_way:the_second_run_is_the_last",
                "g4:an_outcome_that_stays_unknown_is_an_error_after_max_reissues",
            ),
        },
    ),
    # growth and operation
    "B43": Case(
        "growth",
        {
            "a": "growth:a_session_that_lists_for_ever_does_not_grow",
            "b": (
                "growth:sessions_that_nobody_ends_are_small_and_forgotten",
                "growth:of_too_many_sessions_the_idle_give_way_and_nobody_is_refused",
            ),
            "c": (
                "g8:a_client_that_stops_reading_stops_the_server_and_loses_nothing",
                "g8:a_client_that_is_away_stops_the_server_at_the_journals_cap",
            ),
            "d": (
                "growth:what_clients_make_up_is_no_series",
                "metrics:a_fresh_page_has_exactly_the_series_of_the_table_at_0",
            ),
            "e": "growth:a_call_keeps_its_session_however_quiet_it_is",
        },
    ),
    "B44": Case(
        "going away",
        {
            "idle GET, open POST": "draining:a_drain_gives_owed_answers_and_ends_idle_streams",
            "a long call": "draining:a_drain_that_takes_too_long_ends_in_errors_and_exit_0",
            "new and kept connections": (
                "operation:what_comes_during_the_delay_is_served",
                "process:during_the_delay_it_serves_on_but_is_not_ready_and_keeps_no_connection",
            ),
            "a second signal": "draining:a_second_signal_ends_at_once_and_cuts_what_is_open",
            "server gone first": "draining:a_drain_answers_a_call_whose_server_breaks_meanwhile",
            "server there later": (
                "operation:a_server_that_is_there_later_than_the_proxy_costs_an_error_and_no_restart"
            ),
            "hook and signal at once": Decided(
                "no command for hooks is built yet: a signal alone begins a drain"
            ),
            "what comes next": "operation:a_drain_leaves_the_servers_sessions_for_whoever_comes_next",
            "retry hint": Decided("design 5: `retry:` is forwarded, never added"),
        },
    ),
    "B45": Case(
        "probes that look at the wrong thing",
        {
            "restart between two looks": (
                "operation:a_lost_session_shows_in_counters_and_not_in_probes",
                "admin:a_server_s_short_absence_is_not_held_against_the_proxy",
            ),
            "good health, no MCP": (
                "operation:a_server_whose_health_is_good_and_whose_mcp_is_not_shows_in_counters"
            ),
            "accepts and is silent": (
                "operation:a_server_that_accepts_and_says_nothing_holds_no_probe_up",
                "admin:liveness_and_startup_do_not_depend_on_the_server",
            ),
            "pages under the server's paths": (
                "operation:the_proxys_own_pages_shadow_nothing_of_the_servers",
                "operation:the_admin_listener_leads_to_no_server",
            ),
        },
    ),
}
