"""Train the embedded model, or with --guide its causal twin (`guide.py`). Give the second
command the same arguments and --last.

    python -m training.train --data DIR --output DIR --checkpoint DIR --minutes 9.2

A command trains until its minutes are over (start, compiling and the last checks included), saves
all of its state under --checkpoint and writes the model as a LLaDA checkpoint to --output. The
rate follows the time spent over the whole plan, so the schedule fits any throughput.

Worker processes import this file: everything heavy is imported inside functions.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import multiprocessing
import sys
import time
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flash_dllm.evaluation.workers import end_with_parent
from training.stream import PROCEDURAL, ChatTokenizer, ShardStream, StreamConfig, pack

if TYPE_CHECKING:
    from training.model import ModelConfig
    from training.quick_check import CheckSet
    from training.trainer import StepResult, Trainer

log = logging.getLogger("training.train")

LOG_SECONDS = 10.0
CHECK_SECONDS = 120.0
SAVE_SECONDS = 180.0
CHECK_EPSILON = 0.9
# shards kept in the last checkpoint, to begin the next command with
WARM_SHARDS = 32


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m training.train", description=__doc__)
    parser.add_argument("--data", help="folder of the real texts; without it, none are used")
    parser.add_argument("--tokenizer", default="assets/tiny/tokenizer.json")
    parser.add_argument("--output", type=Path, required=True, help="the trained model goes here")
    parser.add_argument("--checkpoint", type=Path, required=True, help="state between commands")
    parser.add_argument("--minutes", type=float, default=9.2, help="of this whole command")
    parser.add_argument("--final-seconds", type=float, default=25.0, help="of them, for the end")
    parser.add_argument(
        "--total-minutes", type=float, help="training time of all commands; default: twice this one"
    )
    parser.add_argument("--last", action="store_true", help="the rate reaches 0 in this command")
    parser.add_argument("--tokens-per-step", type=int, default=131072)
    parser.add_argument("--masked-share", type=float, default=0.5)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--shard-tokens", type=int, default=500_000)
    parser.add_argument("--muon-lr", type=float, default=0.02)
    parser.add_argument("--adamw-lr", type=float, default=3e-3)
    parser.add_argument("--weight-decay", type=float, default=0.05, help="of the block matrices")
    parser.add_argument("--warmup", type=int, default=200)
    parser.add_argument("--decay-share", type=float, default=0.45)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--start-from", type=Path, help="a trained folder to begin with")
    parser.add_argument("--guide", action="store_true", help="train the causal guide instead")
    parser.add_argument("--layers", type=int, help="default: 8, of the guide 5")
    parser.add_argument("--width", type=int, help="default: 384, of the guide 256")
    parser.add_argument("--attention", default="auto", choices=["auto", "varlen", "aten", "local"])
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--check-items", type=int, default=64, help="a domain; 0 for no checks")
    parser.add_argument("--item-source", default="training.mixture:training_item")
    parser.add_argument("--speed-test", type=float, help="measure for so many seconds and stop")
    return parser.parse_args(arguments)


class Checks:
    """Held-out items, drawn in other processes while the model compiles, and their checks."""

    def __init__(self, per_domain: int, tokenizer: str, is_guide: bool = False) -> None:
        from training.held_out import held_out_items

        self.per_domain, self.tokenizer, self.is_guide = per_domain, tokenizer, is_guide
        context = multiprocessing.get_context("spawn")
        self.pool = ProcessPoolExecutor(4, context, end_with_parent)
        self.items: dict[str, Future[Any]] = {
            domain: self.pool.submit(held_out_items, domain, per_domain) for domain in PROCEDURAL
        }
        self.made: CheckSet | None = None
        self.batch: Any = None

    def ready(self) -> bool:
        return all(future.done() for future in self.items.values())

    def check_set(self) -> CheckSet:
        from training.quick_check import make_check_set

        if self.made is None:
            self.chat = ChatTokenizer(self.tokenizer)
            self.made = make_check_set(
                self.chat, lambda domain, _: self.items[domain].result(120), self.per_domain
            )
            self.pool.shutdown(wait=False)
        return self.made

    def losses(self, trainer: Trainer) -> str:
        from training.quick_check import held_out_losses, packed_canvas

        checks = self.check_set()
        if self.batch is None:
            self.batch = packed_canvas(checks, self.chat, trainer.device, with_answers=True)
        if self.is_guide:
            from training import guide

            found = guide.held_out_losses(trainer.model, self.batch)
        else:
            found = held_out_losses(trainer.model, self.batch)
        return " ".join(f"{domain} {loss:.4f}" for domain, loss in found.items())

    def accuracies(self, trainer: Trainer) -> dict[str, Any]:
        """Of greedy and of confidence decoding, or of the guide alone; logged and returned."""
        from flash_dllm.evaluation.scoring import are_correct
        from training.quick_check import accuracies, packed_canvas, rates

        # the answers of a model in training: bubblewrap where it is installed, limits anyway
        judge = partial(are_correct, allow_unsandboxed=True)
        checks = self.check_set()
        results: dict[str, Any] = {}
        if self.is_guide:
            from training import guide

            canvas = packed_canvas(checks, self.chat, trainer.device, with_answers=False)
            decoded = guide.decode(trainer.model, canvas, self.chat)
            results["guide alone"] = rates(decoded, checks, self.chat, judge)
        else:
            for name, epsilon in (("greedy", 2.0), (f"confidence {CHECK_EPSILON}", CHECK_EPSILON)):
                results[name] = accuracies(
                    trainer.model, checks, self.chat, trainer.device, judge, epsilon
                )
        for name, rows in results.items():
            for domain, row in rows.items():
                log.info(
                    "check %s, %s: accuracy %.3f of %d, %.2f tokens/step",
                    name,
                    domain,
                    row["accuracy"],
                    row["items"],
                    row["tokens_per_step"],
                )
        return results


class Attempt:
    """Runs checks so that none of them can lose the trained model: failures are logged."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: object
    ) -> bool:
        if kind is None or not issubclass(kind, Exception):
            return False
        log.error("%s failed: %s: %s", self.name, kind.__name__, error, exc_info=error)
        return True


