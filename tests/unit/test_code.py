"""The files that the checksum of a program covers."""

import ast
from pathlib import Path

import pytest

from command_line import run_python
from conftest import ROOT, SCRIPTS
from hardgrpo.runtime import code

# Folders with programs of cheap rules. A folder may also hold other programs. Most cheap rules
# rerun when a file of their program changes (docs/design.md).
FOLLOWED = ["summaries", "figures", "paper", "probe", "subsets", "evaluation"]
PROGRAMS = [path for folder in FOLLOWED for path in sorted((SCRIPTS / folder).glob("*.py"))]


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    """A package of four modules, and a program with another module in the program's folder."""
    monkeypatch.setattr(code, "SOURCE", tmp_path / "src")
    texts = {
        "src/hardgrpo/__init__.py": "",
        "src/hardgrpo/a/__init__.py": "",
        "src/hardgrpo/a/one.py": "from hardgrpo.a import two\nSTYLE = 'plain.css'\n",
        "src/hardgrpo/a/two.py": "def late():\n    import hardgrpo.b.three\n",
        "src/hardgrpo/a/plain.css": "p {}",
        "src/hardgrpo/a/templates/unused.html": "",
        "src/hardgrpo/b/__init__.py": "",
        "src/hardgrpo/b/three.py": "import json\n",
        "src/hardgrpo/b/other.py": "",
        "program.py": "from hardgrpo.a.one import STYLE\nfrom sibling import x\n",
        "sibling.py": "x = 1\n",
    }
    for name, text in texts.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    code.dependencies.cache_clear()
    yield tmp_path
    code.dependencies.cache_clear()


REACHED = [
    "program.py",
    "sibling.py",
    "src/hardgrpo/__init__.py",
    "src/hardgrpo/a/__init__.py",
    "src/hardgrpo/a/one.py",
    "src/hardgrpo/a/plain.css",
    "src/hardgrpo/a/two.py",
    "src/hardgrpo/b/__init__.py",
    "src/hardgrpo/b/three.py",
]


def test_the_checksum_changes_with_each_file_of_the_program_and_with_no_other_file(project):
    """Files of a program: those that it imports, also in functions, and those that a module names."""
    before = code.checksum(project / "program.py")
    for path in sorted(path for path in project.rglob("*.*") if path.is_file()):
        text = path.read_text()
        path.write_text(text + "\n")
        code.dependencies.cache_clear()
        changed = code.checksum(project / "program.py") != before
        path.write_text(text)
        assert changed == (path.relative_to(project).as_posix() in REACHED), path


@pytest.mark.slow
def test_every_module_that_python_loads_is_among_the_programs_files():
    """All programs run in one process."""
    assert len(PROGRAMS) > 15
    code_text = (
        "import runpy, sys\n"
        "for program in sys.argv[1:]:\n"
        "    sys.path.insert(0, program.rpartition('/')[0])\n"
        "    for name in [name for name in sys.modules if name.partition('.')[0] == 'hardgrpo']: del sys.modules[name]\n"
        "    runpy.run_path(program, run_name='loaded')\n"
        "    files = [m.__file__ for n, m in sorted(sys.modules.items()) if n.partition('.')[0] == 'hardgrpo' and m.__file__]\n"
        "    print(files)\n"
    )
    done = run_python("-c", code_text, *PROGRAMS, folder=ROOT)
    assert done.returncode == 0, done.stderr
    for program, line in zip(PROGRAMS, done.stdout.splitlines(), strict=True):
        loaded = {Path(name).resolve() for name in ast.literal_eval(line)}
        assert loaded and loaded <= set(code.files_of(program)), program
