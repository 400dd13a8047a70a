"""Dream's ranking by entropy, top_p and top_k, against its own loop written down straight."""

import math

import pytest
import torch

from flash_dllm.caches import FlashCache, NoCache
from flash_dllm.config import DecodeConfig
from flash_dllm.decoder import decode, decode_batch
from flash_dllm.drawing import Drawing
from flash_dllm.models import load_model
from flash_dllm.models.presets import PRESETS
from flash_dllm.nucleus import drawn, kept
from flash_dllm.rejudge import rejudge
from flash_dllm.sampling import GumbelField
from flash_dllm.settings import from_preset
from flash_dllm.strategies import Llada
from flash_dllm.trace_json import from_json, to_json
from tests.official_layouts import oracle_logits, write_layout
from tests.random_model import MASK, VOCAB

PROMPT = [9, 17, 33, 8, 60, 21]
GEN = 10
LOGITS = torch.tensor([[0.5, 0.3, 0.15, 0.05, 0.9]], dtype=torch.float64).log()
LAST = 4  # stands for the mask token above: likeliest of all, and never drawn


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    folder = write_layout(tmp_path_factory.mktemp("drawing") / "dream", "dream")
    return load_model(folder, device="cpu", dtype="float64")


def sample_tokens(logits, noise, temperature, top_p, top_k):
    """(token, −H) of one row, as Dream's code computes it; the categorical draw is the largest of
    log probability plus Gumbel noise."""
    if temperature > 0:
        logits = logits / temperature
    if top_p < 1:
        falling, order = torch.sort(logits, descending=True)
        remove = torch.cumsum(falling.softmax(-1), -1) > top_p
        remove[1:] = remove[:-1].clone()
        remove[0] = False
        logits = logits.clone()
        logits[order[remove]] = -math.inf
    if top_k is not None:
        logits = logits.masked_fill(logits < torch.topk(logits, top_k).values[-1], -math.inf)
    p = logits.softmax(-1)
    token = int(p.argmax()) if temperature == 0 else int((p.log() + noise).argmax())
    return token, float((p * torch.log(p + 1e-10)).sum())


def straight(temperature, top_p, top_k, by_entropy, seed):
    """One token a step: a full forward of transformers' own network, opened and shifted.

    Of equal confidences (six digits) the leftmost is taken: at a low temperature many nuclei hold
    one token, and then Dream's own order is whatever `topk` makes of zeros.
    """
    noise = GumbelField(VOCAB, 1.0, torch.device("cpu"))
    text, order = [*PROMPT, *[MASK] * GEN], []
    masked = list(range(len(PROMPT), len(text)))
    while masked:
        logits = oracle_logits("dream", text)
        logits[:, MASK] = -math.inf
        found = {}
        for i in masked:
            row = logits[i - 1]
            token, ranked = sample_tokens(
                row, noise.rows(seed, [i])[0].double(), temperature, top_p, top_k
            )
            sure = math.exp(ranked) if by_entropy else float(row.softmax(-1)[token])
            found[i] = (round(sure, 6), token)
        chosen = max(masked, key=lambda i: found[i][0])
        text[chosen] = found[chosen][1]
        order.append((chosen, text[chosen]))
        masked.remove(chosen)
    return order


@pytest.mark.parametrize(
    ("temperature", "top_p", "top_k"),
    [(0.0, 1.0, None), (0.0, 0.6, None), (0.2, 0.95, None), (1.0, 0.9, 7), (1.0, 1.0, 3)],
)
@pytest.mark.parametrize("measure", ["entropy", "probability"])
def test_dreams_loop_written_down_straight(engine, measure, temperature, top_p, top_k):
    config = DecodeConfig(
        gen_length=GEN, window_size=GEN, early_stop=False, temperature=temperature, seed=11
    )
    strategy = Llada(measure=measure, top_p=top_p, top_k=top_k)
    trace = decode(engine, PROMPT, strategy, NoCache(), config)
    accepted = [pair for step in trace.steps for pair in step.accepted]
    assert accepted == straight(temperature, top_p, top_k, measure == "entropy", seed=11)
    assert from_json(to_json(trace)) == trace
    # ε and γ mean nothing to it, and every step decides the same again
    assert rejudge(trace, epsilon=0.5).badge == "exact"


