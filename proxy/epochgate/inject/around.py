"""What stands around the pods: Services, and what else counts on the server's port or on replicas."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from epochgate.inject.findings import Remark, Remarks, refused, warning
from epochgate.inject.manifests import Object, Pod, ServicePort, pod_of, selects, service_ports
from epochgate.inject.nodes import Node, Scalar, find, items, text, texts, whole, within
from epochgate.inject.sidecar import TRAFFIC_PORT
from epochgate.inject.targets import Request, Target

_PATCH = f'[{{"op": "replace", "path": "/spec/ports/0/targetPort", "value": {TRAFFIC_PORT}}}]'
_NOT_SPOKEN = ("kubernetes.io/h2c", "grpc", "http2", "https")
_AUTOSCALERS = (
    # api, kind, the key of the most replicas, what it is if not given
    ("autoscaling/", "HorizontalPodAutoscaler", "maxReplicas", 1),
    ("keda.sh/", "ScaledObject", "maxReplicaCount", 100),
)


class Way(NamedTuple):
    """A port of a Service that leads to the server, or to the sidecar already."""

    service: Object
    port: ServicePort

    @property
    def is_right(self) -> bool:
        return self.port.number == TRAFFIC_PORT


def services_of(one: Object, objects: Sequence[Object]) -> list[Object]:
    """The Services whose pods these are."""
    return [
        service
        for service in objects
        if service.is_of("v1", "Service")
        and service.namespace == one.namespace
        and selects(texts(service.root, "spec", "selector"), one)
    ]


def ways_to(target: Target, services: Sequence[Object]) -> list[Way]:
    return [
        Way(service, port)
        for service in services
        for port in service_ports(service, target.pod)
        if port.number in (target.port, TRAFFIC_PORT)
    ]


def remarks(target: Target, request: Request, objects: Sequence[Object]) -> Remarks:
    """About the workload itself: a Service that is not there, replicas without affinity."""
    services = services_of(target.workload, objects)
    ways = ways_to(target, services)
    if not services:
        yield _no_service(target, objects)
    elif not ways and not _has_proxy_in_front(target, services):
        yield _leads_elsewhere(target, services[0])
    if request.has_affinity_elsewhere:
        return
    leading = [service for service in services if not ways or service in [way.service for way in ways]]
    spread = [one for one in leading if not _is_headless(one)]
    loose = [one for one in spread if text(one.root, "spec", "sessionAffinity") != "ClientIP"]
    if spread and not loose:
        return
    where = f"{loose[0]} ({loose[0].source.name}:{loose[0].line})" if loose else "its Service"
    for line, how_many in _replicas(target.workload, objects):
        yield refused(
            line,
            f"{how_many}, and a session lives in one pod: set `sessionAffinity: ClientIP` in {where}, "
            "or give --affinity-elsewhere if an ingress keeps sessions in their pod or the server has none",
        )


def _is_headless(service: Object) -> bool:
    return text(service.root, "spec", "clusterIP") == "None"


def _no_service(target: Target, objects: Sequence[Object]) -> Remark:
    labels = ",".join(f"{key}={value}" for key, value in target.workload.labels.items())
    patch = f"kubectl patch service NAME --type=json -p='{_PATCH}'"
    astray = [
        service
        for service in objects
        if service.is_of("v1", "Service")
        and selects(texts(service.root, "spec", "selector"), target.workload)
    ]
    if astray:
        other = astray[0]
        return warning(
            target.workload.line,
            f"{other} ({other.source.name}:{other.line}) would select it, but is of namespace "
            f"{other.namespace}: write the same into both, or its targetPort: {TRAFFIC_PORT} yourself",
        )
    return warning(
        target.workload.line,
        f"no Service here selects its pods ({labels or 'they have no labels'}); clients pass epochgate by "
        f"until the one that does leads to {TRAFFIC_PORT}: {patch}",
    )


def _leads_elsewhere(target: Target, service: Object) -> Remark:
    ports = ", ".join(
        f"{text(port.node, 'targetPort') or port.number} (line {port.line})"
        for port in service_ports(service, target.pod)
    )
    return warning(
        target.workload.line,
        f"{service} leads to {ports or 'no port'}, not to the server's {target.port}: what listens there has "
        f"to send to {TRAFFIC_PORT}, or give the right --port",
    )


def _has_proxy_in_front(target: Target, services: Sequence[Object]) -> bool:
    """Whether the Services lead to another container of the pod, which sends to the sidecar already."""
    numbers = {port.number for service in services for port in service_ports(service, target.pod)}
    return any(
        isinstance(word, Scalar) and f":{TRAFFIC_PORT}" in word.value
        for one in target.pod.containers
        if numbers & {port.number for port in one.ports}
        for word in within(one.node)
    )


def _replicas(one: Object, objects: Sequence[Object]) -> Iterator[tuple[int, str]]:
    """Each line that gives the workload more than one pod; the line is of the workload's own file."""
    if one.kind == "DaemonSet":
        yield one.line, "a DaemonSet has a pod on each node"
    number = find(one.root, "spec", "replicas")
    replicas = whole(number)
    if number is not None and (replicas is None or replicas > 1):
        shown = number.value if isinstance(number, Scalar) else "?"
        yield number.line, f"replicas: {shown}"
    for scaler in objects:
        for api, kind, key, otherwise in _AUTOSCALERS:
            if not scaler.is_of(api, kind) or scaler.namespace != one.namespace:
                continue
            scaled = find(scaler.root, "spec", "scaleTargetRef")
            if text(scaled, "name") == one.name and text(scaled, "kind") in ("", one.kind):
                most = find(scaler.root, "spec", key)
                if (most is None and otherwise > 1) or (most is not None and whole(most) != 1):
                    line = (most or scaler.root).line
                    yield one.line, f"{scaler} ({scaler.source.name}:{line}) may start several pods"


