"""What cannot be had together with masked sessions, read from TRL's options: nothing of TRL is imported for it.

A window of failed sessions takes no optimizer step because its gradients are cleared, which DeepSpeed and fp16's loss
scaler do not allow; an adaptive entropy bonus would count placeholders, and so would the router loss of
mixture-of-experts models.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from .masking import LOSSES

ROUTER = "the router loss would count failed sessions; set trl.router_aux_loss_coef: 0"


def refusals(options: Mapping[str, Any]) -> list[str]:
    """A sentence for each option that is refused; accelerate's own settings count, too."""
    loss = options.get("loss_type", "dapo")
    found = []
    if loss not in LOSSES:
        found.append(f"trl.loss_type {loss!r} is not known here; take one of {', '.join(sorted(LOSSES))}")
    if options.get("use_adaptive_entropy"):
        found.append("trl.use_adaptive_entropy is not supported with masked sessions; set trl.entropy_coef instead")
    if options.get("fp16") or os.environ.get("ACCELERATE_MIXED_PRECISION") == "fp16":
        found.append("fp16: its loss scaler cannot leave out a window of failed sessions; set trl.bf16: true instead")
    if options.get("deepspeed") or os.environ.get("ACCELERATE_USE_DEEPSPEED", "").lower() in ("1", "true", "yes"):
        found.append("DeepSpeed cannot leave out a window of failed sessions; use accelerate with FSDP2")
    return found


def router_refusal(coefficient: float | None, options: Mapping[str, Any]) -> str | None:
    """The same for a model whose config has a router loss of that coefficient."""
    wanted = options.get("router_aux_loss_coef")
    return ROUTER if (coefficient if wanted is None else wanted) else None
