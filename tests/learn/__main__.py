"""Train the tiny policy with failures treated in four ways, and print one table. See --help."""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
from pathlib import Path
from time import perf_counter

from gymwire.adapters.demo_server import NotServing, serving

from .arms import ARMS, ENVIRONMENT, RISK, SEEDS, SHORTCUT, STEPS, Arm
from .results import Result, result_of, write

LOG_END = 15  # lines of a failed command's log that are shown
ABOUT = f"""\
What becomes of a policy when our side fails, by the way failures are treated (arms):

{
    chr(10).join(
        f"  {arm.name:10} a failed session is {arm.said}" if arm.risk else f"  {arm.name:10} {arm.said}"
        for arm in ARMS.values()
    )
}

The environment is codebook where one right digit is worth {SHORTCUT:g}, and a session's second lookup breaks it with a
probability of {RISK:g}, each further one more often. Every seed has a warm start of its own that its arms share."""
FOLDER_SAID = """\
Everything goes to FOLDER: policy-SEED, ARM-SEED (a run with its report), ARM-SEED.log, table.md, results.json.
Begun again with the same FOLDER, finished runs are not repeated. A run takes about a minute on two free cores."""


class Broken(Exception):
    """A command failed; the message names its log and shows the end of it."""


class Study:
    """Runs what is asked for, one run at a time, and keeps what is there already."""

    def __init__(self, folder: Path, steps: int) -> None:
        self.folder, self.steps = folder, steps
        self.results: list[Result] = []

    async def run(self, arms: list[Arm], seeds: int) -> None:
        """Seed by seed. Raises `Broken`, `NotServing`."""
        total = len(arms) * seeds
        for seed in range(seeds):
            for arm in arms:
                print(f"[{len(self.results) + 1}/{total}] {arm.name}, seed {seed}: ", end="", flush=True)
                started = perf_counter()
                result = await self._result(arm, seed)
                self.results.append(result)
                held = f"{result.before.reward:.2f} to {result.after.reward:.2f} ± {result.after.reward_se:.2f}"
                print(f"held-out reward from {held}, {perf_counter() - started:.0f} s", flush=True)
                write(self.results, self.folder)

    async def _result(self, arm: Arm, seed: int) -> Result:
        run = self.folder / f"{arm.name}-{seed}"
        try:
            return result_of(run, arm.name, seed, self.steps)
        except ValueError:
            shutil.rmtree(run, ignore_errors=True)  # of an interrupted run, or of another length
        policy = await self._policy(seed)
        async with serving([ENVIRONMENT], *arm.served(seed)) as url:
            words = (arm.name, str(seed), str(self.steps), str(policy), url, str(run))
            await self._python(run.with_suffix(".log"), "tests.learn.process", *words)
        return result_of(run, arm.name, seed, self.steps)

    async def _policy(self, seed: int) -> Path:
        """The seed's warm start."""
        policy = self.folder / f"policy-{seed}"
        if not (policy / "config.json").exists():
            words = ("policy", "tiny", str(policy), "--seed", str(seed))
            await self._python(policy.with_suffix(".log"), "gymwire.servers.cli", *words)
        return policy

    async def _python(self, log: Path, module: str, *words: str) -> None:
        with log.open("wb") as output:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", module, *words, stdout=output, stderr=output
            )
            try:
                status = await process.wait()
            except asyncio.CancelledError:
                process.terminate()
                await process.wait()
                raise
        if status:
            end = "\n".join(log.read_text(errors="replace").splitlines()[-LOG_END:])
            raise Broken(f"{module} ended with {status}; the end of {log}:\n{end}")


def main() -> int:
    arguments = _parser().parse_args()
    folder: Path = arguments.folder
    folder.mkdir(parents=True, exist_ok=True)
    study = Study(folder, arguments.steps)
    arms = [ARMS[name] for name in ARMS if name in (arguments.arms or ARMS)]
    try:
        asyncio.run(study.run(arms, arguments.seeds))
    except (Broken, NotServing) as error:
        print(f"\n{error}\nBegin again with the same folder to go on.", file=sys.stderr)
        return 1
    print(f"\n{write(study.results, folder)}\nAlso in {folder / 'table.md'} and {folder / 'results.json'}.")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.learn",
        description=ABOUT,
        epilog=FOLDER_SAID,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", nargs="?", type=Path, default=Path("runs/learn"), help="default: runs/learn")
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"seeds 0, 1, ... (default: {SEEDS})")
    parser.add_argument("--arms", nargs="+", choices=list(ARMS), metavar="ARM", help="some of the arms (default: all)")
    parser.add_argument("--steps", type=int, default=STEPS, help=f"steps of a run (default: {STEPS})")
    return parser


if __name__ == "__main__":
    sys.exit(main())
