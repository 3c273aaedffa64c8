"""What in a workload would make the sidecar useless or harmful."""

from __future__ import annotations

from collections.abc import Sequence

from epochgate.inject.findings import Remarks, refused, warning
from epochgate.inject.manifests import Container, Object, Port
from epochgate.inject.nodes import Scalar, entry, find, is_true, items, text, whole, within
from epochgate.inject.sidecar import NAME, PORTS, Sidecar
from epochgate.inject.targets import Target

_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")


def remarks(target: Target, sidecar: Sidecar, services: Sequence[Object]) -> Remarks:
    """`services` are those whose pods these are."""
    yield from _of_the_workload(target)
    yield from _of_the_pod(target)
    yield from _of_the_end(target, sidecar)
    yield from _of_the_probes(target, services)


def _of_the_workload(target: Target) -> Remarks:
    root = target.workload.root
    if owners := items(root, "metadata", "ownerReferences"):
        owner = f"{text(owners[0], 'kind')}/{text(owners[0], 'name')}"
        yield warning(owners[0].line, f"{owner} owns it and may undo the change: change {owner} instead")
    strategy = find(root, "spec", "updateStrategy", "type")
    if isinstance(strategy, Scalar) and strategy.value == "OnDelete":
        yield warning(strategy.line, f"its pods stay as they are until they are deleted, {_UNTIL_THEN}")
    elif target.workload.kind == "ReplicaSet":
        yield warning(root.line, f"a ReplicaSet leaves the pods that there are as they are, {_UNTIL_THEN}")
    paused = find(root, "spec", "paused")
    if paused is not None and is_true(paused):
        yield warning(paused.line, f"paused: its pods stay as they are, {_UNTIL_THEN}")


_UNTIL_THEN = "and nobody listens where the Service leads: apply the Service when they are new"


def _of_the_pod(target: Target) -> Remarks:
    pod = target.pod
    if pod.is_on_the_nodes_network and (held := entry(pod.spec, "hostNetwork")):
        ports = ", ".join(map(str, PORTS))
        yield refused(
            held.key.line, f"hostNetwork: {ports} and the server's own port would be the node's: remove it"
        )
    for system in (find(pod.spec, "os", "name"), find(pod.spec, "nodeSelector", "kubernetes.io/os")):
        if isinstance(system, Scalar) and system.value == "windows":
            yield refused(system.line, "epochgate runs on Linux only")
    for one in pod.containers:
        if one.name == NAME:
            yield refused(
                one.node.line,
                f"`{NAME}` stands among the containers, where it ends with the server: remove it there",
            )
    for one, port in _ports(target):
        if port.number in PORTS:
            yield refused(port.line, f"{one.name} takes port {port.number}, which epochgate needs: change it")
    declared = [port for port in target.server.ports if port.protocol == "TCP"]
    if declared and target.port not in [port.number for port in declared]:
        listed = ", ".join(str(port.number) for port in declared)
        yield warning(
            declared[0].line,
            f"{target.server.name} declares {listed}, not {target.port}: "
            "if it does not listen there, give another --port",
        )
    for node in items(target.server.node, "ports"):
        if (held := entry(node, "hostPort")) and whole(node, "containerPort") == target.port:
            yield warning(held.key.line, "hostPort leads past epochgate to the server: remove it")


def _ports(target: Target) -> list[tuple[Container, Port]]:
    """Those of all containers but ours."""
    everyone = [*target.pod.init_containers, *target.pod.containers]
    return [(one, port) for one in everyone if one.name != NAME for port in one.ports]


def _of_the_end(target: Target, sidecar: Sidecar) -> Remarks:
    sleep_s = 0
    stop = find(target.server.node, "lifecycle", "preStop")
    if stop is not None:
        seconds = whole(stop, "sleep", "seconds")
        if seconds is None:
            yield warning(
                stop.line,
                f"{target.server.name} has a preStop of its own: let it last at least "
                f"{sidecar.drain_s} s, for as long as answers may be owed",
            )
        elif seconds < sidecar.drain_s:
            line = (find(stop, "sleep", "seconds") or stop).line
            yield warning(
                line,
                f"{target.server.name} sleeps {seconds} s, the drain takes up to {sidecar.drain_s}: "
                f"change it to {sidecar.drain_s}",
            )
        sleep_s = seconds or 0
    grace = entry(target.pod.spec, "terminationGracePeriodSeconds")
    least, good = sidecar.least_grace_s(sleep_s), sidecar.good_grace_s(sleep_s)
    if grace is None:
        return
    given = whole(grace.node)
    if given is None or given < least:
        shown = grace.node.value if isinstance(grace.node, Scalar) else ""
        yield refused(
            grace.key.line,
            f"terminationGracePeriodSeconds: {shown or 'nothing'} is too short for the drain: change it to "
            f"{good} (at least {least})",
        )


def _of_the_probes(target: Target, services: Sequence[Object]) -> Remarks:
    names = {one.name for one in services}
    for kind in _PROBES:
        probe = find(target.server.node, kind)
        get = find(probe, "httpGet")
        port = find(get, "port")
        own_names = {declared.name for declared in target.server.ports if declared.number == target.port}
        is_of_server = isinstance(port, Scalar) and (
            port.value == str(target.port) or port.value in own_names
        )
        if is_of_server and text(get, "scheme").upper() == "HTTPS" and port:
            yield refused(
                port.line,
                "the server speaks https, and the sidecar would speak http to it: write the sidecar "
                "yourself, with the certificates that both ways need",
            )
        for held in (entry(get, "host"), entry(find(probe, "tcpSocket"), "host")):
            if held is not None:
                yield warning(
                    held.key.line,
                    f"the {kind} goes to a host of its own: to the server it should go without one, or it "
                    "passes through epochgate",
                )
        for word in within(probe) if probe else ():
            named = isinstance(word, Scalar) and any(f"//{name}" in word.value for name in names)
            if named:
                yield warning(
                    word.line, f"the {kind} goes through the Service: let it go to 127.0.0.1:{target.port}"
                )
