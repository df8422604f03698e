r"""Read quantities: one exact number with its sign, currency, percent sign, unit and words."""

import functools
import re
import unicodedata
from fractions import Fraction
from typing import NamedTuple

LONGEST_NUMBER = 200  # characters; longer texts are not read
LONGEST_TEXT = 1000  # characters; longer words keep their marks
LARGEST_EXPONENT = 999  # largest exponent of a power of ten that is read

# --- Unicode ---

COMMANDS = (
    r"×\times ⋅\cdot ·\cdot ∙\cdot ÷/ ⁄/ ±\pm √\sqrt ∞\infty ≤\le ≥\ge ≠\ne ≈\approx ∪\cup ∩\cap ∈\in ∨\lor ∠\angle"
    r" ∅\emptyset Ø\emptyset ℝ\mathbb{R} Ω\Omega µ\mu °^\circ º^\circ"
)
GREEK = {
    letter: "\\"
    + (word.lower() if case == "SMALL" else word.capitalize()).replace("amda", "ambda")
    + " "
    for letter in map(chr, range(0x391, 0x3CA))
    for _, case, _, word, *final in [unicodedata.name(letter, "? ? ? ? ?").split()]
    if not final
}
SYMBOLS = str.maketrans(
    {symbol[0]: symbol[1:] + " " for symbol in COMMANDS.split()}
    | GREEK
    | dict.fromkeys("‐‑–−﹣－", "-")
    | dict.fromkeys("“”", '"')
    | dict.fromkeys("\u200b\u2060\ufeff")
    | {"’": "'", "٫": ".", "٬": ",", "٪": "%"}
)
UNICODE_FORMS = [
    (re.compile("√(\\d+)"), r"\sqrt{{{}}}"),
    (
        re.compile("[ℊ-ℌℎ-ℓℯ-ℱℳℴⅅ-ⅉ𝐀-𝟋]"),
        r"\mathnormal{{{}}}",
    ),  # letters of formulas are symbols, not units
    (re.compile("[⁰¹²³⁴-⁹⁺⁻ⁿⁱ]+"), "^{{{}}}"),
    (re.compile("[₀-₉₊₋ₐₑₒₓₙ]+"), "_{{{}}}"),
    (re.compile("[¼-¾⅐-⅞]"), r"\frac{{{}}}{{{}}}"),
]


_nfkc = functools.partial(unicodedata.normalize, "NFKC")


def to_latex(text: str) -> str:
    r"""The text with LaTeX in place of Unicode: '5²' -> '5^{2}', '7½' -> '7\frac{1}{2}', '5π' ->
    '5\pi ', '١٨' -> '18'. Letters lose their combining marks."""
    text = to_latex_with_accents(text)
    # a mark after a digit changes the number
    return (
        text
        if text.isascii()
        else "".join(
            _remove_accents(c) if not previous.isdigit() else c
            for previous, c in zip(" " + text, text)
        )
    )


def to_latex_with_accents(text: str) -> str:
    """Like `to_latex`, but letters keep their combining marks, which distinguish words."""
    if text.isascii():
        return text
    text = "".join(str(unicodedata.decimal(c, c)) for c in text)
    for pattern, form in UNICODE_FORMS:
        text = pattern.sub(
            lambda match, form=form: form.format(
                *_nfkc(_remove_accents(match[match.lastindex or 0])).split("⁄")
            ),
            text,
        )
    # '5⑨' is not 59
    text = "".join(f" {c} " if unicodedata.category(c) == "No" else c for c in text)
    return _nfkc(text.translate(SYMBOLS)).translate(SYMBOLS)


def _remove_accents(text: str) -> str:
    return "".join(c for c in text if unicodedata.category(c)[0] != "M")


# --- spaces, and marks around an answer ---

