"""Numbers read exactly, expressions compared by Math-Verify in a helper process that nothing can hang or break."""

import json
import multiprocessing
import os
import re
import resource
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import RECORDINGS, ROOT
from hardgrpo.grading import expressions
from hardgrpo.grading.expressions import equal, is_number, number, parses, same_text
from hardgrpo.runtime.errors import UserError

# --- numbers -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("70000", 70000),
        ("70,000", 70000),
        ("70{,}000", 70000),
        (r"70\,000", 70000),
        ("70 000", 70000),
        (r"10,\!080", 10080),
        (r"11,\! 111,\! 111,\! 100", 11111111100),
        ("1,234.50", Fraction(2469, 2)),
        ("007", 7),
        (r"\$460", 460),
        ("$460", 460),
        ("$460$", 460),
        (r"\text{\$}460", 460),
        ("€5", 5),
        ("5 €", 5),
        ("US$ 5", 5),
        ("USD 5", 5),
        ("Rs. 500", 500),
        (r"-\$5", -5),
        (r"\$-5", -5),
        ("460 dollars", 460),
        ("18 cm", 18),
        ("18cm", 18),
        ("18 m", 18),
        ("18 km/h", 18),
        ("18 m/s", 18),
        (r"3\text{ km}", 3),
        (r"3 \text{ m}", 3),
        (r"18 \text{ cm}^2", 18),
        (r"18 \text{ cm}^{2}", 18),
        (r"18\ \mathrm{cm}^3", 18),
        ("18 cm²", 18),
        ("864 \\mbox{ inches}^2", 864),
        (r"\text{18 cm}", 18),
        (r"\textbf{18}", 18),
        ("18 kilowatt-hours (per day)", 18),
        (r"2 \text{ hours}\cdot\text{men}", 2),
        ("50%", 50),
        (r"50\%", 50),
        ("50 percent", 50),
        (r"90^\circ", 90),
        (r"90^{\circ}", 90),
        ("82°", 82),
        (r"20^\circ\text{C}", 20),
        ("18.0", 18),
        ("18.", 18),
        (".0000672", Fraction(672, 10**7)),
        ("0.1", Fraction(1, 10)),
        (r"\frac{1}{2}", Fraction(1, 2)),
        (r"\dfrac12", Fraction(1, 2)),
        (r"\frac 34", Fraction(3, 4)),
        (r"\frac9{19}", Fraction(9, 19)),
        (r"\frac{270}7\text{ degrees}", Fraction(270, 7)),
        (r"-\frac{24}{25}", Fraction(-24, 25)),
        (r"\frac{-24}{25}", Fraction(-24, 25)),
        (r"\frac{1,000}{2.5}", 400),
        ("1/2", Fraction(1, 2)),
        ("-1/2", Fraction(-1, 2)),
        ("3 / 4 cup", Fraction(3, 4)),
        (r"1\frac{1}{2}", Fraction(3, 2)),
        (r"137 \frac{1}{2}", Fraction(275, 2)),
        (r"-1\frac12", Fraction(-3, 2)),
        ("1 1/2", Fraction(3, 2)),
        ("1 1/2 cups", Fraction(3, 2)),
        ("11/2", Fraction(11, 2)),
        ("x = 5", 5),
        ("x=-5", -5),
        ("x_1 = 5", 5),
        ("f(x) = 5", 5),
        (r"\theta = 30^\circ", 30),
        (r"\text{Total cost} = \$18.90", Fraction(189, 10)),
        ("+5", 5),
        ("- 5", -5),
        ("\u22125", -5),
        ("2 million", 2 * 10**6),
        (r"\$1.5 \text{ million dollars}", 15 * 10**5),
        ("**18**", 18),
        (r"{18}", 18),
    ],
)
def test_one_number(text, value):
    assert number(text) == value


