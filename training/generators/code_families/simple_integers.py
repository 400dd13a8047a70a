"""Single tasks on one, two or three integers."""

from __future__ import annotations

import math
import random

from training.generators.code_families.simple import Simple

ONE, TWO = ("n",), ("n", "n")
CONSTANTS = tuple(range(2, 13))


def _any(rng: random.Random) -> tuple[int]:
    return (rng.randint(-20, 40),)


def _two(rng: random.Random) -> tuple[int, int]:
    return rng.randint(-20, 30), rng.randint(-20, 30)


def _small(rng: random.Random) -> tuple[int]:
    return (rng.randint(1, 8),)


def _long(rng: random.Random) -> tuple[int]:
    return (rng.randint(1, 10 ** rng.randint(1, 5)),)


def _is_prime(n: int) -> bool:
    return n > 1 and all(n % d for d in range(2, n))


def _divisors(n: int) -> list[int]:
    return [d for d in range(1, n + 1) if n % d == 0]


ROWS = (
    Simple("factorial", "factorial product_up_to multiply_up_to fact", ONE,
           "the factorial of {a} ({a} >= 1)", "int",
           ("{r} = 1\nfor {x} in range(1, {a} + 1):\n    {r} *= {x}\nreturn {r}",
            "{r} = 1\nfor {x} in range(2, {a} + 1):\n    {r} *= {x}\nreturn {r}",
            "{r} = 1\nwhile {a} > 1:\n    {r} *= {a}\n    {a} -= 1\nreturn {r}",
            "import math\nreturn math.factorial({a})"),
           math.factorial, (), _small),
    Simple("power", "power to_the_power raise_to exponent", ONE,
           "<k> to the power of {a} ({a} >= 1)", "int",
           ("return <k> ** {a}", "return pow(<k>, {a})",
            "{r} = 1\nfor {i} in range({a}):\n    {r} *= <k>\nreturn {r}",
            "{r} = 1\nwhile {a} > 0:\n    {r} *= <k>\n    {a} -= 1\nreturn {r}"),
           lambda k, a: k**a, (tuple(range(2, 13)),), _small),
    Simple("gcd", "gcd common_divisor greatest_divisor shared_divisor", TWO,
           "the greatest common divisor of {a} and {b}", "int",
           ("while {b}:\n    {a}, {b} = {b}, {a} % {b}\nreturn {a}",
            "while {b} != 0:\n    {t} = {a} % {b}\n    {a} = {b}\n    {b} = {t}\nreturn {a}",
            "{r} = 1\nfor {x} in range(1, {a} + 1):\n    if {a} % {x} == 0 and {b} % {x} == 0:\n"
            "        {r} = {x}\nreturn {r}",
            "import math\nreturn math.gcd({a}, {b})"),
           math.gcd),
    Simple("prime", "is_prime check_prime prime_number prime", ONE,
           "whether {a} is a prime number", "bool",
           ("if {a} < 2:\n    return False\nfor {x} in range(2, {a}):\n    if {a} % {x} == 0:\n"
            "        return False\nreturn True",
            "return {a} > 1 and all({a} % {x} for {x} in range(2, {a}))",
            "if {a} <= 1:\n    return False\nreturn all({a} % {x} != 0 for {x} in range(2, {a}))",
            "{r} = [{x} for {x} in range(1, {a} + 1) if {a} % {x} == 0]\nreturn len({r}) == 2"),
           _is_prime),
    Simple("divisors", "divisors all_divisors factors_of divides", ONE,
           "a list of the divisors of {a}", "list[int]",
           ("return [{x} for {x} in range(1, {a} + 1) if {a} % {x} == 0]",
            "{r} = []\nfor {x} in range(1, {a} + 1):\n    if {a} % {x} == 0:\n"
            "        {r}.append({x})\nreturn {r}",
            "return list(filter(lambda {x}: {a} % {x} == 0, range(1, {a} + 1)))",
            "{r} = []\n{x} = 1\nwhile {x} <= {a}:\n    if not {a} % {x}:\n        {r}.append({x})\n"
            "    {x} += 1\nreturn {r}"),
           _divisors),
    Simple("divisor_count", "count_divisors divisor_count number_of_divisors", ONE,
           "the number of divisors of {a}", "int",
           ("return len([{x} for {x} in range(1, {a} + 1) if {a} % {x} == 0])",
            "{r} = 0\nfor {x} in range(1, {a} + 1):\n    if {a} % {x} == 0:\n        {r} += 1\n"
            "return {r}",
            "return sum(1 for {x} in range(1, {a} + 1) if not {a} % {x})",
            "return sum({a} % {x} == 0 for {x} in range(1, {a} + 1))"),
           lambda a: len(_divisors(a))),
    Simple("clamp", "clamp limit keep_between bounded clip", ONE,
           "{a} limited to the range from <k> to <m>", "int",
           ("return max(<k>, min({a}, <m>))", "return min(<m>, max({a}, <k>))",
            "if {a} < <k>:\n    return <k>\nif {a} > <m>:\n    return <m>\nreturn {a}",
            "if {a} > <m>:\n    return <m>\nif {a} < <k>:\n    return <k>\nreturn {a}"),
           lambda k, m, a: max(k, min(a, m)), (tuple(range(-5, 8)), tuple(range(9, 26))), _any),
    Simple("linear", "linear formula scale_and_shift rule line_value", ONE,
           "<k> times {a} plus <m>", "",
           ("return <k> * {a} + <m>", "return {a} * <k> + <m>", "return <m> + <k> * {a}",
            "{r} = {a} * <k>\n{r} += <m>\nreturn {r}"),
           lambda k, m, a: k * a + m, (CONSTANTS, tuple(range(1, 21))), _any),
    Simple("multiple", "is_multiple divisible divides_evenly is_divisible", ONE,
           "whether {a} is a multiple of <k>", "bool",
           ("return {a} % <k> == 0", "return not {a} % <k>",
            "if {a} % <k> == 0:\n    return True\nreturn False", "return {a} // <k> * <k> == {a}"),
           lambda k, a: a % k == 0, (tuple(range(2, 13)),), _any),
    Simple("both_multiple", "divisible_by_both multiple_of_both both_divide", ONE,
           "whether {a} is divisible by both <k> and <m>", "bool",
           ("return {a} % <k> == 0 and {a} % <m> == 0", "return not {a} % <k> and not {a} % <m>",
            "if {a} % <k> == 0 and {a} % <m> == 0:\n    return True\nreturn False",
            "if {a} % <k>:\n    return False\nreturn {a} % <m> == 0"),
           lambda k, m, a: a % k == 0 and a % m == 0, ((2, 3, 4, 5), (6, 7, 8, 9, 10)),
           lambda rng: (rng.choice((rng.randint(1, 60), rng.randint(1, 5) * 12 * 5)),)),
    Simple("between", "is_between in_range inside within", ONE,
           "whether {a} is at least <k> and at most <m>", "bool",
           ("return <k> <= {a} <= <m>", "return {a} >= <k> and {a} <= <m>",
            "if {a} < <k> or {a} > <m>:\n    return False\nreturn True",
            "return {a} in range(<k>, <m> + 1)"),
           lambda k, m, a: k <= a <= m, (tuple(range(-9, 10)), tuple(range(11, 25))), _any),
    Simple("fizz", "label word_for name_of say", ONE,
           "'<m>' if {a} is divisible by <k>, otherwise {a} as a string", "str",
           ("if {a} % <k> == 0:\n    return '<m>'\nreturn str({a})",
            "return '<m>' if {a} % <k> == 0 else str({a})",
            "if {a} % <k>:\n    return str({a})\nreturn '<m>'",
            "return str({a}) if {a} % <k> else '<m>'"),
           lambda k, m, a: m if a % k == 0 else str(a),
           (tuple(range(2, 13)), ("fizz", "buzz", "yes", "hit", "bing", "ok")),),
    Simple("choose", "size_label size_word big_or_small describe", ONE,
           "'big' if {a} is greater than <k> and 'small' otherwise", "str",
           ("if {a} > <k>:\n    return 'big'\nreturn 'small'",
            "return 'big' if {a} > <k> else 'small'",
            "if {a} > <k>:\n    return 'big'\nelse:\n    return 'small'",
            "return 'small' if {a} <= <k> else 'big'"),
           lambda k, a: "big" if a > k else "small", (tuple(range(-9, 21)),), _any),
    Simple("parity", "parity even_or_odd kind_of odd_even", ONE,
           "'even' if {a} is even and 'odd' otherwise", "str",
           ("if {a} % 2 == 0:\n    return 'even'\nreturn 'odd'",
            "return 'even' if {a} % 2 == 0 else 'odd'", "return 'odd' if {a} % 2 else 'even'",
            "if {a} % 2:\n    return 'odd'\nelse:\n    return 'even'"),
           lambda a: "odd" if a % 2 else "even", (), _any),
    Simple("difference", "absolute_difference distance gap how_far", TWO,
           "the absolute difference of {a} and {b}", "int",
           ("return abs({a} - {b})", "return abs({b} - {a})",
            "return max({a}, {b}) - min({a}, {b})",
            "if {a} > {b}:\n    return {a} - {b}\nreturn {b} - {a}"),
           lambda a, b: abs(a - b), (), _two),
    Simple("larger", "larger bigger maximum_of_two greater", TWO,
           "the larger of {a} and {b}", "int",
           ("return max({a}, {b})", "if {a} > {b}:\n    return {a}\nreturn {b}",
            "return {a} if {a} > {b} else {b}", "if {b} >= {a}:\n    return {b}\nreturn {a}"),
           max, (), _two),
    Simple("smaller", "smaller lesser minimum_of_two lower", TWO,
           "the smaller of {a} and {b}", "int",
           ("return min({a}, {b})", "if {a} < {b}:\n    return {a}\nreturn {b}",
            "return {a} if {a} < {b} else {b}", "if {b} <= {a}:\n    return {b}\nreturn {a}"),
           min, (), _two),
    Simple("middle", "middle median_of_three middle_number", ("n", "n", "n"),
           "the middle one of {a}, {b} and {c} in order of size", "int",
           ("return sorted([{a}, {b}, {c}])[1]", "{t} = [{a}, {b}, {c}]\n{t}.sort()\nreturn {t}[1]",
            "{t} = sorted(({a}, {b}, {c}))\nreturn {t}[1]",
            "return {a} + {b} + {c} - max({a}, {b}, {c}) - min({a}, {b}, {c})"),
           lambda a, b, c: sorted((a, b, c))[1]),
    Simple("leap", "is_leap_year leap_year has_leap_day leap", ONE,
           "whether the year {a} is a leap year", "bool",
           ("return {a} % 4 == 0 and ({a} % 100 != 0 or {a} % 400 == 0)",
            "return {a} % 400 == 0 or ({a} % 4 == 0 and {a} % 100 != 0)",
            "if {a} % 400 == 0:\n    return True\nif {a} % 100 == 0:\n    return False\n"
            "return {a} % 4 == 0",
            "if {a} % 100 == 0:\n    return {a} % 400 == 0\nreturn {a} % 4 == 0"),
           lambda a: a % 4 == 0 and (a % 100 != 0 or a % 400 == 0), (),
           lambda rng: (rng.choice((1900, 2000, 2100, 2400, rng.randint(1950, 2050),
                                    4 * rng.randint(450, 520))),)),
    Simple("digit_sum", "digit_sum sum_digits add_digits cross_sum", ONE,
           "the sum of the digits of {a}", "int",
           ("return sum(int({x}) for {x} in str({a}))", "return sum(map(int, str({a})))",
            "{r} = 0\nwhile {a} > 0:\n    {r} += {a} % 10\n    {a} //= 10\nreturn {r}",
            "{r} = 0\nfor {x} in str({a}):\n    {r} += int({x})\nreturn {r}"),
           lambda a: sum(map(int, str(a))), (), _long),
    Simple("digit_count", "digit_count count_digits how_many_digits length_of", ONE,
           "the number of digits of {a}", "int",
           ("return len(str({a}))",
            "{r} = 0\nwhile {a} > 0:\n    {r} += 1\n    {a} //= 10\nreturn {r}",
            "{t} = str({a})\nreturn len({t})", "return sum(1 for {x} in str({a}))"),
           lambda a: len(str(a)), (), _long),
    Simple("last_digit", "last_digit ending_digit final_digit", ONE,
           "the last digit of {a}", "int",
           ("return {a} % 10", "return int(str({a})[-1])", "{r} = {a} % 10\nreturn {r}",
            "{t} = str({a})\nreturn int({t}[-1])"),
           lambda a: a % 10, (), _long),
    Simple("count_down", "count_down descending_numbers from_n down_list", ONE,
           "a list of the numbers from {a} down to <k> ({a} >= <k>)", "list[int]",
           ("return list(range({a}, <k> - 1, -1))",
            "{r} = []\nwhile {a} >= <k>:\n    {r}.append({a})\n    {a} -= 1\nreturn {r}",
            "return [{x} for {x} in range({a}, <k> - 1, -1)]",
            "return list(range(<k>, {a} + 1))[::-1]"),
           lambda k, a: list(range(a, k - 1, -1)), (tuple(range(-4, 7)),),
           lambda rng: (rng.randint(7, 13),)),
    Simple("multiples_of", "table_of multiples times_table first_multiples", ONE,
           "a list of the first {a} multiples of <k>, starting with <k>", "list[int]",
           ("return [<k> * {x} for {x} in range(1, {a} + 1)]",
            "{r} = []\nfor {x} in range(1, {a} + 1):\n    {r}.append({x} * <k>)\nreturn {r}",
            "return list(range(<k>, <k> * {a} + 1, <k>))",
            "{r} = []\nwhile len({r}) < {a}:\n    {r}.append(<k> * (len({r}) + 1))\nreturn {r}"),
           lambda k, a: [k * x for x in range(1, a + 1)], (CONSTANTS,), _small),
    Simple("round_down", "round_down lower_multiple step_down floor_to", ONE,
           "the largest multiple of <k> that is not greater than {a}", "int",
           ("return {a} - {a} % <k>", "return {a} // <k> * <k>",
            "{r} = {a} // <k>\nreturn {r} * <k>",
            "while {a} % <k> != 0:\n    {a} -= 1\nreturn {a}"),
           lambda k, a: a // k * k, (tuple(range(3, 13)),)),
)  # fmt: skip
