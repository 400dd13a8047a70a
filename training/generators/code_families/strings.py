"""Characters of a text, words of a sentence and lists of words, as pipelines."""

from __future__ import annotations

import random

from training.generators.code_families.lists import function_names, put_match
from training.generators.code_families.pipeline import (
    EMPTY,
    RETURNS,
    Condition,
    Mapping,
    Source,
    evaluate,
    pipeline_body,
)
from training.generators.code_families.task import (
    LETTER_NAMES,
    LETTERS,
    WORD_NAMES,
    WORDS,
    Task,
)


def _letter(k: str) -> tuple[Condition, ...]:
    yes = (f"@ == '{k}'",)
    no = (f"@ != '{k}'",)
    return (
        Condition(f"=={k}", "", f" equal to '{k}'", "letter", yes, no, lambda v: v == k),
        Condition(f"!={k}", "", f" other than '{k}'", "without", no, yes, lambda v: v != k),
    )


def _either(j: str, k: str) -> tuple[Condition, ...]:
    yes = (f"@ in '{j}{k}'", f"@ == '{j}' or @ == '{k}'")
    no = (f"@ not in '{j}{k}'", f"@ != '{j}' and @ != '{k}'")
    pair = (j, k)
    return (
        Condition(f"in{j}{k}", "", f" equal to '{j}' or '{k}'", "two", yes, no,
                  lambda v: v in pair),
        Condition(f"!in{j}{k}", "", f" other than '{j}' and '{k}'", "without", no, yes,
                  lambda v: v not in pair),
    )  # fmt: skip


def _method(key: str, before: str, name: str) -> Condition:
    return Condition(
        key, before, "", name,
        (f"@.{key}()",), (f"not @.{key}()",),
        lambda v: getattr(v, key)(),
    )  # fmt: skip


_VOWEL = ("@ in 'aeiou'", "@ in ('a', 'e', 'i', 'o', 'u')")
_OTHER = ("@ not in 'aeiou'",)
LETTER_CONDITIONS = (
    (
        Condition("vowel", "", " that are vowels (aeiou)", "vowels", _VOWEL, _OTHER,
                  lambda v: v in "aeiou"),
        Condition("!vowel", "", " that are not vowels (aeiou)", "consonants", _OTHER, _VOWEL,
                  lambda v: v not in "aeiou"),
    ),
    (
        _method("isupper", "uppercase ", "upper"),
        _method("islower", "lowercase ", "lower"),
    ),
    tuple(c for k in LETTERS for c in _letter(k)),
    tuple(c for k in LETTERS for c in _letter(k)),
    tuple(c for j in LETTERS for k in LETTERS if j < k for c in _either(j, k)),
)  # fmt: skip


def _length(k: int) -> tuple[Condition, ...]:
    size = "len(@)"
    return (
        Condition(f"len>{k}", "", f" longer than {k} letters", "long",
                  (f"{size} > {k}", f"{k} < {size}"), (f"{size} <= {k}",), lambda v: len(v) > k),
        Condition(f"len<{k}", "", f" shorter than {k} letters", "short",
                  (f"{size} < {k}", f"{k} > {size}"), (f"{size} >= {k}",), lambda v: len(v) < k),
        Condition(f"len=={k}", "", f" with exactly {k} letters", "size",
                  (f"{size} == {k}",), (f"{size} != {k}",), lambda v: len(v) == k),
    )  # fmt: skip


def _spelling(k: str) -> tuple[Condition, ...]:
    return (
        Condition(f"start{k}", "", f" that start with '{k}'", "starting",
                  (f"@.startswith('{k}')", f"@[0] == '{k}'"),
                  (f"not @.startswith('{k}')", f"@[0] != '{k}'"), lambda v: v.startswith(k)),
        Condition(f"end{k}", "", f" that end with '{k}'", "ending",
                  (f"@.endswith('{k}')", f"@[-1] == '{k}'"),
                  (f"not @.endswith('{k}')", f"@[-1] != '{k}'"), lambda v: v.endswith(k)),
        Condition(f"has{k}", "", f" that contain '{k}'", "with",
                  (f"'{k}' in @", f"@.count('{k}') > 0"), (f"'{k}' not in @",), lambda v: k in v),
        Condition(f"no{k}", "", f" without '{k}'", "without",
                  (f"'{k}' not in @", f"@.count('{k}') == 0"), (f"'{k}' in @",),
                  lambda v: k not in v),
    )  # fmt: skip


