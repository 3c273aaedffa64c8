"""What schemas cannot see: whether the objects of a release fit each other, and the `restricted` profile.

`problems` reads rendered objects and names everything in them that would not work in a cluster.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

Object = dict[str, Any]

_QUANTITY = re.compile(r"[0-9]+(\.[0-9]+)?(m|k|Ki|M|Mi|G|Gi|T|Ti)?")
_LABEL = re.compile(r"([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?")
_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?")
_PORT_NAME = re.compile(r"(?=.{1,15}$)(?=.*[a-z])[a-z0-9]+(-[a-z0-9]+)*")
_SCALE = {"": 1.0, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12} | {
    f"{unit}i": 1024.0**power for power, unit in enumerate("KMGT", 1)
}
# The shortest time that a pod needs besides its drain.
MARGIN_S = 10


def problems(objects: list[Object]) -> list[str]:
    """One line for each."""
    found = [*_of_names(objects), *_of_selectors(objects)]
    for kind, name, labels, spec in pods(objects):
        place = f"{kind} {name}"
        found += [f"{place}: {said}" for said in _of_pod(spec, objects)]
        found += [
            f"{place}: label {key}: {text}" for key, text in labels.items() if not _LABEL.fullmatch(text)
        ]
    return found


def pods(objects: Iterable[Object]) -> Iterator[tuple[str, str, dict[str, str], Object]]:
    """Kind, name, labels and spec of every pod that the objects lead to."""
    for each in objects:
        if each["kind"] == "Pod":
            yield "Pod", each["metadata"]["name"], each["metadata"]["labels"], each["spec"]
        elif each["kind"] == "Deployment":
            template = each["spec"]["template"]
            yield "Deployment", each["metadata"]["name"], template["metadata"]["labels"], template["spec"]


def _of_names(objects: list[Object]) -> Iterator[str]:
    places = [(each["kind"], each["metadata"].get("namespace"), each["metadata"]["name"]) for each in objects]
    for place in {place for place in places if places.count(place) > 1}:
        yield f"{place[0]} {place[2]} is there twice"
    for kind, _, name in places:
        if not _NAME.fullmatch(name):
            yield f"{kind} {name}: not a name"


def _of_selectors(objects: list[Object]) -> Iterator[str]:
    (deployment,) = [each for each in objects if each["kind"] == "Deployment"]
    mine = deployment["spec"]["template"]["metadata"]["labels"]
    others = [labels for kind, _, labels, _ in pods(objects) if kind == "Pod"]
    ports = {port["containerPort"] for port in _ports(deployment["spec"]["template"]["spec"])}
    names = {port["name"] for port in _ports(deployment["spec"]["template"]["spec"])}
    for each in objects:
        place, spec = f"{each['kind']} {each['metadata']['name']}", each.get("spec", {})
        for chosen in _chosen_pods(each):
            if not _fits(chosen, mine):
                yield f"{place}: selects no pod of the Deployment"
            if any(_fits(chosen, labels) for labels in others):
                yield f"{place}: selects the test's pod"
        if each["kind"] == "Service":
            yield from (
                f"{place}: targetPort {port['targetPort']} is no number of a container's port"
                for port in spec["ports"]
                if port["targetPort"] not in ports
            )
        if each["kind"] == "NetworkPolicy":
            opened = {port["port"] for rule in spec["ingress"] for port in rule["ports"]}
            yield from (f"{place}: opens {port}, which nobody listens on" for port in opened - ports)
        if each["kind"] == "PodMonitor":
            asked = {endpoint["port"] for endpoint in spec["podMetricsEndpoints"]}
            yield from (f"{place}: no container has a port named {name}" for name in asked - names)
        if each["kind"] == "ServiceMonitor":
            yield from _of_service_monitor(place, spec, objects)
        if each["kind"] == "HorizontalPodAutoscaler":
            if spec["scaleTargetRef"]["name"] != deployment["metadata"]["name"]:
                yield f"{place}: scales no Deployment of the release"
            if "replicas" in deployment["spec"]:
                yield f"{place}: the Deployment says how many as well"


def _chosen_pods(each: Object) -> Iterator[dict[str, str]]:
    """The labels by which this object chooses pods."""
    spec = each.get("spec", {})
    match each["kind"]:
        case "Service":
            yield spec["selector"]
        case "Deployment" | "PodDisruptionBudget" | "PodMonitor":
            yield spec["selector"]["matchLabels"]
        case "NetworkPolicy":
            yield spec["podSelector"]["matchLabels"]
        case _:
            pass


def _of_service_monitor(place: str, spec: Object, objects: list[Object]) -> Iterator[str]:
    chosen = [
        each
        for each in objects
        if each["kind"] == "Service" and _fits(spec["selector"]["matchLabels"], each["metadata"]["labels"])
    ]
    if len(chosen) != 1:
        yield f"{place}: selects {len(chosen)} Services"
    names = {port["name"] for each in chosen for port in each["spec"]["ports"]}
    for endpoint in spec["endpoints"]:
        if endpoint["port"] not in names:
            yield f"{place}: its Service has no port named {endpoint['port']}"


def _of_pod(spec: Object, objects: list[Object]) -> Iterator[str]:
    yield from _of_restrictions(spec)
    yield from _of_volumes(spec, objects)
    yield from _of_ports(spec)
    yield from _of_leaving(spec)
    accounts = {each["metadata"]["name"] for each in objects if each["kind"] == "ServiceAccount"}
    if (account := spec.get("serviceAccountName", "default")) not in accounts | {"default"}:
        yield f"no ServiceAccount {account}"
    for container in _containers(spec):
        yield from (f"{container['name']}: {said}" for said in _of_container(container))


def _of_restrictions(spec: Object) -> Iterator[str]:
    """What the Pod Security Standard `restricted` asks for."""
    own = spec.get("securityContext", {})
    for container in _containers(spec):
        its = container.get("securityContext", {})
        effective = {**own, **its}
        wrong = {
            "runAsNonRoot": effective.get("runAsNonRoot") is not True,
            "runAsUser": effective.get("runAsUser") == 0,
            "seccompProfile": effective.get("seccompProfile", {}).get("type")
            not in ("RuntimeDefault", "Localhost"),
            "allowPrivilegeEscalation": its.get("allowPrivilegeEscalation") is not False,
            "capabilities": its.get("capabilities", {}).get("drop") != ["ALL"]
            or bool(set(its["capabilities"].get("add", [])) - {"NET_BIND_SERVICE"}),
            "privileged": its.get("privileged", False),
        }
        yield from (
            f"{container['name']}: {name} is not restricted" for name, is_wrong in wrong.items() if is_wrong
        )
    for name in ("hostNetwork", "hostPID", "hostIPC"):
        if spec.get(name):
            yield f"{name} is not restricted"
    restricted = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim"}
    for volume in spec.get("volumes", []):
        (kind,) = set(volume) - {"name"}
        if kind not in restricted | {"projected", "secret"}:
            yield f"volume {volume['name']}: {kind} is not restricted"


def _of_volumes(spec: Object, objects: list[Object]) -> Iterator[str]:
    names = [volume["name"] for volume in spec.get("volumes", [])]
    yield from (f"volume {name} is there twice" for name in {name for name in names if names.count(name) > 1})
    for container in _containers(spec):
        mounts = container.get("volumeMounts", [])
        paths = [mount["mountPath"] for mount in mounts]
        if len(set(paths)) < len(paths):
            yield f"{container['name']}: two volumes at one path"
        for mount in mounts:
            if mount["name"] not in names:
                yield f"{container['name']}: no volume {mount['name']}"
    mounted = {mount["name"] for each in _containers(spec) for mount in each.get("volumeMounts", [])}
    yield from (f"volume {name} is mounted nowhere" for name in set(names) - mounted)
    made = {each["metadata"]["name"] for each in objects if each["kind"] == "ConfigMap"}
    for volume in spec.get("volumes", []):
        if volume["name"] == "epochgate-config" and volume["configMap"]["name"] not in made:
            yield f"no ConfigMap {volume['configMap']['name']}"


def _of_ports(spec: Object) -> Iterator[str]:
    ports = list(_ports(spec))
    for key in ("containerPort", "name"):
        given = [port[key] for port in ports]
        yield from (f"port {one} is there twice" for one in {one for one in given if given.count(one) > 1})
    yield from (f"port name {port['name']}" for port in ports if not _PORT_NAME.fullmatch(port["name"]))


def _of_leaving(spec: Object) -> Iterator[str]:
    """Both containers of a sidecar's pod have to have their time before the pod is killed."""
    grace = spec.get("terminationGracePeriodSeconds", 30)
    for container in _containers(spec):
        sleep = container.get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
        if sleep > grace - MARGIN_S:
            yield f"{container['name']}: sleeps {sleep} s of {grace}"
    for container in spec.get("initContainers", []):
        if container.get("restartPolicy") == "Always" and "startupProbe" not in container:
            yield f"{container['name']}: the containers behind it do not wait for it"


