"""Dockerfile and Space: read as what they are, and their commands run (there is no Docker here)."""

import asyncio
import json
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest

from flash_dllm.trace_json import from_json
from tests.browser_page import free_port

ROOT = Path(__file__).resolve().parents[1]
INSTRUCTIONS = {
    "ADD", "ARG", "CMD", "COPY", "ENTRYPOINT", "ENV", "EXPOSE", "FROM", "HEALTHCHECK", "LABEL",
    "ONBUILD", "RUN", "SHELL", "STOPSIGNAL", "USER", "VOLUME", "WORKDIR",
}  # fmt: skip
# https://huggingface.co/docs/hub/spaces-config-reference
COLOURS = {"red", "yellow", "green", "blue", "indigo", "purple", "pink", "gray"}


def dockerfile() -> list[tuple[str, str]]:
    """(instruction, arguments), with continued lines joined and comments left out."""
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ").splitlines()
    return [(line.split(maxsplit=1)[0], line.split(maxsplit=1)[1].strip()) for line in joined]


def of(name: str) -> list[str]:
    return [arguments for instruction, arguments in dockerfile() if instruction == name]


def command() -> list[str]:
    """CMD in its JSON form: no shell between Docker and Python, so that SIGTERM arrives."""
    (found,) = of("CMD")
    return json.loads(found)


def test_the_dockerfile_is_well_formed():
    instructions = [name for name, _ in dockerfile()]
    assert set(instructions) <= INSTRUCTIONS
    assert instructions[0] == "FROM" and instructions[-1] == "CMD"
    assert instructions.count("FROM") == instructions.count("USER") == 1
    # everything that needs root comes before the change of user
    assert "RUN" not in instructions[instructions.index("USER") :]
    assert any("--uid 1000 explorer" in run for run in of("RUN")) and of("USER") == ["explorer"]
    image, _, version = of("FROM")[0].partition(":")
    assert image == "python" and version.startswith("3.11")
    for pair in shlex.split(of("ENV")[0]):
        assert "=" in pair


def test_copied_files_exist_and_are_sent_to_docker():
    sent = {
        line.removeprefix("!").rstrip("/")
        for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
        if line.startswith("!")
    }
    taken = [source for line in of("COPY") for source in line.split()[:-1]]
    assert set(taken) == sent and all((ROOT / source).exists() for source in taken)
    tracked = subprocess.run(
        ["git", "ls-files", "--", *taken], cwd=ROOT, capture_output=True, text=True
    )
    if tracked.returncode == 0:  # in a checkout: what is copied is part of it
        tops = {line.split("/")[0] for line in tracked.stdout.splitlines()}
        assert tops == set(taken)


def test_the_port_is_one_and_the_same():
    arguments = command()
    port = arguments[arguments.index("--port") + 1]
    assert of("EXPOSE") == [port] and f"127.0.0.1:{port}/" in of("HEALTHCHECK")[0]
    assert arguments[arguments.index("--host") + 1] == "0.0.0.0"
    assert card().data.to_dict()["app_port"] == int(port)


def card():
    from huggingface_hub import SpaceCard

    return SpaceCard((ROOT / "space" / "README.md").read_text(encoding="utf-8"))


def test_the_spaces_settings_are_such_as_the_hub_knows():
    data = card().data.to_dict()
    assert data["sdk"] == "docker" and "app_file" not in data
    assert {data["colorFrom"], data["colorTo"]} <= COLOURS
    assert len(data["short_description"]) <= 60 and len(data["emoji"]) == 1
    assert data["license"] == "apache-2.0" and data["title"] == "Flash-dLLM explorer"
    assert all(tag == tag.lower() and " " not in tag for tag in data["tags"])


