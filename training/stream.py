"""Training data as a stream: worker processes make shards, one thread packs them into batches.

A shard is about half a million clean tokens in segments of at most 384; shard s depends on
(seed, s) alone. The order in which shards arrive depends on the machine. The packer always takes a
new shard if one is ready; else it plays the least-played shard again, in another order (the masks
are drawn later, on the GPU, so each play is also masked anew). So the trainer never waits, the
data is as fresh as the machine allows, and the log says how often shards were played.

This module imports neither torch nor anything that does: each worker would pay for it.
"""

from __future__ import annotations

import importlib
import logging
import multiprocessing
import os
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np

from flash_dllm.evaluation.workers import end_with_parent
from training.generators.item import is_held_out

log = logging.getLogger(__name__)

SEGMENT_LENGTH_MAX = 384
BLOCK = 32
ANSWER_PART_MAX = 160
# what the explorer asks for: prompt + 128 positions
COMMON_ANSWER_PART = 128
COMMON_ANSWER_SHARE = 0.5
DOCUMENT_WINDOW = 256
DOCUMENT_MIN = 48

# the table of the batch's `domains`; "real" are GSM8K train and MBPP train
DOMAINS = ("word", "algebra", "code", "story", "real", "document")
DOCUMENT = DOMAINS.index("document")

# of items; a document window counts as one item
MIXTURE = {
    "word": 0.34,
    "algebra": 0.17,
    "code": 0.24,
    "story": 0.13,
    "gsm8k": 0.05,
    "mbpp": 0.02,
    "storybook": 0.03,
    "library": 0.01,
    "few_shot": 0.01,
}
PROCEDURAL = ("word", "algebra", "code", "story")


class Chat(Protocol):
    """What is needed of `generators.item.Item`."""

    @property
    def domain(self) -> str: ...
    @property
    def specification(self) -> str: ...
    @property
    def prompt(self) -> str: ...
    @property
    def answer(self) -> str: ...


@dataclass(frozen=True)
class StreamConfig:
    """How shards are made.

    tokenizer    path of tokenizer.json
    data         folder with the real texts, or None for procedural items alone
    item_source  "module:function" of (domain, rng) -> Item
    """

    tokenizer: str
    data: str | None
    seed: int = 0
    shard_tokens: int = 500_000
    item_source: str = "training.mixture:training_item"


@dataclass(frozen=True)
class Shard:
    """Clean segments end to end. N tokens, S segments.

    tokens         [N] uint16
    lengths        [S] int32
    answer_starts  [S] int32; first maskable place of the segment (0 for documents)
    answer_ends    [S] int32; first place of the end-of-text padding, or the length
    domains        [S] int8; index into DOMAINS
    """

    index: int
    tokens: np.ndarray
    lengths: np.ndarray
    answer_starts: np.ndarray
    answer_ends: np.ndarray
    domains: np.ndarray

    def take(self, order: np.ndarray) -> Shard:
        """The chosen segments in the chosen order."""
        lengths = self.lengths[order]
        starts = (np.cumsum(self.lengths) - self.lengths)[order]
        shifts = starts - (np.cumsum(lengths) - lengths)
        places = np.arange(int(lengths.sum())) + np.repeat(shifts, lengths)
        return replace(
            self,
            tokens=self.tokens[places],
            lengths=lengths,
            answer_starts=self.answer_starts[order],
            answer_ends=self.answer_ends[order],
            domains=self.domains[order],
        )

    def slice(self, first: int, last: int) -> Shard:
        """Segments first … last - 1, without copying."""
        bounds = np.concatenate([[0], np.cumsum(self.lengths)])
        return replace(
            self,
            tokens=self.tokens[bounds[first] : bounds[last]],
            lengths=self.lengths[first:last],
            answer_starts=self.answer_starts[first:last],
            answer_ends=self.answer_ends[first:last],
            domains=self.domains[first:last],
        )


ARRAYS = ("tokens", "lengths", "answer_starts", "answer_ends", "domains")


def join(shards: Sequence[Shard]) -> Shard:
    """One shard with the segments of all, in order; it keeps the last one's index."""
    return Shard(
        shards[-1].index,
        **{name: np.concatenate([getattr(shard, name) for shard in shards]) for name in ARRAYS},
    )