def _of_container(container: Object) -> Iterator[str]:
    if not re.fullmatch(r"[a-z0-9][a-z0-9.:/_-]*(:[A-Za-z0-9._-]+|@sha256:[0-9a-f]{64})", container["image"]):
        yield f"image {container['image']}"
    names = [variable["name"] for variable in container.get("env", [])]
    yield from (
        f"variable {name} is there twice" for name in {name for name in names if names.count(name) > 1}
    )
    own = {port["containerPort"] for port in container.get("ports", [])}
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        for handler in ("httpGet", "tcpSocket"):
            port = container.get(probe, {}).get(handler, {}).get("port")
            if port is not None and port not in own:
                yield f"{probe}: port {port} is none of its own"
    if container["name"] == "epochgate":
        yield from _of_listeners(container)
    yield from _of_resources(container.get("resources", {}))


def _of_listeners(container: Object) -> Iterator[str]:
    """Whether the process listens where probes and Services look for it."""
    env = {each["name"]: each.get("value", "") for each in container["env"]}
    bound = {
        name: {int(place.rpartition(":")[2]) for place in env[variable].split(",")}
        for name, variable in (("mcp", "EPOCHGATE_LISTEN"), ("health", "EPOCHGATE_HEALTH"))
    }
    for port in container["ports"]:
        if bound.get(port["name"], {port["containerPort"]}) != {port["containerPort"]}:
            yield f"does not listen on port {port['containerPort']}, named {port['name']}"
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        if container[probe]["httpGet"]["port"] not in bound["health"]:
            yield f"{probe}: no listener for probes on its port"


def _of_resources(resources: Object) -> Iterator[str]:
    for group, amounts in resources.items():
        for name, amount in amounts.items():
            if not _QUANTITY.fullmatch(str(amount)):
                yield f"{group}.{name}: {amount} is no quantity"
                return
    for name, amount in resources.get("requests", {}).items():
        limit = resources.get("limits", {}).get(name)
        if limit is not None and quantity(amount) > quantity(limit):
            yield f"requests more {name} than its limit"


def quantity(text: str) -> float:
    """The number behind `300Mi`."""
    unit = text.lstrip("0123456789.")
    return float(text.removesuffix(unit)) * _SCALE[unit]


def _containers(spec: Object) -> list[Object]:
    return [*spec.get("initContainers", []), *spec["containers"]]


def _ports(spec: Object) -> Iterator[Object]:
    for container in _containers(spec):
        yield from container.get("ports", [])


def _fits(selector: dict[str, str], labels: dict[str, str]) -> bool:
    return selector.items() <= labels.items()
