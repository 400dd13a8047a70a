"""Word problems with worked steps, in many wordings (domain "word").

A family (see `word_families/`) draws the numbers and words the question; this file words the
answer: the steps in an order their dependencies allow, each in one of many forms of different
lengths, with optional introduction and closing. Source: our choice, see docs/decisions.md.
"""

from __future__ import annotations

import random

from training.generators.item import Item
from training.generators.word_families import amounts, change, money, motion, parts, people
from training.generators.word_problem import Problem, Step
from training.generators.wording import choices, expand

# characters; measured with the reference tokenizer: at most 118 and 120 tokens
ANSWER_LIMIT = 288
QUESTION_LIMIT = 300

FAMILIES = {
    **change.FAMILIES,
    **people.FAMILIES,
    **money.FAMILIES,
    **motion.FAMILIES,
    **parts.FAMILIES,
    **amounts.FAMILIES,
}
_FAMILY_LIST = tuple(FAMILIES.items())

# `open` goes before anything, `link` only before a main clause; empty ones keep texts short
_OPEN_FIRST = choices(
    """
    (|||first, |first of all, |to start, |to begin, |to begin with, |at the start, |for a start, )
    (|let's see: |let's start: |well, |step one: |step 1: |starting out, |as a first step, |okay, )
    (|now, |right away, |in the first step, |before anything else, |one thing first: |here, )
    """
)
_LINK_FIRST = choices(
    """
    (|||first, |first of all, |to start, |to begin with, )
    (|step one: |step 1: |well, |okay, |clearly, )
    (|we know that |we can say that |we see that |here |it is clear that |of course, |we find that )
    (|as we know, |by the text, |as told, |we can see that |from the text, |right away, |note that )
    """
)
_OPEN_FREE = choices(
    """
    (||next, |also, |second, |in the same way, |as for the rest, |now |besides, |in addition, )
    (|at the same time, |likewise, |on the other hand, |then |another step: |one more thing: )
    """
)
_LINK_FREE = choices(
    """
    (||next, |also, |we also see that |on top of that, )
    (|we also know that |now |besides, |likewise, )
    (|in addition, |at the same time, |then |furthermore, |it is also true that )
    """
)
_OPEN_USES = choices(
    """
    (|||then |next, |now |after that, |with this, |from this, )
    (|from there, |using that, |so |second, )
    (|knowing this, |with that in mind, |given this, |having this, |step two: |the next step: |and )
    (|in the next step, |based on that, |moving on, )
    (|from here, |given that number, |with that number, )
    (|now that we know this, |from that result, |continuing, )
    (|going on, |and then |and now |once more, )
    """
)
_LINK_USES = choices(
    """
    (|||so |so, |then |then, |next, |now |thus |thus, )
    (|therefore |therefore, |hence |hence, |and so )
    (|this means |that means |this means that |that means that )
    (|as a result, |after that, |and then )
    (|it follows that |this tells us that |we now see that )
    (|from this, |consequently, |accordingly, )
    (|in other words, |because of this, |for this reason, )
    (|given this, |so now |it is clear that |and )
    (|we can see that |we find that |now we know that )
    (|with that, |this way, |that is why |clearly, )
    """
)
_OPEN_LAST = choices(
    "(finally, |lastly, |as the last step, |at last, |last, |to finish, |one last step: "
    "|for the final step, )"
)
_LINK_LAST = choices(
    "(finally, |lastly, |in the end, |so in the end, |at the end, |to sum up, "
    "|all in all, |so finally, |at last, )"
)

