"""What a new server session is told before it counts: level, subscriptions, prelude (R40), and what its
tools promise, where a decision hangs on that (R20).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from epochgate.core import (
    ending,
    evidence,
    heal,
    healing,
    jsonrpc,
    legs,
    reissue,
)
from epochgate.core.events import RequestHead
from epochgate.core.generation import Generation
from epochgate.core.heal import Heal
from epochgate.core.inquiry import Outcome
from epochgate.core.states import Up

if TYPE_CHECKING:
    from epochgate.core.session import Session


_UNINITIALIZED = re.compile(rb"\bnot (?:yet )?initiali[sz]ed\b|\bbefore initiali[sz]ation\b", re.IGNORECASE)
_MAX_TOOL_PAGES = 100  # a server that pages for ever does not hold a heal up


def call_params(raw: bytes) -> dict[str, object]:
    params = jsonrpc.read_object(jsonrpc.member(raw, "params") or b"{}") or {}
    return {key: value for key, value in params.items() if key != "_meta"}


def restore_next(session: Session, run: Heal, new: Generation) -> None:
    """Put the next piece of state back; not while a DELETE is under way (R25)."""
    if session.heal is not run:
        return
    if not run.steps:
        _ask_for_tools(session, run, new)
        return
    if ending.defer_while_deleting(session, lambda: restore_next(session, run, new)):
        return
    step = run.steps.pop(0)
    request_id = session.own_id()

    def restored(outcome: Outcome) -> None:
        if session.heal is not run:
            return
        message = outcome.message
        has_failed = message is None or message.kind is jsonrpc.Kind.ERROR or evidence.is_tool_error(message)
        has_failed = has_failed or outcome.was_asked  # and nobody is there to be asked
        if message is None and not step.must_succeed:
            healing.try_again(session, run)
            return
        if has_failed:
            ending.end_upstream(session, new)
            healing.give_up(session, run, (f"{step.method} failed",))
            return
        restore_next(session, run, new)

    legs.inquire(
        session, run.head, new, jsonrpc.request(request_id, step.method, step.params), request_id, restored
    )


def _ask_for_tools(session: Session, run: Heal, new: Generation) -> None:
    """Ask what the tools promise, where a decision hangs on it (R20)."""
    is_needed = any(
        reissue.needs_tools(session.policy, owed, session.tools)
        for stream in session.streams.values()
        if stream.up is Up.VOID
        for owed in stream.open_owed
    )

    def listed() -> None:
        if session.heal is run:
            healing.commit(session, run)

    if is_needed:
        list_tools(session, run.head, new, listed)
    else:
        healing.commit(session, run)


def list_tools(session: Session, head: RequestHead, generation: Generation, done: Callable[[], None]) -> None:
    """Read all pages of `tools/list` from a server session, then call `done` whatever came of it."""
    _list_page(session, head, generation, None, 1, done)


def _list_page(
    session: Session,
    head: RequestHead,
    generation: Generation,
    cursor: str | None,
    page: int,
    done: Callable[[], None],
) -> None:
    request_id = session.own_id()

    def listed(outcome: Outcome) -> None:
        following = None
        if outcome.message is not None:
            following = reissue.read_tools_page(outcome.message, session.tools, is_first=cursor is None)
        if following is None or page >= _MAX_TOOL_PAGES:
            done()
        else:
            _list_page(session, head, generation, following, page + 1, done)

    body = jsonrpc.request(request_id, "tools/list", {} if cursor is None else {"cursor": cursor})
    legs.inquire(session, head, generation, body, request_id, listed)


def restore_into_current(session: Session) -> None:
    """Level and subscriptions go into a session that the server re-created by itself (R1). One that says
    that it is not initialised is of no use: it is healed."""
    head, generation = session.last_head, session.current
    assert head is not None

    def restored(outcome: Outcome) -> None:
        if generation is session.current and _UNINITIALIZED.search(outcome.body) is not None:
            healing.begin(session, heal.trigger_of("epoch_mismatch"), head)

    for step in heal.restore_steps(session.log_level, tuple(session.subscriptions), []):
        request_id = session.own_id()
        body = jsonrpc.request(request_id, step.method, step.params)
        legs.inquire(session, head, session.current, body, request_id, restored)
