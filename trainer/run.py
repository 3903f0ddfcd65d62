"""A run of `gymwire train`, from a checked plan to a trained policy. Imports torch and TRL; `checks` does not.

TRL drives: it asks for rollouts (`_collect`), and calls `Watch` around its steps. Everything that is played runs on
one event loop, on which the connection to the environment and the engine stay for the whole run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
import yaml
from accelerate.utils import gather_object
from transformers.trainer_callback import PrinterCallback, ProgressCallback
from transformers.utils import logging

from datasets import Dataset

from .audit import audit_tokens, failed_sentence, merged, verdict
from .change import change_of
from .checkpoints import PROGRESS, newest, step_of
from .checks import Plan
from .collect import Batch, Collector, Drawing, Progress, Share, TooManyFailures
from .config import Config, as_json
from .encoding import TemplateError
from .engine import Engine
from .evaluate import Evaluator
from .grpo import Sample, SessionGRPOTrainer
from .ledger import Ledger
from .loop import Interrupted, Interruption, Loop
from .manifest import Manifest
from .options import grpo_config, load_tokenizer, lora_config
from .report import write_report
from .reverify import Reverifier, spread
from .rollout import Player, Policy, Seat
from .samples import NO_PROMPT, samples_of
from .sampling import EnginePolicy
from .steplog import StepLog
from .terminal import Terminal
from .tokens import ChatTemplate, Dialogue
from .trajectories import Trajectories, plain
from .vllm_cpu import generation_for_this_machine
from .watch import Watch
from .weights import context_of

STOPPED_EXIT = 1
#: Episodes of the first step that are replayed on the environment, in each process.
REPLAYED = 64


class RunError(RuntimeError):
    """A run that cannot begin or go on; the message names the fix."""


def run(config: Config, plan: Plan, *, resume: bool = False, policy: Policy | None = None) -> int:
    """Train; answers the exit status. With a `policy` of its own no engine is started: for tests with scripted ids."""
    logging.disable_progress_bar()
    with ExitStack() as stack_:
        return Run(config, plan, resume, policy, stack_).train()


class Run:
    """One process of a run."""

    def __init__(self, config: Config, plan: Plan, resume: bool, policy: Policy | None, stack_: ExitStack) -> None:
        self.config, self.plan = config, plan
        self.folder = config.log.dir
        self.checkpoint = _checkpoint(self.folder, resume)
        self.args = grpo_config(config, engine=policy is None)
        self.share = Share(self.args.process_index, lambda own: gather_object([own]))
        self.terminal = Terminal(silent=not self._is_main)
        self.tokenizer = load_tokenizer(config.model)
        self.template = self._template()
        self.manifest = self._manifest()
        self.log = StepLog(self.folder / "steps.jsonl")
        self.trajectories = Trajectories(self.folder, self.args.process_index)
        self.progress = Progress()
        self.interruption = Interruption()
        self._begin_folder()
        self.ledger = Ledger(self.folder / "failures.jsonl", plan.place.identity.wire)
        self.watch = self._make_watch()
        self.trainer = self._make_trainer()
        self.watch.trainer = self.trainer
        self.loop = Loop()
        stack_.callback(self.loop.close)
        self.connection = plan.place.connection()
        self.loop.run(self.connection.open())
        stack_.callback(lambda: self.loop.run(self.connection.close()))
        self._make_players(policy)

    @property
    def _is_main(self) -> bool:
        return self.args.process_index == 0

    # ---- what is made once

    def _template(self) -> ChatTemplate:
        try:
            template = ChatTemplate(self.tokenizer, **(self.config.trl.get("chat_template_kwargs") or {}))
            template.require(tools=self.plan.place.offers_tools, user_turns=self.plan.place.info.has_end_turn)
        except TemplateError as error:
            raise RunError(f"model.path {self.config.model.path}: {error}") from None
        return template

    def _manifest(self) -> Manifest:
        place, rows = self.plan.place, self.plan.rows
        if self.checkpoint is None:
            return Manifest.begin(self.folder, self.config, place, rows, self.plan.eval_rows)
        return Manifest.resume(self.folder, self.config, place, rows, step_of(self.checkpoint))

    def _begin_folder(self) -> None:
        if self.checkpoint is not None:
            self.progress = Progress.load(self.checkpoint / PROGRESS)
            self.trajectories.cut_back(step_of(self.checkpoint))
        if not self._is_main:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "config.yaml").write_text(yaml.safe_dump(as_json(self.config), sort_keys=False))
        if self.checkpoint is not None:
            self.log.cut_back(step_of(self.checkpoint))
        self.manifest.write(self.log.lines())

    def _make_watch(self) -> Watch:
        return Watch(
            self.folder,
            self.plan.geometry,
            self.progress,
            self.log,
            self.manifest,
            self.terminal,
            self.interruption,
            self.share,
            self._evaluate if len(self.plan.eval_rows) else None,
        )

    def _make_trainer(self) -> SessionGRPOTrainer:
        """Raises `RunError` with what TRL or vLLM say against the options."""
        try:
            return self._constructed()
        except ValueError as error:
            raise RunError(f"the trainer cannot be made of these options: {error}") from error

    def _constructed(self) -> SessionGRPOTrainer:
        with generation_for_this_machine():
            trainer = SessionGRPOTrainer(
                self.config.model.path,
                args=self.args,
                collect=self._collect,
                reward_names=self.config.data.components or ["reward"],
                train_dataset=self._placeholders(),
                processing_class=self.tokenizer,
                peft_config=lora_config(self.config.model.lora),
                callbacks=[self.watch],
            )
        trainer.remove_callback(PrinterCallback)
        trainer.remove_callback(ProgressCallback)
        return trainer

    def _placeholders(self) -> Dataset:
        """As many prompts as there are rows, so that epochs have their meaning; the collector draws the rows."""
        groups = self.plan.geometry.groups
        count = -(-len(self.plan.rows) // groups) * groups
        return Dataset.from_dict({"prompt": [NO_PROMPT] * count})

    def _make_players(self, policy: Policy | None) -> None:
        config, args = self.config, self.args
        seat = Seat(
            self.connection,
            partial(Dialogue, self.template),
            config.rollout,
            config.failures,
            limit=partial(self.template.limit, max_tokens=config.rollout.max_result_tokens),
            allowed_tools=config.environment.allowed_tools,
            context=self._context(),
            on_failure=self.ledger.write,
        )
        sampled = evaluated = policy
        if policy is None:
            self.engine = Engine.of(self.trainer.vllm_generation.llm)
            stop = self.template.stop_token_ids
            sampled = EnginePolicy(self.engine, stop, args.temperature, args.top_p, args.top_k, args.min_p)
            evaluated = EnginePolicy(self.engine, stop)
        assert sampled is not None and evaluated is not None
        self.collector = Collector(
            Player(seat, sampled, config.environment.max_concurrent),
            Drawing(self.plan.rows, self.progress, args.seed),
            config.failures,
            group_size=self.plan.geometry.group,
            max_refill=config.rollout.max_refill,
            retire_above=config.data.retire_above,
            seed=args.seed,
            share=self.share,
            on_played=self._dump,
        )
        player = Player(seat, evaluated, config.environment.max_concurrent)
        self.evaluator = Evaluator(player, self.plan.eval_rows, self.share)

    def _context(self) -> int | None:
        """How many tokens a dialogue may have: what the engine holds."""
        if self.trainer.use_vllm:
            return int(self.trainer.vllm_generation.llm.model_config.max_model_len)
        return self.args.vllm_max_model_length or context_of(Path(self.config.model.path))

    # ---- what TRL asks for

    def _collect(self, inputs: list[dict[str, Any]], mode: str) -> Sequence[Sample]:
        if self.interruption.asked is not None and self.args.world_size == 1:
            raise Interrupted
        self.ledger.step = self.trainer.state.global_step + 1
        started = perf_counter()
        with self._awake():
            batch = self.loop.run(self.collector.collect(len(inputs) // self.plan.geometry.group))
        played = [trace for group in batch.played for trace in group.traces]
        self.watch.clock.add_rollout(perf_counter() - started, [trace.times for trace in played])
        if self.ledger.step == 1 and self.config.log.audit_first_step:
            self._audit(batch)
        figures = self._summed(batch.figures())
        self.watch.record(figures, [row for own in self.share.gather([g.row for g in batch.played]) for row in own])
        for name, value in batch.components().items():
            self.trainer._metrics["train"][name].append(value)
        return samples_of(
            batch,
            self.config.data.components,
            mask_cut=self.args.mask_truncated_completions,
            stub_id=self.template.end_of_turn_id,
        )

    def _dump(self, batch: Batch) -> None:
        if self.config.log.trajectories:
            self.trajectories.write(self.ledger.step, batch)

    def _audit(self, batch: Batch) -> None:
        """The first step's episodes, before anything is learned from them. Raises `RunError` in every process."""
        environment, records = self.config.environment, plain(batch)
        reverifier = Reverifier(
            self.connection,
            self.plan.rows,
            max_concurrent=environment.max_concurrent,
            timeout_s=self.config.rollout.tool_timeout_s,
            allowed_tools=environment.allowed_tools,
        )
        with self.watch.clock.timing("verify"):
            own = audit_tokens(records, self.template)
            own.append(self.loop.run(reverifier.check(spread(records, REPLAYED))))
        checks = merged(self.share.gather(own))
        self.manifest.content["audit"] = [check.to_json() for check in checks]
        if said := failed_sentence(checks):
            raise RunError(f"the audit of the first step: {said}; log.audit_first_step: false trains all the same")
        self.terminal.say(f"audit of the first step: {verdict(checks, checks[0].episodes)}")

    def _summed(self, figures: dict[str, float]) -> dict[str, float]:
        """Over all processes."""
        parts = self.share.gather(figures)
        return {key: sum(part[key] for part in parts) for key in figures}

    def _evaluate(self) -> dict[str, float]:
        """Held-out rows with the current weights; the random states of training stay as they are."""
        self.ledger.step = self.trainer.state.global_step
        with torch.random.fork_rng():
            self.trainer._sync_engine()
            with self._awake():
                figures = self.loop.run(self.evaluator.evaluate())
        if self.config.log.trajectories:
            self.trajectories.write_evaluation(self.ledger.step, self.evaluator.traces)
        return figures

    @contextmanager
    def _awake(self) -> Iterator[None]:
        """With trl.vllm_enable_sleep_mode the engine has its memory only while episodes are played."""
        if not (self.trainer.use_vllm and self.args.vllm_enable_sleep_mode):
            yield
            return
        generation = self.trainer.vllm_generation
        generation.llm.wake_up(tags=["kv_cache"])
        try:
            yield
        finally:
            generation.llm.sleep(level=2)
            generation._llm_weights_sleeping = True

    # ---- the run

    def train(self) -> int:
        self.interruption.watch(self.loop if self.args.world_size == 1 else None)
        if self.trainer.use_vllm:
            self._time_syncs()
        with self.interruption:
            try:
                self.trainer.train(resume_from_checkpoint=None if self.checkpoint is None else str(self.checkpoint))
            except Interrupted:
                self._save_now()
            except TooManyFailures as error:
                self._save_now()
                self._end("failed", reason=str(error))
                self.terminal.say(f"gymwire: stopped: {error}")
                return STOPPED_EXIT
            except Exception as error:
                self._end("failed", reason=f"{type(error).__name__}: {error}")
                raise
            finally:
                self.terminal.end()
        if self.interruption.asked is not None:
            return self._left()
        named = self.trainer.vllm_generation._iter_named_params() if self.trainer.use_vllm else None
        change = change_of(named or self.trainer.model.named_parameters(), self.config.model.path)
        self._end("finished", parameter_change=change)
        self.terminal.say(f"finished after step {self.trainer.state.global_step}: {self.folder}")
        return 0

    def _time_syncs(self) -> None:
        generation, clock = self.trainer.vllm_generation, self.watch.clock
        sync = generation.sync_weights

        def timed() -> None:
            with clock.timing("sync"):
                sync()

        generation.sync_weights = timed  # type: ignore[method-assign]

    def _save_now(self) -> None:
        """A checkpoint of where the last step ended, although the next one had begun."""
        step = self.trainer.state.global_step
        if not step or (self.folder / f"checkpoint-{step}" / PROGRESS).exists():
            return
        if not self.plan.geometry.is_boundary(step):
            return
        self.watch.moment.restore(self.progress)
        self.trainer._save_checkpoint(self.trainer.model, None)
        self.trainer.callback_handler.on_save(self.args, self.trainer.state, self.trainer.control)

    def _left(self) -> int:
        saved = newest(self.folder)
        self._end("interrupted", signal=self.interruption.asked)
        where = "no step was finished, so nothing was saved" if saved is None else f"go on from {saved} with --resume"
        self.terminal.say(f"gymwire: {self.interruption.asked}: {where}")
        return 0

    def _end(self, state: str, **more: Any) -> None:
        if self._is_main:
            self.manifest.write(self.log.lines(), state=state, **more)
            self._report()

    def _report(self) -> None:
        try:
            write_report(self.folder)
        except Exception as error:  # a report is made of a run, and must not end it
            self.terminal.say(f"gymwire: there is no report: {type(error).__name__}: {error}")


def _checkpoint(folder: Path, resume: bool) -> Path | None:
    """Where to go on. Raises `RunError` where a new run would mix with an old one, or there is nothing to resume."""
    found = newest(folder)
    if resume and found is None:
        raise RunError(f"{folder} holds no complete checkpoint to resume from; run without --resume, in a new log.dir")
    if not resume and (folder / "steps.jsonl").exists():
        raise RunError(f"{folder} holds a run already; go on with --resume, or name another folder as log.dir")
    return found
