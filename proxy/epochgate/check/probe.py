"""The requests of the check, in order, and what each answer shows."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any

import aiohttp

from epochgate.check.findings import Event, Form, Reply, Seen
from epochgate.check.wire import CannotTell, Line, Wire, body_of, is_stream, lines_of
from epochgate.core.axes import Claim, IdStep
from epochgate.core.epoch import Epoch, compare, stated_in, stated_in_headers
from epochgate.core.library import SessionEpoch, resume_or_restart

REVISION = "2025-06-18"
MAX_EVENTS = 200
MAX_PAGES = 5  # of tools/list
PINGS = 3
LISTEN_S = 5.0
TOTAL_S = 60.0
_BY_STATUS = {404: Reply.GONE, 400: Reply.REFUSED, 410: Reply.REFUSED, 401: Reply.AUTH, 403: Reply.AUTH}
_BY_STATUS |= {405: Reply.NOT_ALLOWED} | dict.fromkeys((409, 429, 502, 503, 504), Reply.BUSY)
_ACCEPT = {"Accept": "application/json, text/event-stream"}


@dataclass(frozen=True, slots=True)
class Plan:
    tool: str | None = None
    arguments: dict[str, Any] | None = None
    allow_tool: bool = False


@dataclass(slots=True)
class _Session:
    id: str | None
    epoch: Epoch
    number: object
    revision: str

    def headers(self) -> dict[str, str]:
        named = {"Mcp-Session-Id": self.id} if self.id else {}
        return {**_ACCEPT, "MCP-Protocol-Version": self.revision, **named}


class Probe:
    """One run against one server; `seen` grows with each step."""

    def __init__(self, wire: Wire, plan: Plan, say: Callable[[str], None]) -> None:
        self._wire, self._plan, self._say = wire, plan, say
        self._keys: tuple[str, ...] = ("session_epoch",)
        self._header = "mcp-session-epoch"
        self._stamp = f"check-{uuid.uuid4().hex}"
        self._own: list[_Session] = []
        self.seen = Seen()

    async def run(self) -> Seen:
        try:
            async with asyncio.timeout(TOTAL_S):
                await self._steps()
        except TimeoutError:
            raise CannotTell(f"not done after {TOTAL_S:.0f} s") from None
        finally:
            for session in self._own:
                try:
                    await self._delete(session)
                except CannotTell:
                    self._say("a session of the check could not be ended")
        return self.seen

    async def _steps(self) -> None:
        session = await self._initialize()
        self._see(has_session=session.id is not None, is_epoch_stated=session.epoch.is_captured)
        tool = await self._choose(session)
        cursor = await self._break(session, tool) if tool else None
        if cursor is not None:
            await self._resume(session, cursor)
            unknown = f"{uuid.uuid4().hex}-unknown"
            self._say("an unknown cursor")
            self._see(unknown_cursor=(await self._get(session, unknown))[0])
        await self._stand_by(session)
        if session.id is None:
            return
        self._say("a second session")
        other = await self._initialize()
        if cursor is not None and other.id is not None:
            reply, lines, _ = await self._get(other, cursor)
            is_foreign = any(self._stamp in line.data for line in lines)
            self._see(foreign_cursor=reply, is_foreign_message=is_foreign)
        for _ in range(PINGS):
            if await self._ping(session) is not Reply.SERVED:
                self._see(pings_lost=self.seen.pings_lost + 1)
        self._say("an unknown session id")
        stranger = replace(session, id=str(uuid.uuid4()))
        self._see(unknown_session=await self._ping(stranger))
        if self.seen.unknown_session is Reply.SERVED:
            self._own.append(stranger)
        self._say("DELETE, then a resume")
        self._see(deleted=await self._delete(session))
        if self.seen.deleted is Reply.SERVED and cursor is not None:
            self._see(after_delete=(await self._get(session, cursor))[0])

    def _see(self, **values: Any) -> None:
        self.seen = replace(self.seen, **values)

    async def _initialize(self) -> _Session:
        self._say("initialize")
        client = {"name": "epochgate-check", "version": "1"}
        params = {"protocolVersion": REVISION, "capabilities": {}, "clientInfo": client}
        request = {"jsonrpc": "2.0", "id": "init", "method": "initialize", "params": params}
        response = await self._wire.ask("POST", _ACCEPT, request)
        if response.status in (401, 403):
            response.close()
            raise CannotTell(f"{response.status}: not authorized; give credentials with --header")
        raw = await self._message(response)
        result = _parsed(raw).get("result")
        if response.status != 200 or not isinstance(result, dict) or "protocolVersion" not in result:
            is_absent = response.status == 404
            hint = "; give the whole URL of the endpoint, which often ends in /mcp" if is_absent else ""
            raise CannotTell(f"not an MCP server: initialize got {response.status} without a result{hint}")
        self._name(result, response)
        stated = stated_in_headers(response.raw_headers, self._header.encode())
        meta = result.get("_meta")
        number = meta.get("session_epoch") if isinstance(meta, dict) else None
        revision = str(result["protocolVersion"])
        epoch = Epoch(stated_in(raw, self._keys), stated)
        session = _Session(response.headers.get("Mcp-Session-Id"), epoch, number, revision)
        if session.id is not None:
            self._own.append(session)
        note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        (await self._wire.ask("POST", session.headers(), note)).close()
        return session

    def _name(self, result: dict[str, Any], response: aiohttp.ClientResponse) -> None:
        self._see(servers=(*self.seen.servers, json.dumps(result.get("serverInfo"), sort_keys=True)))
        meta = result.get("_meta")
        keys = [key for key in meta if "epoch" in key.lower()] if isinstance(meta, dict) else []
        if keys and "session_epoch" not in keys:
            self._keys = (keys[0],)
            self._see(epoch_key=keys[0])
        names = [name.lower() for name in response.headers if "epoch" in name.lower()]
        if names and "mcp-session-epoch" not in names:
            self._header = names[0]
            self._see(epoch_header=names[0])

    async def _choose(self, session: _Session) -> str | None:
        tools = [tool async for tool in self._tools(session)]
        safe = [tool for tool in tools if _is_read_only(tool)]
        name = self._plan.tool
        if name is not None:
            if all(tool.get("name") != name for tool in tools) and not self._plan.allow_tool:
                raise CannotTell(f"{name}: the server lists no such tool; give one that it lists")
            if not self._plan.allow_tool and all(tool.get("name") != name for tool in safe):
                raise CannotTell(f"{name} is not declared read-only; --allow-tool calls it all the same")
            return name
        free = [tool for tool in safe if not (tool.get("inputSchema") or {}).get("required")]
        return str(free[0].get("name")) if free else None

    async def _tools(self, session: _Session) -> AsyncIterator[dict[str, Any]]:
        """The listed tools, of `MAX_PAGES` pages at most."""
        params: dict[str, Any] = {}
        for page in range(1, MAX_PAGES + 1):
            self._say("tools/list" if page == 1 else f"tools/list, page {page}")
            request = {"jsonrpc": "2.0", "id": f"tools-{page}", "method": "tools/list", "params": params}
            answer = _parsed(await self._message(await self._wire.ask("POST", session.headers(), request)))
            result = answer.get("result")
            if not isinstance(result, dict):
                return
            listed = result.get("tools")
            for tool in listed if isinstance(listed, list) else []:
                if isinstance(tool, dict):
                    yield tool
            params = {"cursor": result.get("nextCursor")}
            if not isinstance(params["cursor"], str):
                return

    async def _break(self, session: _Session, tool: str) -> str | None:
        """Call the tool and close the connection after the first event with an id; that id."""
        self._say(f"tools/call {tool}, broken after the first event with an id")
        params = {"name": tool, "arguments": self._plan.arguments or {}}
        params["_meta"] = {"progressToken": self._stamp}
        request = {"jsonrpc": "2.0", "id": self._stamp, "method": "tools/call", "params": params}
        response = await self._wire.ask("POST", session.headers(), request)
        if not is_stream(response):
            response.close()
            self._see(form=Form.JSON)
            return None
        self._see(form=Form.NO_IDS)
        for line in await self._read(response, is_first_only=True):
            if line.id:
                self._see(form=Form.IDS)
                return line.id
        return None

    async def _resume(self, session: _Session, cursor: str) -> None:
        self._say("resume with Last-Event-ID")
        reply, lines, header = await self._get(session, cursor)
        last, events, ids = cursor, [], {cursor}
        for line in lines:
            raw = line.data.encode()
            epoch = compare(session.epoch, stated_in(raw, self._keys), header)
            events.append(Event(_claim(line.data, self._stamp), epoch, _step(last, line.id, ids), line.id))
            last = line.id
            ids.add(last)
        self._see(resume=reply, events=tuple(events))
        if lines:
            number, raw_id = session.number, cursor
            known = SessionEpoch(session.id or "", number) if type(number) is int else None
            seen_id = int(raw_id) if raw_id.isascii() and raw_id.isdecimal() else -1
            first = {"id": lines[0].id, "_meta": _meta_of(_parsed(lines[0].data.encode()))}
            self._see(is_first_trusted=resume_or_restart(known, first, seen_id) == "resume")

    async def _stand_by(self, session: _Session) -> None:
        self._say("a second GET beside the first")
        try:
            first = await self._wire.ask("GET", _get_headers(session))
        except CannotTell:  # some servers send no head before the first event
            self._see(standalone=Reply.UNREACHABLE)
            return
        try:
            self._see(standalone=_reply(first))
            if is_stream(first):
                second = await self._wire.ask("GET", _get_headers(session))
                self._see(second_get=_reply(second))
                second.close()
        except CannotTell:
            self._see(second_get=Reply.UNREACHABLE)
        finally:
            first.close()

    async def _get(self, session: _Session, cursor: str) -> tuple[Reply, list[Line], bytes | None]:
        """What answered a resume, its events, and the epoch that its head states."""
        try:
            response = await self._wire.ask("GET", {**_get_headers(session), "Last-Event-ID": cursor})
        except CannotTell:
            return Reply.UNREACHABLE, [], None
        if not is_stream(response):
            response.close()
            return _reply(response), [], None
        header = stated_in_headers(response.raw_headers, self._header.encode())
        lines = await self._read(response)
        return (Reply.SERVED if lines else Reply.QUIET), lines, header

    async def _ping(self, session: _Session) -> Reply:
        request = {"jsonrpc": "2.0", "id": "ping", "method": "ping"}
        response = await self._wire.ask("POST", session.headers(), request)
        answer = _parsed(await self._message(response))
        is_answered = response.status == 200 and ("result" in answer or "error" in answer)
        return Reply.SERVED if is_answered else _reply(response)

    async def _delete(self, session: _Session) -> Reply:
        response = await self._wire.ask("DELETE", session.headers())
        response.close()
        return Reply.SERVED if 200 <= response.status < 300 else _reply(response)

    async def _message(self, response: aiohttp.ClientResponse) -> bytes:
        if not is_stream(response):
            return await body_of(response)
        lines = await self._read(response)
        return next((line.data.encode() for line in lines if _is_answer(line.data)), b"")

    async def _read(self, response: aiohttp.ClientResponse, is_first_only: bool = False) -> list[Line]:
        """Events up to an answer, `MAX_EVENTS` or `LISTEN_S`, or up to the first with an id."""
        lines: list[Line] = []
        try:
            async with asyncio.timeout(LISTEN_S), aclosing(lines_of(response)) as stream:  # type: ignore[type-var]
                async for line in stream:
                    lines.append(line)
                    is_done = bool(line.id) if is_first_only else _is_answer(line.data)
                    if is_done or len(lines) == MAX_EVENTS:
                        break
        except TimeoutError:
            response.close()
        return lines


def _get_headers(session: _Session) -> dict[str, str]:
    return {**session.headers(), "Accept": "text/event-stream"}


def _reply(response: aiohttp.ClientResponse) -> Reply:
    return Reply.QUIET if is_stream(response) else _BY_STATUS.get(response.status, Reply.OTHER)


def _parsed(raw: bytes) -> dict[str, Any]:
    try:
        message = json.loads(raw)
    except (ValueError, RecursionError):
        return {}
    return message if isinstance(message, dict) else {}


def _is_answer(data: str) -> bool:
    message = _parsed(data.encode())
    return "id" in message and "method" not in message


def _is_read_only(tool: dict[str, Any]) -> bool:
    hints = tool.get("annotations")
    return isinstance(hints, dict) and hints.get("readOnlyHint") is True


def _meta_of(message: dict[str, Any]) -> object:
    for place in ("params", "result"):
        if isinstance(message.get(place), dict):
            return message[place].get("_meta")
    return None


def _claim(data: str, stamp: str) -> Claim:
    message = _parsed(data.encode())
    if "method" in message:
        if "id" in message:
            return Claim.QUESTION
        if message["method"] != "notifications/progress":
            return Claim.PLAIN
        return Claim.PROGRESS if stamp in data else Claim.UNKNOWN_PROGRESS
    if not message:
        return Claim.UNREADABLE
    return Claim.ANSWER if message.get("id") == stamp else Claim.UNKNOWN_ANSWER


def _step(last: str, this: str, ids: set[str]) -> IdStep:
    """Numbers must grow; other ids must only be new. An event without an id shows the last one."""
    if this == last:
        return IdStep.UNJUDGED
    if this in ids:
        return IdStep.RESET
    if all(text.isascii() and text.isdecimal() for text in (last, this)):
        return IdStep.RESET if int(this) < int(last) else IdStep.NEXT
    return IdStep.UNJUDGED
