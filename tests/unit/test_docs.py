"""The pages: generated parts are current, links have targets, and the examples of contributing.md
work."""

import copy
import graphlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import snakemake.utils
import yaml

import project_config
import write_pages
from conftest import ROOT
from hardgrpo.grading import graders
from hardgrpo.runtime import code
from hardgrpo.selection import policies
from hardgrpo.study import checks, configuration, load

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
CONFIG = project_config.config()
SOURCES = (".py", ".smk", ".yaml", ".txt", ".sh", ".def")
OWN_PROMPTS, CONTRIBUTING = (
    (ROOT / "docs" / name).read_text(encoding="utf-8")
    for name in ("own-prompts.md", "contributing.md")
)
EXAMPLES = re.findall(
    r"^## Add a ([a-z ]+)$(?:(?!^## ).)*?^```diff\n(.*?)^```",
    CONTRIBUTING,
    re.MULTILINE | re.DOTALL,
)


@pytest.fixture(scope="module")
def written() -> dict[str, str]:
    return write_pages.generate_pages(ROOT)


@pytest.mark.parametrize(
    "name", sorted({name for name, _ in write_pages.BLOCKS} | set(write_pages.FILES))
)
def test_generated_parts_are_what_the_program_writes(name, written):
    assert (ROOT / name).read_text(encoding="utf-8") == written[name], (
        "run scripts/maintenance/write_pages.py"
    )


def test_a_page_without_its_marks_is_reported(tmp_path):
    with pytest.raises(
        write_pages.errors.UserError, match="x.md: expected '<!-- found: made by .*once each"
    ):
        write_pages.fill_block("no marks", "found", "text", "x.md")


def test_the_schema_lists_the_graders_and_rules_of_the_code():
    parts = configuration.schema()["$defs"]
    assert parts["Task"]["properties"]["grader"]["enum"] == list(graders.GRADERS)
    assert parts["Policy"]["properties"]["rule"]["enum"] == list(policies.RULES)


