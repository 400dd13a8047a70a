"""The matrix product of the torch path, and where it goes through oneDNN."""

import pytest
import torch
import torch.nn.functional as F

from kernels import dense as module
from kernels.dense import dense


def numbers(*shape: int, seed: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("rows", [0, 1, 7, 64, 131])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@torch.inference_mode()
def test_product_and_bias_equal_fp64(rows, dtype):
    x, weight, bias = numbers(rows, 96, seed=0), numbers(50, 96, seed=1), numbers(50, seed=2)
    truth = x @ weight.T + bias
    found = dense(x.to(dtype), weight.to(dtype), bias.to(dtype))
    assert found.dtype == dtype and found.shape == (rows, 50)
    assert torch.allclose(found.double(), truth, atol=96 * torch.finfo(dtype).eps * 8)


@torch.inference_mode()
def test_views_and_more_dimensions_are_read_as_they_are():
    x, weight = numbers(4, 6, 128, seed=3).float(), numbers(33, 64, seed=4).float()
    half = x[..., 64:]
    assert torch.allclose(dense(half, weight), F.linear(half, weight), atol=1e-4)


def test_gradients_and_a_torch_without_onednn_take_the_usual_product(monkeypatch):
    x, weight = numbers(3, 8, seed=7).float().requires_grad_(), numbers(2, 8, seed=8).float()
    dense(x, weight).sum().backward()
    assert torch.allclose(x.grad, weight.sum(0).expand(3, 8))
    monkeypatch.setattr(module.torch.backends.mkldnn, "is_available", lambda: False)
    with torch.inference_mode():
        assert torch.equal(dense(x.detach(), weight), F.linear(x.detach(), weight))
