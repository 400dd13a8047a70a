"""Single tasks on lists of integers, pairs of lists and dictionaries."""

from __future__ import annotations

import random

from training.generators.code_families.simple import DRAW, Simple
from training.generators.code_families.task import integers

SMALL = tuple(range(1, 7))
WIDE = tuple(range(-5, 16))
NUMBERS, TABLE = ("numbers",), ("table",)


def _filled(rng: random.Random) -> tuple[list[int]]:
    return (integers(rng),)


def _repeats(rng: random.Random) -> tuple[list[int]]:
    return ([rng.randint(1, 5) for _ in range(rng.randint(2, 7))],)


def _many(rng: random.Random) -> tuple[list[int]]:
    return ([rng.randint(-9, 20) for _ in range(rng.randint(0, 10))],)


def _search(rng: random.Random) -> tuple[list[int], int]:
    numbers = integers(rng)
    return numbers, rng.choice((rng.choice(numbers), rng.randint(-9, 20)))


def _equal_lengths(rng: random.Random) -> tuple[list[int], list[int]]:
    numbers = integers(rng)
    return numbers, [rng.randint(-9, 15) for _ in numbers]


def _maybe_sorted(rng: random.Random) -> tuple[list[int]]:
    numbers = integers(rng)
    return (sorted(numbers) if rng.random() < 0.5 else numbers,)


def _running(numbers: list[int]) -> list[int]:
    return [sum(numbers[: place + 1]) for place in range(len(numbers))]