def format_losses(result: StepResult) -> str:
    return " ".join(
        f"{name} {loss:.3f}" for name, loss in result.by_domain().items() if not math.isnan(loss)
    )


def train(arguments: argparse.Namespace, started: float) -> None:
    """The whole command; `started` is the monotonic time at its beginning."""
    checks = None
    if arguments.check_items and not arguments.speed_test:
        checks = Checks(arguments.check_items, arguments.tokenizer, arguments.guide)
    trainer, next_shard, warm_shards = set_up(arguments)
    config = stream_config(arguments)
    stream = ShardStream(
        config, arguments.workers, arguments.tokens_per_step, next_shard, warm_shards
    )
    with stream:
        compile_while_data_comes(trainer, stream, arguments)
        log.info("ready after %.1f s", time.monotonic() - started)
        if arguments.speed_test:
            speed_test(trainer, stream, arguments.speed_test)
            return
        finished = loop(trainer, stream, checks, arguments, started)
        trainer.save(arguments.checkpoint, finished, stream.next_index, stream.newest(WARM_SHARDS))
    files = export_model(trainer, arguments)
    log.info("exported %d files, %d bytes", len(files), sum(f.stat().st_size for f in files))
    summary: dict[str, Any] = {
        "steps": trainer.step_number,
        "tokens": trainer.tokens_seen,
        "seconds": round(finished, 1),
        "arguments": {key: str(value) for key, value in vars(arguments).items()},
    }
    summary_path = arguments.output / "training.json"
    summary_path.write_text(json.dumps(summary, indent=2) + "\n")
    if checks is not None:
        with Attempt("last check"):
            log.info("held-out loss: %s", checks.losses(trainer))
            summary["checks"] = checks.accuracies(trainer)
            summary_path.write_text(json.dumps(summary, indent=2) + "\n")
    log.info("done after %.1f s", time.monotonic() - started)


def export_model(trainer: Trainer, arguments: argparse.Namespace) -> list[Path]:
    """Write the trained model in its family's layout; the files written."""
    if arguments.guide:
        from training.guide import export_guide

        return export_guide(trainer.model, arguments.output, ChatTokenizer(arguments.tokenizer))
    from training.export import export

    return export(trainer.model, arguments.output)


def weights_of(trainer: Trainer, arguments: argparse.Namespace) -> dict[str, Any]:
    """The weights to start from, under the training model's names."""
    if arguments.guide:
        from training.guide import load_guide_weights

        return load_guide_weights(trainer.model, arguments.start_from)
    from training.export import load_weights

    return load_weights(arguments.start_from)


