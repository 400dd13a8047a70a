"""Sentence patterns of the story generator and the small engine that fills them in.

A pattern is text with `{symbol}`; a symbol is either a fact of this story ("hero", "place") or a
rule below, whose alternatives stand one a line (or between bars). Nested rules give sentences of
many lengths, so that nothing but the facts can be foreseen: text that is too predictable would
leave the decoders nothing to decide.
"""

from __future__ import annotations

import random
import re

_WORD_RULES = {
    "weekday": "Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday",
    "season": "spring|summer|autumn|winter|the holidays|May|June|April|October|the school year",
    "sky": "sunny|windy|foggy|rainy|snowy|warm|chilly|cloudy|bright|gray|stormy|hot|mild|frosty"
    "|still",
    "daytime": "morning|afternoon|evening|day|night",
    "part": "morning|afternoon|evening|night",
    "time": "one {daytime}|one {sky} {daytime}|on a {sky} {daytime}|on {weekday}|early on {weekday}"
    "|last {weekday}|after breakfast|just before lunch|after school|at sunrise|around noon"
    "|late at night"
    "|on the first day of {season}|in {season}|at the end of {season}|one {weekday} {part}"
    "|two days after {season} began|long ago|before anyone else was awake|when the rain had stopped"
    "|while {relative} was asleep|on the way home",
    "relative": "{his} grandmother|{his} grandfather|{his} mother|{his} father|{his} aunt"
    "|{his} uncle"
    "|{his} cousin|the neighbor|the teacher|{his} brother|{his} sister|an old friend|the baker"
    "|a stranger",
    "how": "slowly|quickly|quietly|happily|carefully|gently|proudly|softly|at once|right away"
    "|alone|again"
    "|without a word|with a smile|with a sigh|with both hands|in a hurry|for a while|for an hour"
    "|one more time|as fast as possible|step by step|very early|in no time|like a thief",
    "maybe_how": "||||| {how}| {how}| {how}",
    "thing": "bench|bush|tree|log|wall|fence|rock|cart|table|chair|door|pile of leaves"
    "|heap of sand|box"
    "|stack of wood|barrel|puddle|statue|lamp post|bed of moss|broken chair|row of pots"
    "|bale of hay",
    "size": "tiny|small|little|big|huge|large|long|short|tall|round|flat|heavy|light|thin",
    "looks": "shiny|old|new|dusty|broken|pretty|strange|lovely|plain|wet|dirty|clean|smooth"
    "|rough|odd"
    "|cracked|rusty|magic|fancy|simple|beautiful|lost|warm|cold|painted",
    "nature": "friendly|hungry|clever|sleepy|noisy|gentle|curious|shy|brave|lazy|fluffy|funny"
    "|quick|wild"
    "|young|old|fat|skinny|wise|grumpy|playful|tame|spotted|muddy|lonely|polite",
    "trait": "kind|clever|quiet|busy|brave|careful|cheerful|stubborn|patient|curious|lazy|clumsy"
    "|gentle"
    "|honest|helpful|restless|funny",
    "where": "under a {thing}|behind a {thing}|next to a {thing}|on top of a {thing}"
    "|near the {thing}"
    "|between two {thing2}|in the tall grass|in the mud|deep in the sand|in a dark corner"
    "|by the wall"
    "|in the shade|in plain sight|beneath some leaves|at the very edge|inside an old {container}",
    "maybe_where": "|| {where}| {where}| {where}",
    "thing2": "rocks|trees|logs|bushes|stones|walls|carts|benches|roots|fences",
    "container": "boot|box|bucket|pot|basket|jar|trunk|barrel|hat|nest",
    "hobby": "climbing trees|long walks|telling jokes|singing|drawing|exploring|reading"
    "|old songs|riddles"
    "|collecting things|running|painting|making plans|puzzles|looking at clouds|asking questions"
    "|building things|cooking|dancing|racing|fishing|gardening|skating|swimming|secrets",
    "errand": "to buy some bread|to look for firewood|to visit {relative}|to get some fresh air"
    "|to play"
    "|to hide from the rain|to draw a picture|to look around|to help {relative}|to think|to rest"
    "|to practice {hobby}|to deliver a note|to pick flowers|to fly a kite|to watch the sunset"
    "|to count birds|to find a quiet spot|to fetch water|to fix a fence",
    "saw": "found|spotted|discovered|noticed|came across|stumbled upon|picked up|dug up"
    "|caught sight of",
    "went": "walked|ran|hurried|went|strolled|wandered|rushed|raced|skipped|marched|hiked|cycled"
    "|headed",
    "left": "set off|left home|went out|stepped outside|started walking|got up|put on {his} shoes"
    "|closed the door|packed a bag|took a deep breath|jumped out of bed|finished {his} chores",
    "said": "said|asked|whispered|called|cried|shouted|laughed|answered|replied|muttered",
    "exclaim": "What a day|Look at this|How wonderful|Who would have thought it|This is new"
    "|I can't believe it"
    "|Well, well|My goodness|Just what I needed|Come and see|At last|What luck"
    "|Nobody will believe me",
    "mood_sound": "The wind {blew}|Rain {fell}|The sun {shone}|Somewhere a dog barked"
    "|A bell rang far away"
    "|Nobody else was there|Everything was quiet|It smelled of {smell}|Leaves rustled"
    "|Clouds drifted by"
    "|The air was {air}|It was getting late|A soft light came through the clouds"
    "|Music could be heard",
    "blew": "howled|blew softly|shook the trees|had stopped|grew stronger|felt cold",
    "fell": "fell softly|began to fall|drummed on the roofs|had just stopped|was on the way",
    "shone": "shone|was setting|was high in the sky|came out|hid behind a cloud|warmed the stones",
    "smell": "rain|smoke|flowers|soap|fresh paint|old wood|apples|salt|mint|hay|dust|pine",
    "air": "cool|warm|damp|fresh|dry|heavy|sweet|cold|full of dust|full of birds",
}

