"""Run in NeMo Gym's environment: several of its servers, each a process, after importing them once.

    python gym_servers.py NAME=MODULE:CLASS ...

NAME is the server's name in the configuration, which NEMO_GYM_CONFIG_DICT holds. Ray stays off: a server that
does not decline it starts a cluster of its own, which takes ten seconds, and none of these uses it.
"""

import importlib
import os
import sys

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # only a process without threads is safe to fork


def main(servers: list[str]) -> None:
    classes = {}
    for item in servers:
        name, _, place = item.partition("=")
        module, _, class_name = place.partition(":")
        classes[name] = getattr(importlib.import_module(module), class_name)
    importlib.import_module("nemo_gym.server_utils").__dict__["initialize_ray"] = lambda: None
    for name, server in classes.items():
        if os.fork() == 0:
            os.environ["NEMO_GYM_CONFIG_PATH"] = name
            server.run_webserver()
            return
    for _ in classes:
        os.wait()


if __name__ == "__main__":
    main(sys.argv[1:])