BALANCED = r"((?:[^{}]|\{(?:[^{}]|\{[^{}]*+\})*+\})*+)"  # balanced braces, at most three deep
TEXT = re.compile(
    rf"\\(?:text\w*|mathrm|mathbf|mathit|mathsf|operatorname|mbox|hbox)\s*\{{{BALANCED}\}}"
)
SPACES = [
    (re.compile(r"\\(?:text)?color\s*\{[^{}]*\}|\\(?:text\w*|mbox)\s*\{\s*\}"), ""),
    # 0.333...
    (
        re.compile(r"(?<=\d)(\.\d*?)(\d)\2{2,}(?:\.\.\.|\\[lc]?dots(?![A-Za-z]))"),
        r"\1\\overline{\2}",
    ),
    (
        re.compile(
            r"\\!\s*|\\(?:left|right|displaystyle|textstyle|[Ll]arge|huge|bf|rm|it|[Bb]igg?[lrm]?)(?![A-Za-z])|\{\}"
        ),
        "",
    ),
    (re.compile(r"(?:\\[,;:> ]|~|\\q?quad(?![A-Za-z])|\s)+"), " "),
]
MARKS = re.compile(
    rf"\\(?:text\w*|math(?:rm|bf|it|sf|tt)|operatorname|[mhf]box|boxed|boldsymbol|bm|pmb|emph|underline)\s*\{{{BALANCED}\}}"
    rf"|\{{{BALANCED}\}}|\$\$?([^$]+)\$\$?|\\\((.+)\\\)|\\\[(.+)\\\]|\*+([^*]+)\*+|_+([^_]+)_+|`+([^`]+)`+|\"([^\"]+)\"|'([^']+)'",
    re.DOTALL,
)
ENDING = re.compile(r"(?:[,;\\ ]|(?<!\.)\.(?!\.))+$")


def remove_marks(text: str) -> str:
    r"""The text without surrounding marks: '\textbf{(B)}' -> '(B)', '\[18\]' -> '18', '**18**.' ->
    '18'."""
    for pattern, spelling in SPACES:
        text = pattern.sub(spelling, text)
    for _ in range(4):
        text = ENDING.sub("", text.strip())
        if not (mark := MARKS.fullmatch(text)):
            break
        text = mark[mark.lastindex]
    return text.strip()


# --- words ---

# The end of a sentence in any script, but not the end of 'C#', 'A*', "f'", '5%' and '7!'.
PUNCTUATION = "".join(
    c
    for c in map(chr, range(0x10000))
    if unicodedata.category(c) == "Po" and c not in "\"#%&'*/@\\§¶†‡•‰‱′″‴‵!"
)
END_OF_SENTENCE = re.compile(rf"(?:(?<!\d)(?<!\b[A-Za-z])!|[{re.escape(PUNCTUATION)}])+$")
QUOTES = set("\"'`„‚«»‹›‘’“”‟「」『』《》〈〉【】〝〞〟")
# R\&D, H_2O, bold letters of Unicode
WORD_NOTATION = re.compile(r"\\([%$&#_{}])|(?<!\d)_(?:(\d)|\{(\d+)\})|\\mathnormal\{(\w)\}")


@functools.lru_cache(maxsize=2**12)
def normalise_words(text: str) -> str:
    r"""The text without white space, case, marks, quotation marks and final punctuation:
    '\text{**New  York**}。' -> 'newyork'. A text that consists of punctuation keeps it."""
    if len(text) <= LONGEST_TEXT:
        text, inner = "", to_latex_with_accents(text)
        while inner not in ("", text):
            text = inner
            inner = END_OF_SENTENCE.sub("", remove_marks(text).lstrip("¿¡"))
            if inner[:1] in QUOTES and inner[-1:] in QUOTES:
                inner = inner[1:-1]
        text = WORD_NOTATION.sub(r"\1\2\3\4", TEXT.sub(r"\1", text))
    return "".join(text.split()).casefold()


# --- numbers ---

