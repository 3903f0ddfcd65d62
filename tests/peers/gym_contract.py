"""Run in NeMo Gym's environment: its session conformance check, against a server's URL.

    python gym_contract.py CASE_JSON ...

A case is {"url", "session", "task": {"taskset", "task_id"}, "data"}. The check takes an ASGI app, so it gets one
that passes every request on over HTTP, with the URL's path in front.
"""

# pyright: reportMissingImports=false

import json
import sys

import httpx
from fastapi import FastAPI, Request, Response
from nemo_gym.base_resources_server import ResourcesSeedSessionRequest
from nemo_gym.testing.session_conformance import check_resources_session_contract

HOP_HEADERS = {b"host", b"connection", b"accept-encoding"}


def forwarding(url: str) -> FastAPI:
    app = FastAPI()

    @app.post("/{path:path}")
    async def forward(path: str, request: Request) -> Response:
        headers = [pair for pair in request.headers.raw if pair[0] not in HOP_HEADERS]
        async with httpx.AsyncClient(trust_env=False) as client:
            answer = await client.post(f"{url}/{path}", content=await request.body(), headers=headers)
        passed = Response(answer.content, answer.status_code)
        passed.raw_headers = [pair for pair in answer.headers.raw if pair[0].lower() not in HOP_HEADERS]
        return passed

    return app


def main(cases: list[str]) -> None:
    for case in map(json.loads, cases):
        seed = ResourcesSeedSessionRequest.model_validate(
            {
                "resources_session_id": case["session"],
                "episode_id": {"rollout_id": "0-0", "attempt": 0},
                "task_id": case["task"],
                "task_data": case["data"],
            }
        )
        check_resources_session_contract(forwarding(case["url"]), seed, keeps_state=True)
        print(f"{case['session']} holds")


if __name__ == "__main__":
    main(sys.argv[1:])
