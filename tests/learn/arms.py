"""The four ways to treat a failure, and the config of their runs. Needs no training stack."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import gymwire.trainer
from gymwire.trainer.config import Config, read_config

ENVIRONMENT = "tests.learn.failing:FailingCodebook"
#: What one right digit is worth, and how likely the second lookup breaks the session.
SHORTCUT, RISK = 0.68, 0.6
#: Recoveries a session may have: each succeeds with 1 - RISK where the second lookup broke.
RECOVERIES = 16
STEPS, SEEDS = 30, 3


@dataclass(frozen=True, slots=True)
class Arm:
    """One way. `failed_is_zero` is no option of gymwire: it is what training without masking does."""

    name: str
    said: str
    risk: float = RISK
    recover: int = 0
    failed_is_zero: bool = False

    def served(self, seed: int) -> tuple[str, ...]:
        """Options of its server."""
        settings = {"shortcut": SHORTCUT, "risk": self.risk, "outages": seed}
        return tuple(word for key, value in settings.items() for word in ("--set", f"{key}={value}"))


ARMS = {
    arm.name: arm
    for arm in (
        Arm("clean", "nothing fails", risk=0.0),
        Arm("recovered", f"recovered by replay, up to {RECOVERIES} times, then masked", recover=RECOVERIES),
        Arm("masked", "masked only"),
        Arm("zero", "trained on as reward 0", failed_is_zero=True),
    )
}


def config_of(arm: Arm, *, seed: int, steps: int, policy: Path, url: str, folder: Path) -> Config:
    """`tiny-cpu.yaml` on that server. The first step's audit is off: it replays calls, and these may break.

    No retries: they begin with the very tokens that broke, so they would only be further recoveries.
    """
    settings = {
        "model.path": policy,
        "environment.name": "failing_codebook",
        "environment.url": url,
        "log.dir": folder,
        "log.audit_first_step": False,
        "failures.recover": arm.recover,
        "failures.max_retries": 0,
        "failures.stop_share": 1.0,
        "trl.max_steps": steps,
        "trl.seed": seed,
    }
    file = Path(gymwire.trainer.__file__).parent / "configs" / "tiny-cpu.yaml"
    return read_config(file, [f"{key}={value}" for key, value in settings.items()])
