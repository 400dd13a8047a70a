"""Loaders of the real training texts from a data folder that has one folder a source.

GSM8K train and MBPP train give chat items; storybooks and short functions of the standard library
give plain documents. None of them reads an evaluation file: items too close to one are listed by
hash in `excluded.json`, which `training/contamination.py` writes.
"""

from __future__ import annotations

import ast
import hashlib
import json
import lzma
import re
import sysconfig
import textwrap
from pathlib import Path

from flash_dllm.evaluation.wording import plain_characters, plain_text
from training.generators.item import Item

EXCLUDED_PATH = Path(__file__).with_name("excluded.json")
LONGEST_FUNCTION_LINES = 25

_MARKS = re.compile(r"<<[^>]*>>")
# an operator between two numbers, each perhaps with a currency sign or a decimal point; a slash
# or a minus inside dates, ranges and words stays as it is, because an equation must follow
_EQUATION = re.compile(r"[$]?\d[\d.,]*%?(?:\s*[-+*/x]\s*[$]?\d[\d.,]*%?)+\s*=\s*[$]?-?\d[\d.,]*")
_OPERATOR = re.compile(r"(?<=[\d%.])\s*([-+*/x=])\s*(?=[$\d-])")


def text_hash(text: str) -> str:
    """A stable name of a text, for `excluded.json`."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def excluded_hashes() -> frozenset[str]:
    """Hashes of the real training items that the contamination gate has thrown out."""
    if not EXCLUDED_PATH.exists():
        return frozenset()
    return frozenset(json.loads(EXCLUDED_PATH.read_text())["hashes"])


def gsm8k_items(data: Path) -> list[Item]:
    """GSM8K train: the question, and the worked answer without `<<…>>`, last line `#### N`."""
    items = []
    for number, row in enumerate(_rows(data / "gsm8k" / "train.jsonl.xz")):
        steps = _MARKS.sub("", row["answer"]).strip()
        gold = steps.rsplit("####", 1)[1].strip().replace(",", "")
        steps = _EQUATION.sub(_space_operators, plain_characters(steps))
        items.append(
            Item(
                "word",
                "gsm8k",
                f"gsm8k/train/{number}",
                plain_text(row["question"]),
                plain_text(steps),
                gold,
            )
        )
    return _kept(items)


def _space_operators(equation: re.Match) -> str:
    """`48/2=24` as `48 / 2 = 24`, the way the generators write; `x` between numbers is `*`."""
    return _OPERATOR.sub(r" \1 ", equation.group()).replace(" x ", " * ")


def mbpp_items(data: Path) -> list[Item]:
    """MBPP train_clean: the wording of the task and its function, four spaces a level."""
    items = []
    for row in _rows(data / "mbpp" / "train_clean.jsonl.xz"):
        code = row["code"].replace("\r\n", "\n").replace("\t", "    ")
        code = "\n".join(line.rstrip() for line in code.strip().split("\n"))
        # tasks that fix a name or a format only in their tests show the first one, as MBPP does
        prompt = f"{plain_text(row['text'])}\n{row['test_list'][0]}"
        specification = f"mbpp/train/{row['task_id']}"
        tests = tuple(row["test_list"])
        answer = plain_characters(code)
        items.append(Item("code", "mbpp", specification, prompt, answer, tests=tests))
    return _kept(items)


def storybooks(data: Path) -> list[str]:
    """The CC BY picture-book texts, one document each."""
    rows = _rows(data / "storybooks_ccby" / "stories_en_690.jsonl.xz")
    texts = [plain_text(row["text"]) for row in rows]
    excluded = excluded_hashes()
    return [text for text in texts if text_hash(text) not in excluded]


def windows(document: str, characters: int) -> list[str]:
    """The document cut at paragraph and sentence ends into pieces of at most `characters`.

    A single sentence longer than that is left out.

    >>> windows("One. Two.\\nThree.", 10)
    ['One. Two.', 'Three.']
    """
    pieces, current = [], ""
    for part in re.split(r"(?<=[.!?\"])(\s+)", document):
        if len(current) + len(part) > characters:
            pieces.append(current.strip())
            current = ""
        if current or part.strip():
            current += part if len(part) <= characters else ""
    return [piece for piece in (*pieces, current.strip()) if piece]


def standard_library_functions() -> list[str]:
    """Functions of at most 25 lines with a docstring, from the running Python's own library."""
    root = Path(sysconfig.get_paths()["stdlib"])
    skipped = {
        "site-packages",
        "test",
        "tests",
        "idlelib",
        "lib2to3",
        "__pycache__",
        "dist-packages",
    }
    documents: dict[str, None] = {}
    for path in sorted(root.rglob("*.py")):
        if skipped & set(path.relative_to(root).parts):
            continue
        try:
            source = path.read_text(encoding="utf-8")
            tree = ast.parse(source)
        except (SyntaxError, UnicodeDecodeError):
            # a few files are there to be broken, or are in another encoding
            continue
        lines = source.splitlines()
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and ast.get_docstring(node):
                body = "\n".join(lines[node.lineno - 1 : node.end_lineno])
                if (
                    body.count("\n") < LONGEST_FUNCTION_LINES
                    and body.isascii()
                    and "\t" not in body
                ):
                    documents[textwrap.dedent(body)] = None
    excluded = excluded_hashes()
    return [text for text in documents if text_hash(text) not in excluded]


def _rows(path: Path) -> list[dict]:
    if not path.exists():
        raise FileNotFoundError(
            f"no {path}: --data must be a folder that holds {path.parent.name}/"
        )
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def _kept(items: list[Item]) -> list[Item]:
    excluded = excluded_hashes()
    return [item for item in items if text_hash(item.prompt) not in excluded]
