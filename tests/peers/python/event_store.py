"""An event store with integer ids, contiguous in each stream."""

from __future__ import annotations

from mcp.server.streamable_http import EventMessage, EventStore


class IntegerEventStore(EventStore):
    """Keeps every event. An id is the stream's number · 1,000,000 + position: ids step by one in a stream."""

    def __init__(self) -> None:
        self._streams: dict[str, list[object]] = {}
        self._names: list[str] = []

    async def store_event(self, stream_id: str, message: object) -> str:
        if stream_id not in self._streams:
            self._streams[stream_id] = []
            self._names.append(stream_id)
        events = self._streams[stream_id]
        events.append(message)
        return str((self._names.index(stream_id) + 1) * 1_000_000 + len(events))

    async def replay_events_after(self, last_event_id: str, send_callback: object) -> str | None:
        stream, position = divmod(int(last_event_id), 1_000_000)
        if not 1 <= stream <= len(self._names):
            return None
        name = self._names[stream - 1]
        for number, message in enumerate(list(self._streams[name])[position:], position + 1):
            if message is not None:
                await send_callback(EventMessage(message, str(stream * 1_000_000 + number)))
        return name
