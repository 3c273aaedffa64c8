"""The one settings model, behind flags, `EPOCHGATE_*` variables and the YAML file.

Here are the places and the choices; `limits.py` has the numbers. What the core obeys has its default in
`core.policy.Policy` and nowhere else. `forms.py` reads what is written for a value.
"""

from __future__ import annotations

from dataclasses import fields
from enum import Enum
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, SecretStr, model_validator
from pydantic_core import PydanticUndefined
from pydantic_settings import SettingsConfigDict

from epochgate.core.era import STATELESS_REVISIONS
from epochgate.core.policy import Policy, PollWithoutEpoch, Reissue, SessionLoss, Stamps
from epochgate.forms import (
    HeaderName,
    HeaderNames,
    Host,
    Listen,
    Listener,
    Networks,
    Pattern,
    ServerName,
    Store,
    Token,
    UpstreamProxy,
    Urls,
    Words,
    WordSet,
    read_switch,
)
from epochgate.limits import Limits, written
from epochgate.units import Address

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


class UpstreamAddresses(Enum):
    """What the addresses of one name are."""

    EACH = "each"
    ONE = "one"


class UnknownSessions(Enum):
    """What becomes of a request, other than a resume, of a session never seen.

    AUTO: it passes to an only server. Of several the wrong one may know the id, or make a session of any id.
    """

    AUTO = "auto"
    PASS = "pass"
    REFUSE = "refuse"


def _choice(default: Any, description: str) -> Any:
    return Field(default=default, description=description)


