"""A whole session: any client and any server, in any order. Nothing raises, and nothing waits for ever.

Only what the shell would never do is left out: bytes before a head, events after an end.
"""

from __future__ import annotations

import json

from epochgate.core import cursor, http
from epochgate.core.commands import Step
from epochgate.core.events import (
    ClientDrained,
    ClientStalled,
    DeadlineReached,
    DrainBegun,
    Event,
    Fenced,
    GetArrived,
    LegAnswered,
    LegCompleted,
    LegEnd,
    LegRead,
)
from epochgate.core.http import Headers
from epochgate.core.policy import Policy, Reissue, Stamps
from tests.core.messages import Json, initialize, initialize_answer, notification
from tests.core.playbook import JSON, SSE, Play
from tests.core.sides import Exchange, Upstream
from tests.fuzz import plain
from tests.fuzz.spelling import Choices, spelled

_PROGRESS = (
    b'event: message\ndata: {"jsonrpc":"2.0","method":"notifications/progress",'
    b'"params":{"progressToken":<token>,"progress":<n>'
)
_ASK = b'data: {"jsonrpc":"2.0","id":9,"method":"elicitation/create","params":{'
_TOOLS = b'{"tools":[{"name":"work","annotations":{"readOnlyHint":true}}],"_meta":{"session_epoch":7}}'
_SERVER = (
    b'{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},'
    b'"serverInfo":{"name":"server","version":"1"},"_meta":{"session_epoch":8}}'
)
WORDS = (
    _PROGRESS + b"}}\n\n",
    b"id: <n>\n" + _PROGRESS + b',"_meta":{"session_epoch":7}}}\n\n',
    b'data: {"jsonrpc":"2.0","id":<id>,"result":{"content":[]}}\n\n',
    b'id: <n>\ndata: {"jsonrpc":"2.0","id":<id>,"result":{"_meta":{"session_epoch":7}}}\n\n',
    b'data: {"jsonrpc":"2.0","id":<id>,"result":{"_meta":{"session_epoch":8}}}\n\n',
    b'data: {"jsonrpc":"2.0","id":<id>,"error":{"code":-32000,"message":"no"}}\n\n',
    _ASK + b'"_meta":{"session_epoch":7}}}\n\n',
    b'data: {"jsonrpc":"2.0","id":"p","method":"ping"}\n\n',
    b'data: {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}\n\n',
    b'data: {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9}}\n\n',
    b"retry: 100\n\n",
    b"event: close\ndata: {}\n\n",
    b"id: <n>\ndata: \n\n",
    b'{"jsonrpc":"2.0","id":<id>,"result":' + _TOOLS + b"}",
    b'{"jsonrpc":"2.0","id":<id>,"error":{"code":-32001,"message":"session not found"}}',
    b'{"jsonrpc":"2.0","id":<id>,"result":' + _SERVER + b"}",
    b'{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"work","_meta":{"progressToken":5}}}',
    b'{"jsonrpc":"2.0","id":"a","method":"tools/list"}',
    b'{"jsonrpc":"2.0","id":9,"result":{}}',
    b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}',
    b'{"jsonrpc":"2.0","method":"notifications/initialized"}',
    b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}',
    b"<id>",
    b"<token>",
    b"<cursor>",
    b"<n>",
    b'"id":',
    b'"result":',
    b'"_meta":{"session_epoch":',
    b"data: ",
    b"id: ",
    b"\n\n",
    b"\r\n",
    b"[",
    b",",
    b"]",
    b"{",
    b"}}",
    b"null",
    b"\xff",
    b"x" * 700,
    b"\\ud83d",
    b'{"x":' + b"[" * 5000,
    b"]" * 5000,
)
_POLICIES = (
    Policy(),
    Policy(max_event_bytes=1024, max_json_buffer_bytes=512, journal_stream_bytes=2048, max_reissue_bytes=64),
    Policy(reissue=Reissue.ALWAYS, reissue_when_away=True, max_reissues=3, advertise_epoch=True),
    Policy(stamp=Stamps.INTS_31, replay_tools=("work",), max_streams=2, max_tombstones=1),
    Policy(stamp=Stamps.OFF, reissue=Reissue.NEVER),
)
_HEADS: tuple[Headers, ...] = (
    SSE,
    JSON,
    (*SSE, (b"Mcp-Session-Id", b"up-1"), (b"Mcp-Session-Epoch", b"7")),
    (*JSON, (b"Mcp-Session-Id", b"up-2"), (b"Set-Cookie", b"lb=2")),
    (*SSE, (b"Mcp-Session-Epoch", b"8"), (b"Mcp-Session-Epoch", b"7")),
    ((b"Content-Type", b"text/plain"),),
    (),
)
_STATUSES = (200, 202, 404, 400, 401, 405, 409, 410, 500, 503, 204, 302)
_OPENINGS: tuple[Json, ...] = (
    initialize(),
    initialize("2025-03-26", id="i"),
    b'{"jsonrpc":"2.0","id":0,"method":"initialize"}',
)
_EPOCHS: tuple[Json, ...] = (None, 7, "7", {"a": 1})
_PAUSES = (0.05, 1.0, 6.0, 31.0, 400.0, 4000.0)
_CALLERS = (b"alice", b"bob")
_MOST_STEPS = 48


