"""What other people's code says of manifests. JSON on stdin, JSON on stdout.

`validate VERSION…`: manifests -> what the API's schemas of these releases have against them, strictly.
`again`: objects of the Prometheus operator -> the same after a round trip through its types.
`lint CHART`: list of values -> the findings of Helm's engine for each.
`schema FILE`: list of documents -> whether each fits the JSON schema.
`newest`: the newest release of the API that is known.
`serve CHART`: values of a release in each line -> in each line its texts by template, or the error.
"""

from __future__ import annotations

import json
import sys
from typing import Any


def validate(objects: list[dict[str, Any]], versions: list[str]) -> list[str]:
    import kubernetes_validate

    found = []
    for version in versions:
        for one in objects:
            try:
                kubernetes_validate.validate(one, version, strict=True)
            except kubernetes_validate.ValidationError as error:
                place = ".".join(map(str, error.path))
                found.append(f"{version} {one['kind']} {place}: {error.message}")
            except kubernetes_validate.SchemaNotFoundError as error:
                found.append(f"{version} {one['kind']}: {error.message}")
    return found


def again(objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    from cloudcoil.models.prometheus_operator import v1

    return [
        getattr(v1, one["kind"])
        .model_validate(one)
        .model_dump(mode="json", by_alias=True, exclude_unset=True)
        for one in objects
    ]


def lint(values: list[dict[str, Any]], chart: str) -> list[list[str]]:
    import helm_python

    reports = [helm_python.lint(chart, each, strict=True) for each in values]
    return [
        [f"{message['severity']} {message['path']}: {message['error']}" for message in report["messages"]]
        + report["errors"]
        for report in reports
    ]


def serve(chart: str) -> None:
    import helm_python

    with helm_python.Chart.load(chart) as loaded:
        for line in sys.stdin:
            try:
                texts: Any = loaded.render(json.loads(line), name="ledger", namespace="tools")
            except helm_python.HelmError as error:
                texts = str(error)
            print(json.dumps(texts), flush=True)


def fits(documents: list[Any], file: str) -> list[str]:
    import jsonschema

    with open(file) as source:
        schema = json.load(source)
    jsonschema.Draft7Validator.check_schema(schema)
    judge = jsonschema.Draft7Validator(schema)
    return ["; ".join(error.message for error in judge.iter_errors(each)) for each in documents]


def newest() -> str:
    import kubernetes_validate

    return kubernetes_validate.latest_version().rpartition(".")[0]


def main(words: list[str]) -> Any:
    match words:
        case ["newest"]:
            return newest()
        case ["validate", *versions]:
            return validate(json.load(sys.stdin), versions)
        case ["again"]:
            return again(json.load(sys.stdin))
        case ["lint", chart]:
            return lint(json.load(sys.stdin), chart)
        case ["serve", chart]:
            return serve(chart)
        case ["schema", file]:
            return fits(json.load(sys.stdin), file)
    raise SystemExit(__doc__)


if __name__ == "__main__":
    json.dump(main(sys.argv[1:]), sys.stdout)
