"""The strategies by name, in the order in which the explorer offers them."""

from flash_dllm.strategies.adaptive import Adaptive
from flash_dllm.strategies.base import DecodingStrategy
from flash_dllm.strategies.chain import Chain
from flash_dllm.strategies.confidence import Confidence
from flash_dllm.strategies.factor import Factor
from flash_dllm.strategies.flash_verify import FlashVerify
from flash_dllm.strategies.freedave import FreeDave
from flash_dllm.strategies.greedy import Greedy
from flash_dllm.strategies.guided import Guided
from flash_dllm.strategies.llada import Llada
from flash_dllm.strategies.patient import Patient
from flash_dllm.strategies.prophet import Prophet
from flash_dllm.strategies.wino import Wino

STRATEGIES: dict[str, type[DecodingStrategy]] = {
    kind.name: kind
    for kind in (
        FlashVerify, Confidence, Greedy, Factor, Llada, Prophet, Adaptive, FreeDave, Wino, Guided,
        Chain, Patient,
    )  # fmt: skip
}
