"""Type-checks the built wheel: `python -m tests.types_of_wheel`.

Type checkers do not see an editable install's mapped folders, so the package is built and laid out as a user gets
it, in a folder of the cache, and checked there.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.peers.venvs import cache_root

ROOT = Path(__file__).parent.parent
#: All that a wheel is made of.
SOURCES = ("servers", "adapters", "trainer", "pyproject.toml", "README.md", "LICENSE", "NOTICE")


def main() -> int:
    folder = cache_root().parent / f"wheel-{os.getpid()}"
    try:
        install_wheel(folder)
        return check(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def install_wheel(folder: Path) -> None:
    """Build the wheel from a copy, so that a stale `build` folder adds nothing, and unpack it there."""
    with TemporaryDirectory() as copy:
        for name in SOURCES:
            _copy(ROOT / name, Path(copy) / name)
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q", "install", "--no-deps"]
        subprocess.run([*pip, "--target", str(folder), copy], check=True)


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    elif source.exists():
        shutil.copy(source, target)


def check(folder: Path) -> int:
    """Run pyright over the package as installed; its exit status."""
    config: dict[str, object] = {"include": ["gymwire"], "pythonVersion": "3.11", "typeCheckingMode": "standard"}
    config["exclude"] = ["**/swe/repositories"]  # data: repositories as a policy finds them
    if find_spec("trl") is None:  # the trainer's stack is an extra of its own: what it offers is unknown then
        trainer = {"root": "gymwire/trainer", "extraPaths": ["."], "reportMissingImports": "none"}
        config["executionEnvironments"] = [trainer, {"root": "."}]
    (folder / "pyrightconfig.json").write_text(json.dumps(config))
    pyright = [sys.executable, "-m", "pyright", "--project", str(folder), "--pythonpath", sys.executable]
    done = subprocess.run(pyright, cwd=folder, stdout=subprocess.PIPE, text=True)
    print(done.stdout.replace(f"{folder / 'gymwire'}{os.sep}", ""), end="")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
