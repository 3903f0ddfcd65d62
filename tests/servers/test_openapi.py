"""The OpenAPI surface, by generated requests: never a 5xx of our making, and every answer is one that is documented."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis.checks import CHECKS, load_all_checks
from schemathesis.generation import GenerationMode

pytestmark = pytest.mark.slow
load_all_checks()
WANTED = CHECKS.get_by_names(
    [
        "not_a_server_error",
        "status_code_conformance",
        "content_type_conformance",
        "response_schema_conformance",
    ]
)
EXAMPLES = 12
#: Environments whose operations are tried; the others have the same routes.
TRIED = ("/kit/", "/counter/")


@pytest.fixture(scope="module")
def document(worlds: str) -> Any:
    with urllib.request.urlopen(f"{worlds}/openapi.json", timeout=10) as answer:
        return json.load(answer)


def tried(path: str) -> bool:
    return path.startswith(TRIED) or path.count("/") == 1


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=["valid", "invalid"])
def test_every_answer_is_documented(worlds: str, document: Any, mode: GenerationMode) -> None:
    surface = schemathesis.openapi.from_dict({**document, "servers": [{"url": worlds}]})
    operations = [found.ok() for found in surface.get_all_operations()]
    assert {operation.path for operation in operations} == set(document["paths"])
    for operation in operations:
        if tried(operation.path):
            _try(operation, mode, worlds)


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=["valid", "invalid"])
def test_every_answer_is_documented_within_a_session(worlds: str, document: Any, mode: GenerationMode) -> None:
    surface = schemathesis.openapi.from_dict({**document, "servers": [{"url": worlds}]})
    for found in surface.get_all_operations():
        operation = found.ok()
        route = operation.path.removeprefix("/kit/gym/")
        if route != operation.path and route not in ("nap", "nap_in_thread") and operation.body:
            _try(operation, mode, worlds, seeded(worlds))


def seeded(url: str) -> dict[str, str]:
    """Headers of a session that was just begun."""
    request = urllib.request.Request(f"{url}/kit/gym/seed_session", b'{"split": "eval", "index": 0}', method="POST")
    with urllib.request.urlopen(request, timeout=10) as answer:
        return {"Cookie": answer.headers["Set-Cookie"].partition(";")[0], "X-Gymwire-Control": "true"}


def _try(operation: Any, mode: GenerationMode, url: str, headers: dict[str, str] | None = None) -> None:
    """Generated requests of one operation; hypothesis shrinks the first that is answered wrongly."""

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def answered(case: Any) -> None:
        case.call_and_validate(base_url=url, headers=headers, checks=WANTED, timeout=10)

    try:
        answered()
    except Unsatisfiable:
        assert mode.is_negative, "a valid request cannot be made"  # an invalid one: where anything goes, nothing is


def test_the_document_names_every_face_of_every_environment(document: Any) -> None:
    assert document["openapi"].startswith("3.1")
    for path in (
        "/kit/gym/seed_session",
        "/kit/gym/put",
        "/kit/openenv/reset",
        "/kit/mcp",
        "/environments",
        "/metrics",
    ):
        assert path in document["paths"], path
