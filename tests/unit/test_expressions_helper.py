"""The helper process that compares expressions. A text on which the helper hangs or ends is
undecided, and does not stop the process that started the helper."""

import io
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from conftest import ROOT, until
from hardgrpo.grading import equivalence, expressions, graders
from hardgrpo.grading.expressions import equal, parses
from hardgrpo.runtime.errors import UserError

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def no_helper_is_left():
    yield
    expressions.stop_helpers()


@pytest.fixture
def impatient(monkeypatch):
    """Limit a question to 0.5 seconds of processor time, many times what an ordinary question
    needs. Empty the caches, so that every question is sent to the helper."""
    monkeypatch.setattr(expressions, "SECONDS", 0.5)
    equal.cache_clear()
    parses.cache_clear()


TOWER = "9^{9^{9^{9^{9}}}}"
HOSTILE = [
    ("1", TOWER),
    ("3", "(10^{10})! + 1"),
    ("1", r"\sum_{k=1}^{10^{8}} \frac{1}{k^2}"),
    ("x=5", r"x^{17}-5x^{13}+\sin x=\cos x^2"),
]


def idle_helper() -> subprocess.Popen:
    """The helper of the next question."""
    expressions._ask({"parse": "x"})
    return expressions._idle_helpers[-1]


def ask_what_hangs(pairs):
    """Each hostile pair exceeds the limit of processor time and is undecided. A new helper answers
    the next question."""
    for number, pair in enumerate(pairs, start=1):
        helper = idle_helper()
        assert equal(*pair) is None
        assert helper.returncode == -signal.SIGPROF
        # another question each time, because `equal` has a cache
        assert equal(f"x^2+{2 * number}x+{number**2}", f"(x+{number})^2")


def test_a_comparison_that_hangs_is_undecided_and_the_next_comparison_is_answered(impatient):
    ask_what_hangs(HOSTILE)


def test_a_comparison_that_hangs_is_undecided_in_a_thread_too(impatient):
    with ThreadPoolExecutor(1) as pool:
        pool.submit(ask_what_hangs, HOSTILE[:1]).result()


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_another_process_has_its_own_helper(impatient, method):
    assert equal("a-b", "-b+a")
    parent_helper = expressions._idle_helpers[-1]
    queue = multiprocessing.get_context(method).SimpleQueue()
    child = multiprocessing.get_context(method).Process(target=_tell, args=(queue,))
    child.start()
    child.join(600)
    assert child.exitcode == 0
    right, helper = queue.get()
    assert right and helper not in (os.getpid(), parent_helper.pid)
    assert parent_helper in expressions._idle_helpers and parent_helper.poll() is None
    assert equal("2x", "x + x")
    _gone(helper)


def _tell(queue):
    expressions.SECONDS = 0.5
    right = equal(*HOSTILE[0]) is None and equal("x^2+2x+1", "(x+1)^2")
    queue.put((right, expressions._idle_helpers[-1].pid))


def _gone(pid):
    """Wait until a helper has ended, whether or not a process has read its exit status."""

    def has_ended() -> bool:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        status = Path(f"/proc/{pid}/stat")
        return status.exists() and status.read_text().rpartition(")")[2].split()[0] == "Z"

    until(has_ended, what=f"the end of helper {pid}")


def run_python(code: str, **options: object) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-u", "-W", "default", "-c", code], capture_output=True, text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")}, check=False, **options,
    )  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_works_while_another_thread_compares_expressions(impatient):
    expressions.stop_helpers()
    idle_helper()
    asking = threading.Thread(target=equal, args=HOSTILE[0])
    asking.start()
    until(lambda: not expressions._idle_helpers, what="the question of the other thread")
    child = multiprocessing.get_context("fork").Process(
        target=_tell, args=(multiprocessing.SimpleQueue(),)
    )
    child.start()
    child.join(600)
    asking.join()
    assert child.exitcode == 0


def test_threads_get_their_own_answers(impatient):
    pairs = [(f"x+{k}", f"{k % 5}+x") for k in range(40)]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(equal, *zip(*pairs))) == [k < 5 for k in range(40)]


def test_several_processes_give_the_grades_of_one_process_in_order(impatient):
    expressions.stop_helpers()
    completions = [rf"\boxed{{{k % 3}+x}}" for k in range(12)]
    answers = [f"x+{k % 2}" for k in range(12)]
    grades = graders.grade_all("math", completions, answers, processes=3)
    assert 1 < len(expressions._idle_helpers) <= 3
    equal.cache_clear()
    assert grades == graders.grade_all("math", completions, answers)
    assert [grade.correct for grade in grades] == [k % 3 == k % 2 for k in range(12)]


