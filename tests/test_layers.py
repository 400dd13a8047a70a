"""Who may import whom, read with ast (docs/decisions.md, The house)."""

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

# room → what a file in it may import besides the standard library; first match wins
RULES = {
    "flash_dllm/models/tokenizer.py": {"transformers"},
    "flash_dllm/models/hub.py": {"huggingface_hub"},
    "flash_dllm/models/quantize.py": {"flash_dllm", "kernels", "torch", "torchao"},
    "flash_dllm/models": {"flash_dllm", "kernels", "torch", "safetensors"},
    "flash_dllm/session.py": {"flash_dllm", "kernels", "torch"},
    "flash_dllm/guide.py": {"flash_dllm", "kernels", "torch"},
    "flash_dllm/cache.py": {"torch"},
    "flash_dllm/packing.py": {"flash_dllm", "kernels", "numpy", "torch"},
    "flash_dllm/pass_frame.py": {"flash_dllm", "kernels", "numpy"},
    "flash_dllm/pass_layout.py": {"flash_dllm", "kernels", "numpy", "torch"},
    "flash_dllm/pass_numbers.py": {"flash_dllm", "kernels", "numpy"},
    "flash_dllm/sampling.py": {"flash_dllm", "kernels", "numpy", "torch"},
    "flash_dllm/graphs.py": {"torch"},
    "flash_dllm/transfer.py": {"numpy", "torch"},
    "flash_dllm/nucleus.py": {"flash_dllm", "kernels", "torch"},
    "flash_dllm/beside.py": {"torch"},
    "flash_dllm/memory.py": {"flash_dllm", "torch"},
    "flash_dllm/layerwise.py": {"flash_dllm", "kernels", "torch"},
    "flash_dllm/movement.py": {"kernels", "torch"},
    "flash_dllm/workspace.py": {"flash_dllm", "numpy", "torch"},
    # the command line reaches for the picture when --html asks for it (docs/decisions.md)
    "flash_dllm/cli.py": {"flash_dllm", "app"},
    "flash_dllm/listing.py": {"flash_dllm", "kernels"},
    "flash_dllm/terminal.py": {"flash_dllm", "rich"},
    # measuring: statistics and progress bars are libraries', plain files are the standard library's
    "flash_dllm/evaluate.py": {"flash_dllm", "tqdm"},
    "flash_dllm/report.py": {"flash_dllm", "tqdm"},
    "flash_dllm/evaluation/report/page.py": {"flash_dllm", "plotly"},
    "flash_dllm/evaluation/place.py": {"torch"},
    "flash_dllm/sweep.py": {"flash_dllm", "tqdm"},
    "flash_dllm/evaluation/sweep_file.py": {"flash_dllm", "yaml"},
    "flash_dllm/evaluation/coordinator.py": {"flash_dllm", "optuna"},
    "flash_dllm/evaluation/study.py": {"flash_dllm", "optuna", "sqlalchemy"},
    "flash_dllm/evaluation/study_table.py": {"flash_dllm", "optuna", "sqlalchemy"},
    "flash_dllm/evaluation/workers.py": {"ray", "torch"},
    "flash_dllm/harness.py": {"flash_dllm", "lm_eval"},
    "flash_dllm/evaluation/harness_model.py": {"flash_dllm", "lm_eval", "tqdm"},
    "flash_dllm/evaluation/harness_tasks": {"flash_dllm", "datasets"},
    "flash_dllm/evaluation/likelihood.py": {"flash_dllm", "torch"},
    "flash_dllm/evaluation/statistics.py": {"scipy"},
    "flash_dllm/evaluation/public_sets.py": {"flash_dllm", "datasets"},
    "flash_dllm/evaluation/profile.py": {"flash_dllm", "kernels", "torch"},
    "flash_dllm/evaluation/run.py": {"flash_dllm", "torch"},
    "flash_dllm": {"flash_dllm"},
    "kernels": {"kernels", "torch", "triton"},
    "app/ui.py": {"app", "gradio"},
    "app/tabs": {"app", "flash_dllm", "gradio"},
    "app/arguments.py": {"app", "pydantic"},
    "app/serve.py": {"app", "gradio", "starlette"},
    "app/player.py": {"app", "gradio"},
    "app/figures": {"app", "flash_dllm", "plotly", "pandas"},
    "app/film.py": {"app", "flash_dllm", "PIL"},
    # tables of trials are pandas', studies are Optuna's
    "app/sweeps.py": {"app", "flash_dllm", "optuna", "pandas"},
    "app/theme.py": {"flash_dllm", "plotly"},
    "app": {"app", "flash_dllm", "plotly"},
    "app.py": {"app"},
}
# files of the positions world: standard library only, also through what they import
PLAIN = {
    "flash_dllm/trace.py", "flash_dllm/trace_json.py", "flash_dllm/trace_schema.py",
    "flash_dllm/files.py",
    "flash_dllm/trace_replay.py", "flash_dllm/replay_answers.py", "flash_dllm/replay_passes.py",
    "flash_dllm/json_reader.py", "flash_dllm/rejudge.py",
    "flash_dllm/query.py", "flash_dllm/shift.py", "flash_dllm/acceptance.py",
    "flash_dllm/extra_rows.py",
    "flash_dllm/canvas.py", "flash_dllm/tracking.py", "flash_dllm/config.py",
    "flash_dllm/settings.py", "flash_dllm/pass_sizes.py", "flash_dllm/peers.py",
    "flash_dllm/decoder.py", "flash_dllm/sequence.py", "flash_dllm/fit.py",
    "flash_dllm/guidance.py", "flash_dllm/engine_protocol.py",
    "flash_dllm/scripted.py", "flash_dllm/layer_plan.py", "flash_dllm/layer_cost.py",
    "flash_dllm/cost_map.py",
}  # fmt: skip
PLAIN_ROOMS = ("flash_dllm/strategies/", "flash_dllm/caches/")
ROWS = {"flash_dllm.engine", "flash_dllm.session", "flash_dllm.guide", "flash_dllm.cache",
        "flash_dllm.packing", "flash_dllm.sampling",
        "flash_dllm.graphs", "flash_dllm.workspace", "flash_dllm.memory", "flash_dllm.models",
        "flash_dllm.cli", "flash_dllm.cli_options", "flash_dllm.listing",
        "flash_dllm.layerwise", "flash_dllm.movement"}  # fmt: skip


