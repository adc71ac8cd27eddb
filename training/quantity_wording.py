"""Numbers, durations and shares in other words: "two weeks" and "14 days", "half" and "50 percent"."""

_NUMBER_WORDS = """
zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen
eighteen nineteen twenty
"""
NUMBER_WORDS = _NUMBER_WORDS.split()
TENS = dict(zip(range(30, 100, 10), ["thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"], strict=True))
_ORDINALS = """
first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth
fifteenth sixteenth seventeenth eighteenth nineteenth twentieth
"""
ORDINALS = _ORDINALS.split()
SMALLER_UNITS = (
    ("week", 7, "day"), ("year", 12, "month"), ("year", 52, "week"), ("day", 24, "hour"), ("hour", 60, "minute"),
    ("minute", 60, "second"), ("decade", 10, "year"), ("century", 100, "year"), ("dozen", 12, ""),
    ("fortnight", 14, "day"), ("fortnight", 2, "week"), ("millennium", 1000, "year"),
    ("foot", 12, "inch"), ("kilometre", 1000, "metre"), ("kilometer", 1000, "meter"), ("metre", 100, "centimetre"),
    ("meter", 100, "centimeter"), ("kilogram", 1000, "gram"), ("litre", 1000, "millilitre"),
)  # fmt: skip
PLURALS = {"century": "centuries", "foot": "feet", "inch": "inches", "dozen": "dozen", "millennium": "millennia"}
OTHER_QUANTITIES = """
half, 50 percent, 50%, one half; a quarter, 25 percent, 25%, one quarter, one fourth; a third, one third, 33 percent
three quarters, 75 percent, 75%, three fourths; two thirds, 67 percent; a fifth, one fifth, 20 percent, 20%
a tenth, one tenth, 10 percent, 10%; once, one time, a single time; twice, two times, on two occasions
three times, on three occasions, thrice; twofold, two times as much; a couple of, two
half a year, six months, 6 months; half an hour, 30 minutes, thirty minutes; half a dozen, six, 6; a pair of, two
a year and a half, 18 months, eighteen months; an hour and a half, 90 minutes, ninety minutes
a quarter of an hour, 15 minutes, fifteen minutes; six weeks, 42 days; three quarters of an hour, 45 minutes
one hundred, a hundred, 100; one thousand, a thousand, 1,000, 1000; one million, a million, 1,000,000
one billion, a billion, 1,000,000,000; a few hundred, several hundred, hundreds of; noon, midday, 12 p.m.
midnight, 12 a.m.; yearly, annually, every year, once a year; monthly, every month, once a month
weekly, every week, once a week; daily, every day, once a day; hourly, every hour; annual, yearly
every other day, every two days; every two weeks, fortnightly, biweekly; every two years, biennially
quarterly, every three months, four times a year; per annum, per year, each year; zero, none, 0
kilometres, km; kilometers, km; kilograms, kg; metres, m; meters, m; centimetres, cm; square kilometres, km2
miles per hour, mph; kilometres per hour, km/h; degrees Celsius, °C; percent, per cent, %
"""


def quantity_groups() -> list[tuple[str, ...]]:
    """Groups of ways to write the same quantity."""
    fixed = [tuple(group.strip().split(", ")) for group in OTHER_QUANTITIES.replace("\n", ";").split(";")]
    return [*number_groups(), *duration_groups(), *(group for group in fixed if len(group) > 1)]


def number_groups() -> list[tuple[str, ...]]:
    """Digits and words of the numbers below 100, of the ordinals up to the twentieth, and of "3 million"."""
    names = dict(enumerate(NUMBER_WORDS))
    for ten, name in {20: "twenty", **TENS}.items():
        names |= {ten: name} | {ten + unit: f"{name}-{NUMBER_WORDS[unit]}" for unit in range(1, 10)}
    groups: list[tuple[str, ...]] = [(str(value), name) for value, name in names.items()]
    groups += [(name, f"{value}{ordinal_ending(value)}") for value, name in enumerate(ORDINALS, start=1)]
    for zeros, scale in ((",000", "thousand"), (",000,000", "million"), (",000,000,000", "billion")):
        groups += [(f"{names[value]} {scale}", f"{value} {scale}", f"{value}{zeros}") for value in range(2, 100)]
    return groups


def duration_groups() -> list[tuple[str, ...]]:
    """One to ten of a unit, in digits and in words, and the same in a smaller unit."""
    groups: list[tuple[str, ...]] = []
    for unit, size, smaller in SMALLER_UNITS:
        for count, name in enumerate(NUMBER_WORDS[1:11], start=1):
            larger = [f"{number} {counted(unit, count)}" for number in (name, count)]
            article = [f"{'an' if unit == 'hour' else 'a'} {unit}"] if count == 1 else []
            total = count * size
            parts = [str(total)] + ([NUMBER_WORDS[total]] if total <= 20 else [])
            groups.append((*article, *larger, *(f"{part} {counted(smaller, total)}".strip() for part in parts)))
    return groups


def counted(unit: str, count: int) -> str:
    """The unit's name, in the plural unless ``count`` is one."""
    return unit if count == 1 or not unit else PLURALS.get(unit, unit + "s")


def ordinal_ending(value: int) -> str:
    """ "st", "nd", "rd" or "th"."""
    return "th" if 10 < value % 100 < 14 else {1: "st", 2: "nd", 3: "rd"}.get(value % 10, "th")