CURRENCY = (
    r"(?:(?:(?<![A-Z])[A-Z]{1,2}(?<!(?<![A-Z])[KMBT])(?<!MM|MN|BN) ?)?\$|[€£¥₹₩₽¢]|\\(?:pounds|euro|yen|textdollar|texteuro)\b"
    r"|\b(?:USD|EUR|GBP|INR|CAD|AUD|NZD|HKD|SGD|CHF|JPY|CNY|RMB)(?![A-Za-z])|\bRs\b\.?)"
)
SPELLINGS = [  # replacements that unify spellings, applied in this order
    (re.compile(r"\\([%$])"), r"\1"),
    (re.compile(r"\\(?:text|mathrm) ?\{ ?, ?\}"), ","),
    (re.compile(r"\\(?:text|mathrm) ?\{ ?([A-Z]{1,2}) ?\}(?= ?\$)"), r"\1"),  # \text{US}$18
    (re.compile(rf"\\(?:text|mathrm) ?\{{ ?({CURRENCY}|%) ?\}}"), r"\1 "),
    (re.compile(r" ?\{ ?, ?\} ?"), ","),
    (re.compile(r"\\(?:[dtc]frac|sfrac|nicefrac)(?![A-Za-z])"), r"\\frac"),
    (
        re.compile(
            r" ?(?:\^ ?(?:\{ ?)?(?:\\circ|o)(?![A-Za-z])(?: ?[CF]?\})?|\\degree(?![A-Za-z]))"
        ),
        "°",
    ),
    (
        re.compile(
            r"(?:°| ?\bdeg(?:rees?)?\b) ?(?:[CF]|(?:\\(?:text|mathrm))?\{ ?[CF] ?\})(?![A-Za-z])"
        ),
        "°",
    ),
    (
        re.compile(
            r"^(?:\\(?:text\w*|math\w\w|boldsymbol|bm|underline|emph) ?)?\{([-\d.,/ ]+)\}(?= ?[A-Za-z\\])|^\*\*([-\d.,/ ]+)\*\*|^\\\(([-\d.,/ ]+)\\\)"
        ),
        r"\1\2\3",
    ),
    (
        re.compile(
            r"^(?:\\text\w*\{ ?)?(?:about|around|roughly|approximately|approx)\b\.?(?: ?\})?(?= ?[\\$\d+-])"
        ),
        r"\\approx ",
    ),
    (re.compile(r"\\mu ?(?=[A-Za-z]|\\(?:text|mathrm)\{)|\\Omega(?![A-Za-z])"), "unit"),
]

DIGITS = (
    r"(?:[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?|[1-9]\d{0,2}(?: \d{3})+(?:\.\d+)?|\d+(?:\.\d*)?|\.\d+)"
)
WHOLE = r"([1-9]\d{0,2}(?:,\d{3})+|[1-9]\d{0,2}(?: \d{3})+|\d+)"
PART = rf" ?(?:\{{ ?(-?{DIGITS}) ?\}}|(\d))"
POWER_OF_TEN = r"(?:10|\{10\}) ?(?:\^|\*\*) ?(?:\{ ?([+-]?\d+) ?\}|([+-]?\d+))"
PLAIN = re.compile(r"-?\d+(?:\.\d+)?", re.ASCII)
SIGN = re.compile(rf"([+-]?) ?(?:{CURRENCY} ?){{0,2}}([+-]?) ?")
IN_PARENTHESES = re.compile(r"(-?) ?\(([^(),]*)\)(.*)", re.DOTALL)
# \frac{1}{2}, \frac12, \frac9{19}, 1\frac{1}{2}
LATEX_FRACTION = re.compile(rf"(?:{WHOLE} ?)?\\frac{PART}{PART}", re.ASCII)
FRACTION = re.compile(rf"(?:{WHOLE} )?({DIGITS}) ?/ ?({DIGITS})", re.ASCII)  # 1/2, 1 1/2
REPEATING = re.compile(  # 0.1\overline{6}, 0.1(6)
    r"(\d*\.\d*)(?: ?\\(?:overline|bar)(?: ?\{ ?(\d+) ?\}| ?(\d))|\((\d+)\))", re.ASCII
)
DECIMAL = re.compile(DIGITS, re.ASCII)
TEN = re.compile(POWER_OF_TEN, re.ASCII)
# 5 \times 10^3, 5e3
POWER = re.compile(rf"(?: ?(?:\\times|\\cdot|[*x]) ?{POWER_OF_TEN}|[eE]([+-]?\d+))(?!\d)", re.ASCII)
# the text before '=', such as 'x' in 'x = 5'
NAME = re.compile(r"[A-Za-z\\ ]*(?:_(?:\w|\{\w+\}))?'*(?:\([A-Za-z]\))? ?")
# the text after '=', such as 'x' in '5 = x'
SYMBOL = re.compile(
    r"(?:[A-Za-z]|\\(?!pi|sqrt|frac|pm|infty|text|cdot|times)[A-Za-z]+)(?:_(?:\w|\{\w+\}))?'*(?:\([A-Za-z]\))?"
)
APPROXIMATION = re.compile(r"\\(?:approx|simeq|cong|doteq|sim)(?![A-Za-z])")


