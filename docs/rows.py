"""What the dashboard shows, row by row."""

from __future__ import annotations

from collections.abc import Sequence

from panels import (
    CAUGHT,
    IS_GOOD,
    LOST,
    NEUTRAL,
    PROCESS,
    STARTED,
    TARGET,
    Bars,
    Number,
    Panel,
    Query,
    Table,
    below,
    each_bar,
    happened,
    limited,
)

BROKEN = 'epochgate_resumes_total{leg="upstream", OURS}'
RETURNED = 'epochgate_resumes_total{leg="client", OURS}'
DROPPED = "instance_reason:epochgate_dropped_messages:increase15m{OURS}"
RESTARTED = 'instance_leg_verdict_reason:epochgate_resumes:increase15m{verdict="restart", OURS}'
WORK, HEAL = "epochgate_discarded_work_seconds_bucket{OURS}", "epochgate_heal_duration_seconds_bucket{OURS}"
CALLS = 'epochgate_request_duration_seconds_bucket{method="tools/call", OURS}'
IS_EPOCHGATE = f"and on ({TARGET}) epochgate_build_info{{OURS}}"


NOW = (
    Number(
        "Ready",
        "Processes that are ready, of those that are scraped. Others cannot reach their server, or drain.",
        [Query("sum(epochgate_ready{OURS})", "ready"), Query("count(epochgate_ready{OURS})", "scraped")],
        steps=NEUTRAL,
    ),
    Number(
        "Sessions",
        "Sessions that are open. Parked ones wait for a server that was out of reach.",
        [
            Query('sum(epochgate_sessions{state="live", OURS})', "live"),
            Query('sum(epochgate_sessions{state=~"healing|parked", OURS})', "healing or parked"),
        ],
        steps=NEUTRAL,
    ),
    Number(
        "Streams in flight",
        "Requests of sessions whose answer has not ended on the upstream leg.",
        [Query('sum(epochgate_streams{kind="request", state!~"answered|cancelled|failed|gone", OURS})')],
        steps=NEUTRAL,
    ),
    Table(
        "Alerts that fire",
        "Each has a section in docs/runbook.md.",
        [
            Query(
                "sum by (alertname, severity, pod, instance)"
                ' (ALERTS{alertname=~"Epochgate.+", alertstate="firing", OURS})'
            )
        ],
    ),
)

DEPLOY = (
    Number(
        "Streams that broke",
        "Connections to the server that ended under an answer and were judged.",
        [Query(happened(BROKEN))],
        steps=NEUTRAL,
    ),
    Number(
        "Resumed with proof",
        "Broken streams that went on in the same session epoch.",
        [Query(happened('epochgate_resumes_total{leg="upstream", reason="epoch_match", OURS}'))],
    ),
    Number(
        "Divergences stopped",
        "Streams that went on in another session. Without the guard each is a wrong answer.",
        [
            Query(
                happened(
                    'epochgate_resumes_total{verdict="restart", reason=~"epoch_mismatch|event_id_gap|'
                    'event_id_reset|foreign_message|request_id_reset|session_replaced", OURS}'
                )
            )
        ],
        steps=CAUGHT,
    ),
    Number(
        "Requests run again",
        "Interrupted requests that were sent again; their answers carry the mark.",
        [Query(happened('epochgate_reissues_total{outcome="sent", OURS}'))],
        steps=NEUTRAL,
    ),
    Number(
        "Outcomes unknown",
        "Interrupted requests that could not be sent again: their clients got error -32050.",
        [Query(happened('epochgate_reissues_total{outcome=~"withheld|exhausted", OURS}'))],
        steps=LOST,
    ),
    Number(
        "Heals that failed",
        "Sessions that could not be re-established: their clients got error -32051 or 404.",
        [Query(happened('epochgate_heals_total{outcome!="healed", OURS}'))],
        steps=LOST,
    ),
    Bars(
        "How broken streams ended",
        "Judged streams of the upstream leg, by verdict and reason (docs/verdicts.md).",
        [Query(each_bar("verdict, reason", BROKEN), "{{verdict}} {{reason}}")],
    ),
    Bars(
        "Heals",
        "Sessions to be re-established, by what began it and how it ended.",
        [Query(each_bar("trigger, outcome", "epochgate_heals_total{OURS}"), "{{trigger}}: {{outcome}}")],
    ),
    Bars(
        "Interrupted requests",
        "Sent again, withheld by the policy, or sent as often as is allowed.",
        [Query(each_bar("outcome", "epochgate_reissues_total{OURS}"), "{{outcome}}")],
    ),
    Panel(
        "Sessions by state",
        "A deploy shows as healing; parked and lost are what it cost.",
        [Query("sum by (state) (epochgate_sessions{OURS})", "{{state}}")],
    ),
    Panel(
        "Streams by state",
        "Of their upstream half (docs/states.md).",
        [Query("sum by (kind, state) (epochgate_streams{OURS}) > 0", "{{kind}} {{state}}")],
    ),
    Bars(
        "Requests of forgotten sessions",
        "After a restart of the proxy its sessions are unknown: they get 404, or pass unguarded.",
        [Query(each_bar("status", 'epochgate_requests_total{class="unknown", OURS}'), "{{status}}")],
    ),
    Table(
        "Processes",
        "When each proxy began. One that began with the deploy has forgotten the sessions of before.",
        [Query(STARTED)],
        "dateTimeAsIso",
    ),
    Table(
        "Restarts of streams in the last 15 minutes",
        "As the alerts see it.",
        [Query(f"sum by (pod, instance, reason) ({RESTARTED}) > 0")],
    ),
)

