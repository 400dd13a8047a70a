"""Every `path/file.py::name` that a document mentions exists, and so does every linked file."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])


def names_in(path):
    """Top-level names of a file, and Class.member of its classes."""
    names = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            for member in node.body:
                if isinstance(member, ast.FunctionDef):
                    names.add(f"{node.name}.{member.name}")
        if isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
    return names


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_named_code_and_linked_files_exist(document):
    text = document.read_text(encoding="utf-8")
    for file, name in re.findall(r"`([\w/]+\.py)::([\w.]+)`", text):
        assert (ROOT / file).is_file(), file
        assert name in names_in(ROOT / file), f"{file} has no {name}"
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
        assert (document.parent / target).exists(), f"{document.name} links to {target}"


def test_reading_names_code():
    text = (ROOT / "docs" / "reading.md").read_text(encoding="utf-8")
    assert len(re.findall(r"`[\w/]+\.py::[\w.]+`", text)) >= 15


def words_after(option, text):
    """All words that follow an option in a document's commands."""
    found = re.findall(rf"{option} ((?:[a-z0-9_]+[ \n]?)+)", text.replace("\\\n", " "))
    return [word for words in found for word in words.split()]


def test_parts_and_decoders_in_the_documents_commands_are_known():
    from flash_dllm.evaluation.report.decoders import decoders
    from flash_dllm.evaluation.report.parts import PARTS

    text = "".join(document.read_text(encoding="utf-8") for document in DOCUMENTS)
    parts, names = words_after("--parts", text), words_after("--decoders", text)
    assert set(parts) == set(PARTS) and set(names) <= {decoder.name for decoder in decoders()}
    assert len(names) >= 10
