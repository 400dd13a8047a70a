"""lm-evaluation-harness's model `flash_dllm`: any checkpoint, any strategy, any cache.

--model_args takes `pretrained` (a folder or a hub name; without it the embedded model) and every
knob of `python -m flash_dllm` by its name in the library: strategy, cache, epsilon, gamma,
gen_length, window_size, search_size, …; what is left out comes from the model's preset.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from lm_eval.api.model import LM
from lm_eval.api.registry import register_model
from tqdm import tqdm

from flash_dllm.caches import NoCache
from flash_dllm.config import DecodeConfig
from flash_dllm.decoder import decode, finish_trace, start_trace
from flash_dllm.evaluation.lean import lean_settings
from flash_dllm.evaluation.likelihood import log_likelihood
from flash_dllm.evaluation.measurement import finished, slim
from flash_dllm.models import load_model, load_preset, locate
from flash_dllm.settings import Settings
from flash_dllm.strategies import Greedy

log = logging.getLogger(__name__)


@register_model("flash_dllm")
class FlashDLLM(LM):
    """A masked diffusion model behind the harness's three questions.

    pretrained     checkpoint folder or hub name; None: the embedded model
    batch_size     sequences at a time
    impl, dtype, graphs, device   as in `load_model`; with impl "auto" torch computes caches that
                   choose their rows layer by layer
    mc_draws       masks per log-likelihood (LLaDA: 128); mc_batch  masks a pass
    check_greedy   whether a log-likelihood also says if greedy decoding gives the continuation
    Every other argument is a knob of the decoder, or `preset`, the name of a peer. A task's
    `max_gen_toks` is the answer's length where `gen_length` is not given.
    Raises     what `load_model` and `from_preset` raise.
    """

    def __init__(
        self,
        pretrained: str | None = None,
        batch_size: int | str = 1,
        max_batch_size: int | None = None,
        device: str | None = None,
        impl: str = "auto",
        dtype: str = "auto",
        graphs: bool = True,
        mc_draws: int = 128,
        mc_batch: int = 32,
        check_greedy: bool = False,
        **knobs: Any,
    ) -> None:
        super().__init__()
        if not str(batch_size).isdigit() or int(batch_size) < 1:
            raise ValueError(
                f"batch_size must be a whole number from 1 on, got {batch_size!r} (the harness's "
                "auto is not supported: throughput is only comparable at a stated batch)"
            )
        self.batch_size = int(batch_size)
        preset = load_preset(locate(pretrained))
        # wrong settings are refused before the model is loaded
        self._knobs = knobs
        self._preset = preset
        settings = lean_settings(preset, knobs)
        engine = load_model(pretrained, impl, device or "auto", dtype, graphs)
        # knobs of a request change lengths and temperature, never the cache
        self._engine = engine.suited(settings.cache) if impl == "auto" else engine
        if self._engine is not engine:
            log.warning(
                "cache %s chooses its rows layer by layer: %s is computed by torch, since the "
                "kernels can't follow", settings.cache.name, engine.info.name,
            )  # fmt: skip
        self._draws, self._draw_batch = mc_draws, mc_batch
        self._check_greedy = check_greedy

    @property
    def tokenizer_name(self) -> str:
        """What the harness's cache of requests tells models apart by."""
        info = self._engine.info
        return f"{info.name}-{info.fingerprint}"

    def chat_template(self, chat_template: bool | str = False) -> str:
        """Only the checkpoint's own one is used."""
        return self.tokenizer_name if chat_template else ""

    def apply_chat_template(
        self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True
    ) -> str:
        return self._codec.render(chat_history, add_generation_prompt)

    def get_model_info(self) -> dict[str, Any]:
        """Settings and what computes the model, for the harness's result file."""
        settings, info = lean_settings(self._preset, self._knobs), self._engine.info
        return {
            "flash_dllm": {
                **settings.described(), "batch_size": self.batch_size, "impl": info.impl,
                "device": info.device, "dtype": info.dtype,
            }
        }  # fmt: skip

    def generate_until(self, requests: list[Any], disable_tqdm: bool = False) -> list[str]:
        """Answers cut at the first stop string; requests of equal length are decoded together."""
        groups: dict[Settings, list[int]] = defaultdict(list)
        for number, request in enumerate(requests):
            groups[self._settings(request.args[1])].append(number)
        answers = [""] * len(requests)
        with tqdm(total=len(requests), desc="decode", disable=disable_tqdm) as bar:
            for settings, numbers in groups.items():
                prompts = [self._prompt(requests[n].args[0], settings.config) for n in numbers]
                for place, steps in finished(
                    self._engine, prompts, settings, self.batch_size, slim
                ):
                    number = numbers[place]
                    context, arguments = requests[number].args
                    text = self._text(prompts[place], settings, steps)
                    answers[number] = cut(text, arguments.get("until"))
                    self.cache_hook.add_partial(
                        "generate_until", (context, arguments), answers[number]
                    )
                    bar.update()
        return answers

    def loglikelihood(
        self, requests: list[Any], disable_tqdm: bool = False
    ) -> list[tuple[float, bool]]:
        """Monte-Carlo log-likelihoods; the second part only with `check_greedy`."""
        results = []
        for number, request in enumerate(tqdm(requests, desc="score", disable=disable_tqdm)):
            prefix, target = self._encode_pair(*request.args)
            value = log_likelihood(
                self._engine, prefix, target, self._draws, self._draw_batch, seed=number
            )
            is_greedy = self._check_greedy and self._is_greedy(prefix, target)
            results.append((value, is_greedy))
            self.cache_hook.add_partial("loglikelihood", request.args, results[-1])
        return results

    def loglikelihood_rolling(
        self, requests: list[Any], disable_tqdm: bool = False
    ) -> list[float]:
        raise NotImplementedError(
            "a masked diffusion model has no left-to-right likelihood of a text without a prompt; "
            "choose tasks of type generate_until or loglikelihood"
        )

    @property
    def _codec(self) -> Any:
        return self._engine.codec

    def _settings(self, arguments: dict[str, Any]) -> Settings:
        knobs = dict(self._knobs)
        if "gen_length" not in knobs and arguments.get("max_gen_toks"):
            knobs["gen_length"] = int(arguments["max_gen_toks"])
        if "temperature" not in knobs and arguments.get("do_sample"):
            knobs["temperature"] = float(arguments.get("temperature") or 0.0)
        return lean_settings(self._preset, knobs)

    def _prompt(self, context: str, config: DecodeConfig) -> list[int]:
        """The last tokens of the context that leave room for the answer."""
        ids = self._encode(context)
        room = self._engine.max_length - config.gen_length
        if room < 1:
            raise ValueError(
                f"gen_length {config.gen_length} leaves no room for a prompt in "
                f"{self._engine.info.name}; give a smaller gen_length in --model_args"
            )
        if len(ids) > room:
            log.warning("a prompt of %d tokens is cut to its last %d", len(ids), room)
        return ids[-room:]

    def _encode(self, text: str) -> list[int]:
        """The template's special tokens are ids; what else looks like one is one, too."""
        ids = self._codec.encode_rendered(text)
        if not ids:
            raise ValueError("the prompt is empty; this model needs at least one token")
        return ids

    def _encode_pair(self, context: str, continuation: str) -> tuple[list[int], list[int]]:
        """Both parts of a text that is tokenized whole; spaces at the seam go to the second."""
        stripped = context.rstrip()
        continuation = context[len(stripped) :] + continuation
        prefix = self._encode(stripped)
        whole = self._encode(stripped + continuation)
        return prefix, whole[len(prefix) :]

    def _is_greedy(self, prefix: Sequence[int], target: Sequence[int]) -> bool:
        config = DecodeConfig(
            gen_length=len(target), window_size=len(target), early_stop=False, alternatives=0
        )
        trace = decode(self._engine, prefix, Greedy(), NoCache(), config)
        return trace.canvas_at(len(trace.steps)) == list(target)

    def _text(self, prompt: list[int], settings: Settings, steps: Sequence[Any]) -> str:
        header = start_trace(
            self._engine, prompt, settings.strategy, settings.cache, settings.config
        )
        return finish_trace(self._engine, header, steps).text


def cut(text: str, until: str | Sequence[str] | None) -> str:
    """The text before the first of the stop strings.

    >>> cut("4\\n\\nQuestion: 5", ["Question:", "</s>"])
    '4\\n\\n'
    """
    stops = [until] if isinstance(until, str) else list(until or ())
    places = [place for stop in stops if stop and (place := text.find(stop)) >= 0]
    return text[: min(places)] if places else text
