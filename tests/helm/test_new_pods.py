"""What makes new pods and what does not, and how long they get for going away."""

from __future__ import annotations

from typing import Any

import pytest

from epochgate.settings import RELOADED
from tests.helm.charts import GATEWAY, SIDECAR, Engine, container, one, pod_of, values

# A value that is not the default, of every setting that a running process takes.
RELOADABLE: dict[str, Any] = {
    "access_log": "all",
    "cancel_grace": "6s",
    "drain": "24s",
    "drain_delay": "4s",
    "gone_pattern": "expired",
    "heal_deadline": "44s",
    "hold": "10m",
    "keepalive": "10s",
    "max_event_bytes": "4MiB",
    "max_heals_per_minute": 4,
    "max_json_buffer": "2MiB",
    "max_not_run_reissues": 1,
    "max_reissue_bytes": "2MiB",
    "max_reissues": 2,
    "max_resumes_without_message": 4,
    "max_silence": "2h",
    "max_streams": 64,
    "max_tombstones": 512,
    "never_reissue": ["pay"],
    "ping": "5s",
    "poll_grace": "20s",
    "poll_without_epoch": "restart",
    "reissue": "reads",
    "reissue_when_away": True,
    "replay_tools": ["login"],
    "resume_deadline": "20s",
    "resume_headers": "4s",
    "retain": "2m",
    "safe_tools": ["read"],
    "session_idle": "2h",
    "session_loss": "heal",
    "silence": "50s",
    "stateless_tools": ["read"],
    "takeover_interval": "3s",
    "unknown_sessions": "refuse",
}
# Some of those that need a new process.
FIXED: dict[str, Any] = {
    "advertise_epoch": True,
    "credential_headers": ["X-Key"],
    "journal_total": "512MiB",
    "log_level": "debug",
    "max_body": "32MiB",
    "max_sessions": 20000,
    "stamp": "off",
    "upstream": "http://other:8000",
}


def test_these_are_the_settings_that_a_running_process_takes() -> None:
    assert set(RELOADABLE) == RELOADED


def test_settings_that_a_running_process_takes_make_no_new_pod(helm: Engine) -> None:
    before = helm.render(values(GATEWAY))
    changed = values(GATEWAY)
    changed["settings"] |= RELOADABLE
    after = helm.render(changed)

    assert pod_of(after) == pod_of(before)
    assert one(after, "ConfigMap")["data"] != one(before, "ConfigMap")["data"]


@pytest.mark.parametrize("name", FIXED)
def test_a_setting_that_needs_a_new_process_makes_a_new_pod(name: str, helm: Engine) -> None:
    before = pod_of(helm.render(values(GATEWAY)))
    after = pod_of(helm.render(values(GATEWAY, **{f"settings__{name}": FIXED[name]})))

    assert after["metadata"]["annotations"] != before["metadata"]["annotations"]


def test_a_new_release_of_the_chart_alone_makes_no_new_pod(helm: Engine) -> None:
    """Its version stands in the labels of objects, not in those of pods."""
    objects = helm.render(values(GATEWAY))

    assert one(objects, "Deployment")["metadata"]["labels"]["helm.sh/chart"].startswith("epochgate-")
    assert "helm.sh/chart" not in pod_of(objects)["metadata"]["labels"]


@pytest.mark.parametrize(
    ("drain", "seconds"), [(None, 25), ("30s", 30), (12.2, 13), ("500ms", 1), (0, 1), ("0.5min", 30)]
)
def test_the_server_stays_for_as_long_as_a_drain(drain: Any, seconds: int, helm: Engine) -> None:
    changed = {} if drain is None else {"settings": {"drain": drain, "drain_delay": 0}}
    objects = helm.render(values(SIDECAR, **changed))

    assert container(objects, "server")["lifecycle"] == {"preStop": {"sleep": {"seconds": seconds}}}
    assert container(objects, "epochgate")["lifecycle"] == {
        "preStop": {"exec": {"command": ["epochgate", "drain"]}}
    }
    assert pod_of(objects)["spec"]["terminationGracePeriodSeconds"] == 45


def test_pods_are_replaced_one_by_one_unless_told_otherwise(helm: Engine) -> None:
    usual = one(helm.render(values(SIDECAR)), "Deployment")["spec"]["strategy"]
    told = one(helm.render(values("sidecar-replaced")), "Deployment")["spec"]["strategy"]

    assert usual == {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    assert told == {"type": "Recreate"}


def test_a_servers_own_hooks_are_kept(helm: Engine) -> None:
    finish = {"preStop": {"exec": {"command": ["ledger", "finish"]}}}
    begin = {"postStart": {"exec": {"command": ["ledger", "begin"]}}}

    own = container(helm.render(values(SIDECAR, server__lifecycle=finish)), "server")
    besides = container(helm.render(values(SIDECAR, server__lifecycle=begin)), "server")

    assert own["lifecycle"] == finish
    assert besides["lifecycle"] == {**begin, "preStop": {"sleep": {"seconds": 25}}}


def test_a_gateway_drains_at_sigterm(helm: Engine) -> None:
    """It is no sidecar: nobody else in the pod has to go first."""
    gate = container(helm.render(values(GATEWAY)), "epochgate")

    assert "lifecycle" not in gate
    assert "restartPolicy" not in gate


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (SIDECAR, "A rollout replaces the pod, and its memory dies with it: owed answers get 25 s to come"),
        (SIDECAR, "later requests of its sessions get 404, and clients have to initialize anew."),
        (GATEWAY, "A rollout replaces the pod, and its memory dies with it"),
        (GATEWAY, "later requests of its sessions pass to the server unguarded"),
        ("sidecar-many-by-ingress", "its sessions end with it, since they are on its emptyDir"),
        ("sidecar-many-by-ingress", "Each of the 2 pods has sessions of its own"),
        ("gateway-many", "Sessions are in the store and go on"),
        ("sidecar-everything", "Clients use https://ledger-epochgate.tools:443"),
        (SIDECAR, "Port 8000 of the pod can be reached past epochgate"),
        (SIDECAR, "curl http://127.0.0.1:8809/sessions"),
        ("sidecar-everything", "curl -H 'Authorization: Bearer TOKEN' http://127.0.0.1:8809/sessions"),
    ],
)
def test_the_notes_say_what_has_to_be_known(name: str, said: str, helm: Engine) -> None:
    assert said in " ".join(helm.notes(values(name)).split())


@pytest.mark.parametrize("name", [SIDECAR, GATEWAY])
def test_the_notes_do_not_ask_for_what_is_set(name: str, helm: Engine) -> None:
    notes = helm.notes(values(name, settings__unknown_sessions="refuse"))

    assert "later requests of its sessions\nget 404, and clients have to initialize anew." in notes
    assert "unknown_sessions" not in notes


@pytest.mark.parametrize(
    ("stop", "is_warned"),
    [
        ({"sleep": {"seconds": 24}}, True),
        ({"exec": {"command": ["/finish"]}}, True),
        ({"sleep": {"seconds": 25}}, False),
        (None, False),
    ],
)
def test_the_notes_warn_of_a_server_that_may_go_before_the_drain_is_over(
    stop: Any, is_warned: bool, helm: Engine
) -> None:
    notes = helm.notes(values(SIDECAR, server__lifecycle={"preStop": stop}))

    assert ("The preStop of your server has to last 25 s" in notes) == is_warned


def test_the_notes_do_not_warn_of_a_port_that_is_closed(helm: Engine) -> None:
    assert "past epochgate" not in helm.notes(values(SIDECAR, networkPolicy={"enabled": True}))
