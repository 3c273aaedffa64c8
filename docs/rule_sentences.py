"""The rules that comments and docstrings cite by number, a sentence for each.

R: what the guard has to do. W: what real clients and servers force. A test compares the numbers with
those that the code cites; some numbers are not in use.
"""

from __future__ import annotations

RULES: dict[str, str] = {
    "R1": (
        "A stream belongs for life to the generation its POST was sent in. A session that the server made "
        "anew by itself (drift) is a new generation under the same id; streams of the old one go on as "
        "they are."
    ),
    "R2": (
        "Another epoch on a connection that never broke is drift only where it stands on a final answer "
        "before which nothing of the stream was relayed."
    ),
    "R3": "That the connection never broke does not excuse another epoch.",
    "R4": (
        "A clean end with an answer owed is a poll only if `retry:` announced it. Of a server without "
        "epochs it is accepted by setting, marked and counted."
    ),
    "R5": (
        "A client is told of a restart before any message of the new run; one that cannot be told gets of "
        "it only questions and the final answer."
    ),
    "R6": (
        "After a break, a message without a stamp must itself state the epoch: a header proves the "
        "session, not the stream."
    ),
    "R7": "An epoch in a header proves one moment; the stream stays a resumed one.",
    "R8": "Epochs are compared as text, within one carrier, and only at the named places of a message.",
    "R9": "After a break nothing is passed on unjudged; and what breaks within an event must not look whole.",
    "R10": (
        "Who gets a priming event: clients that asked for 2025-11-25 or later. It stands behind everything "
        "journalled, so that no event is skipped by it."
    ),
    "R11": "Only a stream that was restarted has a successor; any other is served from its own journal.",
    "R12": "The successor of a request's stream takes its place; that of a standalone stream follows it.",
    "R13": (
        "What expires leaves an error and a tombstone. What a client may not have read of a request's "
        "stream is never evicted: the server is not read on instead."
    ),
    "R14": "405 only for the cursor of a finished stream's last event; any other is replayed.",
    "R15": (
        "A cursor is a block and a position. Blocks start at random, so that a foreign cursor is recognised."
    ),
    "R16": "What must be durable before what is sent.",
    "R17": "A process that no longer owns a session sends, relays and answers nothing of it.",
    "R18": (
        "A heal touches only what has to be restarted. Answers go to the generation that asked; where "
        "nobody can receive one, the stream that asked is restarted."
    ),
    "R19": (
        "Ids of the server's requests are mapped to ids that are free on the client's side. One that is "
        "asked twice while open proves that the session was made anew."
    ),
    "R20": (
        "The last tool annotations known for the client's session decide; where none are, they are asked "
        "for before anything is sent again."
    ),
    "R21": (
        "A verdict has a scope: what is about one stream heals only to send again. A 404 on a call is "
        "healed or shown, as `session_loss` says."
    ),
    "R22": "Silence with an answer owed is probed by a ping, up to a limit.",
    "R23": "Refusals that pass are retried until a deadline; resumes that bring no message are counted.",
    "R24": (
        "Requests wait for a heal's commit, within the heal deadline; answers, cancels and DELETE never wait."
    ),
    "R25": "DELETE wins: from its arrival nothing is healed or sent again, unless the server refuses it.",
    "R26": (
        "A loss names its generation, and an older one joins what followed. Heals have a budget; a "
        "doubtful 404 is checked by a ping; a session that is left behind is ended."
    ),
    "R27": (
        "Out of reach is not lost: the session is parked and the next caller tries again. An incompatible "
        "server is: the client has to negotiate anew."
    ),
    "R28": "What is never sent again, and how often the rest may be.",
    "R29": "A cancel is remembered with its request, which gets at most one answer after it.",
    "R30": "Stamps are looked up within a generation; what fits none is foreign.",
    "R31": (
        "Event ids are compared only on streams where they stepped by exactly one; the same id with the "
        "same data is a duplicate."
    ),
    "R32": (
        "Only callers whose credentials the server accepted in this session may cause a heal or be given a "
        "replay; others are asked about first."
    ),
    "R33": "Two requests with one id in flight are two requests; ids compare with their type.",
    "R34": (
        "A JSON answer is kept until it is whole, up to a size; above, it is passed on, and broken off "
        "where it breaks. On an answer that is a stream already it becomes one event."
    ),
    "R35": "Never a second standalone stream to the server: a newer GET takes the held one over.",
    "R36": (
        "A stamp is random, of the type of what it stands for, and replaced only where it stands as that "
        "member. Requests that cannot carry one are neither resumed nor sent again."
    ),
    "R37": (
        "Notifications are not sent again, but for `roots/list_changed`. An answer whose fate is unknown "
        "makes its stream suspect."
    ),
    "R38": "Progress of a new run is dropped until it exceeds what the client saw.",
    "R39": (
        "After a heal the server's epochs are taken out; with `advertise_epoch` the generation stands in "
        "their place and sending again is left to the client."
    ),
    "R40": (
        "The calls of `replay_tools` are made anew in order and must succeed, but for those whose undo tool "
        "was called since; their arguments stay in memory."
    ),
    "R41": "A batch is judged by its worst member. What is unanswered goes up again as a batch of its own.",
    "R42": (
        "If the server gives out an id by which a healed session is still known, the newcomer gets another."
    ),
    "R44": (
        "A client that gets no priming may have no cursor of a stream that was quiet: while one of its "
        "requests is away, its GET without a cursor does not take the standalone stream over."
    ),
    "R45": (
        "`initialize` goes up unstamped: only its answer says whether there is a session. The client's own "
        "`initialized` is not sent for it."
    ),
    "W1": "Servers tell of the progress of answered requests for a while: stamps are remembered as long.",
    "W2": (
        "Servers close idle connections after some seconds. A POST goes out only on one that was idle for "
        "less, and what fails before a byte was written is told apart."
    ),
    "W3": "Which status a resume gets: some clients lose the session by a wrong one.",
    "W4": (
        "No 5xx within a session: a request gets 200 and a JSON-RPC error, a notification or answer 202. "
        "Outside it, an unreachable server ends the connection without an answer."
    ),
    "W5": (
        'What says that a session is gone: 404 other than "method not found", or 400 or 410 with certain '
        "codes and a message that matches `gone_pattern`."
    ),
    "W6": (
        "Servers send their headers when the tool is done: a client's POST has no limit for them. Peers "
        "that vanish are noticed by the sockets."
    ),
    "W7": (
        "The last answer and the final chunk go out in one write; the server's connection is read to its "
        "end for a second."
    ),
    "W8": "A standalone stream ends with the final chunk; what is broken off cannot be taken for an end.",
    "W9": "A heal's `initialize` asks for the version that was negotiated.",
    "W10": "The order of going away: readiness, a delay, the listener, idle streams, owed answers, exit.",
    "W11": (
        "What the proxy answers in a session can be read by the pages that the server lets read: its own "
        "lines for an Origin are said again, to that Origin. Nothing on the way keeps or gathers event "
        "streams."
    ),
    "W12": (
        "`X-Forwarded-*` is believed from `trusted_proxies` alone. On a loopback listener a foreign Host or "
        "Origin gets 403; elsewhere the lists of allowed ones decide."
    ),
    "W13": "Java's client: comments of one line, no `retry:`.",
    "W14": "`initialize`, `initialized`, arrays and responses are never of a stateless revision.",
    "W15": "Words that look like an epoch within a tool's result mean nothing.",
    "W16": (
        "Cookies that a heal's answer sets replace the client's own; a restart is told by "
        "`notifications/message` only at a level that lets a warning through. Answers that come compressed "
        "all the same are decoded. A replay is refused only to a client whose `Accept` allows no stream. "
        "The log line of a request has its id and the stamps that the server saw."
    ),
}
