"""Settings: three sources, their precedence, and one clear line for everything that is wrong."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from epochgate.core.policy import Policy, PollWithoutEpoch, Reissue
from epochgate.limits import table
from epochgate.loading import BadSettings, load
from epochgate.settings import Settings, setting_name
from epochgate.units import (
    Address,
    Place,
    UnixPath,
    read_address,
    read_duration,
    read_places,
    read_size,
    write_duration,
    write_size,
    written,
)

URL = "http://127.0.0.1:8000"


def _load(flags: dict[str, str] | None = None, environ: dict[str, str] | None = None) -> Settings:
    return load({"upstream": URL, **(flags or {})}, environ or {})


def _complaint(flags: dict[str, str] | None = None, environ: dict[str, str] | None = None) -> str:
    with pytest.raises(BadSettings) as caught:
        _load(flags, environ)
    line = str(caught.value)
    assert "\n" not in line
    return line


def _file(folder: Path, text: str) -> str:
    path = folder / "epochgate.yaml"
    path.write_text(text)
    return str(path)


def test_the_defaults_are_those_of_the_policy() -> None:
    assert _load().policy() == Policy()


def test_every_number_and_choice_of_the_policy_is_a_setting() -> None:
    own = {setting_name(field.name) for field in fields(Policy)} - {"undo_tools"}  # part of replay_tools
    assert own <= Settings.model_fields.keys()


def test_a_replayed_tool_may_name_its_undo() -> None:
    """R40."""
    policy = _load({"replay_tools": "login, open:close"}).policy()

    assert policy.replay_tools == ("login", "open")
    assert policy.undo_tools == (("close", "open"),)


def test_a_flag_wins_over_a_variable_and_a_variable_over_the_file(tmp_path: Path) -> None:
    path = _file(tmp_path, "hold: 1m\nretain: 2m\nping: 3s\n")
    settings = _load({"config": path, "hold": "3m"}, {"EPOCHGATE_HOLD": "2m", "EPOCHGATE_RETAIN": "4m"})
    assert (settings.hold, settings.retain, settings.ping) == (180, 240, 3)


def test_the_file_may_be_named_by_a_variable(tmp_path: Path) -> None:
    assert _load({}, {"EPOCHGATE_CONFIG": _file(tmp_path, "hold: 7")}).hold == 7


def test_an_empty_variable_is_as_if_unset() -> None:
    assert _load({}, {"EPOCHGATE_HOLD": ""}).hold == 300


def test_lists_are_words_with_commas_or_lists_of_yaml(tmp_path: Path) -> None:
    from_file = _load({"config": _file(tmp_path, "safe_tools: [a, b]\nreplay_tools: login, open\n")})
    assert from_file.safe_tools == {"a", "b"}
    assert from_file.replay_tools == ("login", "open")
    assert _load({}, {"EPOCHGATE_SAFE_TOOLS": "a, b"}).policy().safe_tools == {"a", "b"}


def test_yaml_s_bare_on_and_off_mean_what_they_say(tmp_path: Path) -> None:
    settings = _load({"config": _file(tmp_path, "stamp: off\nadmin: off\naccess_log: off\n")})
    assert (settings.stamp.value, settings.admin, settings.access_log.value) == ("off", (), "off")


def test_without_stamps_nothing_is_re_issued_and_no_poll_is_believed() -> None:
    policy = _load({"stamp": "off", "reissue": "always"}).policy()
    assert (policy.reissue, policy.poll_without_epoch) == (Reissue.NEVER, PollWithoutEpoch.RESTART)


def test_variables_that_kubernetes_makes_for_a_service_are_left_alone() -> None:
    made = {"EPOCHGATE_PORT": "tcp://10.0.0.1:80", "EPOCHGATE_SERVICE_HOST": "10.0.0.1"}
    assert _load({}, {**made, "EPOCHGATE_PORT_8808_TCP_ADDR": "10.0.0.1"}) == _load()


@pytest.mark.parametrize(
    ("flags", "line"),
    [
        ({"hold": "abc"}, "--hold 'abc': not a duration; give seconds (300), or 500ms, 300s, 5m, 1h"),
        ({"max_body": "9XiB"}, "--max-body '9XiB': not a size; give bytes (65536), or 64KiB, 16MiB, 1GiB"),
        ({"session_loss": "x"}, "--session-loss 'x': give 'auto', 'heal' or 'surface'"),
        ({"max_sessions": "1.5"}, "--max-sessions '1.5': give a whole number"),
        ({"max_sessions": "0"}, "--max-sessions '0': too small; give at least 1"),
        ({"reissue_when_away": "maybe"}, "--reissue-when-away 'maybe': give true or false"),
        (
            {"listen": "8808"},
            "--listen '8808': not HOST:PORT; give for example 127.0.0.1:8808, [::1]:8808, :8808 or "
            "unix:/run/epochgate.sock",
        ),
        ({"state": "redis://x"}, "--state 'redis://x': this store is not available yet; give memory"),
        ({"state": "disk"}, "--state 'disk': not a store; give memory"),
        (
            {"tls_key": "own.key"},
            "tls_key: without effect; give tls_certificate as well, or leave it out",
        ),
        (
            {"upstream_ca": "own.ca"},
            "upstream_ca: without effect; give an https upstream as well, or leave it out",
        ),
        (
            {"upstream": "localhost:8000"},
            "--upstream 'localhost:8000': not an http or https URL; "
            "give the server's URL, for example http://127.0.0.1:8000",
        ),
        (
            {"upstream": "http://a..b"},
            "--upstream 'http://a..b': not an http or https URL; "
            "give the server's URL, for example http://127.0.0.1:8000",
        ),
        (
            {"upstream": "https://127.0.0.1", "upstream_server_name": ".mcp.example.com"},
            "--upstream-server-name '.mcp.example.com': not a name; give for example mcp.example.com",
        ),
        ({"host": "a b"}, "--host 'a b': not a Host; give upstream, keep, or a name such as mcp.example.com"),
        (
            {"trusted_proxies": "ten"},
            "--trusted-proxies 'ten': not a list of networks; give for example 10.0.0.0/8, ::1, unix",
        ),
        (
            {"admin": "0.0.0.0:9"},
            "admin: 0.0.0.0:9 can be reached from outside; give a loopback address, off, or admin_token_file "
            "(health serves probes and metrics elsewhere)",
        ),
        ({"journal_stream": "1GiB"}, "journal_stream: larger than journal_session; give at most 64 MiB"),
        ({"ready_grace": "10s"}, "heal_deadline: larger than ready_grace; give at most 10 s"),
        ({"drain_delay": "1h"}, "drain_delay: larger than drain; give at most 25 s"),
    ],
)
def test_a_bad_value_is_one_line_with_what_would_be_right(flags: dict[str, str], line: str) -> None:
    assert _complaint(flags) == line


@pytest.mark.parametrize("name", ["credential_headers", "epoch_keys", "allowed_hosts", "gone_pattern"])
def test_bytes_that_are_no_text_are_told_as_any_bad_value(name: str) -> None:
    """So the system hands over what is no UTF-8; YAML may spell it out."""
    with pytest.raises(BadSettings, match=r"not UTF-8; give [^\n]+$"):
        _load({name: "a, \udcff"})


def test_a_credential_header_is_a_header_name() -> None:
    with pytest.raises(BadSettings, match=r"^--credential-headers .*: not a header name; give [^\n]+$"):
        _load({"credential_headers": "X-Api-Key, schlüssel"})


def test_a_mistyped_variable_names_the_nearest_right_one() -> None:
    line = "EPOCHGATE_HOLDS: no such setting; did you mean EPOCHGATE_HOLD?"
    assert _complaint({}, {"EPOCHGATE_HOLDS": "3"}) == line


def test_a_bad_variable_is_named_as_it_was_given() -> None:
    assert _complaint({}, {"EPOCHGATE_PING": "x"}).startswith("EPOCHGATE_PING 'x': not a duration")


def test_without_a_server_there_is_nothing_to_serve() -> None:
    with pytest.raises(BadSettings, match=r"upstream: not given; give --upstream http://127\.0\.0\.1:8000"):
        load({}, {})


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("hodl: 3", "hodl: no such setting; did you mean hold?"),
        ("port: 80", "port: no such setting; did you mean listen?"),
        ("zzzz: 3", "zzzz: no such setting; `epochgate run --help` lists them"),
        (f"? {'z' * 900}\n: 3", f"{'z' * 60}: no such setting; `epochgate run --help` lists them"),
        ("- hold", "not a mapping; give lines of the form `setting: value`"),
        ("just words", "not a mapping; give lines of the form `setting: value`"),
        ("3: 4", "not a mapping; give lines of the form `setting: value`"),
        ("hold: [", "not YAML: expected the node content, but found '<stream end>' in line 1"),
        ("[" * 5000, "nested too deeply; give lines of the form `setting: value`"),
        ("hold: [1]", "hold '[1]': not a duration; give seconds (300), or 500ms, 300s, 5m, 1h"),
        ("safe_tools: 5", "safe_tools '5': not a list; give words with commas between them"),
    ],
)
def test_a_bad_file_is_one_line_that_names_it(tmp_path: Path, text: str, says: str) -> None:
    path = _file(tmp_path, text)
    assert _complaint({"config": path}) == f"{path}: {says}"


def test_bytes_that_are_no_text_are_one_line() -> None:
    said = _complaint({"upstream": "http://127.0.0.1:8000", "admin": "ä\udcd9:8808"})
    assert said.startswith("--admin 'ä\\udcd9:8808': not HOST:PORT; give for example 127.0.0.1:8808")


def test_a_file_that_is_not_there_or_not_text_is_one_line(tmp_path: Path) -> None:
    missing = str(tmp_path / "none.yaml")
    assert _complaint({"config": missing}) == f"config: {missing}: no such file; give the path of a YAML file"
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"\xff\xfe\x00\x80")
    assert _complaint({"config": str(binary)}).startswith(f"{binary}: not ")


def test_an_empty_file_changes_nothing(tmp_path: Path) -> None:
    path = _file(tmp_path, "# nothing yet\n")
    assert _load({"config": path}) == _load().model_copy(update={"config": path})


def test_the_effective_settings_load_again_as_a_file(tmp_path: Path) -> None:
    import yaml  # type: ignore[import-untyped]  # it ships no types

    settings = _load({"hold": "5m", "safe_tools": "a,b", "health": "[::]:9000", "stamp": "ints_31"})
    path = _file(tmp_path, yaml.safe_dump(settings.effective()))
    again = load({"config": path}, {})
    assert again.effective() == settings.effective()


def test_every_limit_says_what_it_limits_why_in_which_unit_and_what_happens_at_it() -> None:
    for limit in table():
        assert limit.what, limit.name
        assert limit.why, limit.name
        assert limit.at_limit, limit.name
        assert limit.unit in ("seconds", "bytes", "count"), limit.name


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("300", 300),
        (300, 300),
        (0.5, 0.5),
        ("500ms", 0.5),
        ("5m", 300),
        ("1 h", 3600),
        ("1.5s", 1.5),
        ("1d", 86400),
        (0.00001, 0.00001),
        (1e17, 1e17),
    ],
)
def test_durations(text: object, seconds: float) -> None:
    assert read_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "5 parsecs", "-1", "1e3", True, None, [1], "nan", "9" * 400])
def test_what_is_no_duration(text: object) -> None:
    with pytest.raises(ValueError, match="not a duration"):
        read_duration(text)


@pytest.mark.parametrize(
    ("text", "size"), [("16MiB", 16 << 20), ("64 kib", 65536), (5, 5), ("10MB", 10_000_000), ("1.5KiB", 1536)]
)
def test_sizes(text: object, size: int) -> None:
    assert read_size(text) == size


@pytest.mark.parametrize("text", ["1.5", "5m", True, "", "-3"])
def test_what_is_no_size(text: object) -> None:
    with pytest.raises(ValueError, match="not a size"):
        read_size(text)


def test_numbers_are_written_as_people_write_them() -> None:
    assert [write_duration(value) for value in (0, 0.5, 45, 90, 300, 3600)] == [
        "0 s", "500 ms", "45 s", "90 s", "5 min", "1 h",
    ]  # fmt: skip
    assert [write_size(value) for value in (0, 1000, 65536, 16 << 20)] == [
        "0 B",
        "1000 B",
        "64 KiB",
        "16 MiB",
    ]


@pytest.mark.parametrize(
    ("text", "address", "is_loopback"),
    [
        ("127.0.0.1:8808", Address("127.0.0.1", 8808), True),
        ("[::1]:0", Address("::1", 0), True),
        ("localhost:1", Address("localhost", 1), True),
        (":8808", Address("0.0.0.0", 8808), False),
        ("mcp.example:80", Address("mcp.example", 80), False),
    ],
)
def test_addresses(text: str, address: Address, is_loopback: bool) -> None:
    assert read_address(text) == address
    assert address.is_loopback is is_loopback
    assert read_address(str(address)) == address


@pytest.mark.parametrize(
    "text", ["127.0.0.1", "::1:80", "h:-1", "h:", "http://h:80", "[::1:80", "h:８", "a..b:80"]
)
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(ValueError, match="not HOST:PORT"):
        read_address(text)


@pytest.mark.parametrize(
    ("value", "places"),
    [
        ("127.0.0.1:1, [::1]:2", (Address("127.0.0.1", 1), Address("::1", 2))),
        (["127.0.0.1:1", "unix:/run/e.sock"], (Address("127.0.0.1", 1), UnixPath("/run/e.sock"))),
        ("unix:/run/e.sock", (UnixPath("/run/e.sock"),)),
        (Address("::", 3), (Address("::", 3),)),
    ],
)
def test_a_listener_has_one_or_more_addresses(value: object, places: tuple[Place, ...]) -> None:
    assert read_places(value) == places
    assert read_places(written(places)) == places


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("127.0.0.1:1,127.0.0.1:1", "an address stands twice"),
        ("unix:e.sock", "not a path for a Unix socket"),
        (f"unix:/{'e' * 107}", "not a path for a Unix socket"),
        ("127.0.0.1:1,", "not HOST:PORT"),
        ([], "not HOST:PORT"),
    ],
)
def test_what_is_no_address_of_a_listener_is_told(value: object, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        read_places(value)


def test_a_token_lets_the_admin_listener_be_reached_from_outside(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("s3cret\n")
    outside = {"admin": "0.0.0.0:8809"}
    assert _load({**outside, "admin_token_file": str(file)}).secret("admin_token") == "s3cret"
    assert _load(outside, {"EPOCHGATE_ADMIN_TOKEN": "s3cret"}).secret("admin_token") == "s3cret"
    assert _load(outside, {"EPOCHGATE_ADMIN_TOKEN": "s3cret"}).effective()["admin_token"] == "**********"


@pytest.mark.parametrize("token", [" ", "two words", "line\rline", "nu\0l", "t\udcffk"])
def test_what_no_caller_could_show_is_no_token_and_is_not_shown(token: str) -> None:
    right = "give printable characters without blanks between them"
    assert _complaint({}, {"EPOCHGATE_ADMIN_TOKEN": token}) == f"admin_token: not a token; {right}"


def test_blanks_around_a_token_are_none_of_it() -> None:
    assert _load({}, {"EPOCHGATE_ADMIN_TOKEN": "s3cret\n"}).secret("admin_token") == "s3cret"


def test_null_is_as_if_unset(tmp_path: Path) -> None:
    settings = _load({"config": _file(tmp_path, "upstream_server_name: null\nadmin_token: null\n")})
    assert (settings.upstream_server_name, settings.admin_token) == (None, None)


def test_a_path_that_breaks_the_line_is_told_in_one(tmp_path: Path) -> None:
    said = _complaint({"admin_token_file": f"{tmp_path}/a\nb\x1b"})
    assert said.startswith(f"admin_token_file: {tmp_path}/a?b?: No such file or directory; give ")


def test_a_variable_wins_over_the_file_of_a_secret_which_is_then_not_followed(tmp_path: Path) -> None:
    file = tmp_path / "passphrase"
    file.write_text("from the file")
    tls = {"tls_certificate": "/c.pem", "tls_key_passphrase_file": str(file)}
    settings = _load(tls)
    assert settings.secret("tls_key_passphrase") == "from the file"
    assert settings.followed == {"tls_key_passphrase"}
    settings = _load(tls, {"EPOCHGATE_TLS_KEY_PASSPHRASE": "from the variable"})
    assert settings.secret("tls_key_passphrase") == "from the variable"
    assert settings.followed == set()


@pytest.mark.parametrize("port", ["80000", "65536", "9" * 5_000])
def test_a_port_that_there_is_not_is_named(port: str) -> None:
    said = _complaint({"listen": f"127.0.0.1:{port}"})
    assert f": port {port[:20]}: there is none above 65535; give for example 127.0.0.1:8808" in said


def test_a_secret_is_never_taken_from_the_file_of_settings(tmp_path: Path) -> None:
    path = _file(tmp_path, "admin_token: s3cret\n")
    said = _complaint({"config": path})
    where = "give it by EPOCHGATE_ADMIN_TOKEN or by the file of admin_token_file"
    assert said == f"{path}: admin_token: a secret; {where}"


@pytest.mark.parametrize(
    ("content", "says"), [(None, "No such file or directory"), (b"\n", "empty"), (b"\xff", "not text")]
)
def test_a_file_without_a_secret_is_one_line(tmp_path: Path, content: bytes | None, says: str) -> None:
    file = tmp_path / "token"
    if content is not None:
        file.write_bytes(content)
    assert _complaint({"admin_token_file": str(file)}).startswith(f"admin_token_file: {file}: {says}; give ")
