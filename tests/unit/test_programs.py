"""Programs of scripts/: the files that they generate, their help, and their errors."""

import ast
import os
import re
import shutil

import pytest

from command_line import assert_refused, run_python
from conftest import ROOT, SCRIPTS

# Programs that write generated files of the repository. write_locks needs the package index.
WRITING = {path.stem for path in SCRIPTS.glob("maintenance/write_*.py")} - {"write_locks"}


@pytest.mark.slow
@pytest.mark.parametrize("program", sorted(WRITING))
def test_programs_that_generate_committed_files_write_the_committed_bytes(program, world):
    """The programs run in a copy of the repository that no other test uses. The numbers of its
    README are outdated."""
    for folder in ("docs", "envs"):
        shutil.copytree(ROOT / folder, world.folder / folder, dirs_exist_ok=True)
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    before, generated, after = re.split("(?<=<!-- found)|(?=<!-- end of found)", text)
    readme = world.folder / "README.md"
    readme.write_text(before + re.sub(r"\d\.\d", "0.0", generated) + after, encoding="utf-8")
    folders = (world.folder / "docs", world.folder / "envs")
    files = [readme, *(path for folder in folders for path in folder.rglob("*"))]
    for path in files:
        os.utime(path, (0, 0))
    source = str(world.folder / "src")
    done = run_python(f"scripts/maintenance/{program}.py", folder=world.folder, PYTHONPATH=source)
    assert done.returncode == 0, done.stderr
    written = [path for path in files if path.is_file() and path.stat().st_mtime]
    assert written, "the program wrote no committed file"
    for path in written:
        assert path.read_bytes() == (ROOT / path.relative_to(world.folder)).read_bytes(), path


def test_importing_the_library_changes_nothing_in_a_program_of_a_user(tmp_path):
    """The program is in a folder scripts/x, as this project's own programs are."""
    program = tmp_path / "scripts/x/program.py"
    program.parent.mkdir(parents=True)
    program.write_text("""import os, signal, sys
def state():
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    return dict(os.environ), list(sys.path), handlers, sys.excepthook
before = state()
import hardgrpo
from hardgrpo.runtime import errors, files
assert state() == before, (before, state())
""")
    python_path = f"{tmp_path}:{ROOT / 'src'}"
    done = run_python(program, PYTHONPATH=python_path, PYTHONWARNINGS="default", MPLBACKEND="svg")
    assert done.returncode == 0, done.stderr


def test_a_program_that_runs_out_of_memory_gives_a_one_line_error(tmp_path):
    """The error is one line even if an exit handler of a library fails, too. By default, Python
    would print the traceback of the exit handler."""
    code = "import atexit; from hardgrpo.runtime import errors; atexit.register(lambda: bytes(1 << 62)); errors.run(lambda: bytes(1 << 62))"
    done = run_python("-c", code)
    assert_refused(done, "error: the program needs more memory")


@pytest.mark.parametrize("program", sorted(SCRIPTS.rglob("*.py")), ids=lambda path: path.stem)
def test_an_example_command_can_be_copied(program):
    """A line of a command in the help ends with a backslash if and only if the command continues on
    the next line. The line has no other backslash."""
    lines = (ast.get_docstring(ast.parse(program.read_text(encoding="utf-8"))) or "").splitlines()
    for line, next_line in zip(lines, [*lines[1:], ""]):
        if re.match(r" +(python|\S*snakemake|qemu\S*|--\w+) ", line):
            goes_on = re.match(r" +--\w", next_line) is not None
            assert line.endswith("\\") == goes_on, line
            assert "\\" not in line[:-1], line
