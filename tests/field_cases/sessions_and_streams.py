"""Cases of sessions, resumes, the life of streams and their bytes."""

from __future__ import annotations

from collections.abc import Mapping

from tests.field_cases.case import Case, Decided

SESSIONS_AND_STREAMS: Mapping[str, Case] = {
    # sessions
    "B01": Case(
        "a redeploy leaves the server without the session",
        {
            "on a call": "g3:a_session_lost_between_calls_is_healed_and_the_call_answered",
            "a": "loss:a_404_on_a_get_is_healed_and_the_stream_is_of_the_new_session",
            "b": "loss:a_404_on_a_delete_is_a_delete_that_worked",
            "c": "loss:a_404_on_a_notification_is_acknowledged_and_the_next_call_answered",
            "d": "g3:many_calls_that_find_their_session_gone_share_one_heal",
            "e": (
                "loss:a_session_that_is_lost_again_and_again_ends_in_an_answer",
                "g4:a_call_that_never_ran_is_sent_twice_more_at_most",
            ),
            "handshake": "loss:a_heal_shows_the_client_nothing_of_its_own_exchanges",
            "not recovered": "heals:a_lost_session_that_held_state_is_shown_to_the_client",
        },
    ),
    "B02": Case(
        "the server makes an unknown session anew under its old id",
        {
            "resume": (
                "loss:a_session_re_created_under_its_id_is_not_spliced_into_a_broken_call",
                "g1:a_surviving_buffer_that_tells_the_right_epoch_first_is_found_out",
            ),
            "call": (
                "loss:a_call_answered_out_of_a_re_created_session_is_counted",
                "g7:a_session_that_was_re_created_between_two_calls_is_counted_as_drift",
            ),
            "call, no epochs": Decided("design 3, G1: not visible on the wire while no leg broke"),
            "echoed id": "loss:a_session_re_created_under_its_id_is_not_spliced_into_a_broken_call",
        },
    ),
    "B04": Case(
        "replicas of which one knows the session",
        {
            "in turns": (
                "loss:replicas_that_take_turns_are_a_fault_of_affinity_and_no_lost_session",
                "g7:a_404_of_another_replica_is_counted_as_a_fault_of_affinity",
            ),
            "initialized": "loss:an_initialized_that_meets_another_replica_costs_no_session",
            "cookie": (
                "headers:a_cookie_belongs_to_one_exchange",
                "parked:the_cookie_of_a_heal_replaces_the_clients",
            ),
        },
    ),
    "B05": Case(
        "subscriptions and log level that a heal must not lose",
        {
            "restored": "heals:a_heal_restores_the_log_level_and_subscriptions",
            "updates": "loss:updates_arrive_after_a_heal_and_the_old_id_still_ends_the_session",
            "GET": "heals:the_standalone_stream_follows_into_the_new_session",
        },
    ),
    "B06": Case(
        "whose session it is",
        {
            "a": (
                "g9:a_stranger_with_a_cursor_gets_what_the_server_says",
                "g9:a_strangers_call_neither_heals_nor_ends_the_session",
                "g9:a_call_is_sent_again_with_its_own_callers_credentials",
            ),
            "b": "g9:a_second_caller_whom_the_server_accepts_is_served",
            "c": (
                "g9:a_stranger_with_a_cursor_gets_what_the_server_says",
                "g9:a_stranger_does_not_get_the_standalone_stream",
            ),
            "d": (
                "loss:a_session_id_that_is_no_id_goes_to_the_server_and_nowhere_else",
                "loss:a_session_id_cannot_bring_a_header_of_its_own",
            ),
        },
    ),
    # resumes
    "B07": Case(
        "a replay that crosses into another session or stream",
        {
            "a": "g2:a_cursor_of_another_session_is_refused",
            "b": (
                "resume:a_calls_cursor_brings_what_followed_on_that_call_and_nothing_of_the_standalone_stream",
                "g2:a_cursor_leads_to_its_own_stream_alone",
            ),
            # Not passed as sent: cursors are the proxy's own and name their stream (design 5).
            "c": "resume:the_newest_cursor_on_the_clients_get_leaves_its_standalone_stream_alone",
            "d": "resume:streams_whose_ids_all_begin_at_0_are_never_mixed",
        },
    ),
    "B08": Case(
        "a server that has nothing to resume",
        {
            "no byte": "g1:a_resume_that_is_never_answered_is_given_up_at_the_deadline",
            "headers only": "resume:a_resume_with_headers_and_nothing_more_has_an_end",
            "200 and end, 405, 400": "g1:a_divergent_resume_is_restarted",
            "growth": "resume:resumes_that_lead_nowhere_leave_no_connection_behind",
        },
    ),
    "B10": Case(
        "event numbers that begin anew",
        {
            "a": "resume:a_server_that_filters_its_new_events_by_the_old_cursor_is_found_out_by_its_epoch",
            "b": (
                "g1:a_divergent_resume_is_restarted",
                "g1:a_break_without_a_captured_epoch_is_restarted",
            ),
            "c": "resume:a_counter_that_began_anew_is_a_divergence_of_its_own",
            "d": "resume:ids_of_a_clock_that_stood_or_went_back_end_in_one_run",
        },
    ),
    "B11": Case(
        "the answer that comes while the client is away",
        {
            "soon, and again later": (
                "resume:the_answer_that_came_while_nobody_was_there_comes_as_often_as_it_is_asked_for",
                "g5:events_that_came_while_the_client_was_away_are_redelivered",
            ),
            "on its way": "g5:an_event_that_is_read_in_part_is_redelivered_whole",
            "half an event": "g5:a_leg_cut_anywhere_loses_nothing_and_repeats_nothing",
            "too late": "g5:a_client_that_returns_too_late_gets_the_error_it_is_owed",
            "too much": "g8:a_client_that_is_away_stops_the_server_at_the_journals_cap",
        },
    ),
    "B12": Case(
        "a server that allows one GET",
        {
            # The GET upstream is held, not closed (design 5).
            "reset": "resume:a_get_behind_a_reset_one_meets_no_409",
            "two tabs": (
                "resume:of_two_gets_at_once_the_server_sees_one_and_nobody_is_cut",
                "standing:a_live_leg_is_taken_over_at_most_once_in_five_seconds",
            ),
            "no FIN": "client:a_probe_finds_out_a_client_that_is_gone",
        },
    ),
    # life of a stream
    "B14": Case(
        "a quiet stream, cut by the tightest hop",
        {
            "a": (
                "life:the_head_of_a_quiet_stream_comes_at_once",
                "relay:the_head_of_a_quiet_stream_is_passed_at_once",
            ),
            "b": (
                "silence:a_quiet_tool_is_left_alone_as_long_as_its_session_answers",
                "broken:a_quiet_stream_is_kept_alive_with_comments_between_events",
            ),
            "c": "life:a_quiet_stream_outlives_a_hop_that_cuts_what_is_quiet",
            "d": Decided("design 5: heartbeats are comments alone, which no client takes for an event"),
            "head": (
                "life:streams_of_the_proxys_own_ask_not_to_be_kept_or_gathered",
                "life:streams_of_the_servers_ask_it_where_the_server_does_not",
            ),
            "not upstream life": "life:heartbeats_to_the_client_are_no_life_of_the_server",
        },
    ),
    "B15": Case(
        "total time limits, and none at all",
        {
            "total": "traps:300_s_a_stream_has_no_total_time",
            "none": "silence:a_server_that_hangs_altogether_is_an_error",
            "told": "life:a_silence_that_was_too_long_is_told_as_silence",
        },
    ),
    "B16": Case(
        "a heartbeat inside an event",
        {
            "each place": "life:a_heartbeat_never_lands_inside_an_event",
            "boundary": "broken:a_quiet_stream_is_kept_alive_with_comments_between_events",
            "event passed on": "large:no_heartbeat_lands_inside_an_event_that_is_passed_on",
            "outside the guard": "life:no_heartbeat_is_written_outside_the_guard",
        },
    ),
    "B18": Case(
        "a stream that ends without the answer",
        {
            "a": (
                "life:an_end_without_an_answer_is_told_where_nothing_may_run_twice",
                "life:an_end_without_an_answer_is_made_good_where_it_may",
            ),
            "b": (
                "life:an_end_without_an_answer_is_told_where_nothing_may_run_twice",
                "life:an_end_without_an_answer_is_made_good_where_it_may",
            ),
            "c": (
                "life:an_end_without_an_answer_is_told_where_nothing_may_run_twice",
                "life:an_end_without_an_answer_is_made_good_where_it_may",
            ),
            "d": (
                "life:an_end_without_an_answer_is_told_where_nothing_may_run_twice",
                "life:an_end_without_an_answer_is_made_good_where_it_may",
            ),
            "e": (
                "life:an_end_without_an_answer_is_told_where_nothing_may_run_twice",
                "life:an_end_without_an_answer_is_made_good_where_it_may",
            ),
        },
    ),
    # bytes of streams
    "B19": Case(
        "an event of one long line",
        {
            "131073, 524289, 600000, 8 MB": "bytes:an_event_of_one_long_line_passes",
            "8 MB in memory": "g8:an_event_of_8_megabytes_passes",
            "above the cap": (
                "large:a_large_answer_comes_under_the_clients_own_id",
                "large:a_large_event_that_breaks_inside_never_looks_whole_and_its_call_is_told",
            ),
            "no line end ever": (
                "large:a_line_without_end_keeps_memory_flat",
                "g8:a_client_that_stops_reading_outside_the_guard_stops_the_server_too",
                "traps:line_limit_a_line_of_megabytes_passes",
            ),
            "an id of 1 MB": "bytes:an_id_of_a_megabyte_is_no_harm_and_is_not_shown",
        },
    ),
    "B20": Case(
        "line ends and cuts",
        {
            "every cut": (
                "bytes:the_bytes_are_those_of_the_server_wherever_they_are_cut",
                "framing:a_stream_has_the_same_events_however_it_is_cut",
                "broken:events_that_come_byte_by_byte_are_whole",
            ),
            "its view": "bytes:events_are_numbered_the_same_whatever_ends_their_lines",
            "data lines, spaces": "bytes:the_bytes_are_those_of_the_server_wherever_they_are_cut",
            "byte order mark": "bytes:a_mark_of_byte_order_is_no_part_of_the_first_field",
            "cut characters": "bytes:a_character_that_is_cut_is_whole",
            "no UTF-8": (
                "bytes:bytes_that_are_no_text_pass_as_they_are",
                "bytes:an_answer_with_bytes_that_are_no_text_is_the_answer",
            ),
            "no blank line": "bytes:a_last_event_without_its_blank_line_is_not_delivered",
        },
    ),
    "B21": Case(
        "events that carry no message",
        {
            "priming": "bytes:the_servers_priming_becomes_one_of_the_proxys_for_those_who_know_it",
            "named and odd events": "bytes:what_is_no_message_passes_unchanged_and_ends_nothing",
            # Comments of the server's are not passed: the proxy's own stand for them (design 3, G6).
            "comments, bare ids": "bytes:what_dispatches_nothing_disturbs_no_event",
            "ids": "bytes:the_cursor_follows_the_rules_of_event_streams",
        },
    ),
    "B22": Case(
        "content codings of streams",
        {
            "nothing asked": "g6:a_call_is_the_same",
            "gzip asked": "bytes:a_guarded_request_asks_for_no_coding_whatever_the_client_asked_for",
            "gzip, flushed": "codings:a_stream_that_is_compressed_and_flushed_comes_event_by_event",
            "gzip, not flushed": (
                "codings:a_stream_that_is_compressed_at_the_end_comes_whole",
                "codings:a_compressed_stream_that_breaks_is_a_broken_stream",
                "codings:a_compressed_json_answer_is_the_answer",
            ),
            "br, zstd, gzip twice": "codings:a_stream_in_another_coding_is_an_error_that_says_so",
            "latency": "bytes:the_first_event_is_there_before_the_second_is_made",
        },
    ),
}
