"""Decoders for masked diffusion language models; start with `flash_dllm.decoder`."""
