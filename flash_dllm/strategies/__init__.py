"""The strategies by name, in the order in which the explorer offers them."""

from flash_dllm.strategies.base import DecodingStrategy
from flash_dllm.strategies.confidence import Confidence
from flash_dllm.strategies.flash_verify import FlashVerify
from flash_dllm.strategies.greedy import Greedy

STRATEGIES: dict[str, type[DecodingStrategy]] = {
    kind.name: kind for kind in (FlashVerify, Confidence, Greedy)
}