@pytest.mark.parametrize(
    "text",
    ["", " ", ".", "-", "none", "1,2", "1,-2", "3, 5, 7", "70,00", "0,123", "1234,567", "70 0000", "3-4", "1+1", "2:00", "5 or 6"]
    + ["2k", "5x", "3ab", "5 x", "2 ab", "5i", r"3\pi", "3 pi", r"3\sqrt{2}", r"\sqrt2", "5!", "2^{10}", "18^2", "1e5", "52_8"]
    + [
        "4210_{5}",
        "1/0",
        r"\frac{1}{0}",
        "1/2/3",
        r"1\frac{3}{2}",
        "1 3/2",
        r"\frac{x}{2}",
        r"\frac{1}{2}\frac{1}{3}",
        "--5",
        "-$-5",
    ]
    + [
        "2x = 5",
        "34 - 6 = 28",
        "x = y = 5",
        "5 and a half",
        "2 thirds",
        "3 squared",
        "4 or more",
        r"\pm 5",
        "(1,2)",
        "1.2.3",
        "5 =",
        "x =",
    ]
    + [r"0.\overline{3}", r"\text{two}", r"2:00\ \text{pm}", "1.234,56", "9" * 300, "\\", "{", r"\frac", r"\frac{", "$", "%"],
)
def test_not_exactly_one_number(text):
    assert number(text) is None


def test_a_bare_letter_may_be_a_unit_of_a_completion_but_not_of_a_reference():
    assert number("5 m") == 5 and not is_number("5 m")
    assert is_number("x = 5") and is_number("5 cm") and is_number(r"5\text{ m}")


@given(st.fractions(), st.booleans())
def test_every_fraction_in_every_notation(value, spaced):
    above, below, minus = abs(value.numerator), value.denominator, "-" if value < 0 else ""
    for text in (f"{above}/{below}", rf"\frac{{{above}}}{{{below}}}", rf"\dfrac{{{above:,}}}{{{below:,}}}"):
        assert number(minus + text) == value
    whole, rest = divmod(above, below)
    if whole and rest:
        assert number(f"{minus}{whole} {rest}/{below}") == value
        assert number(rf"{minus}{whole}{' ' * spaced}\frac{{{rest}}}{{{below}}}") == value


@given(
    st.integers(), st.sampled_from(["{:,}", "{}", "{}.0", "{}.", r"\${}", r"{}\%", "{} dollars", r"x = {}", r"{}\text{{ cm}}^2"])
)
def test_every_integer_in_every_notation(value, form):
    assert number(form.format(value)) == value
    assert number(form.format(value).replace(",", r"\,").replace("-", "\u2212")) == value


@given(st.decimals(allow_nan=False, allow_infinity=False, places=5, min_value=-(10**9), max_value=10**9))
def test_decimals_are_exact(value):
    assert number(f"{value:f}") == Fraction(value)
    assert number(f"{value:,f}") == Fraction(value)


PIECES = re.findall(r"\S+| $", r"1 , . / - 23 456 7890 { } \frac \text{ cm ^2 = x _ \$ $ % \, \! ( ) million and * \circ i pi ")


@given(st.text(max_size=300) | st.lists(st.sampled_from(PIECES), max_size=80).map("".join))
def test_whatever_is_written_reading_numbers_is_quick_and_raises_nothing(text):
    started = time.process_time()
    value = number(text)
    assert value is None or isinstance(value, Fraction)
    assert is_number(text) <= (value is not None)
    assert time.process_time() - started < 0.5


