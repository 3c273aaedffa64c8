"""What is added to a workload and changed in a Service, each piece only where it is missing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from epochgate.inject.around import Way
from epochgate.inject.editing import Editor, says
from epochgate.inject.findings import Remark, Remarks, Weight, refused
from epochgate.inject.manifests import Container, Pod
from epochgate.inject.nodes import Mapping, Node, Refused, Scalar, Sequence, entry, find, text, whole
from epochgate.inject.sidecar import NAME, TRAFFIC_PORT, Sidecar
from epochgate.inject.targets import Target
from epochgate.inject.writing import Indents

_MOST_COLUMNS = 8


@dataclass(frozen=True, slots=True)
class Additions:
    """Edits of one file. Every method raises `Refused` for a line of that file."""

    editor: Editor
    sidecar: Sidecar

    def to_workload(self, target: Target) -> Remarks:
        """The sidecar, the time that a drain needs, and a server that stays for it."""
        pod, server = target.pod, target.server.node
        indents = self._indents(pod)
        container = self.sidecar.container(target.port, pod.port_names)
        added = []
        if (present := pod.present) is None:
            self._add_container(pod, container, indents)
            added.append(f"the sidecar in front of port {target.port} of {target.server.name}")
        elif not says(present.node, container):
            yield self._differs(present, container)
        if entry(pod.spec, "terminationGracePeriodSeconds") is None:
            sleep_s = _sleep_s(server) or 0
            seconds = self.sidecar.good_grace_s(sleep_s)
            self._put(pod.spec, "terminationGracePeriodSeconds", seconds, "containers", indents)
            added.append(f"terminationGracePeriodSeconds: {seconds}")
        if find(server, "lifecycle", "preStop") is None:
            self._add_pre_stop(server, indents)
            added.append(f"a preStop that sleeps {self.sidecar.drain_s} s to {target.server.name}")
        if added:
            yield Remark(Weight.DONE, target.workload.line, f"added {', '.join(added)}")

    def to_service(self, way: Way) -> Remarks:
        if way.is_right:
            return
        node, target = way.port.node, way.port.target
        if target is None:
            self._put(node, "targetPort", TRAFFIC_PORT, "port", Indents())
            was = str(way.port.number)
        elif not target.is_own:
            raise Refused(target.key.line, f"targetPort comes by `<<`: write {TRAFFIC_PORT} yourself")
        else:
            was = text(node, "targetPort") or str(way.port.number)
            self.editor.change(node, target, TRAFFIC_PORT)
        yield Remark(
            Weight.DONE,
            way.port.line,
            f"targetPort {was} -> {TRAFFIC_PORT}; apply it behind the rollout: old pods do not listen there",
        )

    def _add_container(self, pod: Pod, container: dict[str, Any], indents: Indents) -> None:
        held = entry(pod.spec, "initContainers")
        if held is None or held.is_empty:
            self._put(pod.spec, "initContainers", [container], "containers", indents)
        elif isinstance(held.node, Sequence):
            self.editor.append(held.node, container, indents)
        else:
            raise Refused(held.key.line, "initContainers is no list: make it one")

    def _add_pre_stop(self, server: Mapping, indents: Indents) -> None:
        stop = self.sidecar.pre_stop()
        held = entry(server, "lifecycle")
        if held is None or held.is_empty:
            self._put(server, "lifecycle", {"preStop": stop}, "ports", indents)
        elif isinstance(held.node, Mapping):
            self._put(held.node, "preStop", stop, "postStart", indents)
        else:
            raise Refused(held.key.line, "lifecycle is no mapping: make it one")

    def _put(self, mapping: Mapping, key: str, value: Any, behind: str, indents: Indents) -> None:
        """Put a key that is missing or empty, behind the key `behind` if the mapping has that itself."""
        held = entry(mapping, key)
        if held is not None and not held.is_own:
            raise Refused(held.key.line, f"`{key}` comes by `<<`: write it out where it is taken from")
        if held is not None:
            self.editor.fill(mapping, held, value, indents)
            return
        before = entry(mapping, behind)
        last = before.written if before is not None and before.is_own else mapping.pairs[-1][1]
        self.editor.add(mapping, key, value, last, indents)

    def _differs(self, present: Container, container: dict[str, Any]) -> Remark:
        held = {key.value: value for key, value in present.node.pairs if isinstance(key, Scalar)}
        same = {key for key, value in container.items() if key in held and says(held[key], value)}
        names = [key for key in {**container, **held} if key not in same]
        first = present.node.line
        last = self.editor.text.count("\n", 0, present.node.end) + 1
        return refused(
            first,
            f"the container `{NAME}` is not what would be added (it differs in {', '.join(names)}): give "
            f"--image and --env as it has them, or remove lines {first} to {last} and inject anew",
        )

    def _indents(self, pod: Pod) -> Indents:
        """As the file has them around the containers."""
        spec, above = pod.spec, pod.spec.parent
        held = entry(spec, "containers")
        if held is None or spec.is_flow or not isinstance(above, Mapping) or above.is_flow:
            return Indents()
        nested = _usual(spec.pairs[0][0].column - above.pairs[0][0].column, 1)
        if not isinstance(held.written, Sequence) or held.written.is_flow:
            return Indents(nested=nested)
        column = held.written.dash
        dash = _usual(column - held.key.column, 0)
        first: Node = held.written.items[0]
        key = first.pairs[0][0] if isinstance(first, Mapping) and not first.is_flow else None
        is_beside = key is not None and not self.editor.text[: key.start].rpartition("\n")[2].strip(" -")
        return Indents(nested, dash, _usual(key.column - column, 2) if key is not None and is_beside else 2)


def _usual(columns: int, least: int) -> int:
    return columns if least <= columns <= _MOST_COLUMNS else 2


def _sleep_s(server: Mapping) -> int | None:
    return whole(server, "lifecycle", "preStop", "sleep", "seconds")
