"""What stands in manifests: files, the objects in them, and those whose pods can get a sidecar."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from epochgate.inject.nodes import (
    Entry,
    Mapping,
    Node,
    Scalar,
    entry,
    find,
    is_true,
    items,
    meaning,
    text,
    texts,
    whole,
)
from epochgate.inject.reading import read
from epochgate.inject.sidecar import ANNOTATION, NAME

# Whose pods serve, by API.
WORKLOADS = {
    "apps/v1": ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"),
    "v1": ("Pod",),
}
_SHORT = {"deploy": "deployment", "sts": "statefulset", "ds": "daemonset", "rs": "replicaset", "po": "pod"}


@dataclass(slots=True, eq=False)
class Source:
    """A file; `name` is what findings call it."""

    name: str
    text: str
    roots: list[Node]

    @classmethod
    def of(cls, name: str, text: str) -> Source:
        """Raises `Refused` for what is not YAML."""
        return cls(name, text, read(text))

    def objects(self) -> Iterator[Object]:
        for root in self.roots:
            yield from _objects(self, root)


def _objects(source: Source, root: Node) -> Iterator[Object]:
    root = meaning(root)
    if not isinstance(root, Mapping):
        return
    if text(root, "apiVersion") == "v1" and text(root, "kind") == "List":
        for item in items(root, "items"):
            yield from _objects(source, item)
    else:
        yield Object(source, root)


@dataclass(slots=True, eq=False)
class Object:
    """One Kubernetes object."""

    source: Source
    root: Mapping

    @property
    def api(self) -> str:
        return text(self.root, "apiVersion")

    @property
    def kind(self) -> str:
        return text(self.root, "kind")

    @property
    def name(self) -> str:
        return text(self.root, "metadata", "name") or text(self.root, "metadata", "generateName")

    @property
    def namespace(self) -> str:
        return text(self.root, "metadata", "namespace") or "default"

    @property
    def line(self) -> int:
        return self.root.line

    @property
    def annotation(self) -> str:
        """What it says about us: `true`, `false`, or nothing."""
        return text(self.root, "metadata", "annotations", ANNOTATION)

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}"

    def is_of(self, api: str, *kinds: str) -> bool:
        """`api` is a group with its version, or ends in `/` and is a group of any version."""
        fits = self.api.startswith(api) if api.endswith("/") else self.api == api
        return fits and self.kind in kinds

    @property
    def can_serve(self) -> bool:
        """Whether its pods stay to serve."""
        return self.kind in WORKLOADS.get(self.api, ()) and not self.is_hook

    @property
    def is_hook(self) -> bool:
        """Helm runs hooks and tests once; they often have the labels of the server."""
        return find(self.root, "metadata", "annotations", "helm.sh/hook") is not None

    @property
    def matters(self) -> bool:
        """Whether a decision rests on what it says."""
        return self.template is not None or self.kind in (
            "Service",
            "HorizontalPodAutoscaler",
            "ScaledObject",
            "NetworkPolicy",
            "Route",
        )

    @property
    def template(self) -> Mapping | None:
        """What its pods are made from, metadata included; None if it makes none."""
        found: Node | None
        if self.is_of("v1", "Pod"):
            found = self.root
        elif self.is_of("batch/", "CronJob"):
            found = find(self.root, "spec", "jobTemplate", "spec", "template")
        else:
            found = find(self.root, "spec", "template")
        is_template = isinstance(find(found, "spec", "containers"), Node)
        return found if is_template and isinstance(found, Mapping) else None

    @property
    def labels(self) -> dict[str, str]:
        """Those of its pods."""
        return {key: value for key, (value, _) in texts(self.template, "metadata", "labels").items()}

    def is_named(self, word: str) -> bool:
        """`weather`, `deployment/weather`, `deploy/weather`."""
        kind, slash, name = word.rpartition("/")
        kind = kind.lower().partition(".")[0]
        kinds = {kind, kind.removesuffix("s"), _SHORT.get(kind, kind)}
        return name == self.name and (not slash or self.kind.lower() in kinds)


class Port(NamedTuple):
    """A port that a container declares; `number` is None where it is no plain number."""

    number: int | None
    name: str
    protocol: str
    line: int


class Container(NamedTuple):
    node: Mapping
    name: str

    @property
    def ports(self) -> list[Port]:
        return [
            Port(
                whole(port, "containerPort"),
                text(port, "name"),
                text(port, "protocol") or "TCP",
                (find(port, "containerPort") or port).line,
            )
            for port in items(self.node, "ports")
        ]


@dataclass(frozen=True, slots=True)
class Pod:
    """The `spec` of a pod."""

    spec: Mapping

    @property
    def containers(self) -> list[Container]:
        return _containers(self.spec, "containers")

    @property
    def init_containers(self) -> list[Container]:
        return _containers(self.spec, "initContainers")

    @property
    def present(self) -> Container | None:
        """The sidecar, if it is there as one."""
        return next((one for one in self.init_containers if one.name == NAME), None)

    @property
    def is_on_the_nodes_network(self) -> bool:
        return is_true(self.spec, "hostNetwork")

    @property
    def port_names(self) -> dict[str, int | None]:
        """Port names of all containers but ours, each with its number."""
        return {
            port.name: port.number
            for one in [*self.init_containers, *self.containers]
            if one.name != NAME
            for port in one.ports
            if port.name
        }


def pod_of(one: Object) -> Pod | None:
    spec = find(one.template, "spec")
    return Pod(spec) if isinstance(spec, Mapping) else None


def _containers(spec: Mapping, key: str) -> list[Container]:
    return [Container(node, text(node, "name")) for node in items(spec, key) if isinstance(node, Mapping)]


def selects(selector: dict[str, tuple[str, int]], one: Object) -> bool:
    """Whether a selector of labels takes the pods of `one`; an empty one takes none here."""
    labels = one.labels
    return bool(selector) and all(labels.get(key) == value for key, (value, _) in selector.items())


class ServicePort(NamedTuple):
    """A port of a Service and where it leads: `number` is None if that is a name that no container has."""

    node: Mapping
    number: int | None
    target: Entry | None
    port: Entry

    @property
    def line(self) -> int:
        return (self.target or self.port).key.line


def service_ports(service: Object, pod: Pod) -> Iterator[ServicePort]:
    """The TCP ports of a Service, and where in this pod each leads."""
    for node in items(service.root, "spec", "ports"):
        port = entry(node, "port")
        if not isinstance(node, Mapping) or port is None or text(node, "protocol") not in ("", "TCP"):
            continue
        target = entry(node, "targetPort")
        if target is None or target.is_empty:
            yield ServicePort(node, whole(node, "port"), target, port)
            continue
        value = target.node.value if isinstance(target.node, Scalar) else ""
        number = int(value) if value.isdecimal() else pod.port_names.get(value)
        yield ServicePort(node, number, target, port)
