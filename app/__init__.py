"""The explorer page. Nothing here decides a token: it draws what `flash_dllm` recorded.

`views.py` turns a trace into what the browser shows, `sentences.py` into words, `figures/` into
plotly pictures; `runs.py` decodes and keeps traces. Only `ui.py` and `player.py` import gradio.
"""
