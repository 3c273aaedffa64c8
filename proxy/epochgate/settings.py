"""The one settings model, behind flags, `EPOCHGATE_*` variables and the YAML file.

Here are the places and the choices; `limits.py` has the numbers. What the core obeys has its default in
`core.policy.Policy` and nowhere else. The readers of values stand in one file with the fields that they
read: a setting is one entry, its sentence and its check.
"""

from __future__ import annotations

import re
from dataclasses import fields
from enum import Enum
from ipaddress import ip_network
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field, PlainSerializer, SecretStr, model_validator
from pydantic_core import PydanticUndefined
from pydantic_settings import SettingsConfigDict

from epochgate import units
from epochgate.core.era import STATELESS_REVISIONS
from epochgate.core.policy import Policy, PollWithoutEpoch, Reissue, SessionLoss, Stamps
from epochgate.limits import Limits, written
from epochgate.units import Address, Place, read_places

_DEFAULT = Policy()


class AccessLog(Enum):
    """Which exchanges get a line: every one, those with something to say, or none."""

    ALL = "all"
    NOTABLE = "notable"
    OFF = "off"


class LogFormat(Enum):
    AUTO = "auto"
    JSON = "json"
    CONSOLE = "console"


class LogLevel(Enum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class UnknownSessions(Enum):
    """What becomes of a request, other than a resume, of a session never seen."""

    PASS = "pass"
    REFUSE = "refuse"


def _read_words(value: object) -> object:
    """A list from `a, b` or from a YAML list."""
    if isinstance(value, str):
        value = tuple(word.strip() for word in value.split(",") if word.strip())
    if isinstance(value, tuple | list) and any(_SURROGATE.search(str(word)) for word in value):
        raise ValueError("not UTF-8; give words with commas between them")
    return value


def _read_header_names(value: object) -> object:
    words = _read_words(value)
    return tuple(map(_read_header_name, words)) if isinstance(words, tuple | list) else words


def _read_listeners(value: object) -> tuple[Place, ...]:
    # YAML reads a bare `off` as false.
    if value is None or value is False or value in ("off", ()):
        return ()
    return read_places(value)


def _read_upstream(value: object) -> str:
    wrong = "give the server's URL, for example http://127.0.0.1:8000"
    try:
        url = urlsplit(str(value))
        has_host = bool(url.hostname) and url.port != 0
    except ValueError:
        raise ValueError(f"not a URL; {wrong}") from None
    if url.scheme == "https":
        raise ValueError("https upstreams are not available yet; give an http:// URL")
    if url.scheme != "http" or not has_host or not _PRINTABLE.fullmatch(str(value)):
        raise ValueError(f"not an http URL; {wrong}")
    if url.username is not None or url.query or url.fragment:
        raise ValueError(f"has credentials, a query or a fragment; {wrong}")
    return str(value)


def _read_state(value: object) -> str:
    if value == "memory":
        return "memory"
    if str(value).startswith(("sqlite:", "redis:", "rediss:")):
        raise ValueError("this store is not available yet; give memory")
    raise ValueError("not a store; give memory")


def _read_networks(value: object) -> object:
    words = _read_words(value)
    if not isinstance(words, tuple | list):
        raise ValueError("not a list; give networks, for example 10.0.0.0/8, ::1")
    try:
        return tuple(str(ip_network(word)) for word in words)
    except ValueError:
        raise ValueError("not a list of networks; give for example 10.0.0.0/8, ::1") from None


def _read_switch(value: object) -> object:
    """YAML reads a bare `on` or `off` as a boolean."""
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else value


def _read_host(value: object) -> str:
    if not _HOST.fullmatch(str(value)):
        raise ValueError("not a Host; give upstream, keep, or a name such as mcp.example.com")
    return str(value)


def _read_header_name(value: object) -> str:
    if not _TOKEN.fullmatch(str(value)):
        raise ValueError("not a header name; give for example Mcp-Session-Epoch")
    return str(value)


def _read_pattern(value: object) -> str:
    if _SURROGATE.search(str(value)):
        raise ValueError("not UTF-8; give for example session")
    try:
        return re.compile(str(value)).pattern
    except re.error as error:
        raise ValueError(f"not a regular expression ({error}); give for example session") from None


_SURROGATE = re.compile(r"[\ud800-\udfff]")  # what stands for bytes that are no UTF-8
_PRINTABLE = re.compile(r"[!-~]+", re.ASCII)
_HOST = re.compile(r"[A-Za-z0-9._-]+(:\d{1,5})?|\[[0-9A-Fa-f:.]+\](:\d{1,5})?", re.ASCII)
_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", re.ASCII)
Words = Annotated[tuple[str, ...], BeforeValidator(_read_words)]
WordSet = Annotated[
    frozenset[str], BeforeValidator(_read_words), PlainSerializer(sorted, return_type=list[str])
]
Listen = Annotated[
    tuple[Place, ...], BeforeValidator(read_places), PlainSerializer(units.written, return_type=str)
]
Listener = Annotated[
    tuple[Place, ...], BeforeValidator(_read_listeners), PlainSerializer(units.written, return_type=str)
]
Networks = Annotated[tuple[str, ...], BeforeValidator(_read_networks)]
Url = Annotated[str, BeforeValidator(_read_upstream)]
Store = Annotated[str, BeforeValidator(_read_state)]
Host = Annotated[str, BeforeValidator(_read_host)]
HeaderName = Annotated[str, BeforeValidator(_read_header_name)]
HeaderNames = Annotated[tuple[str, ...], BeforeValidator(_read_header_names)]
Pattern = Annotated[str, BeforeValidator(_read_pattern)]


def _choice(default: Any, description: str) -> Any:
    return Field(default=default, description=description)


class Settings(Limits):
    """Every setting. `loading.load` fills it from the flags, the environment and the file."""

    model_config = SettingsConfigDict(
        env_prefix="EPOCHGATE_", env_ignore_empty=True, enable_decoding=False, extra="forbid", frozen=True
    )

    # where
    upstream: Url = Field(description="URL of the MCP server")
    listen: Listen = _choice(
        (Address("127.0.0.1", 8808),),
        "addresses for MCP traffic: HOST:PORT or unix:/path",
    )
    health: Listener = _choice((), "addresses for probes and metrics, or off; may be reachable from outside")
    admin: Listener = _choice(
        (Address("127.0.0.1", 8809),), "loopback addresses for the same, sessions and the drain, or off"
    )
    admin_token_file: str | None = _choice(
        None, "file with the token that callers of admin must show, so that it may be reached from outside"
    )
    admin_token: SecretStr | None = _choice(None, "that token itself; a variable only")
    config: str | None = _choice(None, "YAML file with settings; variables and flags win over it")
    state: Store = _choice("memory", "where sessions are kept: memory")

    # HTTP
    host: Host = _choice(
        "upstream", "Host that the server sees: upstream (its own), keep (the client's), or a name"
    )
    trusted_proxies: Networks = _choice((), "networks whose X-Forwarded-* headers are believed")
    allowed_hosts: Words = _choice(
        (), "Host names served, or *; none given: loopback names on a loopback address, else any"
    )
    allowed_origins: Words = _choice(
        (), "Origins served, or *; none given: loopback ones on a loopback address, else any"
    )
    credential_headers: HeaderNames = _choice(
        ("X-Api-Key", "Api-Key"),
        "headers that tell callers apart, besides Authorization, Cookie and the query",
    )
    stateless_revisions: WordSet = _choice(
        frozenset(revision.decode() for revision in STATELESS_REVISIONS),
        "protocol revisions without sessions, which pass untouched",
    )
    unknown_sessions: UnknownSessions = _choice(
        UnknownSessions.PASS, "requests of a session never seen; a resume of one is always refused"
    )

    # policy
    reissue: Reissue = _choice(_DEFAULT.reissue, "which requests of unknown outcome are sent again")
    reissue_when_away: bool = _choice(
        _DEFAULT.reissue_when_away, "send them again before their client is back"
    )
    never_reissue: WordSet = _choice(
        _DEFAULT.never_reissue, "tools never sent again after an unknown outcome"
    )
    safe_tools: WordSet = _choice(_DEFAULT.safe_tools, "tools that may always be sent again")
    stateless_tools: WordSet = _choice(_DEFAULT.stateless_tools, "tools that leave nothing in the session")
    replay_tools: Words = _choice(
        _DEFAULT.replay_tools, "tools whose last calls rebuild a session; open:close: close undoes open"
    )
    session_loss: SessionLoss = _choice(
        _DEFAULT.session_loss, "a 404 on a call: heal, tell the client, or decide"
    )
    poll_without_epoch: PollWithoutEpoch = _choice(
        _DEFAULT.poll_without_epoch,
        "polls of a server without epochs: accept (announced by a last retry:), primed (also by that of the "
        "first event), restart",
    )
    stamp: Annotated[Stamps, BeforeValidator(_read_switch)] = _choice(
        _DEFAULT.stamp, "own ids upstream; ints_31 for servers with 32-bit ids; off: no re-issue"
    )
    advertise_epoch: bool = _choice(_DEFAULT.advertise_epoch, "state the generation to clients that check it")
    epoch_keys: Words = _choice(_DEFAULT.epoch_keys, "keys of _meta under which a server states its epoch")
    epoch_header: HeaderName = _choice(
        _DEFAULT.epoch_header.decode(), "response header in which a server states its epoch"
    )
    gone_pattern: Pattern = _choice(_DEFAULT.gone_pattern, "what the error message of a lost session matches")

    # logs
    access_log: Annotated[AccessLog, BeforeValidator(_read_switch)] = _choice(
        AccessLog.NOTABLE, "exchanges with a line: all, notable (not 2xx, judged, healed, sent again), off"
    )
    log_format: LogFormat = _choice(LogFormat.AUTO, "auto is console on a terminal and json elsewhere")
    log_level: LogLevel = _choice(LogLevel.INFO, "the least level that is written")

    @model_validator(mode="after")
    def _keep_admin_inside(self) -> Settings:
        """Without a token nothing protects the admin listener from callers outside."""
        outside = [str(place) for place in self.admin if not place.is_loopback]
        if outside and self.admin_token is None:
            raise ValueError(
                f"admin: {outside[0]} can be reached from outside; give a loopback address, off, or "
                "admin_token_file (health serves probes and metrics elsewhere)"
            )
        return self

    def admin_secret(self) -> str:
        """The token that callers of the admin listener must show; empty if none."""
        return "" if self.admin_token is None else self.admin_token.get_secret_value()

    def effective(self) -> dict[str, Any]:
        """Every setting as the YAML file would hold it, the places and choices before the limits."""
        values = self.model_dump(mode="json", exclude={"config"})
        return dict(sorted(values.items(), key=lambda item: item[0] in Limits.model_fields))

    def policy(self) -> Policy:
        """What the core obeys. `stamp: off` implies `reissue: never` and no epoch-less poll (R36)."""
        own = [field.name for field in fields(Policy) if field.name != "undo_tools"]
        values = {name: getattr(self, setting_name(name)) for name in own}
        replayed = [entry.partition(":") for entry in self.replay_tools]
        values["replay_tools"] = tuple(tool for tool, _, _ in replayed)
        values["undo_tools"] = tuple((undo, tool) for tool, _, undo in replayed if undo)
        values["epoch_header"] = self.epoch_header.lower().encode()
        values["credential_headers"] = tuple(name.lower().encode() for name in self.credential_headers)
        if self.stamp is Stamps.OFF:
            values |= {"reissue": Reissue.NEVER, "poll_without_epoch": PollWithoutEpoch.RESTART}
        return Policy(**values)


# Given by a variable or by the file that `NAME_file` names, never on a command line that others can read.
SECRETS = frozenset(("admin_token",))
_KEEP_BYTES = ("max_event_bytes", "max_reissue_bytes")


def shown_default(name: str) -> str:
    """The default of a setting as people write it; empty if there is none."""
    default = Settings.model_fields[name].get_default()
    if default is PydanticUndefined:
        return ""
    if name in Limits.model_fields:
        return written(name, default)
    match default:
        case None:
            return ""
        case bool():
            return "true" if default else "false"
        case Enum():
            return str(default.value)
        case () if name in ("health", "admin"):
            return "off"
        case tuple() | frozenset():
            return ", ".join(map(str, default))
        case _:
            return str(default)


def setting_name(policy_field: str) -> str:
    """The setting behind a field of `Policy`: its name without the unit."""
    if policy_field in _KEEP_BYTES:
        return policy_field
    return policy_field.removesuffix("_s").removesuffix("_bytes")


_KEPT = ("stamp", "epoch_keys", "epoch_header", "credential_headers", "advertise_epoch")
# A reload takes these, in the sessions that there are as well; what is known of those rests on the others.
RELOADED = frozenset(
    {setting_name(field.name) for field in fields(Policy) if field.name != "undo_tools"}
    - {*_KEPT, "journal_stream", "journal_session"}
    | {"access_log", "unknown_sessions", "drain", "drain_delay"}
)
