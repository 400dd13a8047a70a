"""The decoders that the paper is compared with, and ours: named settings, and what to know of each.

A peer is a strategy, a cache and knobs of the one loop; `--preset NAME` starts from it on every
model with bidirectional attention. Plain data; `docs/decoders.md` is written from it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from flash_dllm.settings import from_preset


@dataclass(frozen=True)
class Peer:
    """settings: form of `flash_dllm.settings.from_preset`.

    idea         what it does, in a sentence
    exact        what equals decoding without its short cut
    approximate  what does not
    reading      where we differ from the source, or how we read it where sources disagree
    """

    title: str
    paper: str
    year: int
    source: str
    settings: dict[str, Any]
    idea: str
    exact: str
    approximate: str
    reading: str

    @property
    def knobs(self) -> dict[str, Any]:
        """Its strategy's and cache's knobs with their values."""
        built = from_preset(self.settings, {})
        parts = built.strategy, built.cache
        return {item.name: getattr(part, item.name) for part in parts for item in fields(part)}

    def described(self) -> dict[str, Any]:
        """For `--list`."""
        built = from_preset(self.settings, {})
        return {
            "title": self.title,
            "paper": self.paper,
            "year": self.year,
            "strategy": built.strategy.name,
            "cache": built.cache.name,
            "knobs": self.knobs,
        }


def _settings(
    strategy: dict[str, Any], cache: dict[str, Any], window_size: int = 32, **config: Any
) -> dict[str, Any]:
    lengths = {"gen_length": 128, "block_length": 32, "window_size": window_size}
    return {"strategy": strategy, "cache": cache, "config": {**lengths, **config}}


_NONE = {"name": "none"}
_CONFIDENCE = {"name": "confidence", "epsilon": 0.9}
_FAST = ("arXiv 2505.22618", 2025, "NVlabs/Fast-dLLM")
_DKV = ("arXiv 2505.15781", 2025, "horseee/dKV-Cache")
_EVERY_LENGTH = "Lengths (128 in blocks of 32) are ours."

PEERS: dict[str, Peer] = {
    "llada_reference": Peer(
        "LLaDA", "arXiv 2502.09992", 2025, "ML-GSAI/LLaDA",
        _settings({"name": "llada"}, _NONE),
        "A fixed number of steps; each reads everything and commits its share of the block.",
        "everything: this is the loop that the others shorten",
        "nothing",
        "One noise vector per position at temperatures above 0, not one per step. No guidance "
        "(cfg_scale). " + _EVERY_LENGTH,
    ),
    "fast_dllm": Peer(
        "Fast-dLLM, no cache", *_FAST,
        _settings(_CONFIDENCE, _NONE),
        "Commit every token of the block with c ≥ ε, the surest one always.",
        "every pass reads everything",
        "tokens of one step are chosen independently of one another",
        _EVERY_LENGTH,
    ),
    "fast_dllm_factor": Peer(
        "Fast-dLLM, factor", *_FAST,
        _settings({"name": "factor", "factor": 1.0}, _NONE),
        "Commit the n surest tokens if the n-th has c ≥ 1 − f/(n + 1).",
        "every pass reads everything",
        "tokens of one step are chosen independently of one another",
        "The leading run of passing ranks, as in its code; others count all that pass. "
        "f = 1 as in dInfer.",
    ),
    "fast_dllm_prefix": Peer(
        "Fast-dLLM, prefix cache", *_FAST,
        _settings(_CONFIDENCE, {"name": "prefix"}),
        "Freeze what stands before the block; read the block and all behind it.",
        "the first pass of a block",
        "entries before the block do not see what the block has decided",
        "For shifted models the row before the block is read as well, instead of committing the "
        "block's first token unseen.",
    ),
    "fast_dllm_dual": Peer(
        "Fast-dLLM, dual cache", *_FAST,
        _settings(_CONFIDENCE, {"name": "dual"}),
        "Freeze what stands before and behind the block; read the block alone.",
        "the first pass of a block",
        "entries outside the block do not see what the block has decided",
        "As for the prefix cache.",
    ),
    "dkv_cache": Peer(
        "dKV-Cache, decode", *_DKV,
        _settings({"name": "llada"}, {"name": "dkv", "reload_steps": 8}),
        "Keep a token's entry only from a pass that saw it; read all masks in every pass.",
        "reload_steps = 1 is no cache",
        "entries of older tokens do not see newer ones until the next full pass",
        "Reload every 8 steps as in its example; its command line says 2.",
    ),
    "dkv_cache_greedy": Peer(
        "dKV-Cache, greedy", *_DKV,
        _settings(
            {"name": "llada", "remasking": "random", "ask": "next"},
            {"name": "dkv_greedy", "reload_steps": 2, "neighbours": 4},
        ),
        "With an order drawn beforehand: read the next token, the last one, and masks beside them.",
        "reload_steps = 1 is no cache",
        "every other entry, masks included, is as old as the last full pass",
        "Masks beside several next tokens: by distance, left before right, over block borders.",
    ),
    "prophet": Peer(
        "Prophet", "arXiv 2508.19982", 2025, "pixeli99/Prophet",
        _settings({"name": "prophet"}, _NONE),
        "Greedy, until the mean logit gap is wide enough to commit every mask at once.",
        "the steps before the early commit",
        "the early commit: all remaining tokens come from one pass",
        "The gap is averaged over undecided positions only, and over all of them unless "
        "answer_start is given; the published code then never commits early.",
    ),
    "flash_dllm": Peer(
        "Flash-dLLM", "arXiv 2609.26796", 2026, "the paper",
        _settings(
            {"name": "flash_verify", "epsilon": 0.9, "gamma": 0.8},
            {"name": "flash", "track_size": 32},
        ),
        "Read the window and a few tracked tokens; verify unsure drafts in a second pass.",
        "refresh = 1 with all tokens tracked is no cache; a mask view answers what decoding one "
        "position after another would under the same cache",
        "entries that are neither in the window nor tracked; tokens accepted together, within "
        "1 − γ each",
        "In blocks of 32: in one block of everything the surest position is an end token at the "
        "far end, again and again. All else: docs/decisions.md.",
    ),
    "flash_dllm_official": Peer(
        "Flash-dLLM, as released", "arXiv 2609.26796", 2026, "VILA-Lab/Flash-dLLM",
        _settings(
            {
                "name": "flash_verify", "epsilon": 0.9, "gamma": 0.8, "search_size": 8,
                "acceptance": "joint", "mask_views": "shared",
            },
            {"name": "flash", "track_size": 64}, 64, decide_size=16, block_length=None,
            suppress_after_eos=True,
        ),
        "The same, deciding 16 of 64 queried positions, with mask views that other rows see.",
        "nothing that the other reading has exact in its second pass",
        "later mask views have seen a draft and tell the earlier ones: drafts confirm themselves",
        "Tracks by attention probability, not by raw scores, and its second pass writes tracked "
        "rows and accepted drafts to the cache; exact length instead of EOS padding.",
    ),
    "chain": Peer(
        "Chain, ours", "none", 2026, "this project, docs/experiments.md",
        _settings(
            {"name": "chain", "epsilon": 0.9, "hope": 0.3, "search_size": 16, "gamma": 0.0},
            {"name": "flash", "track_size": 8, "verify_rows": 1}, block_length=None,
        ),
        "Commit the leftmost draft; check those that follow for as long as there is hope that all "
        "before them hold; keep the prefix that does, and the check's own token after it.",
        "at ε = 1 without cache: what one token at a time from left to right would write, but for "
        "blanks behind it that have not seen this step's drafts",
        "drafts with c ≥ ε are not checked; entries that are neither in the window nor tracked",
        "No blocks: the window always holds the next 32 masks. `verify_rows` = 1: tracked tokens "
        "are not read again in the second pass.",
    ),
}  # fmt: skip


def table() -> str:
    """The peers as Markdown, for docs/decoders.md."""
    lines = []
    for name, peer in PEERS.items():
        facts = peer.described()
        knobs = ", ".join(f"`{knob}` = {_shown(value)}" for knob, value in facts["knobs"].items())
        lines += [
            f"### {peer.title}", "",
            "| | |", "|---|---|",
            f"| preset | `{name}`: strategy `{facts['strategy']}`, cache `{facts['cache']}` |",
            f"| source | {peer.paper} ({peer.year}); {peer.source} |",
            f"| idea | {peer.idea} |",
            f"| exact | {peer.exact} |",
            f"| approximate | {peer.approximate} |",
            f"| knobs | {knobs or 'none'} |",
            f"| our reading | {peer.reading} |",
            "",
        ]  # fmt: skip
    return "\n".join(lines)


def _shown(value: Any) -> str:
    return "none" if value is None else str(value)


if __name__ == "__main__":
    print(table(), end="")
