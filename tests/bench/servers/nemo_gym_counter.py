"""The peer on NeMo Gym 0.7: a resources server with the counter, run by its own `run_webserver`. Argument: port."""

from __future__ import annotations

import json
import os
import sys

NAME = "counter"


def configure(port: int) -> None:
    """nemo-gym reads its configuration from the environment, at import."""
    own = {"entrypoint": "app.py", "domain": "agent", "host": "127.0.0.1", "port": port}
    os.environ["NEMO_GYM_CONFIG_PATH"] = NAME
    os.environ["NEMO_GYM_CONFIG_DICT"] = json.dumps(
        {
            "head_server": {"host": "127.0.0.1", "port": 1},  # named, never asked
            "default_host": "127.0.0.1",
            "dry_run": False,
            "head_server_deps": [],
            "observability_enabled": False,
            NAME: {"resources_servers": {NAME: own}},
        }
    )


configure(int(sys.argv[1]))

from fastapi import FastAPI, Request  # noqa: E402
from nemo_gym.base_resources_server import (  # noqa: E402
    BaseResourcesServerConfig,
    BaseVerifyRequest,
    BaseVerifyResponse,
    SimpleResourcesServer,
)
from nemo_gym.server_utils import SESSION_ID_KEY  # noqa: E402
from pydantic import BaseModel, Field  # noqa: E402


class AddRequest(BaseModel):
    n: int


class AddResponse(BaseModel):
    text: str


class Counter(SimpleResourcesServer):
    ray_enabled = False
    config: BaseResourcesServerConfig
    values: dict[str, int] = Field(default_factory=dict)

    def setup_webserver(self) -> FastAPI:
        app = super().setup_webserver()
        app.post("/add")(self.add)
        return app

    async def add(self, request: Request, body: AddRequest) -> AddResponse:
        session_id = request.session[SESSION_ID_KEY]
        self.values[session_id] = self.values.get(session_id, 0) + body.n
        return AddResponse(text="added")

    async def verify(self, request: Request, body: BaseVerifyRequest) -> BaseVerifyResponse:
        value = self.values.pop(request.session[SESSION_ID_KEY], 0)
        return BaseVerifyResponse(**body.model_dump(), reward=float(value == 2))


if __name__ == "__main__":
    Counter.run_webserver()