@pytest.mark.parametrize("number_of_signal", [signal.SIGKILL, signal.SIGSEGV])
def test_a_helper_that_dies_is_replaced(impatient, number_of_signal):
    assert equal("a+b", "b+a")
    helper = expressions._idle_helpers[-1]
    os.kill(helper.pid, number_of_signal)
    helper.wait()
    assert equal("c+d", "d+c")


def test_an_interrupted_question_leaves_no_reply_behind(impatient):
    class Interrupted(io.BytesIO):
        def readline(self):
            raise KeyboardInterrupt

    idle_helper().stdout = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        equal("x", "y^2")
    assert equal("b+e", "e+b")


@pytest.mark.skipif(
    not hasattr(resource, "prlimit"),
    reason="the limits of another process can be read only on Linux",
)
def test_the_memory_of_the_helper_is_limited():
    """A model's text can fill the helper's memory up to the limit, but not the machine's memory."""
    assert resource.prlimit(idle_helper().pid, resource.RLIMIT_AS)[0] == equivalence.MEMORY_BYTES


@pytest.mark.skipif(
    not os.path.exists("/proc/self/environ"),
    reason="the environment of another process can be read only on Linux",
)
def test_the_helper_has_no_token_in_its_environment(monkeypatch):
    for name in ("HF_TOKEN", "OPENAI_API_KEY", "HTTPS_PROXY", "PIP_INDEX_URL", "TOKEN", "MYPATH"):
        monkeypatch.setenv(name, "s3cret")
    expressions.stop_helpers()
    assert expressions.equal("a+f", "f+a")
    environment = Path(f"/proc/{expressions._idle_helpers[-1].pid}/environ").read_text()
    variables = dict(entry.split("=", 1) for entry in environment.split("\0") if entry)
    assert "s3cret" not in variables.values()
    assert {"PATH", "PYTHONPATH", "PYTHONHASHSEED"} <= set(variables)
    expressions.stop_helpers()


def test_the_helper_is_silent_and_ends_with_the_process_that_started_it(tmp_path):
    code = (
        "from hardgrpo.grading import expressions as e; e.SECONDS = 0.5\n"
        f"print(e.equal('a+b', 'b+a'), e.equal('1', '{TOWER}'), e.parses(r'\\frac{{'), e._idle_helpers[0].pid)"
    )
    for end in ("", "\nimport os; os.kill(os.getpid(), 9)"):
        done = run_python(code + end, cwd=tmp_path)
        *answers, helper = done.stdout.split()
        assert (answers, done.stderr) == (["True", "None", "False"], ""), (
            "expected three results (equal, undecided, not parsed) and no message"
        )
        _gone(int(helper))


def test_files_of_the_working_folder_are_not_imported(tmp_path):
    for name in ("sympy", "math_verify", "json"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('the wrong one')\n")
    code = "import os; from hardgrpo.grading import expressions; os.chdir('W'); print(expressions.equal('a+b', 'b+a'))"
    done = run_python(code.replace("'W'", repr(str(tmp_path))))
    assert done.stdout == "True\n", done.stderr


def test_without_math_verify_the_error_says_what_to_install(impatient, monkeypatch):
    expressions.stop_helpers()
    monkeypatch.setitem(sys.modules, "math_verify", None)
    assert equal("18", r"18 \text{ cm}"), "this comparison needs no Math-Verify"
    with pytest.raises(UserError, match="graded by Math-Verify, which is not installed"):
        equal("a+b", "b+a")


def test_importing_the_grader_imports_nothing_heavy():
    code = "import sys, hardgrpo.grading.graders; print([m for m in ('math_verify', 'sympy', 'numpy', 'latex2sympy2_extended') if m in sys.modules])"
    done = run_python(code)
    assert done.stdout == "[]\n", done.stderr


def test_slurms_signal_to_all_processes_of_a_job_leaves_the_helper_alone():
    assert expressions.parses(r"\sqrt{2} + 1")
    helper = expressions._idle_helpers[-1]
    os.kill(helper.pid, signal.SIGTERM)
    assert expressions.parses(r"\sqrt{2} + 2")
    assert expressions._idle_helpers[-1] is helper and helper.poll() is None