def set_up(arguments: argparse.Namespace) -> tuple[Trainer, int, list[Any]]:
    """Trainer, next shard and warm shards; continued from the checkpoint if there is one."""
    import torch

    from training.corruption import corrupt
    from training.model import LLaDA
    from training.trainer import Objective, TrainConfig, Trainer

    torch.set_float32_matmul_precision("high")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    name = torch.cuda.get_device_name() if device.type == "cuda" else "cpu"
    log.info("torch %s on %s", torch.__version__, name)
    kind: type[LLaDA] = LLaDA
    objective: Objective = corrupt
    if arguments.guide:
        from training.guide import CausalTwin, next_tokens

        kind, objective = CausalTwin, next_tokens
    config = TrainConfig(
        tokens_per_step=arguments.tokens_per_step,
        # the guide learns from every token
        masked_share=1.0 if arguments.guide else arguments.masked_share,
        muon_lr=arguments.muon_lr,
        adamw_lr=arguments.adamw_lr,
        weight_decay=arguments.weight_decay,
        warmup=arguments.warmup,
        decay_share=arguments.decay_share,
        seed=arguments.seed,
        attention=arguments.attention,
        compile=not arguments.no_compile,
    )
    trainer = Trainer(shape(arguments), config, device, kind, objective)
    log.info(
        "%.2f M parameters, attention %s",
        sum(parameter.numel() for parameter in trainer.model.parameters()) / 1e6,
        trainer.model.attention,
    )
    if arguments.start_from:
        trainer.model.load_state_dict(weights_of(trainer, arguments))
        log.info("starting from the weights in %s", arguments.start_from)
    next_shard, warm_shards = 0, []
    if (arguments.checkpoint / "state.pt").exists() and not arguments.speed_test:
        next_shard, warm_shards = trainer.load(arguments.checkpoint)
        log.info("continuing at step %d, %.1f s", trainer.step_number, trainer.earlier_seconds)
    return trainer, next_shard, warm_shards


def shape(arguments: argparse.Namespace) -> ModelConfig:
    """Of the model to train, or of its guide; --layers and --width change it (heads of 64)."""
    from training.guide import GUIDE_SHAPE
    from training.model import ModelConfig

    chosen = GUIDE_SHAPE if arguments.guide else ModelConfig()
    if arguments.layers is not None:
        chosen = replace(chosen, n_layers=arguments.layers)
    if arguments.width is not None:
        heads = arguments.width // 64
        chosen = replace(chosen, d_model=arguments.width, n_heads=heads, n_kv_heads=heads)
    return chosen


def stream_config(arguments: argparse.Namespace) -> StreamConfig:
    return StreamConfig(
        tokenizer=arguments.tokenizer,
        data=arguments.data,
        seed=arguments.seed,
        shard_tokens=arguments.shard_tokens,
        item_source=arguments.item_source,
    )


def compile_while_data_comes(
    trainer: Trainer, stream: ShardStream, arguments: argparse.Namespace
) -> None:
    """Compile on a made-up batch of the real shapes; the workers make shards meanwhile."""
    from training.trainer import to_torch

    seconds = trainer.warm_up(to_torch(made_up_batch(arguments), pin=False))
    log.info("compiled in %.1f s", seconds)
    on_cuda = trainer.device.type == "cuda"
    stream.start(lambda batch: to_torch(batch, pin=on_cuda))