class ChatTokenizer:
    """LLaDA's chat template in token ids.

    Text is encoded piece by piece between the special tokens, so that it gives the same ids as the
    rendered template would, and special names inside a user's text stay ordinary text.
    """

    def __init__(self, path: str) -> None:
        from tokenizers import Tokenizer

        self.tokenizer = Tokenizer.from_file(path)
        names = (
            "<|endoftext|>",
            "<|startoftext|>",
            "<|start_header_id|>",
            "<|end_header_id|>",
            "<|eot_id|>",
            "<|mdm_mask|>",
        )
        found = [self.tokenizer.token_to_id(name) for name in names]
        ids = [number for number in found if number is not None]
        if len(ids) < len(names):
            raise ValueError(f"{path} must have the special tokens {names}, got ids {found}")
        self.eos, self.start, self.header, self.header_end, self.eot, self.mask = ids
        self.tokenizer.encode_special_tokens = True
        user, assistant, newlines = self.encode(["user", "assistant", "\n\n"])
        self.before_prompt = [self.header, *user, self.header_end]
        self.before_answer = [self.eot, self.header, *assistant, self.header_end, *newlines]

    def encode(self, texts: list[str]) -> list[list[int]]:
        encode = getattr(self.tokenizer, "encode_batch_fast", self.tokenizer.encode_batch)
        return [encoding.ids for encoding in encode(texts, add_special_tokens=False)]

    def decode(self, ids: Sequence[int]) -> str:
        return str(self.tokenizer.decode(list(ids), skip_special_tokens=True))

    def turns(self, items: Sequence[Chat]) -> list[tuple[list[int], list[int]]]:
        """Of each item the ids from the user header up to the answer, and those of the answer."""
        texts = [text for item in items for text in chat_texts(item)]
        ids = self.encode(texts)
        return [
            ([*self.before_prompt, *prompt, *self.before_answer], answer)
            for prompt, answer in zip(ids[::2], ids[1::2], strict=True)
        ]


def chat_texts(item: Chat) -> tuple[str, str]:
    """Prompt with its template newlines (one piece of text for the tokenizer), and the answer."""
    return "\n\n" + item.prompt.strip(), item.answer.rstrip()


