"""What a program is made of: the files that its checksum covers."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import ROOT, SCRIPTS
from hardgrpo.runtime import code

FOLLOWED = ["summaries", "figures", "paper", "probe", "subsets", "evaluation"]  # rooms whose cheap rules follow their code
PROGRAMS = [path for room in FOLLOWED for path in sorted((SCRIPTS / room).glob("*.py"))]


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    """A package of four modules and a program beside a sibling."""
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
    code.needed_by.cache_clear()
    yield tmp_path
    code.needed_by.cache_clear()


REACHED = ["program.py", "sibling.py"] + [
    f"src/hardgrpo/{name}"
    for name in ("__init__.py", "a/__init__.py", "a/one.py", "a/plain.css", "a/two.py", "b/__init__.py", "b/three.py")
]


def test_imports_are_followed_wherever_they_stand_and_so_are_files_that_a_module_names(project):
    found = [path.relative_to(project).as_posix() for path in code.files_of(project / "program.py")]
    assert found == sorted(REACHED)


def test_the_checksum_changes_with_each_of_these_files_and_with_no_other(project):
    before = code.checksum(project / "program.py")
    for path in sorted(path for path in project.rglob("*.*") if path.is_file()):
        text = path.read_text()
        path.write_text(text + "\n")
        code.needed_by.cache_clear()
        changed = code.checksum(project / "program.py") != before
        path.write_text(text)
        assert changed == (path.relative_to(project).as_posix() in REACHED), path
    code.needed_by.cache_clear()


@pytest.mark.slow
def test_what_python_loads_for_a_program_is_covered():
    """Python's own answer, for all programs in one process: no module of the package that is loaded is missing."""
    assert len(PROGRAMS) > 15
    seen = (
        "import runpy, sys\n"
        "for program in sys.argv[1:]:\n"
        "    sys.path.insert(0, program.rpartition('/')[0])\n"
        "    for name in [name for name in sys.modules if name.partition('.')[0] == 'hardgrpo']: del sys.modules[name]\n"
        "    runpy.run_path(program, run_name='loaded')\n"
        "    files = [m.__file__ for n, m in sorted(sys.modules.items()) if n.partition('.')[0] == 'hardgrpo' and m.__file__]\n"
        "    print(files)\n"
    )
    done = subprocess.run([sys.executable, "-c", seen, *map(str, PROGRAMS)], capture_output=True, text=True, check=True, cwd=ROOT)
    for program, line in zip(PROGRAMS, done.stdout.splitlines(), strict=True):
        loaded = {Path(name).resolve() for name in ast.literal_eval(line)}
        assert loaded and loaded <= set(code.files_of(program)), program


def test_no_import_is_missed_that_python_sees():
    """In every program and module; what only looks like an import may be followed as well."""
    for path in [*SCRIPTS.rglob("*.py"), *code.SOURCE.rglob("*.py")]:
        imported = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported |= {f"{node.module}.{alias.name}" for alias in node.names}
        assert {other for name in imported for other in code._modules(path, name)} <= code.needed_by(path), path


def test_a_figure_follows_its_own_module_and_the_style_of_figures():
    module = code.SOURCE / "hardgrpo/report/figures/accuracy.py"
    followed = {path.name for path in code.files_of(SCRIPTS / "figures/draw_figure.py", module)}
    assert {"draw_figure.py", "accuracy.py", "plotting.py", "figures.mplstyle", "files.py", "errors.py"} <= followed
    assert not {"trainer.py", "tiers.py"} & followed
