"""From manifests and what was asked for to edited texts, and to what has to be said about them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from epochgate.inject import around, podchecks
from epochgate.inject.additions import Additions
from epochgate.inject.editing import Editor
from epochgate.inject.findings import Finding, Remarks, Stop, Weight, about, refused
from epochgate.inject.manifests import Object, Source
from epochgate.inject.nodes import Node, Refused, repeated_key
from epochgate.inject.targets import Request, Target, choose, target


@dataclass(frozen=True, slots=True)
class Plan:
    """The text of each source, in their order, and the findings; nothing is edited if one of them refuses."""

    texts: list[str]
    findings: list[Finding]

    @property
    def is_refused(self) -> bool:
        return any(finding.weight is Weight.REFUSED for finding in self.findings)

    @property
    def has_warnings(self) -> bool:
        return any(finding.weight is Weight.WARNING for finding in self.findings)


def inject(sources: Sequence[Source], request: Request) -> Plan:
    """Decide on everything first; nothing is edited if anything is refused."""
    editors = [Editor(source.text, source.roots) for source in sources]
    unchanged = [source.text for source in sources]
    findings: list[Finding] = []
    try:
        for finding in _findings(sources, editors, request):
            findings.append(finding)
    except Stop as stop:
        findings.append(stop.finding)
    if (plan := Plan(unchanged, findings)).is_refused:
        return plan
    edited = []
    for source, editor in zip(sources, editors, strict=True):
        try:
            edited.append(editor.result())
        except Refused as error:
            findings.append(Finding(f"{source.name}:{error.line}", Weight.REFUSED, error.text))
            return Plan(unchanged, findings)
    return Plan(edited, findings)


def _findings(sources: Sequence[Source], editors: Sequence[Editor], request: Request) -> Iterator[Finding]:
    """Gives the editors their edits on the way. Raises `Stop`."""
    additions = {
        source: Additions(editor, request.sidecar) for source, editor in zip(sources, editors, strict=True)
    }
    objects = [one for source in sources for one in source.objects()]
    for one in objects:
        if one.matters and (key := repeated_key(one.root)):
            raise Stop(
                f"{one.source.name}:{key.line}", f"{one}: the key `{key.value}` stands twice: remove one"
            )
    chosen = choose(objects, ", ".join(source.name for source in sources), request)
    targets: list[Target] = []
    for one in chosen:
        found = target(one, request)
        if isinstance(found, Finding):
            yield found
        else:
            targets.append(found)
    ways: dict[Node, around.Way] = {}
    for found in targets:
        services = around.services_of(found.workload, objects)
        ways |= {way.port.node: way for way in around.ways_to(found, services)}
        yield from _about(
            found.workload,
            podchecks.remarks(found, request.sidecar, services),
            around.remarks(found, request, objects),
            additions[found.workload.source].to_workload(found),
        )
    if len(targets) == len(chosen):
        for one, remark in dict.fromkeys(around.remarks_elsewhere(targets, objects)):
            yield about(one, remark)
    for way in ways.values():
        yield from _about(way.service, additions[way.service.source].to_service(way))


def _about(one: Object, *groups: Remarks) -> Iterator[Finding]:
    """The remarks about one object; what cannot be edited in it is one more."""
    for group in groups:
        try:
            for remark in group:
                yield about(one, remark)
        except Refused as error:
            yield about(one, refused(error.line, error.text))