_SENTENCE_RULES = {
    "opening": """
{time}, {hero} {left} {errand}.
{time}, {hero} {left}.
{hero} {left} {time}{maybe_how}.
{hero} was a {trait} {child} who loved {hobby}.
{hero}, who was very {trait}, {left}{maybe_how} {errand}.
there was once a {trait} {child} called {hero}.
it was a {sky} {daytime}, and {hero} {left} {errand}.
"{exclaim}," {said} {hero} {time}.
{hero} liked {hobby} more than {hobby}.
{hero} had promised {errand}, but first {he} {left}.
because {relative} was busy, {hero} {left}{maybe_how}.
{mood_sound} when {hero} {left}.
{hero} woke up {time} and {left}.
everyone knew that {hero} was {trait} and loved {hobby}.
{hero} wanted {errand}. {mood_sound}.
{time}, {hero} felt like {hobby}.""",
    "find": """
{in_place} {he} {saw} {object_phrase}{maybe_where}.
{in_place}, {where}, {hero} {saw} {object_phrase}.
{hero} {went} to the {place} and {saw} {object_phrase}{maybe_where}.
when {hero} got to the {place}, {he} {saw} {object_phrase}{maybe_where}.
{where} {in_place} lay {object_phrase}, and {hero} took it{maybe_how}.
{mood_sound}, and {in_place} {hero} {saw} {object_phrase}.
{he} {went}{maybe_how} to the {place}, where {object_phrase} lay {where}.
{hero} looked around {in_place} and {saw} {object_phrase}.
"{exclaim}!" {said} {hero} {in_place}, for {he} had found {object_phrase}.
nobody was {in_place}, but {where} {hero} {saw} {object_phrase}.
after a while {he} {saw} {object_phrase} {in_place}{maybe_where}.
something lay {where} {in_place}: it was {object_phrase}.
{hero} was {in_place} {errand} when {he} {saw} {object_phrase}.""",
    "colour_note": """
it was {colour}, as {colour} as {relative}'s door.
the {object} was {colour} and very {looks}.
{his} {object} was {size}, {looks} and {colour}.
no other {object} was so {colour}.
it looked {looks}, but it was still {colour}.
somebody had painted the {object} {colour}.
everyone admired the {colour} {object}.
under the dust, the {object} was {colour}.
in the light it turned out to be {colour}.
{hero} had never seen such a {colour} {object}.
"why is it {colour}?" {said} {relative}.
its {colour} color made {relative} smile.""",
    "meet": """
then a {nature} {animal} {came} and {antic}.
{hero} met a {animal} {where}, and it {antic}.
a {animal}, {nature} and {nature}, {antic} right in front of {him}.
a {nature} {animal} {antic}{maybe_how}.
"{exclaim}," {said} {he} to a {animal} that {antic}.
soon {he} saw a {animal} that {came}.
not far away, a {nature} {animal} {antic} while {hero} watched{maybe_how}.
{where} sat a {animal}, which {antic}.
suddenly a {animal} {came}; it was {nature} and {antic}.
{hero} heard a noise {where}: a {nature} {animal} {came}.
a {animal} followed {him}{maybe_how} and {antic}.
{mood_sound}, and a {nature} {animal} {came}.
when a {animal} {antic}, {hero} stopped{maybe_how}.""",
    "came": "came out of a hole|came by|jumped out|ran past|came closer{maybe_how}|crossed the path"
    "|appeared from nowhere|looked at {him}|came {where}|wanted to play|stood {where}|turned up",
    "antic": "made a funny noise|fell asleep|looked at {him}|asked for food|sneezed"
    "|danced in a circle|hid {where}"
    "|waited {where}|told a joke|sang a song|stared at the sky|began to dig|shook its head"
    "|stole {his} hat"
    "|rolled over|showed {him} the way|winked|sat down{maybe_how}|asked a riddle"
    "|wanted to be friends",
    "help": """
{friend} helped {him}{maybe_how}.
luckily, {friend} came and helped{maybe_how}.
"can I help?" {said} {friend}, and {he} nodded.
{friend} offered to help, {said2}: "{exclaim}!"
without the help of {friend}, {hero} would have given up.
{hero} got tired, so {friend} helped {him}{maybe_how}.
it was hard work, but {friend} lent a hand.
when {he} needed help, {friend} {went} over.
{friend} saw the trouble and helped {him} {errand}.
it was {friend} who helped in the end.
{he} called {friend}, who helped {him}{maybe_how}.
only {friend} had time to help, and that was enough.""",
    "said2": "saying|shouting|whispering|adding|laughing",
    "give": """
later {he} gave the {object} to {friend}{maybe_how}.
{hero} handed the {object} to {friend}, who was {trait}.
"this {object} is for you," {he} told {friend}.
{friend} needed a {object}, so {hero} gave it away{maybe_how}.
{he} wrapped the {object} in paper and gave it to {friend}.
{friend} got the {object} from {him} as a {size} present.
{hero} thought of {friend} and gave {friend} the {object}.
{time_later}, {friend} was given the {object}.
{he} sold the {object} to {friend} for one coin.
since {friend} loved {hobby}, {he} let {friend} have the {object}.
{hero} kept nothing: the {object} went to {friend}.
the {object} was a gift for {friend}, {said} {hero}{maybe_how}.""",
    "time_later": "an hour later|the next day|in the end|before dinner|that evening|a week later"
    "|at last|later on",
    "move": """
{time_later} {he} {went}{maybe_how} to the {place2}.
after that, {hero} {went} to the {place2} {errand}.
from there {he} {went} to the {place2}{maybe_how}.
next, {hero} {went} on to the {place2}, and {mood_sound_lower}.
{he} did not stay long and {went} to the {place2}.
"let us go to the {place2}," {said} {hero}, and off {he} went.
{he} wanted {errand}, so {he} {went} to the {place2}.
{hero} took the {size} road to the {place2}.
{time_later}, {in_place2}, {hero} sat down {where}.
the way led {him} to the {place2}. {mood_sound}.
{hero} ended up {in_place2}{maybe_how}.
by then it was late, and {he} {went} to the {place2}.""",
    "mood_sound_lower": "the wind {blew}|rain {fell}|the sun {shone}|nobody saw {him}"
    "|the road was {size}",
    "eat": """
{time_later}, {hero} ate some {food}{maybe_how}.
{he} had brought {food}, which tasted {taste}.
{hero} shared {food} with {relative}.
{relative} had made {food}, and {he} ate all of it{maybe_how}.
"I am hungry," {said} {hero}, and had some {food}.
lunch was {food}, {taste} and {looks_food}.
for dinner {he} chose {food}.
{hero} sat down {where} and ate {food}.
the {food} {he} ate tasted {taste}.
a bowl of {food} was all {hero} ate that day.
{hero} could smell {food} and ate some{maybe_how}.
nothing ever tasted like the {food} {he} ate.""",
    "taste": "sweet|sour|good|strange|fresh|salty|great|plain|better than ever|like home"
    "|a bit burnt",
    "looks_food": "still warm|rather cold|plenty of it|freshly made|enough for everyone"
    "|a little too much",
    "feel": """
in the end, {hero} felt {feeling}.
{hero} was {feeling} {time_later}.
{time_later}, {hero} told {relative} about it and felt {feeling}.
"I feel {feeling}," {said} {hero}{maybe_how}.
that made {him} feel {feeling}.
{hero} went home {feeling}, thinking of {hobby}.
{he} could not sleep, because {he} felt so {feeling}.
{hero} {went} home{maybe_how} and felt {feeling} about everything.
when {relative} asked, {he} said that {he} was {feeling}.
never before had {hero} been so {feeling}.
back home {he} sat {where}, {feeling} and {trait}.
what a {sky} {daytime}! {hero} felt {feeling}.
all of this left {hero} {feeling}.""",
    "filler": """
{mood_sound}.
{mood_sound}, and {relative} was {trait} as always.
"{exclaim}!" {said} {relative}.
{relative} {said}: "{exclaim}."
{he} thought about {hobby}{maybe_how}.
{he} waited{maybe_how}, for {mood_sound_lower}.
nobody could say why.
{he} hummed a {looks} song.
{he} tied {his} shoes{maybe_how}.
it took {him} {amount} to get there.
{he} counted {amount_things} on the way.
far away, {relative} was waiting {where}.""",
    "amount": "an hour|ten minutes|all {daytime}|a long time|only a moment|half a day"
    "|longer than planned",
    "amount_things": "three clouds|seven birds|many steps|five red doors|a hundred stones"
    "|two old carts",
}