# small words that every form shares, each a choice of its own
_SHARED = {
    "because": choices("(because|since|as|given that|seeing that|knowing that|considering that)"),
    "so": choices(
        "(so|and so|so now|thus|hence|which means|meaning|and that means|which shows that|showing"
        " that|which tells us that|and this means that|so that|and therefore|and thus|and now)"
    ),
    "hence": choices(
        "(so |||this means |that means |hence |hence, |therefore |thus |and so |this shows that |in"
        " other words, |now |then |this tells us that |as a result, |consequently, |clearly, )"
    ),
    "find": choices("(find|get|work out|calculate|figure out|compute|determine|see|know)"),
    "gives": choices(
        "(gives|makes|gives us|leads to|results in|yields|brings us to|leads us to|produces|shows)"
    ),
    "gives_noun": choices("(gives|gives us|yields|leads to|tells us|shows|brings us to)"),
    "is": choices(
        "(is|is|comes to|must be|is then|is equal to|works out to|equals|can only be"
        "|turns out to be"
        "|has to be|amounts to)"
    ),
    "we": choices(
        "(|||we |we can |we need to |we must |we should |we have to |we just |we simply |you can )"
    ),
    "known": choices(
        """
        (|||we know that |we know |we are told that |here |from the question, |note that |given: )
        (remember that |it says that |according to the text, |we read that |the text says that )
        (as stated, |we start from this: |what we know: |keep in mind that |the problem says that )
        """
    ),
    "see": choices("(get|find|see|have|arrive at|reach|obtain|end up with|come to)"),
}
_FORMS = choices(
    """
    {link}{clause}.
    {link}{clause}.
    {link}{clause}.
    {link}{clause}, {because} {reason}.
    (because|since|as|given that|seeing that) {reason}, {clause}.
    {open}{reason}, {so} {clause}.
    {reason}. {hence}{clause}.
    {open}{reason}: {eq}.
    {eq}, {so} {told}.
    {eq}. {hence}{told}.
    {link}{told}, {because} {bare}.
    {link}{told}: {bare}.
    {open}{noun} {is} {eq}.
    {noun}: {eq}.
    {open}to {find} {noun}, {we}{order}: {eq}.
    {open}{operation} {gives} {eq}.
    {open}{operation}, we {see} {eq}.
    {open}{operation} {gives_noun} {noun}: {eq}.
    {open}{we}{order}: {eq}.
    {open}{we}{order} (to {find}|for) {noun}: {eq}.
    {open}we (can |){find} {noun} (from|with|by|through|using) {eq}.
    {eq} {gives_noun} {noun}.
    {open}{eq}.
    {eq}.
    {open}we (get|have|calculate|compute|do|work out|write|find) {eq}.
    {open}{eq}, {because} {reason}.
    {open}{reason}, (giving|which gives|and that gives|which makes|making|so we get) {eq}.
    {open}(let's|let us) {order}: {eq}.
    {open}if we {order}, (we {see}|it gives|the result is|the answer is|that gives) {eq}.
    {open}{noun} can be found (as|with|like this:|by this:|from|using) {eq}.
    (what is|how do we get|how do we find|what about|and) {noun}? {eq}.
    {open}for {noun}, {we}{order}: {eq}.
    """
)

_OPERATIONS = {
    "+": choices(
        """
        adding {b} to {a}
        adding {a} and {b}
        (adding|summing) (the two numbers|both numbers|the numbers|both)
        putting (both|the two|the numbers) together
        """
    ),
    "-": choices(
        """
        subtracting {b} from {a}
        taking {b} (away |)from {a}
        (subtracting|taking away|removing|leaving out) {b}
        (subtracting|going down by {b}|lowering {a} by {b})
        """
    ),
    "*": choices(
        """
        multiplying {a} by {b}
        multiplying (the two numbers|both numbers|the numbers|both)
        taking {a} times {b}
        """
    ),
    "/": choices(
        """
        dividing {a} by {b}
        (splitting|sharing out) {a} into {b} equal parts
        (dividing|dividing the two numbers|division by {b})
        """
    ),
}
_ORDERS = {
    "+": choices(
        "(add {b} to {a}|add {a} and {b}|add (both numbers|the two numbers|the numbers)"
        "|take the sum)"
    ),
    "-": choices(
        "(subtract {b} from {a}|take {b} (away |)from {a}|subtract|take the difference"
        "|take away {b})"
    ),
    "*": choices("(multiply {a} by {b}|multiply {a} and {b}|multiply|take {a} times {b})"),
    "/": choices("(divide {a} by {b}|divide|split {a} into {b} equal parts|take {a} over {b})"),
}

_INTRODUCTIONS = choices(
    """
    (let's|we can|let us|we) (work this out|solve this|do this|go|take this) step by step.
    (let's|we can|let us|we will) (work this out|solve this|do this|go) one step at a time.
    (let's|let us) (think|see|look at the numbers|work it out|solve it|begin|start).
    we (want|need|have|are asked) to {find} {goal}.
    the question is (only |)about {goal}.
    we (have to|must|need to|want to|should) {find} {goal}.
    {known}{fact}.
    {known}{fact}.
    {known}{fact}.
    {fact}, and we (want|need) to (find|know|work out) {goal}.
    (sure|okay|all right|good question|of course|fine), (here is the solution|here we go|let's see).
    (here are|these are) the (steps|calculations).
    """
)
_CLOSINGS = choices(
    """
    (so |therefore, |thus, |hence |and |){the} (final |) answer is {result}.
    {hence}{told}.
    (in short, |in conclusion, |as we see, |to conclude, |all in all, |and so, |indeed, ){told}.
    (so |thus |)(that is|that's|{result} is) (our|the) (final |) answer.
    {result} (is what we were looking for|is the answer|it is|is the result).
    (that gives us|this gives|we get|we end with) {result} (as the answer|as our answer|in the end).
    (this|that) (answers the question|settles {goal}): {result}.
    (what we wanted|what was asked), {goal}, is {result}.
    (and |)(that is all|we are done|that is it|done): {result}.
    """
)