ROWS = (
    Simple("take", "first_elements take head_of beginning first_part start_of", NUMBERS,
           "a list of the first <k> numbers in {a}", "list[int]",
           ("return {a}[:<k>]", "return {a}[0:<k>]", "return [{x} for {x} in {a}[:<k>]]",
            "{r} = []\nfor {x} in {a}[:<k>]:\n    {r}.append({x})\nreturn {r}"),
           lambda k, a: a[:k], (SMALL,), None, "[]"),
    Simple("tail", "last_elements tail end_of last_part final_part", NUMBERS,
           "a list of the last <k> numbers in {a}", "list[int]",
           ("return {a}[-<k>:]", "{r} = {a}[-<k>:]\nreturn {r}",
            "{r} = []\nfor {x} in {a}[-<k>:]:\n    {r}.append({x})\nreturn {r}",
            "return [{x} for {x} in {a}[-<k>:]]"),
           lambda k, a: a[-k:], (SMALL,), None, "[]"),
    Simple("drop", "without_first drop_first skip rest_of remove_first", NUMBERS,
           "a list of {a} without its first <k> numbers", "list[int]",
           ("return {a}[<k>:]", "{r} = {a}[<k>:]\nreturn {r}",
            "{r} = []\nfor {x} in {a}[<k>:]:\n    {r}.append({x})\nreturn {r}",
            "return [{a}[{i}] for {i} in range(<k>, len({a}))]"),
           lambda k, a: a[k:], (SMALL,), None, "[]"),
    Simple("every", "every_nth step_through some_elements skip_some thin_out", NUMBERS,
           "a list of every <k>th number in {a}, starting with the first", "list[int]",
           ("return {a}[::<k>]", "{r} = {a}[::<k>]\nreturn {r}",
            "return [{a}[{i}] for {i} in range(0, len({a}), <k>)]",
            "{r} = []\nfor {i} in range(0, len({a}), <k>):\n    {r}.append({a}[{i}])\nreturn {r}"),
           lambda k, a: a[::k], (tuple(range(4, 8)),), _many, "[]"),
    Simple("reverse", "reverse_list reversed_copy backwards flip turn_around", NUMBERS,
           "a list of the numbers in {a} in reverse order", "list[int]",
           ("return {a}[::-1]", "return list(reversed({a}))",
            "{r} = []\nfor {x} in {a}:\n    {r}.insert(0, {x})\nreturn {r}",
            "{r} = []\nfor {x} in {a}:\n    {r} = [{x}] + {r}\nreturn {r}"),
           lambda a: a[::-1], (), None, "[]"),
    Simple("sort", "sort_list ordered in_order sorted_copy arrange", NUMBERS,
           "a sorted list of the numbers in {a}", "list[int]",
           ("return sorted({a})", "{r} = sorted({a})\nreturn {r}",
            "{r} = list({a})\n{r}.sort()\nreturn {r}", "{r} = {a}[:]\n{r}.sort()\nreturn {r}"),
           sorted, (), None, "[]"),
    Simple("descending", "sort_down descending largest_first down_order", NUMBERS,
           "a list of the numbers in {a} from largest to smallest", "list[int]",
           ("return sorted({a}, reverse=True)", "return sorted({a})[::-1]",
            "{r} = list({a})\n{r}.sort(reverse=True)\nreturn {r}",
            "{r} = sorted({a})\n{r}.reverse()\nreturn {r}"),
           lambda a: sorted(a, reverse=True), (), None, "[]"),
    Simple("largest_few", "top_numbers largest_few best_of top_list", NUMBERS,
           "a list of the <k> largest numbers in {a}, largest first", "list[int]",
           ("return sorted({a}, reverse=True)[:<k>]", "return sorted({a})[::-1][:<k>]",
            "{r} = sorted({a}, reverse=True)\nreturn {r}[:<k>]",
            "{r} = list({a})\n{r}.sort(reverse=True)\nreturn {r}[:<k>]"),
           lambda k, a: sorted(a, reverse=True)[:k], (SMALL,), None, "[]"),
    Simple("smallest_few", "smallest_few bottom_numbers lowest_few bottom_list", NUMBERS,
           "a list of the <k> smallest numbers in {a} in order", "list[int]",
           ("return sorted({a})[:<k>]", "{r} = sorted({a})\nreturn {r}[:<k>]",
            "{r} = list({a})\n{r}.sort()\nreturn {r}[:<k>]",
            "{r} = {a}[:]\n{r}.sort()\nreturn {r}[0:<k>]"),
           lambda k, a: sorted(a)[:k], (SMALL,), None, "[]"),
    Simple("unique", "unique distinct no_repeats remove_duplicates dedupe only_once", NUMBERS,
           "a list of the numbers in {a} without repeats, in order of first appearance",
           "list[int]",
           ("{r} = []\nfor {x} in {a}:\n    if {x} not in {r}:\n        {r}.append({x})\n"
            "return {r}",
            "return list(dict.fromkeys({a}))",
            "{r} = []\nfor {x} in {a}:\n    if {x} in {r}:\n        continue\n"
            "    {r}.append({x})\nreturn {r}",
            "{r} = []\nfor {x} in {a}:\n    if {r}.count({x}) == 0:\n        {r} += [{x}]\n"
            "return {r}"),
           lambda a: list(dict.fromkeys(a)), (), _repeats, "[]"),
    Simple("distinct_count", "count_distinct distinct_numbers different unique_count", NUMBERS,
           "the number of different numbers in {a}", "int",
           ("return len(set({a}))", "{t} = set({a})\nreturn len({t})",
            "{t} = []\nfor {x} in {a}:\n    if {x} not in {t}:\n        {t}.append({x})\n"
            "return len({t})",
            "{t} = set()\nfor {x} in {a}:\n    {t}.add({x})\nreturn len({t})"),
           lambda a: len(set(a)), (), _repeats, "0"),
    Simple("range", "spread value_range max_minus_min width span", NUMBERS,
           "the largest minus the smallest number in {a} (not empty)", "int",
           ("return max({a}) - min({a})", "{t} = sorted({a})\nreturn {t}[-1] - {t}[0]",
            "{r} = max({a})\n{t} = min({a})\nreturn {r} - {t}",
            "{t} = {a}[:]\n{t}.sort()\nreturn {t}[-1] - {t}[0]"),
           lambda a: max(a) - min(a), (), _filled),
    Simple("ends", "ends_sum first_and_last outer_sum sum_of_ends", NUMBERS,
           "the sum of the first and the last number in {a} (not empty)", "int",
           ("return {a}[0] + {a}[-1]", "return {a}[0] + {a}[len({a}) - 1]",
            "{t} = {a}[0]\n{r} = {a}[-1]\nreturn {t} + {r}", "return sum([{a}[0], {a}[-1]])"),
           lambda a: a[0] + a[-1], (), _filled),
    Simple("running", "running_totals partial_sums cumulative running_sum prefix_sums", NUMBERS,
           "a list of the running totals of {a}", "list[int]",
           ("{r} = []\n{t} = 0\nfor {x} in {a}:\n    {t} += {x}\n    {r}.append({t})\nreturn {r}",
            "return [sum({a}[:{i} + 1]) for {i} in range(len({a}))]",
            "{r} = []\nfor {i} in range(len({a})):\n    {r}.append(sum({a}[:{i} + 1]))\n"
            "return {r}",
            "{t} = 0\n{r} = []\nfor {x} in {a}:\n    {t} = {t} + {x}\n    {r} += [{t}]\n"
            "return {r}"),
           _running, (), None, "[]"),
    Simple("differences", "differences gaps steps changes neighbour_gaps", NUMBERS,
           "a list of the differences of neighbours in {a} (next minus current)", "list[int]",
           ("return [{a}[{i} + 1] - {a}[{i}] for {i} in range(len({a}) - 1)]",
            "return [{y} - {x} for {x}, {y} in zip({a}, {a}[1:])]",
            "{r} = []\nfor {i} in range(1, len({a})):\n    {r}.append({a}[{i}] - {a}[{i} - 1])\n"
            "return {r}",
            "{r} = []\nfor {x}, {y} in zip({a}, {a}[1:]):\n    {r}.append({y} - {x})\nreturn {r}"),
           lambda a: [y - x for x, y in zip(a, a[1:], strict=False)], (), None, "[]"),
    Simple("position", "position_of index_of find_position where locate", ("numbers", "n"),
           "the index of {b} in {a}, or -1 if it is not there", "",
           ("if {b} in {a}:\n    return {a}.index({b})\nreturn -1",
            "for {i} in range(len({a})):\n    if {a}[{i}] == {b}:\n        return {i}\nreturn -1",
            "return {a}.index({b}) if {b} in {a} else -1",
            "for {i}, {x} in enumerate({a}):\n    if {x} == {b}:\n        return {i}\nreturn -1"),
           lambda a, b: a.index(b) if b in a else -1, (), _search),
    Simple("positions", "positions_of places indices where_is all_positions", NUMBERS,
           "a list of the indexes at which {a} has the number <k>", "list[int]",
           ("return [{i} for {i} in range(len({a})) if {a}[{i}] == <k>]",
            "return [{i} for {i}, {x} in enumerate({a}) if {x} == <k>]",
            "{r} = []\nfor {i} in range(len({a})):\n    if {a}[{i}] == <k>:\n"
            "        {r}.append({i})\nreturn {r}",
            "{r} = []\nfor {i}, {x} in enumerate({a}):\n    if {x} == <k>:\n"
            "        {r}.append({i})\nreturn {r}"),
           lambda k, a: [i for i, x in enumerate(a) if x == k], (tuple(range(1, 6)),), _repeats,
           "[]"),
    Simple("append", "append_number with_end add_to_end extend_list", NUMBERS,
           "a list of the numbers in {a} followed by <k>", "list[int]",
           ("return {a} + [<k>]", "{r} = list({a})\n{r}.append(<k>)\nreturn {r}",
            "return [*{a}, <k>]",
            "{r} = {a}[:]\n{r}.append(<k>)\nreturn {r}"),
           lambda k, a: [*a, k], (WIDE,), None, "[<k>]"),
    Simple("prepend", "prepend with_start add_to_front put_first", NUMBERS,
           "a list with <k> in front of the numbers in {a}", "list[int]",
           ("return [<k>] + {a}", "{r} = list({a})\n{r}.insert(0, <k>)\nreturn {r}",
            "return [<k>, *{a}]", "{r} = [<k>]\n{r}.extend({a})\nreturn {r}"),
           lambda k, a: [k, *a], (WIDE,), None, "[<k>]"),
    Simple("replace", "replace_number swap_value exchange substitute", NUMBERS,
           "a list of {a} with each <k> replaced by <m>", "list[int]",
           ("return [<m> if {x} == <k> else {x} for {x} in {a}]",
            "return [{x} if {x} != <k> else <m> for {x} in {a}]",
            "{r} = []\nfor {x} in {a}:\n    if {x} == <k>:\n        {r}.append(<m>)\n    else:\n"
            "        {r}.append({x})\nreturn {r}",
            "{r} = []\nfor {x} in {a}:\n    {r}.append(<m> if {x} == <k> else {x})\nreturn {r}"),
           lambda k, m, a: [m if x == k else x for x in a],
           (tuple(range(1, 6)), tuple(range(6, 13))), _repeats, "[]"),
    Simple("cap", "cap limit_values at_most clip_high", NUMBERS,
           "a list of {a} with every number greater than <k> replaced by <k>", "list[int]",
           ("return [min({x}, <k>) for {x} in {a}]",
            "return [{x} if {x} < <k> else <k> for {x} in {a}]",
            "{r} = []\nfor {x} in {a}:\n    {r}.append(min({x}, <k>))\nreturn {r}",
            "{r} = []\nfor {x} in {a}:\n    if {x} > <k>:\n        {r}.append(<k>)\n    else:\n"
            "        {r}.append({x})\nreturn {r}"),
           lambda k, a: [min(x, k) for x in a], (tuple(range(1, 20)),), None, "[]"),
    Simple("rotate", "rotate rotate_left shift_left turn_list", NUMBERS,
           "a list of {a} with its first <k> numbers moved to the end", "list[int]",
           ("return {a}[<k>:] + {a}[:<k>]", "{r} = {a}[<k>:]\n{r} += {a}[:<k>]\nreturn {r}",
            "{t} = {a}[:<k>]\n{r} = {a}[<k>:]\nreturn {r} + {t}",
            "return [*{a}[<k>:], *{a}[:<k>]]"),
           lambda k, a: a[k:] + a[:k], (SMALL,), None, "[]"),
    Simple("longer", "is_longer has_more enough long_enough", NUMBERS,
           "whether {a} has more than <k> numbers", "bool",
           ("return len({a}) > <k>", "if len({a}) > <k>:\n    return True\nreturn False",
            "return <k> < len({a})",  "{r} = len({a})\nreturn {r} > <k>"),
           lambda k, a: len(a) > k, (SMALL,), None, "False"),
    Simple("sum_above", "sum_is_large enough_in_all total_above exceeds", NUMBERS,
           "whether the sum of {a} is greater than <k>", "bool",
           ("return sum({a}) > <k>", "{r} = sum({a})\nreturn {r} > <k>", "return <k> < sum({a})",
            "if sum({a}) > <k>:\n    return True\nreturn False"),
           lambda k, a: sum(a) > k, (tuple(range(5, 41)),), None, "False"),
    Simple("is_sorted", "is_sorted ascending in_order never_falls", NUMBERS,
           "whether {a} is sorted from smallest to largest", "bool",
           ("return {a} == sorted({a})",
            "for {i} in range(1, len({a})):\n    if {a}[{i} - 1] > {a}[{i}]:\n"
            "        return False\nreturn True",
            "return all({x} <= {y} for {x}, {y} in zip({a}, {a}[1:]))",
            "{t} = sorted({a})\nreturn {t} == {a}"),
           lambda a: a == sorted(a), (), _maybe_sorted, "True"),
    Simple("has_repeats", "has_duplicates has_repeats any_twice repeats", NUMBERS,
           "whether any number appears more than once in {a}", "bool",
           ("return len(set({a})) < len({a})", "return len({a}) != len(set({a}))",
            "{t} = []\nfor {x} in {a}:\n    if {x} in {t}:\n        return True\n"
            "    {t}.append({x})\nreturn False",
            "return any({a}.count({x}) > 1 for {x} in {a})"),
           lambda a: len(set(a)) < len(a), (), _repeats, "False"),
    Simple("pair_sums", "add_lists pair_sums elementwise_sum add_pairs", ("numbers", "numbers"),
           "a list of the sums of the pairs of numbers in {a} and {b}", "list[int]",
           ("return [{x} + {y} for {x}, {y} in zip({a}, {b})]",
            "return [{a}[{i}] + {b}[{i}] for {i} in range(len({a}))]",
            "{r} = []\nfor {x}, {y} in zip({a}, {b}):\n    {r}.append({x} + {y})\nreturn {r}",
            "{r} = []\nfor {i} in range(len({a})):\n    {r}.append({a}[{i}] + {b}[{i}])\n"
            "return {r}"),
           lambda a, b: [x + y for x, y in zip(a, b, strict=True)], (), _equal_lengths),
    Simple("pair_products", "dot_product sum_of_products weighted_sum", ("numbers", "numbers"),
           "the sum of the products of the pairs of numbers in {a} and {b}", "int",
           ("return sum({x} * {y} for {x}, {y} in zip({a}, {b}))",
            "{r} = 0\nfor {x}, {y} in zip({a}, {b}):\n    {r} += {x} * {y}\nreturn {r}",
            "{r} = 0\nfor {i} in range(len({a})):\n    {r} += {a}[{i}] * {b}[{i}]\nreturn {r}",
            "return sum([{a}[{i}] * {b}[{i}] for {i} in range(len({a}))])"),
           lambda a, b: sum(x * y for x, y in zip(a, b, strict=True)), (), _equal_lengths),
    Simple("common", "common_numbers shared in_both overlap", ("numbers", "numbers"),
           "a list of the numbers in {a} that are also in {b}", "list[int]",
           ("return [{x} for {x} in {a} if {x} in {b}]",
            "{r} = []\nfor {x} in {a}:\n    if {x} in {b}:\n        {r}.append({x})\nreturn {r}",
            "return list(filter(lambda {x}: {x} in {b}, {a}))",
            "{r} = []\nfor {x} in {a}:\n    if {x} not in {b}:\n        continue\n"
            "    {r}.append({x})\nreturn {r}"),
           lambda a, b: [x for x in a if x in b], (),
           lambda rng: (_repeats(rng)[0], _repeats(rng)[0])),
    Simple("table_keys", "keys_above large_keys names_above best_names", TABLE,
           "a list of the keys of {a} with a value greater than <k>", "list[str]",
           ("return [{x} for {x} in {a} if {a}[{x}] > <k>]",
            "return [{x} for {x}, {y} in {a}.items() if {y} > <k>]",
            "{r} = []\nfor {x} in {a}:\n    if {a}[{x}] > <k>:\n        {r}.append({x})\n"
            "return {r}",
            "{r} = []\nfor {x}, {y} in {a}.items():\n    if {y} > <k>:\n        {r}.append({x})\n"
            "return {r}"),
           lambda k, a: [x for x in a if a[x] > k], (tuple(range(1, 16)),)),
    Simple("table_sum", "sum_values total_values value_sum add_values", TABLE,
           "the sum of the values of {a}", "int",
           ("return sum({a}.values())", "{r} = 0\nfor {x} in {a}:\n    {r} += {a}[{x}]\nreturn {r}",
            "{r} = 0\nfor {y} in {a}.values():\n    {r} += {y}\nreturn {r}",
            "return sum({a}[{x}] for {x} in {a})"),
           lambda a: sum(a.values()), (), lambda rng: (DRAW["table"](rng),)),
    Simple("table_count", "count_values values_above how_many_above", TABLE,
           "the number of values in {a} that are at least <k>", "int",
           ("return sum(1 for {y} in {a}.values() if {y} >= <k>)",
            "{r} = 0\nfor {x} in {a}:\n    if {a}[{x}] >= <k>:\n        {r} += 1\nreturn {r}",
            "return len([{y} for {y} in {a}.values() if {y} >= <k>])",
            "{r} = 0\nfor {y} in {a}.values():\n    if {y} >= <k>:\n        {r} += 1\nreturn {r}"),
           lambda k, a: sum(v >= k for v in a.values()), (tuple(range(1, 16)),)),
)  # fmt: skip