def sources():
    files = [ROOT / "app.py"]
    for room in ("app", "flash_dllm", "kernels"):
        files += sorted((ROOT / room).rglob("*.py"))
    return [path.relative_to(ROOT).as_posix() for path in files]


def imported(name):
    """Module names that a file imports, wherever the statement stands."""
    names = []
    for node in ast.walk(ast.parse((ROOT / name).read_text(encoding="utf-8"))):
        if (
            isinstance(node, ast.Call)
            and ast.unparse(node.func) in ("importlib.import_module", "__import__")
            and isinstance(node.args[0], ast.Constant)
        ):
            names.append(node.args[0].value)
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name} uses a relative import"
            names.append(node.module)
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return names


@pytest.mark.parametrize("name", sources())
def test_a_file_imports_only_what_its_room_allows(name):
    allowed = next(rule for room, rule in RULES.items() if name == room or
                   name.startswith(room.removesuffix(".py") + "/"))  # fmt: skip
    for module in imported(name):
        top = module.split(".")[0]
        assert top in sys.stdlib_module_names or top in allowed, f"{name} imports {module}"


@pytest.mark.parametrize(
    "name", [n for n in sources() if n in PLAIN or n.startswith(PLAIN_ROOMS)]
)
def test_the_positions_world_never_imports_the_rows_world(name):
    for module in imported(name):
        assert not any(module == row or module.startswith(row + ".") for row in ROWS), module


def test_figures_families_caches_and_strategies_keep_apart():
    for name in sources():
        path = Path(name)
        room = path.parent.as_posix()
        if path.name == "__init__.py":
            continue
        if room == "app/figures":
            others = {f"app.figures.{p.stem}" for p in (ROOT / room).glob("*.py")}
            assert not others & set(imported(name)), f"{name} imports another figure"
        shared = {
            "flash_dllm/strategies": {"base", "draft", "confidence"},
            "flash_dllm/caches": {"base", "interval"},
            "flash_dllm/models": {
                "base", "checkpoint", "hub", "layout", "loading", "memory", "parallel", "presets",
                "quantize", "tokenizer", "transformer",
            },
        }
        if room in shared:
            others = {
                f"{room.replace('/', '.')}.{p.stem}"
                for p in (ROOT / room).glob("*.py")
                if p.stem not in shared[room]
            }
            assert not others & set(imported(name)), f"{name} imports a neighbour"


def test_triton_is_imported_nowhere_but_inside_kernel_files():
    for name in sources():
        if not name.startswith("kernels/"):
            assert "triton" not in {m.split(".")[0] for m in imported(name)}


def test_kernels_package_is_a_docstring_without_a_version():
    """transformers imports any top-level package called kernels to look for its version."""
    tree = ast.parse((ROOT / "kernels" / "__init__.py").read_text(encoding="utf-8"))
    assert len(tree.body) == 1 and isinstance(tree.body[0], ast.Expr)


def test_no_test_file_imports_another():
    """What two of them use stands in a file of its own: a test that moves breaks nobody."""
    files = [path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("*.py")]
    assert "tests/test_layers.py" in files
    found = [(file, name) for file in files for name in imported(file) if ".test_" in f".{name}"]
    assert found == []
