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
_DYNAMIC = ("arXiv 2606.26120", 2026, "TianyiWu233/DYNAMIC-DLLM")
_UNNUMBERED = "its arXiv number stands in none of our sources"
_FREEDAVE = ("FreeDave", 2025, f"cychomatica/FreeDave; {_UNNUMBERED}")
_WINO = (
    "WINO (Wide-In, Narrow-Out)", 2025,
    f"Kamichanw/d2Cache, which has it among its decoders; {_UNNUMBERED}",
)  # fmt: skip
_FLASHDLM = ("arXiv 2505.21467", 2025, "ZhanqiuHu/flash-dlm-experimental")
_EVERY_LENGTH = "Lengths (128 in blocks of 32) are ours."

PEERS: dict[str, Peer] = {
    "llada_reference": Peer(
        "LLaDA", "arXiv 2502.09992", 2025, "ML-GSAI/LLaDA",
        _settings({"name": "llada"}, _NONE),
        "A fixed number of steps; each reads everything and commits its share of the block.",
        "everything: this is the loop that the others shorten",
        "nothing",
        "One noise vector per position at temperatures above 0, not one per step. cfg_scale reads "
        "the text twice a pass, the second time with the prompt masked. " + _EVERY_LENGTH,
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
    "dllm_cache": Peer(
        "dLLM-Cache", "arXiv 2506.06295", 2025, "maomaocun/dLLM-cache",
        _settings(
            {"name": "llada"},
            {"name": "dllm", "prompt_interval": 50, "answer_interval": 7, "transfer_ratio": 0.25},
        ),
        "Refresh the prompt every K_p steps and the answer every K_r; in between each layer "
        "refreshes the share ρ of the answer whose value vectors moved most.",
        "K_p = K_r = 1 is no cache, and so is K_p = 1 with ρ = 1; the first layer always",
        "what a layer leaves out goes on with what that layer added to it when it was last "
        "refreshed: keys, attention and feed-forward output of another text",
        "K_p, K_r as tuned for GSM8K on the instruct model. Values are compared over all heads at "
        "once; ties go to the left. The values of the whole answer are computed to choose by, as "
        "in its code: the trace counts them apart. Its cache for guidance is left out: it keeps "
        "the difference of conditional and unconditional logits of every position between steps, "
        "and a second set of all four features for the text without prompt; here a sequence has "
        "one set, so cfg_scale goes with no cache. " + _EVERY_LENGTH,
    ),
    "dynamic_dllm": Peer(
        "Dynamic-dLLM", *_DYNAMIC,
        _settings(
            {"name": "adaptive", "threshold": 0.9, "certainty_weight": 0.01,
             "change_weight": 0.15, "scope": "mean"},
            {"name": "dynamic", "newest_size": 32, "layer_budget": 32, "clamp": False},
        ),
        "dLLM-Cache with a budget that goes to the layers whose values moved most in the last "
        "step, and a threshold that falls with certain drafts and rises with changing ones.",
        "K_p = K_r = 1 is no cache; α = β = 0 is a fixed threshold; the first layer always",
        "as in dLLM-Cache; tokens of one step are chosen independently of one another",
        "The paper's tables call it Dyna-dLLM. Without the clamp of the released code (next "
        "preset). The layers that choose share layer_budget × number of layers by "
        "softmax(200 · movement), equally in the first such step; the window stands around the "
        "last of the tokens committed last; values are compared; its other "
        "option, x, is left out because our sources do not say whether the layer's input is taken "
        "before or after the norm, nor what becomes of the values that are then not computed. PC "
        "and DS are means over the block's undecided positions; τ is moved before it "
        "is used, also in the first step (DS = 0), and starts at 0.9 as in its demo (1.0 in its "
        "code). " + _EVERY_LENGTH,
    ),
    "dynamic_dllm_released": Peer(
        "Dynamic-dLLM, as released", *_DYNAMIC,
        _settings(
            {"name": "adaptive", "threshold": 0.9, "certainty_weight": 0.01,
             "change_weight": 0.15, "scope": "mean"},
            {"name": "dynamic", "newest_size": 32, "layer_budget": 32, "clamp": True},
        ),
        "The same, but from the third step on no layer refreshes more than one position besides "
        "the window.",
        "as without the clamp",
        "as without the clamp, and the budget hardly matters",
        "The clamp is in its code, almost certainly not in what the paper means.",
    ),
    "elastic_cache": Peer(
        "Elastic-Cache", "arXiv 2510.14973", 2025, "its paper; code not read",
        _settings(
            _CONFIDENCE, {"name": "elastic", "drift_threshold": 0.9}, 32, block_length=None
        ),
        "Read the leftmost masks and each layer's most attended token; from the first layer whose "
        "token's attention drifts on, deeper layers compute everything.",
        "a threshold of 1 is no cache; the first pass",
        "entries and hidden states of what is not read, until something drifts; masks behind the "
        "window stand in the cache as the last full layer saw them",
        "Its numbers are not certain to us: window 32 (it may be 16), drift below 0.9, ε = 0.9. "
        "What lies behind the window is one piece, not cached in blocks (of 32). "
        "Tracked is, for each layer, the decided position with most attention from the window's "
        "rows, prompt included; compared is that token's own attention, mean over heads, with "
        "what it was when this layer last computed it. What was committed in the last step is "
        "read as well: otherwise nobody would ever see it. With a threshold of 1 the first layer, "
        "which has no test before it, is computed in full too.",
    ),
    "flashdlm": Peer(
        "FlashDLM, guided", *_FLASHDLM,
        _settings(
            {"name": "guided", "guide_rule": "deterministic", "verify_batch_size": 32},
            {"name": "free", "freeze": "position"}, 128, block_length=None,
        ),
        "Draft every mask; an autoregressive guide reads the drafts left to right and keeps those "
        "before the first one that it would not write. What was read as clean prefix is frozen.",
        "the guide's own cache; the draft that is committed although the first was rejected is the "
        "model's own",
        "tokens of one step are drafted independently of one another; a frozen entry does not see "
        "what was decided after it",
        "Of the rules other than deterministic we know names and numbers only: see "
        "`flash_dllm/strategies/guided.py::Guided`. Its window of 512 is all that 128 positions "
        "have; without its blocks of 32, because all masks are drafted. The guide's passes are "
        "counted apart. How the paper guided LLaDA, which shares no tokens with Qwen2.5, is not "
        "known; here a causal twin does.",
    ),
    "flashdlm_freecache": Peer(
        "FlashDLM, FreeCache alone", *_FLASHDLM,
        _settings({"name": "llada"}, {"name": "free", "freeze": "block"}),
        "Freeze every block as its last step's pass left it, the prompt as the first pass did, "
        "and read neither again; read all behind them in every pass.",
        "the first pass",
        "a frozen entry does not see what was decided after it, and the tokens of a block's last "
        "step are frozen as masks",
        "By whole blocks, as in its code for LLaDA; freeze = position goes token by token and "
        "never a mask, as in its code for Dream. Nothing is read again, so errors stay. "
        + _EVERY_LENGTH,
    ),
    "prophet": Peer(
        "Prophet", "arXiv 2508.19982", 2025, "pixeli99/Prophet",
        _settings({"name": "prophet"}, _NONE),
        "Greedy, until the mean logit gap is wide enough to commit every mask at once.",
        "the steps before the early commit",
        "the early commit: all remaining tokens come from one pass",
        "The gap is averaged over undecided positions only, and over all of them unless "
        "answer_start is given; the published code then never commits early. In a short answer "
        "most of them are blanks behind its end, whose gap is wide long before that of the answer: "
        "so it commits too early on the embedded model, and its accuracy says nothing about runs "
        "that know where the answer stands. answer_at = end looks for it: the answer_length tokens "
        "before the first end token that is drafted; ours, and measured apart. "
        + _EVERY_LENGTH,
    ),
    "freedave": Peer(
        "FreeDave", *_FREEDAVE,
        _settings({"name": "freedave", "draft_steps": 4}, {"name": "dual"}),
        "Ask about the block and, in the same pass, about the d − 1 texts that the last pass "
        "expects next; follow them as far as each is what one step in the one before gives.",
        "every token and its order: one token a step under the same cache",
        "what the cache approximates; d times the block's rows a pass",
        "Exact match of the whole block. What the last state reached commits next is certain, and "
        "committed with it, not with the next pass. Full states are not asked. d = 4 as in its "
        "code for LLaDA; for Dream it has 8. " + _EVERY_LENGTH,
    ),
    "freedave_pp": Peer(
        "FreeDave++", *_FREEDAVE,
        _settings(
            {"name": "freedave", "draft_steps": 4, "commit_threshold": 0.95}, {"name": "dual"}
        ),
        "The same, where a step commits every token with c ≥ τ.",
        "every token and its order: Fast-dLLM's threshold loop under the same cache",
        "tokens of one step are chosen independently; what the cache approximates",
        "A state's next step follows the threshold rule too: only then is it lossless against a "
        "plain loop. Otherwise as for FreeDave.",
    ),
    "wino": Peer(
        "WINO", *_WINO,
        _settings({"name": "wino"}, _NONE),
        "Commit eagerly (c ≥ 0.6), and mask an earlier token of the block again when its "
        "probability, with itself left out, is below 0.9.",
        "every pass reads everything; a bar of 0 takes nothing back and is the threshold loop",
        "a shadow does not see its own token, but it sees the other rows, and they have seen it: "
        "tokens confirm themselves from the second layer on",
        "Shadows do not see one another; those of masks are left out, for they repeat the masks' "
        "own rows. A step takes back fewer tokens than it commits. It commits at most 0.7 of the "
        "block's masks, within 5 and 20: our sources name the bounds, the share is from memory of "
        "its code. The early stop waits for the end token's block to be finished. "
        + _EVERY_LENGTH,
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
            {
                "name": "flash", "track_size": 64, "verify_first": "recent",
                "verify_writes": False,
            },
            64, decide_size=16, block_length=None, suppress_after_eos=True,
        ),
        "The same, deciding 16 of 64 queried positions, with mask views that other rows see.",
        "nothing that the other reading has exact in its second pass",
        "later mask views have seen a draft and tell the earlier ones: drafts confirm themselves",
        "Tracks by attention probability of all layers, not by raw scores of all but the first "
        "two. Exact length instead of EOS padding.",
    ),
    "flash_confidence": Peer(
        "Flash-Cache with confidence decoding", "arXiv 2609.26796", 2026, "the paper",
        _settings(_CONFIDENCE, {"name": "flash", "track_size": 8}),
        "Read the window and a few tracked tokens; commit what is sure, and verify nothing.",
        "refresh = 1 with all tokens tracked is no cache",
        "entries that are neither in the window nor tracked; tokens of one step are chosen "
        "independently of one another",
        "A column of the paper's tables. 8 tracked tokens, and window and blocks of 32, are ours, "
        "for a small model: docs/experiments.md.",
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