@pytest.mark.parametrize(
    "piece", ["1", "1,", "1 ", "{", "}", r"\frac", r"\text{", "a", "a-", " a", "$", "*", "-", r"\!", "1/", "^2", "=", "(a)"]
)
@pytest.mark.parametrize("end", ["", "!", "}", "\\"])
def test_repetition_is_quick_too(piece, end):
    for head in ("", "5 ", r"\frac{1}{2}"):
        for length in (150, 10**6):
            text = head + piece * (length // len(piece)) + end
            started = time.process_time()
            number(text), expressions.variables(text[:1000]), same_text(text[:1000], text)
            assert time.process_time() - started < 1


# --- expressions ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", autouse=True)
def no_helper_is_left():
    yield
    expressions._stop_helper()


@pytest.fixture
def impatient(monkeypatch):
    """Half a second for a question, and nothing remembered from other tests."""
    monkeypatch.setattr(expressions, "SECONDS", 0.5)
    equal.cache_clear()
    parses.cache_clear()


@pytest.mark.parametrize(
    ("reference", "answer", "expected"),
    [
        (r"\left( 3, \frac{\pi}{2} \right)", r"(3, \pi/2)", True),
        (r"\left( 3, \frac{\pi}{2} \right)", r"(3, \frac{\pi}{3})", False),
        (r"\text{Evelyn}", "Evelyn", True),
        (r"\text{Evelyn}", r"\textbf{evelyn}.", True),
        (r"\text{Evelyn}", "Navin", False),
        (r"\text{June 20}", "June 20", True),
        (r"\text{(C)}", "C", True),
        (r"\text{(C)}", r"\text{C}", True),
        (r"\text{(C)}", "B", False),
        (r"\text{(E)}", "E", True),
        (r"90^\circ", "90", True),
        (r"90^\circ", r"90 \text{ degrees}", True),
        ("6 - 5i", "6-5 i", True),
        ("6 - 5i", "-5i + 6", True),
        ("6 - 5i", "6 + 5i", False),
        ("7 - i", "(3+i)(2-i)", True),
        ("(1+i,2)", r"\left(i + 1, 2\right)", True),
        ("x=5", "5", True),
        ("5", "x = 5", True),
        ("x=5", "y=5", False),
        ("x=5", "x = 5.0", True),
        ("10080", "x = 10,080", True),
        ("1,-2", "-2, 1", True),
        ("1,-2", r"1 \text{ and } -2", True),
        ("1,-2", "1", False),
        ("3, 5, 7", r"\{7, 5, 3\}", True),
        ("52_8", "52_{8}", True),
        ("52_8", "52", True),
        ("52_8", "52_7", False),
        ("52_8", "42", False),
        (r"11\sqrt2", r"11\sqrt{2}", True),
        (r"2\sqrt{113}", r"\sqrt{452}", True),
        (r"\frac{\sqrt{3}}{3}", r"\frac{1}{\sqrt{3}}", True),
        ("x^2+2x+1", "(x+1)^2", True),
        ("x^2+2x+1", "(x-1)^2", False),
        ("y = 2x + 3", "2x+3", True),
        ("y = 2x + 3", "y - 2x - 3 = 0", True),
        (r"x \in [-2,7]", "[-2,7]", True),
        (r"(-\infty, 2) \cup (3, \infty)", r"(3,\infty)\cup(-\infty,2)", True),
        ("(3,4]", "[3,4]", False),
        (r"1 \pm \sqrt{19}", r"1+\sqrt{19}, 1-\sqrt{19}", True),
        (r"\begin{pmatrix} -1/3 \\ 2/3 \end{pmatrix}", r"\begin{bmatrix} -\frac13 \\ \frac23 \end{bmatrix}", True),
        (r"15\mbox{ cm}^2", "15", True),
        ("18", "18 wombats", True),
        (r"\$32,\!348", "32348", True),
        (r"10,\!080", "10080", True),
        (r"\frac32", "1.5", True),
        (r"\frac13", "0.333333", True),
        (r"\frac13", "0.33", False),
        (".0000672", ".0000671", False),
        (r"50\%", "0.5", True),
        (r"50\%", "50", True),
        ("2t", "2", False),
        ("2t", r"t \cdot 2", True),
        ("c+x", "x + c", True),
        ("5x", r"5x \text{ cm}", True),
        ("4", "2.", False),
        ("2", "2.", True),
        (r"\sqrt2", r"\sqrt{2}.", True),
        ("120", "5!", True),
        ("28", "34-6=28", True),
        ("3", r"3 \text{ or } 4", False),
        ("1 1/2", "11/2", False),
        (r"\frac{1}{0}", "1", False),
        ("3", "I don't know", False),
        ("3", "", False),
        ("3", r"\frac{}{", False),
    ],
)
def test_equivalent(reference, answer, expected):
    assert equal(reference, answer) == expected
    assert not expected or (parses(reference) and parses(answer))


@pytest.mark.parametrize("text", ["", " ", r"\frac{}{", "x" * 2000, "}{", r"\begin{pmatrix} 1"])
def test_not_an_expression(text):
    assert not parses(text)


def test_spaces_of_latex_are_trimmed_but_for_those_between_digits():
    assert same_text(r"(3,\,4)", "( 3, 4 )") and same_text(r"10,\!080", "10,080") and same_text("6-5 i", "6 - 5i")
    assert not same_text("1 1/2", "11/2") and not same_text(r"70\,000", "70000") and not same_text(r"\frac12", r"\dfrac12")


ALPHABET = st.sampled_from(
    list(r"01259.,+-*/^_(){}[]=<>|!%$&' ") + [r"\frac", r"\sqrt", r"\pi", r"\text{", "x", "i", "e", r"\\", r"\le", "\ud83d", "é"]
)


@given(st.lists(ALPHABET, max_size=12).map("".join), st.lists(ALPHABET, max_size=12).map("".join))
def test_whatever_is_written_comparing_raises_nothing(left, right):
    assert equal(left, right) in (True, False)
    assert parses(left) in (True, False)


# --- the helper process --------------------------------------------------------------------------------------------

TOWER = "9^{9^{9^{9^{9}}}}"
HOSTILE = [
    ("1", TOWER),
    ("3", "(10^{10})! + 1"),
    ("1", r"\sum_{k=1}^{10^{8}} \frac{1}{k^2}"),
    ("x=5", r"x^{17}-5x^{13}+\sin x=\cos x^2"),
]


def ask_what_hangs():
    """Each hostile pair is not equal, the next question is answered; seconds that took."""
    started = time.monotonic()
    for pair in HOSTILE:
        assert not equal(*pair)
        assert equal("x^2+2x+1", "(x+1)^2")
    return time.monotonic() - started


def test_what_hangs_is_not_equal_and_the_next_question_is_answered(impatient):
    assert ask_what_hangs() < 60


def test_in_a_thread_too(impatient):
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(ask_what_hangs).result() < 60


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_in_another_process_too_with_its_own_helper(impatient, method):
    assert equal("a-b", "-b+a")
    parent_helper = expressions._helper
    queue = multiprocessing.get_context(method).SimpleQueue()
    child = multiprocessing.get_context(method).Process(target=_tell, args=(queue,))
    child.start()
    child.join(120)
    assert child.exitcode == 0
    right, helper = queue.get()
    assert right and helper not in (os.getpid(), parent_helper.pid)
    assert parent_helper is expressions._helper and parent_helper.poll() is None
    assert equal("2x", "x + x")
    _gone(helper)


def _tell(queue):
    expressions.SECONDS = 0.5
    right = not equal(*HOSTILE[0]) and equal("x^2+2x+1", "(x+1)^2")
    queue.put((right, expressions._helper.pid))


def _gone(pid):
    for _ in range(200):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        if os.path.exists(f"/proc/{pid}/stat") and open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[0] == "Z":
            return  # ended, though nobody has asked for its exit status yet
        time.sleep(0.05)
    pytest.fail(f"helper {pid} still runs")


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_while_another_thread_asks(impatient):
    asking = threading.Thread(target=equal, args=HOSTILE[0])
    asking.start()
    time.sleep(0.2)
    child = multiprocessing.get_context("fork").Process(target=_tell, args=(multiprocessing.SimpleQueue(),))
    child.start()
    child.join(120)
    asking.join()
    assert child.exitcode == 0


def test_threads_take_turns(impatient):
    pairs = [(f"x+{k}", f"{k % 5}+x") for k in range(40)]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(equal, *zip(*pairs))) == [k < 5 for k in range(40)]


