"""How far training moved the parameters: the norm of what they are minus what the run began with.

The beginning is read again, tensor by tensor, from the model's own files, so it needs no second copy in memory. LoRA
is merged first: what counts is the weights that the engine samples with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import sqrt
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import snapshot_download
from safetensors import safe_open

Named = Iterable[tuple[str, torch.Tensor]]


def change_of(named: Named, model: str) -> dict[str, Any]:
    """`change` and `norm` over the tensors found in both; `unmatched` counts the others."""
    read = _reader(model)
    moved = was = 0.0
    unmatched = 0
    with torch.no_grad():
        for name, tensor in named:
            before = read(name)
            if before is None or before.shape != tensor.shape:
                unmatched += 1
                continue
            before = before.to(torch.float32)
            moved += float((tensor.detach().to("cpu", torch.float32) - before).square().sum())
            was += float(before.square().sum())
    return {"change": sqrt(moved), "norm": sqrt(was), "unmatched": unmatched}


def _reader(model: str) -> Callable[[str], torch.Tensor | None]:
    folder = Path(model) if Path(model).exists() else Path(snapshot_download(model, local_files_only=True))
    files = {}
    for file in sorted(folder.glob("*.safetensors")):
        with safe_open(file, "pt") as opened:
            files |= dict.fromkeys(opened.keys(), file)

    def read(name: str) -> torch.Tensor | None:
        if name not in files:
            return None
        with safe_open(files[name], "pt") as opened:
            return opened.get_tensor(name)

    return read