# --- other objects ------------------------------------------------------------------------------------


def remarks_elsewhere(
    targets: Sequence[Target], objects: Sequence[Object]
) -> Iterator[tuple[Object, Remark]]:
    """What other objects need so that the pods are reached as before."""
    for target in targets:
        for way in ways_to(target, services_of(target.workload, objects)):
            for remark in _of_the_service(way, targets, objects):
                yield way.service, remark
            for one in objects:
                if one.is_of("route.openshift.io/", "Route") and one.namespace == way.service.namespace:
                    for remark in _of_the_route(one, way, target):
                        yield one, remark
        yield from _closed_by(target, objects)


def _of_the_service(way: Way, targets: Sequence[Target], objects: Sequence[Object]) -> Remarks:
    if _is_headless(way.service) and whole(way.port.port.node) != TRAFFIC_PORT:
        yield warning(
            way.port.line,
            f"headless: clients choose the port of a pod themselves, and those that connect to the server's "
            f"pass epochgate by: let them connect to {TRAFFIC_PORT}",
        )
    protocol = find(way.port.node, "appProtocol")
    if isinstance(protocol, Scalar) and protocol.value.lower() in _NOT_SPOKEN:
        yield refused(
            protocol.line,
            f"appProtocol: {protocol.value}: the sidecar speaks HTTP/1.1 without TLS: change it",
        )
    injected = {target.workload for target in targets}
    for one in objects:
        pod = pod_of(one)
        if pod is None or not one.can_serve or one in injected or pod.present is not None:
            continue
        if way.service in services_of(one, objects):
            yield refused(
                way.port.line,
                f"also leads to the pods of {one} ({one.source.name}:{one.line}), which get no sidecar: "
                "narrow its selector, or give --workload for both",
            )


def _of_the_route(route: Object, way: Way, target: Target) -> Remarks:
    """A number there is that of the pod, unlike in an Ingress."""
    port = find(route.root, "spec", "port", "targetPort")
    is_of_it = text(route.root, "spec", "to", "name") == way.service.name
    if is_of_it and port is not None and whole(port) == target.port:
        yield refused(port.line, f"targetPort: {target.port} is that of the pod: change it to {TRAFFIC_PORT}")


def _closed_by(target: Target, objects: Sequence[Object]) -> Iterator[tuple[Object, Remark]]:
    """Policies that let clients reach the server, but not the sidecar."""
    closing: list[tuple[Object, Node]] = []
    for policy in objects:
        is_of_it = (
            policy.is_of("networking.k8s.io/", "NetworkPolicy")
            and policy.namespace == target.workload.namespace
            and not items(policy.root, "spec", "podSelector", "matchExpressions")
        )
        labels = texts(policy.root, "spec", "podSelector", "matchLabels")
        if not is_of_it or (labels and not selects(labels, target.workload)):
            continue
        for rule in items(policy.root, "spec", "ingress"):
            ports = items(rule, "ports")
            if not ports or any(_lets_in(port, TRAFFIC_PORT, target.pod) for port in ports):
                return
            closing += [(policy, port) for port in ports if _lets_in(port, target.port, target.pod)]
    for policy, port in closing:
        yield (
            policy,
            refused(port.line, f"lets clients reach port {target.port} only: let them reach {TRAFFIC_PORT}"),
        )


def _lets_in(port: Node, number: int, pod: Pod) -> bool:
    if text(port, "protocol") not in ("", "TCP"):
        return False
    first = whole(port, "port")
    if first is None:
        name = text(port, "port")
        return not name or pod.port_names.get(name) == number
    return first <= number <= (whole(port, "endPort") or first)
