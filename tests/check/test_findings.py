"""What was seen becomes conditions, advice and an exit code."""

from __future__ import annotations

from dataclasses import replace

import pytest

from epochgate.check.findings import Event, Form, Reply, Seen, State, find
from epochgate.core.axes import Claim, IdStep, Match

GOOD = Event(Claim.PROGRESS, Match.EQUAL, IdStep.NEXT)
SOUND = Seen(
    is_epoch_stated=True,
    form=Form.IDS,
    resume=Reply.SERVED,
    events=(GOOD, GOOD),
    is_first_trusted=True,
    unknown_cursor=Reply.REFUSED,
    foreign_cursor=Reply.REFUSED,
    unknown_session=Reply.GONE,
    deleted=Reply.SERVED,
    after_delete=Reply.GONE,
    servers=("a", "a"),
)
K, B, U = State.KEPT, State.BROKEN, State.UNKNOWN
OTHER = replace(GOOD, epoch=Match.DIFFERENT)


@pytest.mark.parametrize(
    ("seen", "states", "code"),
    [
        (SOUND, (K, K, K, K), 0),
        (replace(SOUND, events=(GOOD, OTHER)), (K, K, B, B), 1),
        (replace(SOUND, after_delete=Reply.QUIET), (B, K, B, K), 1),
        (replace(SOUND, after_delete=Reply.REFUSED), (U, K, U, K), 2),
        (replace(SOUND, unknown_session=Reply.SERVED), (K, K, B, K), 1),
        (replace(SOUND, unknown_cursor=Reply.SERVED), (K, B, K, K), 1),
        (replace(SOUND, unknown_cursor=Reply.QUIET), (K, B, K, K), 1),
        (replace(SOUND, foreign_cursor=Reply.QUIET), (K, B, K, K), 1),
        (replace(SOUND, foreign_cursor=Reply.BUSY), (K, U, K, K), 2),
        (replace(SOUND, deleted=Reply.NOT_ALLOWED, after_delete=Reply.NOT_ASKED), (U, K, U, K), 2),
        (replace(SOUND, events=(replace(GOOD, step=IdStep.RESET),)), (K, B, K, K), 1),
        (replace(SOUND, pings_lost=1), (K, K, K, K), 2),
        (Seen(), (U, U, U, U), 2),
    ],
)
def test_conditions_and_exit_code(seen: Seen, states: tuple[State, ...], code: int) -> None:
    findings = find(seen)
    assert tuple(condition.state for condition in findings.conditions) == states
    assert findings.exit_code == code


def test_a_server_without_epochs_that_serves_resumes_is_restarted_by_the_proxy() -> None:
    bare = replace(GOOD, epoch=Match.NOT_CAPTURED)
    findings = find(replace(SOUND, is_epoch_stated=False, events=(bare,), is_first_trusted=False))
    assert findings.conditions[3].state is State.BROKEN
    assert findings.treatment[0].reason == "no_epoch_captured"
    assert "poll_without_epoch: restart" in dict(findings.settings)
    assert findings.client == "restart"
