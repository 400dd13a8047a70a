"""Fresh interpreters with packages blocked: what is enough for what."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
HEAVY = ("torch", "triton", "transformers", "gradio", "plotly", "pandas", "numpy", "rich")

BLOCKER = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {blocked!r}:
            raise ImportError(f"{{name}} is blocked in this test")
sys.meta_path.insert(0, Blocked())
"""


def run(code, blocked):
    program = BLOCKER.format(blocked=set(blocked)) + code
    return subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=120
    )


TOY = """
from flash_dllm.caches import FlashCache
from flash_dllm.config import DecodeConfig
from flash_dllm.decoder import decode
from flash_dllm.scripted import toy_engine
from flash_dllm.strategies import FlashVerify
from flash_dllm.trace_json import from_json, to_json
from flash_dllm.rejudge import rejudge
engine = toy_engine()
config = DecodeConfig(gen_length=4, window_size=2)
trace = decode(engine, engine.ids("^"), FlashVerify(), FlashCache(track_size=1), config)
assert from_json(to_json(trace)) == trace
rejudge(trace, gamma=0.9)
print(trace.text)
"""


def test_a_run_its_trace_and_re_judging_need_the_standard_library_alone():
    result = run(TOY, HEAVY)
    assert result.stdout.strip() == "AABB", result.stderr


def test_figures_need_neither_torch_nor_gradio():
    code = TOY + "from app.figures import FIGURES\n[f.figure(trace) for f in FIGURES]\n"
    result = run(code, ("torch", "triton", "transformers", "gradio"))
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(
    "module",
    ["flash_dllm.engine", "flash_dllm.models.transformer", "kernels.ops", "kernels.reference"],
)
def test_the_network_runs_without_triton_transformers_and_gradio(module):
    result = run(f"import {module}", ("triton", "transformers", "gradio", "plotly", "pandas"))
    assert result.returncode == 0, result.stderr


def test_the_page_is_built_without_torch():
    code = "import app.ui, app.runs, app.serve\nassert 'torch' not in sys.modules\n"
    result = run(code, ("triton",))
    assert result.returncode == 0, result.stderr


def test_transformers_imports_with_our_kernels_folder_first_on_the_path():
    code = (
        "import sys; sys.path.insert(0, '.')\n"
        "from transformers import PreTrainedTokenizerFast\n"
        "import kernels; assert kernels.__doc__\n"
    )
    result = run(code, ("triton",))
    assert result.returncode == 0, result.stderr


def test_a_missing_transformers_is_named_with_what_to_do(tmp_path):
    code = (
        "from flash_dllm.models.tokenizer import Tokenizer\nfrom pathlib import Path\n"
        "try:\n    Tokenizer(Path('assets/tiny'))\n"
        "except ImportError as error:\n    print(error)\n"
    )
    result = run(code, ("transformers",))
    assert "pip install transformers" in result.stdout
    assert "pip uninstall kernels" in result.stdout