@pytest.mark.parametrize("number_of_signal", [signal.SIGKILL, signal.SIGSEGV])
def test_a_helper_that_dies_is_replaced(impatient, number_of_signal):
    assert equal("a+b", "b+a")
    os.kill(expressions._helper.pid, number_of_signal)
    assert equal("c+d", "d+c")


def test_a_question_that_kills_every_helper_is_not_equal(impatient, monkeypatch):
    asked, read_line = [], expressions._read_line

    def die_when_asked(helper, seconds):
        if seconds == expressions.PATIENCE_SECONDS and len(asked) < 2:
            asked.append(helper.pid)
            helper.kill()
            return b""
        return read_line(helper, seconds)

    monkeypatch.setattr(expressions, "_read_line", die_when_asked)
    assert not equal("a+c", "c+a")
    assert len(set(asked)) == 2, "one question, two helpers"
    assert equal("b+c", "c+b")


def test_a_helper_that_sleeps_is_replaced(impatient, monkeypatch):
    monkeypatch.setattr(expressions, "PATIENCE_SECONDS", 1.0)
    assert equal("a+d", "d+a")
    sleeping = expressions._helper
    os.kill(sleeping.pid, signal.SIGSTOP)
    assert equal("b+d", "d+b")
    assert sleeping.returncode == -signal.SIGKILL