COST = (
    Number(
        "Work discarded",
        "Time that runs had taken whose answers were thrown away.",
        [Query(happened("epochgate_discarded_work_seconds_sum{OURS}"))],
        "s",
        NEUTRAL,
    ),
    Number(
        "Longest, nearly",
        "95% of the discarded runs had taken less.",
        [Query(below(0.95, WORK, "$__range"))],
        "s",
        NEUTRAL,
    ),
    Number(
        "Events discarded",
        "Events of those runs that clients had seen.",
        [Query(happened("epochgate_discarded_events_total{OURS}"))],
        steps=NEUTRAL,
    ),
    Number(
        "Time in heals",
        "Time in which sessions were re-established and their requests waited.",
        [Query(happened("epochgate_heal_duration_seconds_sum{OURS}"))],
        "s",
        NEUTRAL,
    ),
    Number(
        "Length of a heal",
        "Half of them, and 95%, took less.",
        [Query(below(0.5, HEAL, "$__range"), "half"), Query(below(0.95, HEAL, "$__range"), "95%")],
        "s",
        NEUTRAL,
    ),
    Number(
        "Answers lost",
        "Answers that were no longer kept, too large, unreadable, or never came: error -32050.",
        [Query(happened('epochgate_resumes_total{verdict="fail", OURS}'))],
        steps=LOST,
    ),
    Bars(
        "Clients that came back",
        "Resumes of clients, by what was given to them.",
        [Query(each_bar("verdict, reason", RETURNED), "{{verdict}} {{reason}}")],
    ),
    Panel(
        "Kept for clients",
        "Bytes in the journals, and how many there may be (journal_total).",
        [
            Query("sum(epochgate_journal_bytes{OURS})", "kept"),
            Query("sum(epochgate_journal_limit_bytes{OURS})", "limit"),
        ],
        "bytes",
    ),
    Bars(
        "Events relayed",
        "And those of them that were discarded later.",
        [
            Query("sum(increase(epochgate_relayed_events_total{OURS}[$__rate_interval]))", "relayed"),
            Query("sum(increase(epochgate_discarded_events_total{OURS}[$__rate_interval]))", "discarded"),
        ],
    ),
)

UNPROVEN = (
    Panel(
        "Taken on trust",
        "Polls accepted from a server that states no epoch, and sessions re-created between two calls.",
        [
            Query("sum(instance:epochgate_unproven_polls:increase15m{OURS})", "unproven polls"),
            Query("sum(instance:epochgate_epoch_drift:increase15m{OURS})", "sessions re-created"),
        ],
    ),
    Panel(
        "Messages dropped",
        "Messages that no client may see. Foreign: of another session, or of nobody.",
        [Query(f"sum by (reason) ({DROPPED})", "{{reason}}")],
    ),
    Panel(
        "Astray",
        "404 of a replica without the session, cursors that name nothing, gaps in standalone streams.",
        [
            Query("sum(instance:epochgate_affinity_faults:increase15m{OURS})", "wrong replica"),
            Query("sum(increase(epochgate_unknown_cursors_total{OURS}[15m]))", "unknown cursors"),
            Query("sum(increase(epochgate_standalone_gaps_total{OURS}[15m]))", "standalone gaps"),
        ],
    ),
)