class Quantity(NamedTuple):
    value: Fraction
    percent: bool = False  # '50%' has the value 50
    bare: bool = False  # followed by letters that may be a unit or variables: '5 m'
    # a fraction or a repeating decimal, which a finite decimal only approximates
    ratio: bool = False


def read_number(text: str) -> Fraction | None:
    r"""The number that an answer states, or None if it does not state exactly one number.

    Numbers: '70,000', '70{,}000', '\$460', '18 \text{ cm}^2', '60 km/h', '18 cups of flour',
    '50\%' (50), '18.0', '\frac12', '1\frac{1}{2}', '-1 1/2', '7½', '0.1\overline{6}', '5
    \times 10^3', '1e-3', '2 million', 'x = 5', '\approx 5', '(18)'. Not numbers: '2k', '3\pi',
    '5²', '3-4', '52_8', '2:00', '1,2', '3 fifths', '6 ft 2 in'.
    """
    quantity = read_quantity(text)
    return quantity and quantity.value


def is_number(text: str) -> bool:
    """Whether an answer is exactly one number. A bare letter counts as a variable, not as a unit,
    so '5 m' is not a number."""
    quantity = read_quantity(text)
    return quantity is not None and not quantity.bare


def read_quantity(text: str) -> Quantity | None:
    """The quantity that an answer states, or None if it does not state exactly one number."""
    return _read_answer(text) if len(text) <= LONGEST_NUMBER else None


@functools.lru_cache(maxsize=2**12)
def _read_answer(text: str) -> Quantity | None:
    if PLAIN.fullmatch(text):
        return Quantity(Fraction(text))
    text = remove_marks(to_latex(text))
    for pattern, spelling in SPELLINGS:
        text = pattern.sub(spelling, text)
    return _read_equation(remove_marks(text))


def _read_equation(text: str) -> Quantity | None:
    r"""'x = 5', '5 = x' and '\approx 5' are 5; 'x = 1/3 \approx 0.33' is 1/3."""
    if approximation := APPROXIMATION.search(text):
        exact = text[: approximation.start()].strip(" =")
        rounding = text[approximation.end() :].strip()
        if SYMBOL.fullmatch(rounding):
            return _read_value(exact)
        return (value := _read_value(remove_marks(rounding))) and (
            _read_equation(exact) or (value if NAME.fullmatch(exact) else None)
        )
    name, equals, value = text.rpartition("=")
    if not equals or NAME.fullmatch(TEXT.sub(r"\1", name)):
        return _read_value(value)
    value, _, name = text.partition("=")
    return _read_value(value) if SYMBOL.fullmatch(name.strip()) else None


def _read_value(text: str) -> Quantity | None:
    text = text.strip()
    if parentheses := IN_PARENTHESES.fullmatch(text):
        quantity, (multiple, bare) = _read_value(parentheses[2]), _read_unit(parentheses[3])
        if not quantity or not multiple:
            return None
        value = quantity.value * multiple * (-1 if parentheses[1] else 1)
        return quantity._replace(
            value=value,
            percent=quantity.percent or _is_percent(parentheses[3]),
            bare=quantity.bare or bare,
        )
    sign = SIGN.match(text)
    size, end, ratio = _read_magnitude(text, sign.end())
    if size is None or all(sign.groups()):
        return None
    suffix = text[end:]
    multiple, bare = _read_unit(suffix, sign.group())
    if multiple is None or (size in (1, 3) and QUARTERS.search(suffix)):
        return None
    return Quantity(
        size * multiple * (-1 if "-" in sign.groups() else 1), _is_percent(suffix), bare, ratio
    )


