"""Renders the chart: with Helm's own engine, which is quick, and with the real programs."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]  # it ships no types

from tests.peers.install import TREE, Peers

CHART = TREE / "helm" / "epochgate"
VALUES = Path(__file__).parent / "values"
SIDECAR = "sidecar-least"
GATEWAY = "gateway-least"
NAMES = sorted(path.stem for path in VALUES.glob("*.yaml"))
# Of the Prometheus operator: Kubernetes itself does not know them.
CUSTOM = ("PodMonitor", "ServiceMonitor", "PrometheusRule")
TIMEOUT_S = 60
_SCRIPT = TREE / "tests" / "peers" / "python" / "manifests.py"
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

Object = dict[str, Any]
Values = dict[str, Any]


class Refused(Exception):
    """What Helm said instead of manifests."""


def values(name: str, **changed: Any) -> Values:
    """The values of a file of `values/`, with some of them replaced: `server__port=1` for `server.port`."""
    read: Values = yaml.safe_load((VALUES / f"{name}.yaml").read_text())
    for path, value in changed.items():
        *groups, last = path.split("__")
        within = read
        for group in groups:
            within = within.setdefault(group, {})
        within[last] = value
    return read


class Engine:
    """Helm's engine in a process of its own, which keeps the chart."""

    def __init__(self, peers: Peers) -> None:
        self._process = subprocess.Popen(
            [str(peers.kubernetes), str(_SCRIPT), "serve", str(CHART)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def render(self, given: Values) -> list[Object]:
        """Every object, by the names of templates. Raises `Refused`."""
        texts = self._ask(given)
        manifests = [text for name, text in texts.items() if name.endswith(".yaml")]
        return [found for text in manifests for found in yaml.load_all(text, _LOADER) if found]

    def notes(self, given: Values) -> str:
        """What is said after an installation."""
        return self._ask(given)["epochgate/templates/NOTES.txt"]

    def close(self) -> None:
        self._process.terminate()
        self._process.communicate(timeout=TIMEOUT_S)

    def _ask(self, given: Values) -> dict[str, str]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(given) + "\n")
        self._process.stdin.flush()
        answer: dict[str, str] | str = json.loads(self._process.stdout.readline())
        if isinstance(answer, str):
            raise Refused(answer)
        return answer


@dataclass(frozen=True, slots=True)
class Helm:
    """One Helm, for clusters of one release."""

    program: Path
    release: str

    def render(self, given: Values) -> list[Object]:
        """Every object, in the order of an installation. Raises `Refused`."""
        kubernetes = ["--kube-version", f"{self.release}.0"]
        text = self._run(["template", "ledger", str(CHART), "--namespace", "tools", *kubernetes], given)
        return [found for found in yaml.load_all(text, _LOADER) if found]

    def lint(self, given: Values) -> str:
        """What `lint --strict` says. Raises `Refused` if it fails."""
        return self._run(["lint", "--strict", str(CHART)], given)

    def _run(self, words: list[str], given: Values) -> str:
        ran = subprocess.run(
            [str(self.program), *words, "--values", "-"],
            input=json.dumps(given),  # which is YAML without any doubt of what a word means
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
        )
        if ran.returncode:
            raise Refused(ran.stdout + ran.stderr)
        return ran.stdout


def ask(peers: Peers, words: Iterable[str], documents: Any = None) -> Any:
    """What `tests/peers/python/manifests.py` answers."""
    ran = subprocess.run(
        [str(peers.kubernetes), str(_SCRIPT), *words],
        input=json.dumps(documents),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def one(objects: Iterable[Object], kind: str, suffix: str = "") -> Object:
    """The object of that kind, with that end of its name."""
    (found,) = [
        each for each in objects if each["kind"] == kind and each["metadata"]["name"].endswith(suffix)
    ]
    return found


def pod_of(objects: Iterable[Object]) -> Object:
    """The template of the Deployment's pods."""
    template: Object = one(objects, "Deployment")["spec"]["template"]
    return template


def container(objects: Iterable[Object], name: str) -> Object:
    """A container of the Deployment's pods, wherever it stands."""
    spec = pod_of(objects)["spec"]
    (found,) = [each for each in _containers(spec) if each["name"] == name]
    return found


def _containers(spec: Object) -> list[Object]:
    return [*spec.get("initContainers", []), *spec["containers"]]