TRAFFIC = (
    Panel(
        "Requests",
        "By class (docs/design.md, section 4). Sessions alone are guarded.",
        [Query("sum by (class) (rate(epochgate_requests_total{OURS}[$__rate_interval]))", "{{class}}")],
        "reqps",
    ),
    Panel(
        "Answers that are no success",
        "By HTTP status. None: closed without an answer.",
        [
            Query(
                "sum by (status)"
                ' (rate(epochgate_requests_total{status!~"200|202|204", OURS}[$__rate_interval])) > 0',
                "{{status}}",
            )
        ],
        "reqps",
    ),
    Panel(
        "Time to the end of an answer",
        "Of tool calls. Half of them, and 95%, took less.",
        [
            Query(below(0.5, CALLS, "$__rate_interval"), "half"),
            Query(below(0.95, CALLS, "$__rate_interval"), "95%"),
        ],
        "s",
    ),
    Bars(
        "Exchanges with the server that failed",
        "By kind.",
        [Query(each_bar("kind", "epochgate_upstream_errors_total{OURS}"), "{{kind}}")],
    ),
    limited(
        "Share that failed",
        "Failed exchanges for each request. Above the line for 5 minutes it is an alert.",
        "instance:epochgate_upstream_errors:ratio_rate5m",
        0.05,
    ),
    limited(
        "Share of heals that failed",
        "Over 15 minutes. Above the line, and five or more, it is an alert.",
        "instance:epochgate_failed_heals:ratio_increase15m",
        0.5,
    ),
)

PROCESSES = (
    limited("Sessions, of the limit", "Of max_sessions.", "instance:epochgate_sessions:ratio", 0.9),
    limited(
        "Journals, of the limit",
        "Of journal_total. When they are full, servers may not be read on.",
        "instance:epochgate_journal_bytes:ratio",
        0.9,
    ),
    limited("Descriptors in use", "Without any, accepting pauses.", "instance:process_open_fds:ratio", 0.8),
    Panel(
        "Memory",
        "Resident.",
        [Query(f"process_resident_memory_bytes{{OURS}} {IS_EPOCHGATE}", PROCESS)],
        "bytes",
    ),
    Panel(
        "CPU",
        "Cores in use.",
        [Query(f"rate(process_cpu_seconds_total{{OURS}}[$__rate_interval]) {IS_EPOCHGATE}", PROCESS)],
    ),
    Panel(
        "Limits that were met",
        "Over 15 minutes, as the alerts see it.",
        [
            Query("sum(instance:epochgate_journal_evictions:increase15m{OURS})", "journal evictions"),
            Query("sum(instance:epochgate_session_evictions:increase15m{OURS})", "session evictions"),
            Query("sum(instance:epochgate_accept_pauses:increase15m{OURS})", "accepting paused"),
            Query("sum(instance:epochgate_log_lines_dropped:increase15m{OURS})", "log lines dropped"),
        ],
    ),
    Number(
        "Settings",
        "1 unless the file that is there now is wrong.",
        [Query("min(epochgate_config_last_reload_successful{OURS})")],
        steps=IS_GOOD,
    ),
    Number(
        "Certificates",
        "1 unless one that is there now is wrong.",
        [Query("min by (leg) (epochgate_certificates_last_reload_successful{OURS})", "{{leg}}")],
        steps=IS_GOOD,
    ),
    Panel(
        "Servers",
        "By whether the last connect reached them.",
        [Query("sum by (state) (epochgate_upstreams{OURS})", "{{state}}")],
    ),
)

ROWS: tuple[tuple[str, Sequence[Panel]], ...] = (
    ("Now", NOW),
    ("What the last deploy did to sessions in flight (in the time range)", DEPLOY),
    ("What safety cost (in the time range)", COST),
    ("What nothing proves, and faults of the server (15 minutes, as the alerts see it)", UNPROVEN),
    ("Traffic", TRAFFIC),
    ("The processes", PROCESSES),
)