def test_a_batch_with_a_cache_decodes_like_one_by_one(engine):
    config = DecodeConfig(gen_length=GEN, window_size=6, temperature=0.7, alternatives=2)
    strategy, cache = Llada(measure="entropy", top_p=0.9), FlashCache(track_size=4)
    prompts = [PROMPT, [6, 7, 8], list(range(20, 38))]
    for prompt, trace in zip(
        prompts, decode_batch(engine, prompts, strategy, cache, config, 3), strict=True
    ):
        assert trace.token_ids == decode(engine, prompt, strategy, cache, config).token_ids


def chances(**drawing):
    """What can be drawn at temperature 1, by probability."""
    left = kept(LOGITS, 1.0, Drawing(**drawing), LAST).softmax(-1)[0]
    return [round(float(p), 4) for p in left]


def test_the_nucleus_by_hand():
    # before the tokens stand 0, .5, .8 and .95: those with more than top_p before them are out
    assert chances() == [0.5, 0.3, 0.15, 0.05, 0]
    assert chances(top_p=0.6) == [0.625, 0.375, 0, 0, 0]
    assert chances(top_p=0.9) == [0.5263, 0.3158, 0.1579, 0, 0]
    assert chances(top_p=0.0) == [1, 0, 0, 0, 0]
    assert chances(top_k=1) == chances(top_p=0.1)
    assert chances(top_k=99) == chances()
    # top_p first: it leaves two, of which top_k takes the better one
    assert chances(top_p=0.6, top_k=1) == [1, 0, 0, 0, 0]


def test_tokens_that_equal_the_last_of_top_k_are_kept():
    logits = torch.tensor([[1.0, 2.0, 1.0, 0.0, 9.0]])
    assert kept(logits, 0.0, Drawing(top_k=2), LAST)[0].isneginf().tolist() == [
        False, False, False, True, True,
    ]  # fmt: skip


def test_the_measure_is_one_over_the_number_of_equal_choices():
    equal = torch.zeros(70, 8)  # more rows than are sorted at once
    equal[:, 4:] = -50.0
    equal[:, LAST] = 3.0
    measured = drawn(equal, None, 0.0, Drawing("entropy"), LAST)[1]
    torch.testing.assert_close(measured, torch.full((70,), 0.25))
    measured = drawn(equal, None, 0.0, Drawing("entropy", top_k=1), LAST)[1]
    # ties of the last one are kept
    torch.testing.assert_close(measured, torch.full((70,), 0.25))
    assert drawn(equal, None, 0.0, Drawing(top_p=0.1), LAST) == (None, None)


def test_temperature_sharpens_before_anything_is_left_out():
    # .5 and .3 at temperature 1/2 are in the ratio 25 : 9; all four: 25, 9, 2.25, .25 of 36.5
    left = kept(LOGITS, 0.5, Drawing(top_p=0.7), LAST).softmax(-1)[0]
    assert left[:2].tolist() == pytest.approx([25 / 34, 9 / 34]) and not left[2:].any()


def test_dreams_preset_draws_as_its_readme_says():
    made = from_preset(PRESETS["dream"]["dream-chat"].settings, {})
    assert made.strategy.drawing == Drawing("entropy", 0.95)
    assert (made.config.temperature, made.config.gen_length) == (0.2, 512)
    assert from_preset(PRESETS["llada"]["llada"].settings, {}).strategy.drawing.is_plain


@pytest.mark.parametrize(
    ("knobs", "says"),
    [
        ({"measure": "margin"}, "measure must be one of probability, entropy, got 'margin'"),
        ({"top_p": 1.5}, "top_p must lie between 0.0 and 1.0, got 1.5"),
        ({"top_k": 0}, "top_k must lie between 1 and"),
        ({"measure": "entropy", "remasking": "random"}, "leave one of them out"),
    ],
)
def test_impossible_wishes_are_one_sentence(knobs, says):
    with pytest.raises(ValueError, match=says) as caught:
        Llada(**knobs)
    assert "\n" not in str(caught.value)