_PIECES = re.compile(r"\{(\w+)\}")


def _parse(rule: str) -> tuple[tuple[str, ...], ...]:
    """Alternatives of a rule, each as text, symbol, text, symbol, …, text."""
    alternatives = rule.strip("\n").split("\n") if "\n" in rule else rule.split("|")
    return tuple(tuple(_PIECES.split(alternative)) for alternative in alternatives)


_RULES = {name: _parse(rule) for name, rule in {**_WORD_RULES, **_SENTENCE_RULES}.items()}
_PRONOUNS = {
    "girl": {"he": "she", "his": "her", "him": "her", "child": "girl"},
    "boy": {"he": "he", "his": "his", "him": "him", "child": "boy"},
}
_ARTICLE = re.compile(r"\b([Aa]) (?=[aeiou])")
_SENTENCE_START = re.compile(r'^"?[a-z]|[.!?] "?[a-z]')


def expand(symbol: str, facts: dict[str, str], rng: random.Random) -> str:
    """The symbol's fact, or one of its alternatives with every symbol inside expanded."""
    fact = facts.get(symbol)
    if fact is not None:
        return fact
    alternatives = _RULES[symbol]
    pieces = alternatives[int(rng.random() * len(alternatives))]
    if len(pieces) == 1:
        return pieces[0]
    return "".join(
        expand(piece, facts, rng) if odd % 2 else piece for odd, piece in enumerate(pieces)
    )


def pronouns(kind: str) -> dict[str, str]:
    """Pronoun facts of a "girl" or a "boy"."""
    return _PRONOUNS[kind]


def finish(sentences: list[str]) -> str:
    """The sentences as one text, with right articles ("an owl") and capitals.

    >>> finish(["a owl sat there.", '"hello!" said the owl.'])
    'An owl sat there. "Hello!" said the owl.'
    """
    return " ".join(
        _SENTENCE_START.sub(_raise_last, _ARTICLE.sub(r"\1n ", sentence)) for sentence in sentences
    )


def _raise_last(match: re.Match) -> str:
    return match.group()[:-1] + match.group()[-1].upper()
