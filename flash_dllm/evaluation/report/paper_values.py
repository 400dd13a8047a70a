"""What the paper reports (arXiv 2609.26796; LLaDA-1.5, one A100-80GB), to stand beside our values.

Never in one column or ratio with ours: another model, other tasks, another machine. Only values
that are known from the paper stand here; the rest of its tables is left out, not guessed.
"""

from __future__ import annotations

# Table 1, Flash-Verify + Flash-Cache, batch 32: (task, length) → accuracy %, tokens/s, × greedy
TABLE_1: dict[tuple[str, int], tuple[float, float, float]] = {
    ("GSM8K", 256): (81.88, 194.9, 29.1),
    ("GSM8K", 512): (83.02, 210.6, 81.0),
    ("MATH", 256): (36.56, 189.7, 22.3),
    ("MATH", 512): (35.98, 210.1, 42.0),
    ("HumanEval", 256): (39.63, 209.2, 29.9),
    ("HumanEval", 512): (40.24, 185.6, 58.0),
    ("MBPP", 256): (38.20, 148.0, 61.7),
    ("MBPP", 512): (39.00, 148.2, 148.2),
}
# Table 2, GSM8K-512: method → tokens/s
TABLE_2: dict[str, float] = {
    "dKV-Cache": 14.9,
    "FlashDLM": 15.7,
    "dLLM-Cache": 16.8,
    "Fast-dLLM": 36.8,
    "Dynamic-dLLM": 38.4,
    "Elastic-Cache": 41.7,
    "FreeDave": 42.8,
    "Flash-dLLM": 210.6,
}
# Table 4 and Figure 5: (γ, β_t) → accuracy %, tokens/s
TABLE_4: dict[tuple[float, int], tuple[float, float]] = {
    (0.60, 48): (80.23, 277.80),
    (1.00, 96): (83.41, 131.58),
}
# Table 5: words, because the cells are not known
TABLE_5 = (
    "256 tokens are fastest for both decoders, 1024 are 10.5 to 12.8 % slower; from 1 to 8 shots "
    "Flash-Verify's lead over confidence decoding falls from 1.50 to 1.35 times"
)
# Table 6, GSM8K-512 on Flash-Cache: strategy → tokens/s at batch 1 and at batch 32
TABLE_6: dict[str, tuple[float, float]] = {
    "greedy": (18.5, 55.0),
    "confidence": (51.7, 139.5),
    "flash_verify": (56.0, 199.8),
}
# tokens a step, GSM8K
TOKENS_PER_STEP: dict[str, float] = {"greedy": 1.0, "confidence": 2.8, "flash_verify": 5.7}
# Figure 1b: share of the attention on the 32 most attended decoded tokens, layers 5 to 20
TOP_32_SHARE = 0.50
# Figure 1c: correlation of mean confidence with how many tokens a step could decode early
CORRELATION = 0.48
FIGURE_7 = (
    "from window 16 to 96 tokens/s fall; Flash-Verify stays 1.4 to 1.5 times ahead of confidence "
    "decoding, accuracies differ by 0.2 to 1.2 points"
)
