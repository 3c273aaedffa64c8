"""What the conformance suite records differently through the proxy, and why.

A line after `-` was recorded directly, one after `+` through the proxy. Everything else is the same.
"""

from __future__ import annotations

# A foreign Host: the proxy, which listens on loopback, refuses it itself, with 403 and no body.
REFUSED_BY_THE_PROXY = {
    "python": """
-   details.statusCode = 421
+   details.statusCode = 403
""",
    "typescript": """
-   details.body.error.code = -32000
-   details.body.error.message = "Invalid Host header: evil.example.com"
-   details.body.jsonrpc = "2.0"
""",
}

# R10: a stream is primed if the client's `initialize` asked for 2025-11-25 or later. Release 0.1.16 does, and
# then says 2025-03-26 in the header of its calls, at which these servers do not prime. So the first event of
# each stream is the priming one, and a warning of the suite becomes a success.
PRIMED_STREAMS = """
-   details.results.0.event.data = …
-   details.results.0.event.event = "message"
+   details.results.0.event.data = ""
-   details.results.1.event.data = …
-   details.results.1.event.event = "message"
+   details.results.1.event.data = ""
-   details.results.2.event.data = …
-   details.results.2.event.event = "message"
+   details.results.2.event.data = ""
"""
# `Connection` belongs to one connection, and persistence is HTTP/1.1's default.
PRIMED_CALL = """
-   details.headers.connection = "keep-alive"
-   description = "Received SSE event (id: <event 1>)"
+   description = "Received SSE priming event (id: <event 1>)"
+   details.data = ""
+   details.eventId = "<event 1>"
+   details.eventType = "message"
+   details.isPriming = true
+ INFO incoming-sse-event
+   name = "IncomingSseEvent"
+   description = "Received SSE event (id: <event 2>)"
-   details.eventId = "<event 1>"
+   details.eventId = "<event 2>"
-   details.eventId = "<event 1>"
+   details.eventId = "<event 2>"
-   description = "POST SSE stream closed after 1 event(s)"
-   details.eventCount = 1
-   details.lastEventId = "<event 1>"
+   description = "POST SSE stream closed after 2 event(s)"
+   details.eventCount = 2
+   details.lastEventId = "<event 2>"
- WARNING server-sse-priming-event
+ SUCCESS server-sse-priming-event
-   error = …
-   details.eventCount = 1
+   details.eventCount = 2
-   details.hasPrimingEvent = false
-   details.lastEventId = "<event 1>"
-   details.primingEventIsFirst = false
+   details.hasPrimingEvent = true
+   details.lastEventId = "<event 2>"
+   details.primingEventIsFirst = true
"""