def _value_slots(step: Step) -> dict:
    """The slots eq, bare, result, a and b: the equation with and without its unit."""
    bare = f"{step.left} {step.sign} {step.right} = {step.result}"
    if step.unit == "$":
        left = f"{step.left} {step.sign} {step.right} ="
        equations = [f"{left} ${step.result}", f"{bare} dollars", bare]
        if step.sign in "+-":
            equations.append(f"${step.left} {step.sign} ${step.right} = ${step.result}")
        results = (f"${step.result}", f"{step.result} dollars")
    elif not step.unit:
        # the clauses bring their own unit, such as "years old"
        equations, results = [bare], (str(step.result),)
    else:
        with_unit = f"{bare} {step.unit}"
        equations = [with_unit, bare]
        results = (f"{step.result} {step.unit}", f"{step.result} {step.unit}", str(step.result))
    return {
        "eq": tuple(equations),
        "bare": bare,
        "result": results,
        "a": str(step.left),
        "b": str(step.right),
    }


def _ordered(steps: tuple[Step, ...], rng: random.Random) -> list[int]:
    """A random order in which every step comes after those it needs; the last stays last."""
    if len(steps) == 3 and not steps[1].needs and rng.random() < 0.5:
        return [1, 0, 2]
    return list(range(len(steps)))


def _worded_steps(problem: Problem, rng: random.Random) -> list[str]:
    sentences = []
    count = len(problem.steps)
    for place, position in enumerate(_ordered(problem.steps, rng)):
        step = problem.steps[position]
        slots = {**_SHARED, **problem.slots, **step.slots, **_value_slots(step)}
        slots.update(
            clause=step.kind.clause,
            told=step.kind.told,
            noun=step.kind.noun,
            reason=step.kind.reason,
            operation=_OPERATIONS[step.sign],
            order=_ORDERS[step.sign],
        )
        if place == 0:
            slots.update(open=_OPEN_FIRST, link=_LINK_FIRST)
        elif not step.needs:
            slots.update(open=_OPEN_FREE, link=_LINK_FREE)
        elif place == count - 1:
            slots["open"] = _OPEN_LAST if rng.random() < 0.5 else _OPEN_USES
            slots["link"] = _LINK_LAST if rng.random() < 0.5 else _LINK_USES
        else:
            slots.update(open=_OPEN_USES, link=_LINK_USES)
        sentences.append(expand(_FORMS, rng, slots))
    return sentences


def _worded_answer(problem: Problem, rng: random.Random) -> str:
    sentences = _worded_steps(problem, rng)
    last = problem.steps[-1]
    slots = {**_SHARED, **problem.slots, **last.slots, **_value_slots(last)}
    slots.update(goal=problem.goal, told=last.kind.told, fact=problem.facts, the=("the", "our"))
    if rng.random() < 0.55:
        sentences.insert(0, expand(_INTRODUCTIONS, rng, slots))
    if rng.random() < 0.45:
        sentences.append(expand(_CLOSINGS, rng, slots))
    joints = ("\n", "\n", " ") if rng.random() < 0.7 else (" ",)
    text = sentences[0]
    for sentence in sentences[1:]:
        text += rng.choice(joints) + sentence
    return f"{text}\n#### {last.result}"


def make_item(rng: random.Random) -> Item:
    """One word problem with a worked answer that ends in a line `#### N`.

    Draws again until the texts are within the length limits, which is seldom needed.
    """
    family, build = _FAMILY_LIST[int(rng.random() * len(_FAMILY_LIST))]
    problem = build(rng)
    while len(problem.question) > QUESTION_LIMIT:
        problem = build(rng)
    answer = _worded_answer(problem, rng)
    while len(answer) > ANSWER_LIMIT:
        answer = _worded_answer(problem, rng)
    numbers = ",".join(map(str, problem.numbers))
    return Item(
        domain="word",
        family=family,
        specification=f"word/{family}/{problem.structure}/{numbers}",
        prompt=problem.question,
        answer=answer,
        gold=str(problem.steps[-1].result),
    )