def _read_magnitude(text: str, start: int) -> tuple[Fraction | None, int, bool]:
    """(unsigned number at `start` or None, its end, whether it is a fraction or a repeating
    decimal)."""
    is_ratio = False
    if match := LATEX_FRACTION.match(text, start) or FRACTION.match(text, start):
        integer, *digits = match.groups()
        numerator, denominator = (_decimal(text) for text in digits if text is not None)
        # a mixed number has a proper fraction
        if not denominator or (integer is not None and not 0 <= numerator < denominator):
            return None, start, True
        size = (0 if integer is None else _decimal(integer)) + numerator / denominator
        is_ratio = True
    elif match := REPEATING.match(text, start):
        fixed, repetend = match[1], match[match.lastindex]
        places = len(fixed) - fixed.index(".") - 1
        repeating = Fraction(int(repetend), 10**places * (10 ** len(repetend) - 1))
        size = _decimal(fixed + "0") + repeating
        is_ratio = True
    elif match := TEN.match(text, start):
        size = _power_of_ten(match)
    elif match := DECIMAL.match(text, start):
        size = _decimal(match.group())
    if match and (power := POWER.match(text, match.end())):
        match, factor = power, _power_of_ten(power)
        size = factor and size * factor
    return (size, match.end(), is_ratio) if match else (None, start, False)


def _power_of_ten(match: re.Match) -> Fraction | None:
    exponent = int(match[match.lastindex])
    return Fraction(10) ** exponent if abs(exponent) <= LARGEST_EXPONENT else None


def _decimal(digits: str) -> Fraction:
    return Fraction(digits.replace(",", "").replace(" ", "").rstrip("."))


# --- units ---