# R4: where a server closes a stream and said before when to come back, the proxy comes back itself and the
# client's stream stays open. Without an epoch nothing proves such an answer, which it says.
POLLED_BY_THE_PROXY = {
    "python": """
-   details.headers.connection = "keep-alive"
+ INFO incoming-sse-event
+   name = "IncomingSseEvent"
+   description = "Received SSE event (id: <event 2>)"
+   details.data = …
+   details.eventId = "<event 2>"
+   details.eventType = "message"
+   details.isPriming = false
+ INFO incoming-sse-event
+   name = "IncomingSseEvent"
+   description = "Received tool response on POST stream"
+   details.body.id = 1
+   details.body.jsonrpc = "2.0"
+   details.body.result._meta.dev.epochgate/unproven = true
+   details.body.result.content.0.text = "reconnected"
+   details.body.result.content.0.type = "text"
+   details.body.result.isError = false
+   details.eventId = "<event 2>"
-   description = "POST SSE stream closed after 1 event(s)"
-   details.eventCount = 1
-   details.lastEventId = "<event 1>"
-   details.receivedToolResponse = false
+   description = "POST SSE stream closed after 2 event(s)"
+   details.eventCount = 2
+   details.lastEventId = "<event 2>"
+   details.receivedToolResponse = true
-   details.eventCount = 1
+   details.eventCount = 2
-   details.lastEventId = "<event 1>"
+   details.lastEventId = "<event 2>"
- INFO outgoing-request
-   name = "OutgoingRequest"
-   description = "Sending GET request"
-   details.headers.Accept = "text/event-stream"
-   details.headers.last-event-id = "<event 1>"
-   details.headers.mcp-protocol-version = "2025-11-25"
-   details.headers.mcp-session-id = "<session 1>"
-   details.method = "GET"
-   details.url = "http://<address>/mcp"
- INFO incoming-response
-   name = "IncomingResponse"
-   description = "Received 200 response for GET"
-   details.headers.cache-control = "no-cache, no-transform"
-   details.headers.connection = "keep-alive"
-   details.headers.content-type = "text/event-stream"
-   details.headers.date = "<date>"
-   details.headers.mcp-session-id = "<session 1>"
-   details.headers.server = "uvicorn"
-   details.headers.transfer-encoding = "chunked"
-   details.headers.x-accel-buffering = "no"
-   details.statusCode = 200
- INFO incoming-sse-event
-   name = "IncomingSseEvent"
-   description = "Received SSE event on GET reconnection stream (id: <event 2>)"
-   details.data = ""
-   details.eventId = "<event 2>"
-   details.eventType = "message"
- INFO incoming-sse-event
-   name = "IncomingSseEvent"
-   description = "Received SSE event on GET reconnection stream (id: <event 3>)"
-   details.data = …
-   details.eventId = "<event 3>"
-   details.eventType = "message"
- SUCCESS server-sse-disconnect-resume
+ INFO server-sse-disconnect-resume
-   description = …client reconnects with Last-Event-ID…
-   details.lastEventIdUsed = "<event 1>"
-   details.message = "Successfully received tool response after reconnection"
+   description = "Server closes SSE stream mid-call and resumes after reconnection"
+   details.message = …
""",
    "typescript": """
-   details.headers.connection = "keep-alive"
+ INFO incoming-sse-event
+   name = "IncomingSseEvent"
+   description = "Received SSE event (id: <event 2>)"
+   details.data = …
+   details.eventId = "<event 2>"
+   details.eventType = "message"
+   details.isPriming = false
+ INFO incoming-sse-event
+   name = "IncomingSseEvent"
+   description = "Received tool response on POST stream"
+   details.body.id = 1
+   details.body.jsonrpc = "2.0"
+   details.body.result._meta.dev.epochgate/unproven = true
+   details.body.result.content.0.text = "reconnected"
+   details.body.result.content.0.type = "text"
+   details.eventId = "<event 2>"
-   description = "POST SSE stream closed after 1 event(s)"
-   details.eventCount = 1
-   details.lastEventId = "<event 1>"
-   details.receivedToolResponse = false
+   description = "POST SSE stream closed after 2 event(s)"
+   details.eventCount = 2
+   details.lastEventId = "<event 2>"
+   details.receivedToolResponse = true
-   details.eventCount = 1
+   details.eventCount = 2
-   details.lastEventId = "<event 1>"
+   details.lastEventId = "<event 2>"
- INFO outgoing-request
-   name = "OutgoingRequest"
-   description = "Sending GET request"
-   details.headers.Accept = "text/event-stream"
-   details.headers.last-event-id = "<event 1>"
-   details.headers.mcp-protocol-version = "2025-11-25"
-   details.headers.mcp-session-id = "<session 1>"
-   details.method = "GET"
-   details.url = "http://<address>/mcp"
- INFO incoming-response
-   name = "IncomingResponse"
-   description = "Received 200 response for GET"
-   details.headers.cache-control = "no-cache, no-transform"
-   details.headers.connection = "keep-alive"
-   details.headers.content-type = "text/event-stream"
-   details.headers.date = "<date>"
-   details.headers.mcp-session-id = "<session 1>"
-   details.headers.transfer-encoding = "chunked"
-   details.headers.x-accel-buffering = "no"
-   details.statusCode = 200
- INFO incoming-sse-event
-   name = "IncomingSseEvent"
-   description = "Received SSE event on GET reconnection stream (id: <event 2>)"
-   details.data = …
-   details.eventId = "<event 2>"
-   details.eventType = "message"
- SUCCESS server-sse-disconnect-resume
+ INFO server-sse-disconnect-resume
-   description = …client reconnects with Last-Event-ID…
-   details.lastEventIdUsed = "<event 1>"
-   details.message = "Successfully received tool response after reconnection"
+   description = "Server closes SSE stream mid-call and resumes after reconnection"
+   details.message = …
""",
}

