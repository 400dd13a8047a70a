"""Shared fixtures: one small random checkpoint in LLaDA's layout, loaded in float64."""

import gc
import os

import torch

# without a GPU, Triton's interpreter; it must be chosen before the kernels are imported
if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import pytest

from tests.random_model import llada_config, random_tensors, write_checkpoint

# their asserts say what they compared, as those of the tests do
pytest.register_assert_rewrite(
    "tests.any_settings", "tests.broken_traces", "tests.recorded_run", "tests.two_impls"
)


@pytest.fixture(scope="module", autouse=True)
def nothing_of_a_page_is_left_behind(request):
    """A stopped gradio server leaves its event loop to the garbage collector. Found in the middle
    of another test it fails that one, and ended inside `ast.parse` it breaks Python's own count."""
    yield
    if request.module.__name__.rpartition(".")[2].startswith(("test_app_", "test_deploy")):
        gc.collect()


@pytest.fixture(scope="session")
def small_folder(tmp_path_factory):
    """A checkpoint with grouped key/value heads."""
    folder = tmp_path_factory.mktemp("small")
    return write_checkpoint(folder, llada_config(n_kv_heads=2))


@pytest.fixture(scope="session")
def small_config():
    return llada_config(n_kv_heads=2)


@pytest.fixture(scope="session")
def small_tensors(small_config):
    return random_tensors(small_config)


@pytest.fixture(scope="session")
def engine(small_folder):
    from flash_dllm.models import load_model

    return load_model(small_folder, device="cpu", dtype="float64")


@pytest.fixture
def run(small_config, small_tensors):
    """An empty text for a straight-line version of a decoder."""
    from tests.recorded_run import Run

    return Run(small_config, small_tensors)


@pytest.fixture
def rows_read(engine, monkeypatch):
    """The positions of every pass of the decoder's own session."""
    from flash_dllm.session import ModelSession

    read = []
    ask = ModelSession.ask

    def spy(session, queries):
        read.extend(sorted(query.positions) for _, query in queries)
        return ask(session, queries)

    monkeypatch.setattr(ModelSession, "ask", spy)
    return read


@pytest.fixture(scope="module")
def chrome():
    """A browser for the tests of one file."""
    from tests.browser_page import browser

    with browser() as started:
        yield started


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """A browser test that failed says what its page showed."""
    report = yield
    page = getattr(item, "funcargs", {}).get("page")
    if report.failed and report.when == "call" and page is not None and not page.is_closed():
        report.sections.append(("what the page showed", page.inner_text("body")[:3000]))
    return report