WORD_CONDITIONS = (
    tuple(c for k in range(2, 8) for c in _length(k)),
    tuple(c for k in LETTERS for c in _spelling(k)),
)
UPPER = Mapping("upper", "{} in upper case", "upper", ("@.upper()", "str.upper(@)"), str.upper)
LETTER_MAPPINGS = (
    UPPER,
    Mapping("twice", "{}, each written twice", "doubled", ("@ * 2", "@ + @", "2 * @"),
            lambda v: v * 2),
    *(Mapping(f"then{s}", f"{{}}, each followed by '{s}'", "marked", (f"@ + '{s}'",),
              lambda v, s=s: v + s) for s in "-*+.:!"),
)  # fmt: skip
WORD_MAPPINGS = (
    UPPER,
    Mapping("reverse", "{} written backwards", "reversed", ("@[::-1]", "''.join(reversed(@))"),
            lambda v: v[::-1]),
    Mapping("length", "the lengths of {}", "lengths", ("len(@)",), len),
    Mapping("first", "the first letters of {}", "initials", ("@[0]", "@[:1]"), lambda v: v[0]),
    Mapping("last", "the last letters of {}", "ends", ("@[-1]", "@[-1:]"), lambda v: v[-1]),
    *(Mapping(f"then{s}", f"{{}}, each followed by '{s}'", "marked", (f"@ + '{s}'",),
              lambda v, s=s: v + s) for s in "-*+.:!?"),
)  # fmt: skip
PHRASES = {
    "count": ("the number of {}", "how many {}"),
    "list": ("a list of {}", "the list of {}"),
    "join": ("a string of {}", "the text made of {}", "the string made of {}"),
    "first": ("the first of {} (None if there is none)", "the first of {}, or None"),
    "last": ("the last of {} (None if there is none)", "the last of {}, or None"),
    "sum": ("the sum of {}", "the total of {}"),
}


def _draw_letters(rng: random.Random, condition: Condition | None) -> str:
    """A text in which the condition is neither always nor never met."""
    text = "".join(rng.choices(WORDS, k=rng.randint(1, 2)))
    if condition is not None:
        place = rng.randrange(len(text) + 1)
        named = [letter for letter in condition.key if letter.islower()][-1:]
        text = text[:place] + "".join(named) * rng.randint(0, 2) + text[place:]
    return text


def text_pipeline(rng: random.Random) -> Task:
    """Aggregate of the letters of a text, the words of a sentence, or a list of words."""
    kind = rng.choice(("letters", "letters", "sentence", "words"))
    condition: Condition | None = None
    mapping: Mapping | None = None
    if kind == "letters":
        aggregate = rng.choice(("count", "count", "join", "join", "join", "any", "all", "list"))
        groups, mappings = LETTER_CONDITIONS, LETTER_MAPPINGS
        source, where, noun, argument = Source("list", "{a}"), "in {a}", "letters", "text"
    else:
        aggregate = rng.choice(("count", "list", "list", "any", "all", "first", "last"))
        groups, mappings, noun = WORD_CONDITIONS, WORD_MAPPINGS, "words"
        is_list = kind == "words"
        source = Source("list", "{a}") if is_list else Source("words", "{a}.split()")
        where, argument = "in {a}", "words" if is_list else "sentence"
    can_map = aggregate in ("join", "list", "first", "last")
    draw = rng.random()
    if not can_map or draw < 0.75:
        condition = rng.choice(rng.choice(groups))
    if can_map and (condition is None or draw < 0.35):
        mapping = rng.choice(mappings)
        if mapping.key == "length" and aggregate == "list" and rng.random() < 0.5:
            aggregate = "sum"
    before, after = (condition.before, condition.after) if condition else ("", "")
    what = f"the {before}{noun} {where}{after}"
    if rng.random() < 0.5:
        what = f"the {before}{noun}{after} {where}"
    if aggregate in ("any", "all"):
        if aggregate == "any":
            phrase = f"whether {{a}} has any {before}{noun}{after}"
        else:
            bare = after.removeprefix(" that") or f" are {before.strip()}"
            if bare.startswith(" with"):
                bare = f" have {bare.removeprefix(' with ').removeprefix('out ')}"
                bare = bare if "exactly" in bare else f" are{after}"
            elif not bare.startswith((" are", " start", " end", " contain")):
                bare = f" are{bare}"
            phrase = f"whether all {noun} {where}{bare}"
    else:
        shown = mapping.phrase.format(what) if mapping else what
        template = rng.choice(PHRASES[aggregate])
        phrase = template.format(shown)
        if template == "how many {}":
            phrase = f"how many {shown.removeprefix('the ')} there are"
    if kind == "letters":
        samples: list[object] = [_draw_letters(rng, condition) for _ in range(3)]
    else:
        lists = [[w.lower() for w in rng.choices(WORDS, k=rng.randint(2, 4))] for _ in range(3)]
        if condition is not None:
            put_match(rng, lists[0], condition, lambda: rng.choice(WORDS).lower())
        samples = [words if kind == "words" else " ".join(words) for words in lists]
    if rng.random() < 0.35:
        samples[rng.randrange(1, 3)] = [] if kind == "words" else ""
    returns = RETURNS.get(aggregate, "list[str]" if aggregate == "list" else "")
    if mapping is not None and mapping.key == "length" and aggregate == "list":
        returns = "list[int]"
    return Task(
        family=f"{kind}/{aggregate}",
        specification=f"{kind}/{aggregate}/{condition.key if condition else '-'}"
        f"/{mapping.key if mapping else '-'}",
        names=function_names(rng, aggregate, condition, mapping, noun),
        arguments=(argument,),
        phrase=phrase,
        returns=returns,
        body=pipeline_body(rng, source, condition, mapping, aggregate),
        elements=LETTER_NAMES if kind == "letters" else WORD_NAMES,
        reference=lambda value: evaluate(
            value.split() if kind == "sentence" else list(value), condition, mapping, aggregate
        ),
        examples=tuple((sample,) for sample in samples),
        empty=EMPTY[aggregate],
    )