# R36: the server sees a stamp in place of the id of each guarded request, and what holds it is longer. Where
# there is no session (`initialize`, `tools_call`, all since 2026-07-28) ids go up as they are.
STAMPED = """
-   details.body.id = 2
+   details.body.id = "<stamp 2>"
-   details.body.id = 1
+   details.body.id = "<stamp 1>"
-   details.body = …2…
+   details.body = …<stamp 2>…
-   details.body = …1…
+   details.body = …<stamp 1>…
-   details.headers.content-length = 256
+   details.headers.content-length = 269
"""

# The same stamps, and two GETs: first the poll, which the proxy makes itself in the name of the call (R4),
# then the client's own for the standalone stream. Both ask for an event stream alone, not compressed (W16),
# say nothing of a body, and name the client behind the proxy.
POLLING = {
    "python": """
-   details.headers.accept = "application/json, text/event-stream"
-   details.headers.accept-encoding = "gzip, deflate"
-   details.headers.cache-control = "no-store"
-   details.headers.connection = "keep-alive"
-   details.headers.content-type = "application/json"
+   details.headers.accept = "text/event-stream"
+   details.headers.accept-encoding = "identity"
+   details.headers.x-forwarded-for = "127.0.0.1"
+   details.headers.x-forwarded-host = "<address>"
+   details.headers.x-forwarded-proto = "http"
-   details.headers.accept = "application/json, text/event-stream"
-   details.headers.accept-encoding = "gzip, deflate"
+   details.headers.accept = "text/event-stream"
+   details.headers.accept-encoding = "identity"
-   details.headers.connection = "keep-alive"
-   details.headers.content-type = "application/json"
+   details.headers.x-forwarded-for = "127.0.0.1"
+   details.headers.x-forwarded-host = "<address>"
+   details.headers.x-forwarded-proto = "http"
-   details.jsonrpcId = 2
+   details.jsonrpcId = "<stamp 2>"
-   details.jsonrpcId = 1
+   details.jsonrpcId = "<stamp 1>"
-   details.body.id = 1
+   details.body.id = "<stamp 1>"
-   details.jsonrpcId = 1
+   details.jsonrpcId = "<stamp 1>"
-   details.body.id = 2
+   details.body.id = "<stamp 2>"
-   details.jsonrpcId = 2
-   details.raw = …2…
+   details.jsonrpcId = "<stamp 2>"
+   details.raw = …<stamp 2>…
-   details.pendingToolCallId = 2
+   details.pendingToolCallId = "<stamp 2>"
""",
    "typescript": """
-   details.headers.accept-encoding = "gzip, deflate"
+   details.headers.accept-encoding = "identity"
-   details.headers.connection = "keep-alive"
+   details.headers.x-forwarded-for = "127.0.0.1"
+   details.headers.x-forwarded-host = "<address>"
+   details.headers.x-forwarded-proto = "http"
-   details.headers.accept-encoding = "gzip, deflate"
+   details.headers.accept-encoding = "identity"
-   details.headers.connection = "keep-alive"
+   details.headers.x-forwarded-for = "127.0.0.1"
+   details.headers.x-forwarded-host = "<address>"
+   details.headers.x-forwarded-proto = "http"
-   details.jsonrpcId = 2
+   details.jsonrpcId = "<stamp 2>"
-   details.jsonrpcId = 1
+   details.jsonrpcId = "<stamp 1>"
-   details.body.id = 1
+   details.body.id = "<stamp 1>"
-   details.jsonrpcId = 1
+   details.jsonrpcId = "<stamp 1>"
-   details.body.id = 2
+   details.body.id = "<stamp 2>"
-   details.jsonrpcId = 2
-   details.raw = …2…
+   details.jsonrpcId = "<stamp 2>"
+   details.raw = …<stamp 2>…
-   details.pendingToolCallId = 2
+   details.pendingToolCallId = "<stamp 2>"
""",
}