WORD = r"[^\W\d_]++(?:[-'][^\W\d_]++)*+"
UNITS = re.compile(
    rf"(?:[ /.()%°]|{CURRENCY}|\\cdot|{WORD}(?: ?\^ ?(?:\{{ ?-?\d ?\}}|-?\d)|[23])?+)*+"
)
KNOWN_UNIT = re.compile(
    "(?i:cm|mm|km|dm|kg|mg|ml|cl|ft|in|yd|mi|lbs?|oz|pt|qt|gal|hrs?|min|sec|yrs?|wk|mph|kph|kmh|sq|cu|deg|rad|hz|khz|gb|mb|pts"
    "|usd|eur|gbp|inr|cad|aud|rs|pct|tsp|fps|rpm|kwh)|kW|kJ|kN|kPa|MPa|Pa|MHz|GHz|mA|mV"
)
LETTER_UNIT = re.compile(r"[mghsL]")
LETTER_IN_COMPOUND = re.compile(r"[mghsLlNJWVAKCFd]")  # in 'km/h', 'N\cdot m', 'm s^{-1}'
COMPOUND = re.compile(r"[A-Za-z}] ?(?:/|\\cdot|\^ ?\{ ?-)")
VARIABLE = re.compile(r"(?:(?<=\d)[A-Za-z]{1,3}|(?<![^\W\d_])[A-Za-z]{1,2})(?![^\W\d_])")
# '5 x^2', but not '5 m^2'
POWER_OF_LETTER = re.compile(r"(?<![A-Za-z])(?!m ?\^ ?\{? ?[23](?!\d))[A-Za-z] ?\^")
# words that VARIABLE also matches, such as 'of' in 'cups of flour' and 'a' in 'times a week'
LITTLE_WORDS = re.compile(
    r"(?<= )(?:(?:of|an?|at|in|on|by|as|up|d[ei])(?= (?:an? )?[A-Za-z]{2})|d'(?=[A-Za-z]{2}))"
)
PERCENT = re.compile(r"\b(?:percent(?:age)?|pct)\b")
# '5 quarters' are coins, but '1 quarter' and '3 quarters' may be fractions
QUARTERS = re.compile(r"\bquarters?\b", re.IGNORECASE)
# words and characters for a power of ten, keyed by its exponent, without combining marks
MAGNITUDES = {
    1: "[十십]",
    2: "hundreds?|hundert|honderd|hundra|[百백]",
    3: r"thousands?|tausend|tsd|mille|milliers?|mila|duizend|tusen|tusind|tys(?:iąc\w?|ięcy)?|tisíc\w?|tuhat(?:ta)?|tisuć[au]|hiljad[aeu]|хиляди|ezer|mii"
    r"|тыс(?:яч\w?)?|тисяч\w?|ألف|آلاف|אלף|هزار|ہزار|हज़ार|হাজার|nghìn|ngàn|ribu|[千천]|พัน",
    4: "[万萬만]|หมื่น",
    5: "lakhs?|lacs?|लाख|লাখ|লক্ষ|لاکھ|แสน",
    6: r"mil+[ijy]*(?:o[aeo]?|ó|u)n\w{0,2}|millió|milh(?:ão|ões)|mio|mln|млн|мил+ион\w{0,2}|мільйон\w{0,2}|مليون|ملايين|میلیون"
    r"|מיליון|triệu|juta|ล้าน",
    7: "crores?|करोड़|কোটি|کروڑ",
    8: "[亿億억]",
    9: r"billions?|mil+[ijy]+ard\w{0,2}|mil[iy]ar|bilh(?:ão|ões)|mrd|mld|mia|млрд|мил+и[јя]?ард\w{0,2}|мільярд\w{0,2}|مليار|میلیارد"
    r"|מיליארד|अरब|tỷ|tỉ",
    12: "trillions?|billionen|bil+ón|billones|biljoen|trilh(?:ão|ões)|трлн|триллион\\w{0,2}",
}
POWERS_OF_TEN = "|".join(f"(?P<e{exponent}>{words})" for exponent, words in MAGNITUDES.items())
MAGNITUDE = re.compile(to_latex(rf" *(?:{POWERS_OF_TEN})(?![\w'-])"), re.IGNORECASE)
# words that may be a power of ten: a number with such a word is not read
AMBIGUOUS_WORDS = r"(?-i:k)|bn|mn|mds?|mil|mill|bin|grand|सौ|biljon\w*|(?:[bmz]|gaz|tr|quadr|quint|sext|sept|oct|non|dec)[iy]l+[hijy]+(?:[oóu]|ão|õe|ar)\w{0,3}"
# characters for a power of ten that touch the next word, as in '3万人', but not in '3千克'
MAGNITUDE_CHARACTER = re.compile(
    to_latex(
        "([万萬亿億억]|[十百千백천만](?=[百千万萬亿億백천만억元圆円个個人名원명개 ]|$)|พัน|หมื่น|แสน|ล้าน)"
    )
)
# letters for a power of ten after an amount of money
MONEY_LETTERS = {"k": 3, "l": 5, "m": 6, "mm": 6, "mn": 6, "cr": 7, "b": 9, "bn": 9}
MONEY_LETTERS |= {"t": 12, "tn": 12}
MONEY_LETTER = re.compile(rf" ?({'|'.join(MONEY_LETTERS)})(?![\w^/])", re.IGNORECASE)
MONTHS = (
    "jan(?:uar[yi]?|vier|eiro)?|gennaio|enero|feb(?:ruar[yi]?|rero|braio)?|février|fevereiro|mar(?:ch|s|ts?|zo|ço|et|ca)?|maart|märz"
    "|apr(?:ile?)?|avril|abril|ma[iyj]o?|maja|mei|maggio|ju[nl](?:[eiy]o?)?|juin|juillet|junho|julho|giugno|luglio"
    "|aug(?:ust(?:us|i)?)?|agosto|agustus|août|sept?(?:ember|embre|iembre)?|settembre|setembro|o[ck]t(?:ober|obre|ubre)?|ottobre|outubro"
    "|nov(?:ember|embre|iembre|embro)?|de[cz]|de[czs]ember|d[eé]cembre|dezembro|diciembre|dicembre"
    "|января|февраля|марта|апреля|мая|ию[нл]я|августа|сентября|октября|ноября|декабря"
    "|stycznia|lutego|kwietnia|czerwca|lipca|sierpnia|września|października|listopada|grudnia"
    "|ocak|şubat|nisan|mayıs|haziran|temmuz|ağustos|eylül|ekim|kasım|aralık"
    "|يناير|فبراير|مارس|أبريل|مايو|يونيو|يوليو|أغسطس|سبتمبر|أكتوبر|نوفمبر|ديسمبر"
    "|जनवरी|फरवरी|मार्च|अप्रैल|मई|जून|जुलाई|अगस्त|सितंबर|अक्टूबर|नवंबर|दिसंबर"
)
# words of a date or a time of day after its first number
DATE_WORDS = rf"[ap]m|o|clock|uhr|ad|bce?|[月时時点點월시]|{MONTHS}"
TEENS = "four|fif|six|seven|eigh|nine"
ORDINALS = f"four|fif|six|seven|eigh|nin|ten|eleven|twelf|(?:thir|{TEENS})teen|(?:twen|thir|for|{TEENS})tie|hundred|thousand|million|billion|trillion"
# If one of these words follows a number, the text states a different number or several: '5 and a
# half', '2 pi', '4 or more'.
NOT_UNITS = re.compile(
    to_latex(
        rf"and|or|to|plus|minus|over|divided|hal(?:f|ves|ved)|thirds?|(?:{ORDINALS})ths?|pi|sqrt|roots?|radical|squared|cubed|doubled|tripled"
        "|factorial|mod|modulo|base|remainder|infinity"
        rf"|{DATE_WORDS}|{POWERS_OF_TEN}|{AMBIGUOUS_WORDS}"
    ),
    re.IGNORECASE,
)
# The same for parts of words: '3分之一', '1.5个亿', '3 p.m.', but not '3千克'.
NOT_IN_UNITS = re.compile(
    "[ap][.] ?m(?![A-Za-z])|分之|半|[百万萬亿億兆백천만억]|千(?![克米瓦卡])|조(?!각)", re.I
)