def answer_part(length: int, rng: np.random.Generator) -> int:
    """Length of answer + padding: a multiple of 32, often exactly 128, otherwise 32 … 160.

    length    answer tokens with `<|eot_id|>`; if it is over 160, no block is added
    """
    if length <= COMMON_ANSWER_PART and rng.random() < COMMON_ANSWER_SHARE:
        return COMMON_ANSWER_PART
    fitting = -(-length // BLOCK) * BLOCK
    if fitting >= ANSWER_PART_MAX:
        return fitting
    return min(fitting + BLOCK * int(rng.integers(4)), ANSWER_PART_MAX)


class ShardMaker:
    """Makes shards in a worker process."""

    def __init__(self, config: StreamConfig) -> None:
        self.config = config
        self.chat = ChatTokenizer(config.tokenizer)
        module, function = config.item_source.split(":")
        self.training_item: Callable[[str, Any], Chat] = getattr(
            importlib.import_module(module), function
        )
        self.real: dict[str, list[tuple[list[int], list[int]]]] = {"gsm8k": [], "mbpp": []}
        self.documents: dict[str, list[list[int]]] = {"storybook": [], "library": []}
        tokens = self.chat.tokenizer.get_vocab().items()
        self.sentence_ends = {number for text, number in tokens if set(text) & set(".!?\u010a")}
        if config.data is not None:
            self.load_real(Path(config.data))
        names = [name for name in MIXTURE if self.has(name)]
        shares = np.array([MIXTURE[name] for name in names])
        self.names, self.shares = names, shares / shares.sum()

    def load_real(self, data: Path) -> None:
        from training import sources

        for name, load in (("gsm8k", sources.gsm8k_items), ("mbpp", sources.mbpp_items)):
            self.real[name] = self.chat.turns(load(data))
        for name, texts in (
            ("storybook", sources.storybooks(data)),
            ("library", sources.standard_library_functions()),
        ):
            encoded = self.chat.encode(texts)
            self.documents[name] = [ids for ids in encoded if len(ids) >= DOCUMENT_MIN]

    def has(self, name: str) -> bool:
        return bool(self.real.get(name, True)) and bool(self.documents.get(name, True))

    def make(self, index: int) -> Shard:
        """Shard `index`; the same every time."""
        import random

        rng = np.random.default_rng([self.config.seed, index])
        item_rng = random.Random(f"{self.config.seed}/{index}")
        segments: list[tuple[list[int], int, int, int]] = []
        total = 0
        while total < self.config.shard_tokens:
            for segment in self.some(512, rng, item_rng):
                segments.append(segment)
                total += len(segment[0])
        return Shard(
            index,
            tokens=np.concatenate([np.array(ids, np.uint16) for ids, *_ in segments]),
            lengths=np.array([len(ids) for ids, *_ in segments], np.int32),
            answer_starts=np.array([start for _, start, _, _ in segments], np.int32),
            answer_ends=np.array([end for _, _, end, _ in segments], np.int32),
            domains=np.array([domain for *_, domain in segments], np.int8),
        )

    def fresh_item(self, domain: str, item_rng: Any) -> Chat:
        """An item that is not held out."""
        while True:
            item = self.training_item(domain, item_rng)
            if not is_held_out(item.specification):
                return item

    def some(
        self, count: int, rng: np.random.Generator, item_rng: Any
    ) -> Iterator[tuple[list[int], int, int, int]]:
        """About `count` segments: ids, answer start, answer end, domain."""
        kinds = [self.names[k] for k in rng.choice(len(self.names), count, p=self.shares)]
        items: list[Chat] = []
        examples: list[int] = []
        for kind in kinds:
            if kind in PROCEDURAL:
                items.append(self.fresh_item(kind, item_rng))
                examples.append(0)
            elif kind == "few_shot":
                subject = PROCEDURAL[int(rng.integers(len(PROCEDURAL)))]
                shots = 1 + int(rng.integers(3))
                items.extend(self.fresh_item(subject, item_rng) for _ in range(shots + 1))
                examples.extend([-1] * shots + [shots])
        turns = self.chat.turns(items)
        for place, (item, shots) in enumerate(zip(items, examples, strict=True)):
            if shots >= 0:
                domain = DOMAINS.index(item.domain)
                yield from self.segment(turns[place - shots : place + 1], domain, rng)
        for kind in kinds:
            if kind in self.real:
                turn = self.real[kind][int(rng.integers(len(self.real[kind])))]
                yield from self.segment([turn], DOMAINS.index("real"), rng)
            elif kind in self.documents:
                documents = self.documents[kind]
                document = documents[int(rng.integers(len(documents)))]
                yield self.window(document, rng)

    def segment(
        self, turns: Sequence[tuple[list[int], list[int]]], domain: int, rng: np.random.Generator
    ) -> Iterator[tuple[list[int], int, int, int]]:
        """A dialogue with the last answer maskable, or nothing when it is too long."""
        segment = self.render(turns, answer_part(len(turns[-1][1]) + 1, rng))
        if len(segment[0]) <= SEGMENT_LENGTH_MAX:
            yield (*segment, domain)

    def render(
        self, turns: Sequence[tuple[list[int], list[int]]], answer_length: int
    ) -> tuple[list[int], int, int]:
        """Ids, answer start and answer end of a dialogue."""
        ids = [self.chat.start]
        for prompt, answer in turns[:-1]:
            ids += [*prompt, *answer, self.chat.eot]
        prompt, answer = turns[-1]
        ids += prompt
        start = len(ids)
        ids += [*answer, self.chat.eot]
        end = len(ids)
        return ids + [self.chat.eos] * (answer_length - (end - start)), start, end

    def window(
        self, document: list[int], rng: np.random.Generator
    ) -> tuple[list[int], int, int, int]:
        """A random window of a document that starts with a sentence; short ones whole."""
        starts = [0]
        if len(document) > DOCUMENT_WINDOW:
            last = len(document) - DOCUMENT_MIN
            starts += [k + 1 for k in range(last) if document[k] in self.sentence_ends]
        first = starts[int(rng.integers(len(starts)))]
        ids = document[first : first + DOCUMENT_WINDOW]
        if first == 0:
            ids = [self.chat.start, *ids]
        return ids, 0, len(ids), DOCUMENT


def work(
    config: StreamConfig, first: int, stride: int, shards: Any, stop: Any
) -> None:  # pragma: no cover - runs in a child process
    """Body of a worker: shards first, first + stride, … until told to stop."""
    end_with_parent()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    maker = ShardMaker(config)
    index = first
    while not stop.is_set():
        shard = maker.make(index)
        index += stride
        while not stop.is_set():
            try:
                shards.put(shard, timeout=1.0)
                break
            except queue.Full:
                continue
    shards.cancel_join_thread()


@dataclass(frozen=True)
class ArrayBatch:
    """A packed batch in numpy; the fields are those of `corruption.PackedBatch`."""

    tokens: np.ndarray
    positions: np.ndarray
    segments: np.ndarray
    cu_seqlens: np.ndarray
    answer_starts: np.ndarray
    answer_ends: np.ndarray
    domains: np.ndarray
    is_document: np.ndarray


def segment_places(tokens_per_step: int) -> int:
    """Segment places of a batch; few segments are shorter than 48 tokens."""
    return tokens_per_step // 48 + 2


def pack(shard: Shard, tokens_per_step: int, places: int) -> tuple[ArrayBatch, int]:
    """A batch from the shard's first segments, and how many it took.

    What does not fill up becomes one last segment of `<|endoftext|>` (id 0) that nothing is
    learnt from. Shards must hold more than a batch for the batch to be full.
    """
    ends = np.cumsum(shard.lengths)
    count = min(int(np.searchsorted(ends, tokens_per_step, side="right")), places - 1)
    used = int(ends[count - 1]) if count else 0
    # junk is cut into pieces that attention can take
    junk: list[int] = []
    while used + sum(junk) < tokens_per_step:
        junk.append(min(SEGMENT_LENGTH_MAX, tokens_per_step - used - sum(junk)))
    lengths = np.concatenate([shard.lengths[:count], junk]).astype(np.int64)
    if len(lengths) > places:
        raise ValueError(f"{len(lengths)} segments do not fit {places} places; give more tokens")
    spare = places - len(lengths)

    def table(values: np.ndarray, fill: np.ndarray | int, empty: int) -> np.ndarray:
        tail = np.broadcast_to(np.asarray(fill), len(junk))
        return np.concatenate([values[:count], tail, np.full(spare, empty)]).astype(np.int32)

    cu_seqlens = np.full(places + 1, tokens_per_step, np.int32)
    cu_seqlens[0] = 0
    cu_seqlens[1 : len(lengths) + 1] = np.cumsum(lengths)
    segments = np.repeat(np.arange(len(lengths)), lengths)
    tokens = np.zeros(tokens_per_step, np.int32)
    tokens[:used] = shard.tokens[:used]
    domains = table(shard.domains, -1, -1)
    batch = ArrayBatch(
        tokens=tokens,
        positions=(np.arange(tokens_per_step) - cu_seqlens[segments]).astype(np.int32),
        segments=segments.astype(np.int32),
        cu_seqlens=cu_seqlens,
        answer_starts=table(shard.answer_starts, np.array(junk, np.int32), 0),
        answer_ends=table(shard.answer_ends, np.array(junk, np.int32), 0),
        domains=domains,
        is_document=domains == DOCUMENT,
    )
    return batch, count


@dataclass(frozen=True)
class Failure:
    """What the packing thread hands over when it can't go on."""

    error: BaseException


class ShardStream:
    """Shards from worker processes, played as batches. Use as a context manager.

    first_index   index of the first shard to make (after a resume: beyond all made before)
    warm_shards   shards kept from an earlier command, to have something at once
    """

    def __init__(
        self,
        config: StreamConfig,
        workers: int,
        tokens_per_step: int,
        first_index: int = 0,
        warm_shards: Sequence[Shard] = (),
        memory: int = 1024,
    ) -> None:
        self.tokens_per_step = tokens_per_step
        self.workers, self.memory = workers, memory
        # play counts beside each shard, oldest first
        self.shards: list[list[Any]] = [[shard, 1] for shard in warm_shards]
        self.next_index = first_index
        self.made = self.played = 0
        self.rng = np.random.default_rng([config.seed, first_index, 1])
        context = multiprocessing.get_context("spawn")
        self.stop = context.Event()
        self.fresh: Any = context.Queue(maxsize=4 * workers)
        self.processes = [
            context.Process(
                target=work,
                args=(config, first_index + worker, workers, self.fresh, self.stop),
                daemon=True,
            )
            for worker in range(workers)
        ]
        self.ready: queue.Queue[Any] = queue.Queue(maxsize=8)
        self.thread = threading.Thread(target=self.fill, daemon=True)
        self.transform: Callable[[ArrayBatch], Any] = lambda batch: batch

    def __enter__(self) -> Self:
        for process in self.processes:
            process.start()
        return self

    def start(self, transform: Callable[[ArrayBatch], Any]) -> None:
        """Begin to pack; `transform` runs in the packing thread (pinning memory, say)."""
        self.transform = transform
        self.thread.start()

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        while True:
            try:
                self.ready.get_nowait()
            except queue.Empty:
                break
        if self.thread.is_alive():
            self.thread.join(timeout=5.0)
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.join(timeout=2.0)
        self.fresh.cancel_join_thread()
        self.fresh.close()

    def next(self, timeout: float = 120.0) -> Any:
        """The next batch. Raises RuntimeError when none comes in time."""
        deadline = time.monotonic() + timeout
        while True:
            try:
                item = self.ready.get(timeout=1.0)
                break
            except queue.Empty:
                alive = sum(process.is_alive() for process in self.processes)
                if alive == 0 and not self.shards:
                    raise RuntimeError("all data workers died; see their messages") from None
                if time.monotonic() > deadline:
                    raise RuntimeError(f"no batch in {timeout} s, {alive} workers alive") from None
        if isinstance(item, Failure):
            raise RuntimeError("the packing thread failed") from item.error
        return item

    def newest(self, count: int) -> list[Shard]:
        return [shard for shard, _ in self.shards[-count:]]

    def report(self) -> str:
        alive = sum(process.is_alive() for process in self.processes)
        replays = self.played - self.made
        return f"shards made {self.made}, replays {replays}, workers {alive}/{self.workers}"

    def next_shard(self) -> Shard | None:
        """A new shard, or the least-played old one in a new order; None while there is nothing."""
        try:
            shard = self.fresh.get_nowait()
        except queue.Empty:
            if not self.shards:
                return None
            # the first of equals is the oldest
            entry = min(self.shards, key=lambda entry: entry[1])
            entry[1] += 1
            self.played += 1
            old: Shard = entry[0]
            return old.take(self.rng.permutation(len(old.lengths)))
        self.made += 1
        self.played += 1
        self.next_index = max(self.next_index, shard.index + self.workers)
        self.shards.append([shard, 1])
        del self.shards[: -self.memory]
        fresh: Shard = shard.take(self.rng.permutation(len(shard.lengths)))
        return fresh

    def fill(self) -> None:
        try:
            self.fill_forever()
        # handed over to the trainer, which raises it
        except BaseException as error:  # noqa: BLE001
            self.ready.put(Failure(error))

    def fill_forever(self) -> None:
        places = segment_places(self.tokens_per_step)
        rest: Shard | None = None
        while not self.stop.is_set():
            while rest is None or int(rest.lengths.sum()) < self.tokens_per_step + 1:
                shard = self.next_shard()
                if shard is not None:
                    rest = shard if rest is None else join([rest, shard])
                elif self.stop.is_set():
                    return
                else:
                    time.sleep(0.05)
            batch, count = pack(rest, self.tokens_per_step, places)
            rest = rest.slice(count, len(rest.lengths))
            item = self.transform(batch)
            while not self.stop.is_set():
                try:
                    self.ready.put(item, timeout=0.5)
                    break
                except queue.Full:
                    continue