def made_up_batch(arguments: argparse.Namespace) -> Any:
    import numpy as np

    from training.stream import Shard, segment_places

    tokens = arguments.tokens_per_step
    length = min(160, tokens // 2)
    segments = tokens // length + 1
    rng = np.random.default_rng(0)
    shard = Shard(
        0,
        tokens=rng.integers(6, 4096, segments * length).astype(np.uint16),
        lengths=np.full(segments, length, np.int32),
        answer_starts=np.full(segments, length // 3, np.int32),
        answer_ends=np.full(segments, length, np.int32),
        domains=np.zeros(segments, np.int8),
    )
    return pack(shard, tokens, segment_places(tokens))[0]


def loop(
    trainer: Trainer,
    stream: ShardStream,
    checks: Checks | None,
    arguments: argparse.Namespace,
    started: float,
) -> float:
    """Train until the time is over. Returns the seconds spent by all commands so far."""
    budget = arguments.minutes * 60 - arguments.final_seconds
    total = (arguments.total_minutes or 0.0) * 60 or 2 * budget
    if arguments.last:
        total = trainer.earlier_seconds + budget
    clock = Clock(trainer)
    # the first save comes early: it is what a broken step falls back to
    last_save = time.monotonic() - SAVE_SECONDS + 45.0
    # the first check comes early, to see that it works
    next_check = time.monotonic() + CHECK_SECONDS / 4
    while (elapsed := time.monotonic() - started) < budget:
        spent = trainer.earlier_seconds + elapsed
        waiting = time.monotonic()
        batch = stream.next()
        clock.waited += time.monotonic() - waiting
        result = trainer.step(batch, min(1.0, spent / total))
        now = time.monotonic()
        if now - clock.last < LOG_SECONDS:
            continue
        loss = float(result.loss)
        clock.report(result, loss, spent / total, stream)
        if not math.isfinite(loss):
            if not (arguments.checkpoint / "state.pt").exists():
                raise RuntimeError(f"loss is {loss} before the first checkpoint; lower the rates")
            log.error("loss is %s: back to the last checkpoint", loss)
            seconds = trainer.earlier_seconds
            trainer.load(arguments.checkpoint)
            trainer.earlier_seconds = seconds
        elif now - last_save > SAVE_SECONDS:
            trainer.save(arguments.checkpoint, spent, stream.next_index, [])
            last_save = time.monotonic()
        if checks is not None and now > next_check and checks.ready():
            with Attempt("check"):
                log.info("held-out loss: %s", checks.losses(trainer))
            next_check = time.monotonic() + CHECK_SECONDS
        clock.restart()
    return trainer.earlier_seconds + time.monotonic() - started


class Clock:
    """Speed between two lines of the log."""

    def __init__(self, trainer: Trainer) -> None:
        self.trainer = trainer
        self.waited = 0.0
        self.restart()

    def restart(self) -> None:
        self.last = time.monotonic()
        self.tokens = self.trainer.tokens_seen
        self.waited = 0.0

    def report(self, result: StepResult, loss: float, progress: float, stream: ShardStream) -> None:
        """Log a line; the device has been waited for (the caller has read the loss)."""
        seconds = time.monotonic() - self.last
        log.info(
            "step %d %.3f M tokens/s loss %.4f (%s) norm %.2f rate %.3f wait %.1f %% "
            "progress %.4f | %s",
            self.trainer.step_number,
            (self.trainer.tokens_seen - self.tokens) / seconds / 1e6,
            loss,
            format_losses(result),
            float(result.gradient_norm),
            self.trainer.rate(progress),
            100 * self.waited / seconds,
            progress,
            stream.report(),
        )


def speed_test(trainer: Trainer, stream: ShardStream, seconds: float) -> None:
    """Log tokens/s with and without waiting for data, the parts of a step, and the memory."""
    import torch

    def synchronize() -> None:
        if trainer.device.type == "cuda":
            torch.cuda.synchronize()

    def milliseconds(action: Any, repeats: int = 10) -> float:
        action()
        synchronize()
        begin = time.monotonic()
        for _ in range(repeats):
            action()
        synchronize()
        return (time.monotonic() - begin) / repeats * 1e3

    clock = Clock(trainer)
    begin = time.monotonic()
    result = None
    while time.monotonic() - begin < seconds:
        waiting = time.monotonic()
        batch = stream.next()
        clock.waited += time.monotonic() - waiting
        result = trainer.step(batch, 0.0)
        if time.monotonic() - clock.last > LOG_SECONDS:
            clock.report(result, float(result.loss), 0.0, stream)
            clock.restart()
    assert result is not None
    batch = result.batch
    clock.report(result, float(result.loss), 0.0, stream)
    whole = milliseconds(lambda: trainer.step(batch, 0.0))
    log.info(
        "one batch again and again: %.3f M tokens/s", trainer.config.tokens_per_step / whole / 1e3
    )
    trainer.step(batch, 0.0)
    masked = float(result.corrupted.is_masked.float().mean())
    log.info("masked %.3f of the batch, places for %.3f", masked, trainer.config.masked_share)

    def forward_backward() -> None:
        trainer.forward_backward(batch)
        trainer.zero_gradients()

    model = trainer.model
    mask = model.config.mask_token_id
    log.info(
        "step %.1f ms, of it forward and backward %.1f ms, masking %.1f ms",
        whole,
        milliseconds(forward_backward),
        milliseconds(lambda: trainer.corrupt(batch, mask, trainer.capacity, trainer.generator)),
    )
    trainer.forward_backward(batch)
    for optimizer in trainer.optimizers:
        log.info("%s %.1f ms", type(optimizer).__name__, milliseconds(optimizer.step))
    if trainer.device.type == "cuda":
        log.info("peak memory %.1f GiB", torch.cuda.max_memory_allocated() / 2**30)


def main() -> None:
    started = time.monotonic()
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stdout
    )
    train(parse(), started)


if __name__ == "__main__":
    main()