def is_unit(text: str) -> bool:
    r"""Whether a text after a value, such as the content of '\text{}', consists of units and words,
    none of which is in NOT_UNITS or part of a date or a time of day."""
    return (
        UNITS.fullmatch(text) is not None
        and not any(map(NOT_UNITS.fullmatch, re.findall(r"[^\W\d_]+", text)))
        and not NOT_IN_UNITS.search(text)
    )


def _read_unit(suffix: str, sign: str = "") -> tuple[int | None, bool]:
    """(factor, whether there are bare letters) of the text after a number; `sign` is the text before
    the number. The factor is 1 for a unit, 10**6 for 'million dollars', None if it is no unit."""
    if not suffix:
        return 1, False
    phrase = TEXT.sub(r" \1 ", suffix)
    if not phrase.isascii():
        phrase = MAGNITUDE_CHARACTER.sub(r" \1 ", phrase)
    if (letter := MONEY_LETTER.match(phrase)) and re.search(CURRENCY, sign + suffix):
        factor, bare = _read_unit(phrase[letter.end() :])
        return factor and factor * 10 ** MONEY_LETTERS[letter[1].lower()], bare
    exponent = 0
    while magnitude := MAGNITUDE.match(phrase):
        exponent += int(magnitude.lastgroup[1:])
        phrase = phrase[magnitude.end() :]
    if not is_unit(phrase) or any(map(_is_symbol, re.findall(WORD, phrase))):
        return None, False
    letters = _find_variables("0" + suffix)
    compound = COMPOUND.search(phrase)
    unit_letter = LETTER_IN_COMPOUND if compound else LETTER_UNIT
    if not all(map(unit_letter.fullmatch, letters)) or (
        not compound and POWER_OF_LETTER.search(suffix)
    ):
        return None, False
    return 10**exponent, bool(letters)


def _is_percent(suffix: str) -> bool:
    return "%" in suffix or PERCENT.search(suffix) is not None


def _is_symbol(word: str) -> bool:
    """Whether a word is a single non-ASCII letter of a script that has capital letters: 'Ж', but
    not '個'."""
    return len(word) == 1 and not word.isascii() and word.lower() != word.upper()


def has_variables(text: str) -> bool:
    r"""Whether the text contains variables: true for '2k', '3ab' and '6 - 5i', false for '5 cm' and
    '5\text{ m}'."""
    return bool(_find_variables(text))


def _find_variables(text: str) -> list[str]:
    text = re.sub(rf"\\[A-Za-z]+|{CURRENCY}", " ", TEXT.sub(" unit ", text))
    return [
        letters
        for letters in VARIABLE.findall(LITTLE_WORDS.sub("", text))
        if not KNOWN_UNIT.fullmatch(letters)
    ]
