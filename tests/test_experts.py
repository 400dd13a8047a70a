"""Routing to experts by hand, and that a row's experts are its own business."""

import pytest
import torch

from kernels import ops
from kernels.experts import Experts, expert_swiglu, route


def made(router, bias=None, **rule) -> Experts:
    """Experts of width 1: number n multiplies silu(x₀)·x₀ by n + 1."""
    count = len(router)
    gate_up = [torch.tensor([[1.0, 0.0], [1.0, 0.0]]).double()] * count
    down = [torch.tensor([[n + 1.0], [0.0]]).double() for n in range(count)]
    return Experts(torch.tensor(router).double(), bias, gate_up, down, **rule)


ROUTER = [[0.0, 1.0], [0.0, 2.0], [0.0, 3.0], [0.0, 4.0]]
ROW = torch.tensor([[1.0, 1.0]]).double()  # scores 1, 2, 3, 4


def test_softmax_takes_the_likeliest_with_their_shares_of_all():
    chosen, weights = route(ROW, made(ROUTER, top_k=2, score="softmax", renormalise=False))
    whole = torch.tensor([1.0, 2.0, 3.0, 4.0]).double().softmax(0)
    assert chosen.tolist() == [[3, 2]]
    assert weights[0].tolist() == pytest.approx([float(whole[3]), float(whole[2])])
    _, weights = route(ROW, made(ROUTER, top_k=2, score="softmax", renormalise=True))
    assert weights[0].tolist() == pytest.approx([0.7310585786, 0.2689414214])  # sigmoid(±1)


def test_a_bias_moves_the_choice_and_not_the_weights():
    bias = torch.tensor([9.0, 0.0, 0.0, 0.0]).double()
    experts = made(ROUTER, bias, top_k=1, score="sigmoid", renormalise=False, scale=2.0)
    chosen, weights = route(ROW, experts)
    assert chosen.tolist() == [[0]]
    assert weights[0].tolist() == pytest.approx([2 * 0.7310585786])


def test_only_the_best_groups_are_open():
    # sums of sigmoids: (5, −9) beats (1, 1)? .9933 + .0001 < .7311 + .7311
    experts = made(
        [[0.0, 5.0], [0.0, -9.0], [0.0, 1.0], [0.0, 1.0]],
        top_k=1, score="sigmoid", renormalise=False, groups=2, top_groups=1,
    )  # fmt: skip
    assert route(ROW, experts)[0].item() in (2, 3)


def test_the_output_is_the_weighted_sum_by_hand():
    experts = made(ROUTER, top_k=2, score="softmax", renormalise=True)
    out = expert_swiglu(ROW, experts)
    silu = 0.7310585786
    assert out[0].tolist() == pytest.approx([silu * (4 * 0.7310585786 + 3 * 0.2689414214), 0.0])


@pytest.mark.parametrize("rows", [1, 2, 63])
def test_rows_do_not_depend_on_their_company(rows):
    g = torch.Generator().manual_seed(rows)

    def draw(*shape):
        return torch.randn(*shape, generator=g, dtype=torch.float64)

    experts = Experts(
        draw(8, 16), draw(8), [draw(24, 16) for _ in range(8)], [draw(16, 12) for _ in range(8)],
        top_k=3, score="sigmoid", renormalise=True, scale=2.5, groups=4, top_groups=2,
    )  # fmt: skip
    hidden = draw(rows, 16)
    together = ops.expert_swiglu(hidden, experts, "torch")
    for row in range(rows):
        chosen, weights = route(hidden[row : row + 1], experts)
        alone = sum(
            weight * experts.down[n]
            @ (torch.nn.functional.silu(experts.gate_up[n][:12] @ hidden[row])
               * (experts.gate_up[n][12:] @ hidden[row]))
            for n, weight in zip(chosen[0].tolist(), weights[0], strict=True)
        )  # fmt: skip
        torch.testing.assert_close(together[row], alone)


def test_a_router_of_another_width_is_refused():
    with pytest.raises(ValueError, match="does not fit"):
        ops.expert_swiglu(torch.zeros(1, 3).double(), made(ROUTER, top_k=1, score="softmax",
                                                           renormalise=False), "torch")  # fmt: skip