def test_the_install_command_asks_for_nothing_that_is_missing_here():
    (install,) = [run for run in of("RUN") if "pip install" in run]
    words = shlex.split(install)
    assert words[:4] == ["python", "-m", "pip", "install"]
    # the image's own command, here: everything it wants is there already
    done = subprocess.run(
        [sys.executable, *words[1:], "--dry-run", "--no-index"],
        cwd=ROOT, capture_output=True, text=True, timeout=180,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Would install" not in done.stdout


@pytest.fixture(scope="module")
def container(tmp_path_factory):
    """(address, health command, folder) of the image's command, run in the Space's files."""
    folder = tmp_path_factory.mktemp("space") / "app"
    made = subprocess.run(
        [sys.executable, str(ROOT / "space" / "assemble.py"), str(folder)],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    port = str(free_port())
    arguments = [port if part == "7860" else part for part in command()]
    health = json.loads(of("HEALTHCHECK")[0].partition("CMD ")[2])
    health = [sys.executable, *(part.replace("7860", port) for part in health[1:])]
    # as on the hub: its variables, and none of ours
    settings = dict(pair.split("=", 1) for pair in shlex.split(of("ENV")[0]))
    home = tmp_path_factory.mktemp("home")
    environment = {
        "PATH": os.environ["PATH"], "HOME": str(home), "SYSTEM": "spaces",
        "SPACE_ID": "owner/name", "OMP_NUM_THREADS": "1", **settings,
    }  # fmt: skip
    log = open(home / "log", "w+", encoding="utf-8")  # noqa: SIM115  (closed below)
    server = subprocess.Popen(
        [sys.executable, *arguments[1:]], cwd=folder, env=environment, stdout=log, stderr=log
    )
    try:
        end = time.monotonic() + 90
        while subprocess.run(health, capture_output=True, env=environment).returncode:
            assert server.poll() is None and time.monotonic() < end, (home / "log").read_text()
            time.sleep(0.5)
        yield f"http://127.0.0.1:{port}/", health, folder
    finally:
        server.terminate()
        code = server.wait(20)
        log.close()
    assert code in (0, -15), "SIGTERM must end it"


def test_the_images_command_serves_a_run_and_writes_nothing_beside_itself(container):
    from gradio_client import Client

    url, _, folder = container
    before = sorted(folder.rglob("*"))
    answer = Client(url, verbose=False).predict(
        "Solve 3x + 5 = 20.", gen_length=32, api_name="/decode"
    )
    trace = from_json(answer["trace"])  # replays every step by the rules
    assert trace.status == "finished" and trace.model.impl == "torch" and trace.text
    assert sorted(folder.rglob("*")) == before


def test_the_images_command_offers_mcp_tools(container):
    from mcp import ClientSession
    from mcp.client.streamable_http import streamable_http_client

    async def names():
        async with (
            streamable_http_client(f"{container[0]}gradio_api/mcp/") as (read, write, _),
            ClientSession(read, write) as session,
        ):
            await session.initialize()
            return {tool.name for tool in (await session.list_tools()).tools}

    # on a Space gradio puts the Space's name before a tool's
    found = asyncio.run(asyncio.wait_for(names(), 60))
    assert found >= {"name_decode", "name_rejudge", "name_metrics"}


def test_the_space_has_its_settings_on_top_and_no_surplus(container):
    folder = container[2]
    assert (folder / "README.md").read_text(encoding="utf-8").startswith("---\ntitle: Flash-dLLM")
    assert {path.name for path in folder.iterdir()} == {
        ".dockerignore", "Dockerfile", "LICENSE", "NOTICE", "README.md", "app", "app.py", "assets",
        "flash_dllm", "kernels", "requirements-mcp.txt", "requirements.txt",
    }  # fmt: skip
    assert not list(folder.rglob("__pycache__"))


def test_a_folder_that_is_there_is_refused(tmp_path):
    done = subprocess.run(
        [sys.executable, str(ROOT / "space" / "assemble.py"), str(tmp_path)],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.strip().endswith("could not be filled: File exists; give another folder")
