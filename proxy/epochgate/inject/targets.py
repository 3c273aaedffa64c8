"""Which workloads get the sidecar, and which of their containers is the server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from epochgate.inject.findings import Finding, Stop, Weight
from epochgate.inject.manifests import WORKLOADS, Container, Object, Pod, pod_of
from epochgate.inject.nodes import Refused
from epochgate.inject.sidecar import ANNOTATION, NAME, PORTS, Sidecar


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked for. Without `port`, `container` and `workloads` there must be only one choice."""

    sidecar: Sidecar
    port: int | None = None
    container: str | None = None
    workloads: tuple[str, ...] = ()
    has_affinity_elsewhere: bool = False


@dataclass(frozen=True, slots=True)
class Target:
    """A workload that gets the sidecar; `server` is its container that listens on `port`."""

    workload: Object
    pod: Pod
    server: Container
    port: int


def choose(objects: Sequence[Object], names: str, request: Request) -> list[Object]:
    """The workloads that get the sidecar. `names` are those of the files. Raises `Stop` if it is unclear."""
    if request.workloads:
        return _named(objects, names, request.workloads)
    annotated = [one for one in objects if one.annotation == "true"]
    for one in annotated:
        _refuse_unable(one)
    if annotated:
        return annotated
    able = [one for one in objects if one.can_serve and one.annotation != "false"]
    if len(able) == 1:
        return able
    if able:
        known = _listed(able)
        hint = f'give --workload {_slug(able[0])}, or annotate it with {ANNOTATION}: "true"'
        raise Stop(names, f"{len(able)} workloads, {known}: {hint}")
    for one in objects:
        if one.template is not None and one.annotation != "false":
            _refuse_unable(one)
    raise Stop(names, "no Deployment, StatefulSet, DaemonSet, ReplicaSet or Pod in it: nothing to add to")


def _named(objects: Sequence[Object], names: str, words: Sequence[str]) -> list[Object]:
    chosen: list[Object] = []
    for word in words:
        found = [one for one in objects if (one.can_serve or one.template is not None) and one.is_named(word)]
        if not found:
            known = _listed([one for one in objects if one.can_serve]) or "no workload"
            raise Stop(names, f"--workload {word}: not in it; it has {known}")
        if len(found) > 1 and len({str(one) for one in found}) > 1:
            raise Stop(names, f"--workload {word}: {_listed(found)}; give the kind too: {_slug(found[0])}")
        for one in found:
            _refuse_unable(one)
        chosen += [one for one in found if one not in chosen]
    return chosen


def _refuse_unable(one: Object) -> None:
    if one.can_serve:
        return
    if one.is_of("batch/", "Job", "CronJob"):
        why = f"a {one.kind} serves nobody: inject into what clients connect to"
    elif one.is_hook:
        why = "a hook of Helm serves nobody: inject into what clients connect to"
    elif one.kind in WORKLOADS["apps/v1"]:
        why = f"{one.api or 'without apiVersion'} is not known here: write apps/v1"
    else:
        why = f"{one.api} is not known here: put the sidecar into its pod template, docs/inject.md shows it"
    raise Stop(f"{one.source.name}:{one.line}", f"{one}: {why}")


def target(one: Object, request: Request) -> Target | Finding:
    """The server of a workload, or why it is not clear."""
    pod = pod_of(one)
    try:
        if pod is None or not pod.containers:
            raise Refused(one.line, "its pod has no list of containers: write it out")
        server, port, line = _server(pod, request)
        if port in PORTS:
            raise Refused(line, f"port {port} is one of epochgate's, {_PORTS}: let the server take another")
        return Target(one, pod, server, port)
    except Refused as error:
        return Finding(f"{one.source.name}:{error.line}", Weight.REFUSED, f"{one}: {error.text}")


_PORTS = ", ".join(map(str, PORTS))


def _server(pod: Pod, request: Request) -> tuple[Container, int, int]:
    """The server's container, its port, and the line that says so."""
    containers = [one for one in pod.containers if one.name != NAME]
    known = ", ".join(one.name for one in containers)
    line = pod.spec.line
    if request.container:
        containers = [one for one in containers if one.name == request.container]
        if not containers:
            raise Refused(line, f"--container {request.container}: not in it; it has {known}")
    declared = [(one, port) for one in containers for port in one.ports if port.protocol == "TCP"]
    if request.port:
        fitting = [one for one, port in declared if port.number == request.port] or containers
        if len({one.name for one in fitting}) > 1:
            raise Refused(line, f"port {request.port} may be that of {known}: give --container")
        return fitting[0], request.port, fitting[0].node.line
    if not declared:
        raise Refused(line, f"{known} declares no containerPort: give --port")
    if len(declared) > 1:
        listed = ", ".join(f"{port.number} of {one.name} (line {port.line})" for one, port in declared)
        raise Refused(line, f"it has the ports {listed}: give that of the server by --port")
    server, port = declared[0]
    if port.number is None:
        raise Refused(port.line, "containerPort is no plain number: write it as one")
    return server, port.number, port.line


def _listed(objects: Sequence[Object]) -> str:
    return ", ".join(f"{one} ({one.source.name}:{one.line})" for one in objects)


def _slug(one: Object) -> str:
    return f"{one.kind.lower()}/{one.name}"