def yaml_blocks(text: str) -> list[str]:
    return re.findall(r"^```yaml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def anchor(title: str) -> str:
    """GitHub's link to a heading."""
    letters = "".join(
        character for character in title.lower() if character.isalnum() or character in " -_"
    )
    return letters.replace(" ", "-")


def anchors(text: str) -> list[str]:
    return [anchor(title) for title in re.findall(r"^#+ (.*)$", text, re.MULTILINE)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files_and_headings(page):
    text = page.read_text(encoding="utf-8")
    for target in re.findall(
        r"\]\(([^)\s]+)\)", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    ):
        path, _, anchor = target.partition("#")
        linked = page.parent / path if path else page
        assert linked.exists(), f"{page.name}: {target}"
        if anchor:
            assert anchor in anchors(linked.read_text(encoding="utf-8")), f"{page.name}: {target}"


def test_the_glossary_defines_each_term_once():
    terms = anchors((ROOT / "docs/glossary.md").read_text(encoding="utf-8"))
    assert sorted(set(terms)) == sorted(terms)


def test_pages_that_code_and_messages_name_exist():
    folders = [
        ROOT / name for name in ("src", "scripts", "rules", "config", "envs", "slurm", "laptop")
    ]
    files = [path for folder in folders for path in folder.rglob("*.*") if path.suffix in SOURCES]
    for path in files:
        text = path.read_text(encoding="utf-8")
        for name, anchor in re.findall(r"(?<![\w/])docs/([\w-]+\.md)(?:#([\w-]+))?", text):
            page = ROOT / "docs" / name
            assert page.is_file(), f"{path}: {name}"
            assert not anchor or anchor in anchors(page.read_text(encoding="utf-8")), (
                f"{path}: {name}#{anchor}"
            )


def test_the_readme_leads_to_every_page():
    """Every page can be reached from the README by at most two links."""
    linked = lambda page: {
        (page.parent / name).resolve()
        for name in re.findall(r"\]\(([\w./-]+\.md)", page.read_text(encoding="utf-8"))
    }
    pages = linked(ROOT / "README.md")
    pages |= {page for linked_page in pages for page in linked(linked_page)}
    assert [page.name for page in PAGES[1:] if page.resolve() not in pages] == []


# --- imports


def imported_modules(root) -> dict[Path, set[Path]]:
    """{module of the library or program: the modules that it imports}."""
    sources = [*(root / "src").rglob("*.py"), *(root / "scripts").rglob("*.py")]
    return {
        path: {module for module in code.dependencies(path) if module.suffix == ".py"} - {path}
        for path in map(Path.resolve, sources)
    }


def test_no_module_imports_itself_indirectly():
    # a cycle raises an error that names the cycle
    graphlib.TopologicalSorter(imported_modules(ROOT)).prepare()


def test_packages_import_only_packages_of_higher_lines_of_the_design():
    text = (ROOT / "docs/design.md").read_text(encoding="utf-8")
    block = re.search(r"(?<=checks this list\):\n\n)(?:    .*\n)+", text)[0]
    lines = {
        name: n for n, line in enumerate(block.splitlines()) for name in line.strip().split(", ")
    }
    library = code.SOURCE / "hardgrpo"
    assert set(lines) == {path.parent.name for path in library.glob("*/*.py")}
    for path, modules in imported_modules(ROOT).items():
        if path.parent.parent == library.resolve():
            for imported in modules:
                package, below = path.parent.name, imported.relative_to(library).parts[0]
                assert below == package or lines.get(below, -1) < lines[package], (
                    f"{path} imports {imported}"
                )


# --- examples


def example(kind: str) -> str:
    return dict(EXAMPLES)[kind]


def apply(world, *diffs: str) -> None:
    for diff in diffs:
        command = ["git", "apply", "--recount", "--unidiff-zero", "-"]
        subprocess.run(command, cwd=world.folder, input=diff, text=True, check=True)


@pytest.mark.slow
def test_the_configurations_of_own_prompts_are_planned(world):
    names = ("served", "local", "no_answers", "study")
    examples = {"my": yaml_blocks((ROOT / "docs/configuration.md").read_text(encoding="utf-8"))[0]}
    examples |= dict(zip(names, yaml_blocks(OWN_PROMPTS), strict=True))
    for name, text in examples.items():
        (world.folder / f"{name}.yaml").write_text(text)
    (world.folder / "prompts/my_model").mkdir(parents=True)
    rows = "".join(f"T{n},question {n},{n}\n" for n in range(300))
    for name, key in {"tickets": "ticket", "annotated": "id", "test": "ticket"}.items():
        (world.folder / f"prompts/{name}.csv").write_text(f"{key},text,solution\n{rows}")
    for name in ("config.json", "tokenizer.json", "model.safetensors"):
        (world.folder / "prompts/my_model" / name).write_text("{}")

    def plan(target: str, *names: str) -> dict[str, int]:
        return world.plan(target, "--configfile", "my.yaml", *(f"{name}.yaml" for name in names))

    common = "compare_pool export_subset fetch_model prepare_task probe select_subset subset"
    jobs = lambda more: dict.fromkeys([*common.split(), *more.split()], 1)
    assert plan("subset", "served") == jobs("measure_signals remove_answers")
    assert plan("subset", "local") == jobs("fit_prompts measure_difficulty")
    unanswered = plan("subset", "no_answers")
    assert unanswered["measure_signals"] == unanswered["export_subset"] == 1
    assert "measure_difficulty" not in unanswered
    study = plan("all", "no_answers", "study")
    assert (study["read_annotated"], study["train_grpo"], study["write_worth"]) == (1, 3, 1)


@pytest.mark.parametrize("number", range(4))
def test_the_examples_of_the_page_on_configuration_are_accepted(number):
    examples = yaml_blocks((ROOT / "docs/configuration.md").read_text(encoding="utf-8"))
    assert len(examples) == 4
    edited = load.lay_over(
        load.read_mapping(ROOT / "config.yaml"), yaml.safe_load(examples[number])
    )
    checks.check(load.complete(edited, ROOT), "configuration.md")


def test_the_configuration_for_two_gpus_is_accepted_and_requests_two_gpus():
    (example,) = yaml_blocks((ROOT / "docs/cluster.md").read_text(encoding="utf-8"))
    config = copy.deepcopy(CONFIG)
    snakemake.utils.update_config(config, yaml.safe_load(example))  # as --configfile does
    checked = checks.check(config, "cluster.md")
    model = checked.models["qwen3-4b"]
    assert model.training_gpus(checked.recipes["as_written"]).count == model.sampling_gpus == 2


@pytest.mark.slow
def test_the_example_of_a_task_works(world):
    apply(world, example("task"))
    (world.folder / "data").mkdir()
    (world.folder / "data/capitals.csv").write_text(
        "question,answer\nTwo and two?,4\nThree and three?,6\n"
    )
    done = world.snakemake("results/tasks/capitals/train.jsonl")
    assert done.returncode == 0, done.stderr
    problems = (world.folder / "results/tasks/capitals/train.jsonl").read_text().splitlines()
    assert [json.loads(line)["answer"] for line in problems] == ["4", "6"]


@pytest.mark.slow
def test_the_example_of_a_grader_works(world):
    apply(world, example("grader"))
    world.configure(lambda config: config["tasks"]["arithmetic"].update(grader="exact_text"))
    assert world.plan("results/difficulty/tiny-seed0/arithmetic.csv")["measure_difficulty"] == 1
    code = "from hardgrpo.grading import graders; print([graders.grade('exact_text', text, 'Rome').correct for text in [r'\\boxed{Rome}', r'\\boxed{rome}', 'Rome']])"
    assert run(world, code) == "[True, False, False]"


@pytest.mark.slow
def test_the_example_of_a_rule_works(world):
    apply(world, example("selection policy"))
    world.configure(
        lambda config: config["policies"].update(spread={"rule": "spread", "budget": 0.4})
    )
    assert world.plan("results/subsets/tiny-seed0/swaps/spread/seed0.csv")["select_subset"] == 1
    code = "from hardgrpo.selection import policies; print(policies.select(dict(a=0.0, b=0.4, c=0.6, d=0.9, e=1.0), 'spread', 0, budget=0.4))"
    printed = run(world, code)
    assert all(words in printed for words in ("tied=0, tied_chosen=0", "'b'", "'d'"))


@pytest.mark.slow
def test_the_example_of_a_selector_works(world):
    apply(world, example("selector"))
    world.configure(lambda config: config["recipes"]["mini"].update(selector={"kind": "lowest"}))
    world.clear()
    assert world.plan()["train_grpo"] == 15
    code = """
from hardgrpo.online import online_selectors
recipe = {"selector": {"kind": "lowest"}, "updates": 2, "prompts_per_update": 2, "group_size": 2}
one, other = (online_selectors.make(recipe, online_selectors.Pool(["a", "b", "c"]), 0) for _ in range(2))
first = one.ask(1, 2)
one.tell(1, first, [1.0, 0.5])
online_selectors.replay(other, [(1, 2, [1.0, 0.5])])
print(other.ask(2, 2) == one.ask(2, 2), one.ask(2, 2).ids[0] not in first.ids, one.ask(2, 2).ids[1] == first.ids[1])"""
    assert run(world, code) == "True True True"


@pytest.mark.slow
def test_the_example_of_a_table_works(world):
    apply(world, example("table"))
    done = world.snakemake(
        "paper/mini_reference/tables", "--config", "study=mini_reference", "draw=reference"
    )
    assert done.returncode == 0, done.stderr
    base = world.folder / "paper/mini_reference/tables/base"
    # a header, and rows for sampled and greedy completions of two tasks
    assert len(base.with_suffix(".csv").read_text().splitlines()) == 5
    assert all("52.3" in base.with_suffix(kind).read_text() for kind in (".tex", ".html"))


def run(world, code: str) -> str:
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, 'src'); {code}"]
    environment = {"PATH": "/usr/bin:/bin"}
    return subprocess.check_output(command, cwd=world.folder, env=environment, text=True).strip()