class Settings(Limits):
    """Every setting. `loading.load` fills it from the flags, the environment and the file."""

    model_config = SettingsConfigDict(
        env_prefix="EPOCHGATE_", env_ignore_empty=True, enable_decoding=False, extra="forbid", frozen=True
    )

    # where
    upstream: Urls = Field(
        description="URL of the MCP server, without the path of its endpoint: clients ask for that "
        "themselves; several with commas: each session stays with one"
    )
    upstream_addresses: UpstreamAddresses = _choice(
        UpstreamAddresses.EACH,
        "a name in upstream that has several addresses: each is a server of its own (a headless Service), or "
        "one: they are all the same server (a balancer)",
    )
    upstream_proxy: UpstreamProxy = _choice(
        "off",
        "HTTP proxy on the way to upstream, asked for a tunnel: its URL, or environment: what HTTP_PROXY, "
        "HTTPS_PROXY and NO_PROXY say, which are ignored otherwise",
    )
    listen: Listen = _choice(
        (Address("127.0.0.1", 8808),),
        "addresses for MCP traffic: HOST:PORT or unix:/path",
    )
    health: Listener = _choice((), "addresses for probes and metrics, or off; may be reachable from outside")
    admin: Listener = _choice(
        (Address("127.0.0.1", 8809),),
        "loopback addresses for probes, metrics, /sessions and the drain, or off",
    )
    admin_token_file: str | None = _choice(
        None, "file with the token that callers of admin must show; with it admin may be reached from outside"
    )
    admin_token: Token | None = _choice(None, "that token itself; a variable only")
    tls_certificate: str | None = _choice(
        None, "PEM file of the certificate that listen shows, with its chain; clients then use https"
    )
    tls_key: str | None = _choice(
        None, "PEM file of the key of tls_certificate, if it is not in the same file"
    )
    tls_key_passphrase: SecretStr | None = _choice(None, "of an encrypted key; a variable only")
    tls_key_passphrase_file: str | None = _choice(None, "file with the passphrase of an encrypted key")
    tls_client_ca: str | None = _choice(
        None, "PEM file of the authorities; clients must show a certificate of one of them"
    )
    upstream_ca: str | None = _choice(
        None, "PEM file of the authorities believed for an https upstream; none given: the system's"
    )
    upstream_server_name: ServerName | None = _choice(
        None, "name expected on the server's certificate, if not the URL's"
    )
    upstream_certificate: str | None = _choice(
        None, "PEM file of the certificate shown to the server, with its chain"
    )
    upstream_key: str | None = _choice(
        None, "PEM file of the key of upstream_certificate, if it is not in the same file"
    )
    upstream_key_passphrase: SecretStr | None = _choice(None, "of an encrypted key; a variable only")
    upstream_key_passphrase_file: str | None = _choice(None, "file with the passphrase of an encrypted key")
    config: str | None = _choice(None, "YAML file with settings; variables and flags win over it")
    state: Store = _choice("memory", "where sessions are kept: memory")

    # HTTP
    host: Host = _choice(
        "upstream", "Host that the server sees: upstream (its own), keep (the client's), or a name"
    )
    trusted_proxies: Networks = _choice(
        (), "networks whose X-Forwarded-* headers are believed; unix: clients on Unix sockets"
    )
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
        UnknownSessions.AUTO,
        "requests of a session never seen here: pass (several servers are searched for it), refuse, or auto: "
        "pass to an only server; a resume of one is always refused",
    )

    # policy
    reissue: Reissue = _choice(_DEFAULT.reissue, "which requests of unknown outcome are sent again")
    reissue_when_away: bool = _choice(
        _DEFAULT.reissue_when_away, "send them again even while their client is away"
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
        _DEFAULT.session_loss,
        "a 404 on a call: heal, surface (tell the client), or auto: decide by what the session may have held",
    )
    poll_without_epoch: PollWithoutEpoch = _choice(
        _DEFAULT.poll_without_epoch,
        "polls of a server without epochs: accept (announced by a last retry:), primed (also by that of the "
        "first event), restart",
    )
    stamp: Annotated[Stamps, BeforeValidator(read_switch)] = _choice(
        _DEFAULT.stamp,
        "give requests ids of our own upstream; ints_31: for servers with 32-bit ids; off: no re-issue",
    )
    advertise_epoch: bool = _choice(_DEFAULT.advertise_epoch, "state the generation to clients that check it")
    epoch_keys: Words = _choice(_DEFAULT.epoch_keys, "keys of _meta under which the server states its epoch")
    epoch_header: HeaderName = _choice(
        _DEFAULT.epoch_header.decode(), "response header in which the server states its epoch"
    )
    gone_pattern: Pattern = _choice(
        _DEFAULT.gone_pattern, "regular expression that the error message of a lost session matches"
    )

    # logs
    access_log: Annotated[AccessLog, BeforeValidator(read_switch)] = _choice(
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

    @model_validator(mode="after")
    def _keep_tls_whole(self) -> Settings:
        """What would be without effect is a mistake: somebody expects it to protect something."""
        own = {"tls_key": self.tls_key, "tls_client_ca": self.tls_client_ca}
        shown = {"upstream_key": self.upstream_key}
        https = {
            "upstream_ca": self.upstream_ca,
            "upstream_server_name": self.upstream_server_name,
            "upstream_certificate": self.upstream_certificate,
        }
        for needed, is_there, given in (
            ("tls_certificate", self.tls_certificate is not None, own),
            ("upstream_certificate", self.upstream_certificate is not None, shown),
            ("an https upstream", self.has_https, https),
        ):
            idle = [name for name, value in given.items() if value is not None]
            if idle and not is_there:
                raise ValueError(f"{idle[0]}: without effect; give {needed} as well, or leave it out")
        return self

    @property
    def has_https(self) -> bool:
        """Whether a server is connected to by TLS."""
        return any(url.startswith("https:") for url in self.upstream)

    def secret(self, name: str) -> str:
        """A setting of `SECRETS`; empty if none is given."""
        value: SecretStr | None = getattr(self, name)
        return "" if value is None else value.get_secret_value()

    @property
    def followed(self) -> set[str]:
        """Secrets that are read again with the certificates, as they stand in a file that may change."""
        passphrases = ("tls_key_passphrase", "upstream_key_passphrase")
        return {name for name in passphrases if getattr(self, f"{name}_file") is not None}

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
SECRETS = frozenset(("admin_token", "tls_key_passphrase", "upstream_key_passphrase"))
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
