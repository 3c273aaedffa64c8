"""What breaks proxies of this kind in the field, case by case, and the tests that stand for each.

`tests/test_field_cases.py` checks that every test named here exists. A case has variants: under a
letter, or under a word of what is varied. A test is named by its file's short name in `FILES` and its
own name less `test_`; `Decided` says why a variant is answered otherwise, or needs no test of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


class Decided(str):
    """A variant without a test of its own, and the reason."""


@dataclass(frozen=True)
class Case:
    about: str
    variants: Mapping[str, str | tuple[str, ...] | Decided]


FILES = {
    "loss": "faults/field/test_session_loss.py",
    "resume": "faults/field/test_resume.py",
    "life": "faults/field/test_stream_life.py",
    "bytes": "faults/field/test_sse_bytes.py",
    "plumbing": "faults/field/test_plumbing.py",
    "large": "faults/field/test_large_events.py",
    "codings": "faults/field/test_codings.py",
    "origins": "faults/field/test_origins.py",
    "headers": "faults/field/test_headers.py",
    "two_way": "faults/field/test_two_way.py",
    "growth": "faults/field/test_growth.py",
    "operation": "faults/field/test_operation.py",
    "broken": "faults/test_broken_legs.py",
    "draining": "faults/test_draining.py",
    "heals": "faults/test_heals.py",
    "silence": "faults/test_silence.py",
    "g1": "guarantees/test_g1_no_splice.py",
    "g2": "guarantees/test_g2_no_stranger.py",
    "g3": "guarantees/test_g3_one_answer.py",
    "g4": "guarantees/test_g4_no_hidden_second_run.py",
    "g5": "guarantees/test_g5_nothing_lost.py",
    "outside": "guarantees/test_g6_outside_the_guard.py",
    "g6": "guarantees/test_g6_transparent.py",
    "g7": "guarantees/test_g7_loud.py",
    "g8": "guarantees/test_g8_bounded.py",
    "limits": "guarantees/test_g8_limits.py",
    "g9": "guarantees/test_g9_no_trespass.py",
    "framing": "properties/test_framing.py",
    "admin": "shell/test_admin.py",
    "traps": "shell/test_aiohttp_traps.py",
    "client": "shell/test_client_connection.py",
    "listener": "shell/test_listener.py",
    "process": "shell/test_process.py",
    "relay": "shell/test_relay.py",
    "upstream": "shell/test_upstream.py",
    "downstream": "shell/test_downstream.py",
    "polls": "core/test_breaks.py",
    "parked": "core/test_session_parked.py",
    "standing": "core/test_listeners.py",
    "cancel": "core/test_forwarding.py",
    "questions": "core/test_questions.py",
    "notices": "core/test_session_notices.py",
    "metrics": "observe/test_metrics.py",
}