def test_an_interrupted_question_leaves_no_reply_behind(impatient, monkeypatch):
    assert equal("a+e", "e+a")

    def interrupt(helper, seconds):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(expressions, "_read_line", interrupt)
        equal("x", "y^2")
    assert equal("b+e", "e+b")


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="only Linux tells the limits of another process")
def test_the_memory_of_the_helper_is_limited():
    """What the model writes fills this, not the machine."""
    assert resource.prlimit(expressions._running_helper().pid, resource.RLIMIT_AS)[0] == expressions.MEMORY_BYTES


def test_the_helper_is_silent_and_ends_with_its_process(tmp_path):
    code = (
        "from hardgrpo.grading import expressions as e; e.SECONDS = 0.5\n"
        f"print(e.equal('a+b', 'b+a'), e.equal('1', '{TOWER}'), e.parses(r'\\frac{{'), e._running_helper().pid)"
    )
    for end in ("", "\nimport os; os.kill(os.getpid(), 9)"):
        done = subprocess.run(
            [sys.executable, "-u", "-W", "default", "-c", code + end],
            env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        *said, helper = done.stdout.split()
        assert (said, done.stderr) == (["True", "False", "False"], "")
        _gone(int(helper))


def test_files_of_the_working_folder_are_not_imported(tmp_path):
    for name in ("sympy", "math_verify", "json"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('the wrong one')\n")
    code = "import os; from hardgrpo.grading import expressions; os.chdir('W'); print(expressions.equal('a+b', 'b+a'))"
    command = [sys.executable, "-c", code.replace("'W'", repr(str(tmp_path)))]
    done = subprocess.run(command, env=os.environ | {"PYTHONPATH": str(ROOT / "src")}, capture_output=True, text=True, check=False)
    assert done.stdout == "True\n", done.stderr


def test_without_math_verify_a_user_is_told_what_to_install(impatient, monkeypatch):
    expressions._stop_helper()
    monkeypatch.setitem(sys.modules, "math_verify", None)
    assert equal("18", r"18 \text{ cm}"), "what needs no Math-Verify is compared"
    with pytest.raises(UserError, match="graded by Math-Verify, which is not installed"):
        equal("a+b", "b+a")


def test_importing_the_grader_imports_nothing_heavy():
    code = "import sys, hardgrpo.grading.graders; print([m for m in ('math_verify', 'sympy', 'numpy', 'latex2sympy2_extended') if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | {"PYTHONPATH": str(ROOT / "src")}, capture_output=True, text=True
    )
    assert done.stdout == "[]\n", done.stderr


# --- real data -----------------------------------------------------------------------------------------------------


@pytest.mark.recordings
def test_every_answer_of_math_is_read_and_not_taken_for_another():
    with open(f"{RECORDINGS}/math500/test.jsonl", encoding="utf-8") as stream:
        answers = list(dict.fromkeys(json.loads(line)["answer"] for line in stream))
    assert all(parses(answer) and equal(answer, answer) for answer in answers)
    clearly = [a for a in answers if not is_number(a)]
    known = {frozenset(pair) for pair in [("1,-2", "-2,1"), ("(-2,1)", "-2,1"), ("(-2,1)", "1,-2")]}
    for left, right in zip(clearly, clearly[1:] + clearly[:1]):
        assert not equal(left, right) or frozenset((left, right)) in known


def test_slurms_signal_to_all_processes_of_a_job_leaves_the_helper_alone():
    assert expressions.parses(r"\sqrt{2} + 1")
    helper = expressions._helper
    os.kill(helper.pid, signal.SIGTERM)
    assert expressions.parses(r"\sqrt{2} + 2") and expressions._helper is helper and helper.poll() is None
