"""`gymwire token new`."""

from __future__ import annotations

from pathlib import Path

import pytest
from gymwire.servers.auth import read_grants
from gymwire.servers.commands.token import app
from typer.testing import CliRunner

run = CliRunner().invoke


def test_tokens_are_added_to_a_file_for_its_owner_alone(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    first = run(app, ["new", "--file", str(file)])
    assert first.exit_code == 0 and file.stat().st_mode & 0o777 == 0o600
    file.write_text(file.read_text().rstrip("\n"))  # an editor that ends no line
    second = run(app, ["new", "--file", str(file), "--scope", "play", "--name", "lab"])
    grants = read_grants(file)
    assert [grant.token for grant in grants] == [first.stdout.strip(), second.stdout.strip()]
    assert grants[1].scopes == {"play"} and grants[1].name == "lab"
    assert len(grants[0].token) >= 43


@pytest.mark.parametrize("words", [["--scope", "root"], ["--name", "a b"], ["--file", "/nowhere/at/all"]])
def test_what_cannot_be_is_said_in_one_sentence(words: list[str]) -> None:
    told = run(app, ["new", *words])
    assert told.exit_code != 0 and told.stderr.startswith("gymwire: ") and told.stderr.count("\n") == 1