class _Run(Play):
    """A play without its trace, and what the shell knows of the legs and exchanges beside it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.answered: set[int] = set()
        self.stalled: set[int] = set()
        self.gets: set[int] = set()
        self.is_fenced = False

    def feed(self, event: Event) -> list[Step]:
        if isinstance(event, GetArrived):
            self.gets.add(event.exchange)
        steps = self.session.handle(event, self.now)
        for step in steps:
            self._perform(step)
        self.steps += steps
        if self.registered:
            self.visible_id = self.registered[-1]
        if self.is_persisting:
            self.persist()
        return steps

    def begin(self, epoch: Json) -> None:
        leg = self.open_legs()[-1]
        head = (*JSON, (b"Mcp-Session-Id", b"up-1"), (b"Mcp-Session-Epoch", b"7"))
        self.answer(leg, initialize_answer(leg.id, epoch, has_logging=True), headers=head)
        self.post(notification("notifications/initialized"))

    def open_legs(self) -> list[Upstream]:
        return [leg for leg in self.legs.values() if leg.is_open]

    def open_exchanges(self) -> list[Exchange]:
        return [one for one in self.exchanges.values() if one.is_open and not one.has_left]

    def waiting(self) -> set[int]:
        """POSTs and DELETEs that are not answered: a GET may stay open, and who lost the session to
        another replica answers nobody."""
        return set() if self.is_fenced else {one.number for one in self.open_exchanges()} - self.gets

    def finish(self) -> None:
        """Every leg breaks, no server is there any more, and the time passes."""
        self.is_persisting = True
        self.persist()
        for _ in range(300):
            for leg in self.open_legs():
                self.end(leg, LegEnd.BROKEN if leg.number in self.answered else LegEnd.NOT_SENT)
            deadline = self.session.next_deadline()
            if deadline is None or self.is_forgotten:
                break
            self.now = max(self.now, deadline)
            self.feed(DeadlineReached())


def one(data: bytes) -> None:
    choices = Choices(data)
    run = _Run(choices.one_of(_POLICIES))
    run.post(choices.one_of(_OPENINGS))
    if choices.number(8):
        run.begin(choices.one_of(_EPOCHS))
        run.is_persisting = choices.number(4) > 0
    for _ in range(_MOST_STEPS):
        if choices.is_over or run.is_forgotten:
            break
        _step(run, choices)
    run.finish()
    assert not run.waiting(), f"{run.waiting()} wait for ever"
    _means_one_thing(run)


def _step(run: _Run, choices: Choices) -> None:
    kind = choices.number(16)
    if not run.registered and kind < 5:
        return  # no request finds the session before it has an id
    match kind:
        case 0:
            run.call(id=choices.one_of((5, "a", 1.5, 2**60)), token=choices.one_of((None, 5, "t")))
        case 1:
            raw = _spelled(run, choices.some(24), None)
            run.post(raw, who=choices.one_of(_CALLERS), headers=_head(choices))
        case 2:
            run.get(choices.one_of((None, _cursor(run))), who=choices.one_of(_CALLERS))
        case 3:
            run.get(_spelled(run, choices.some(6), None) or None)
        case 4:
            run.delete(who=choices.one_of(_CALLERS))
        case 5 | 6 if exchanges := run.open_exchanges():
            _client(run, choices, choices.one_of(exchanges))
        case 7:
            run.advance(choices.one_of(_PAUSES))
        case 8 if run.persists and run.registered and choices.number(8) == 7:
            run.is_fenced = True
            run.feed(Fenced(run.persists.pop(0).token))
        case 8:
            run.persist()
        case 9 if run.registered and run.session.drain_until is None and not choices.number(4):
            run.feed(DrainBegun(run.now + 20))
        case 10 | 11 | 12 | 13 | 14 | 15 if legs := run.open_legs():
            _server(run, choices, legs[-1 - choices.number(len(legs))])


def _head(choices: Choices) -> Headers:
    return choices.one_of(((), ((b"User-Agent", b"Java-http-client/21"),), ((b"Last-Event-ID", b"1"),)))


def _client(run: _Run, choices: Choices, exchange: Exchange) -> None:
    number = exchange.number
    match choices.number(3):
        case 0:
            run.leave(exchange)
        case 1 if number not in run.stalled:
            run.stalled.add(number)
            run.feed(ClientStalled(number))
        case 2 if number in run.stalled:
            run.stalled.discard(number)
            run.feed(ClientDrained(number))


def _server(run: _Run, choices: Choices, leg: Upstream) -> None:
    kind = choices.number(8)
    if leg.number not in run.answered:
        if kind == 0:
            run.end(leg, choices.one_of((LegEnd.NOT_SENT, LegEnd.SILENT, LegEnd.BROKEN, LegEnd.GONE)))
            return
        run.answered.add(leg.number)
        status = choices.one_of(_STATUSES) if kind == 1 else 200
        headers = choices.one_of(_HEADS)
        if kind == 2:
            run.feed(LegCompleted(leg.number, status, headers, _spelled(run, choices.some(12), leg)))
            leg.is_open = False  # what closes it meanwhile finds it closed
            return
        run.feed(LegAnswered(leg.number, status, headers))
    if not leg.is_open:
        return
    if kind == 7:
        run.end(leg, choices.one_of((LegEnd.BROKEN, LegEnd.CLEAN, LegEnd.CLOSED)))
    elif text := _spelled(run, choices.some(16), leg):
        run.feed(LegRead(leg.number, text))


def _spelled(run: _Run, data: bytes, leg: Upstream | None) -> bytes:
    text = spelled(data, WORDS)
    if b"<" not in text:
        return text
    request_id, token = (b"5", b"5") if leg is None else _stamps(leg)
    text = text.replace(b"<id>", request_id).replace(b"<token>", token).replace(b"<cursor>", _cursor(run))
    parts = text.split(b"<n>")
    return b"".join([b"%b%d" % (part, len(run.steps) + at) for at, part in enumerate(parts[:-1])]) + parts[-1]


def _stamps(leg: Upstream) -> tuple[bytes, bytes]:
    """The id and token under which a request went up."""
    try:
        message = json.loads(leg.body or b"")
    except (ValueError, RecursionError):
        return b"5", b"5"
    message = message[0] if isinstance(message, list) and message else message
    message = message if isinstance(message, dict) else {}
    params = message.get("params")
    meta = params.get("_meta") if isinstance(params, dict) else None
    token = meta.get("progressToken", 5) if isinstance(meta, dict) else 5
    return json.dumps(message.get("id", 5)).encode(), json.dumps(token).encode()


def _cursor(run: _Run) -> bytes:
    """The last id that a client was given."""
    for exchange in reversed(run.exchanges.values()):
        at = exchange.body.rfind(b"id: ")
        if at >= 0:
            return exchange.body[at + 4 :].split(b"\n")[0].strip()
    return b"1"


def _means_one_thing(run: _Run) -> None:
    """Each cursor is a number that the client can hold, and stands for one event (R15)."""
    known: dict[bytes, bytes] = {}
    _, *guarded = run.exchanges.values()  # the first one's answer may pass as it is
    for exchange in guarded:
        if http.media_type(exchange.headers) != b"text/event-stream" or exchange.status != 200:
            continue
        for lines in plain.events(exchange.body):
            event = plain.fields(lines)
            if event.id is not None and event.data:  # a priming may repeat a cursor
                assert cursor.read(event.id) is not None
                assert known.setdefault(event.id, event.data) == event.data
