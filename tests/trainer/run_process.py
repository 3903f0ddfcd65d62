"""One process of a run with scripted token ids: `python -m tests.trainer.run_process CONFIG`, under torchrun."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import torch
from gymwire.trainer.checks import Findings, check
from gymwire.trainer.config import read_config
from gymwire.trainer.run import run
from gymwire.trainer.tiny import make_tokenizer
from gymwire.trainer.tokens import ChatTemplate

from tests.trainer.scripted import Scripted, codebook


def main() -> int:
    torch.set_num_threads(1)
    config = read_config(Path(sys.argv[1]))
    findings = Findings()
    plan = asyncio.run(check(config, findings))
    assert plan is not None, findings.faults
    template = ChatTemplate(make_tokenizer())
    policy = Scripted(codebook, template.encoder.rendered, template.encoder.text, template.end_of_turn_id)
    return run(config, plan, resume="--resume" in sys.argv, policy=policy)


if __name__ == "__main__":
    sys.exit(main())
