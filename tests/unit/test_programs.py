"""Every program of scripts/ is run to its end: by a rule of the small study that the tests make, or
by a test that is named here."""

import ast
import os
import re
import shutil
import subprocess
import sys

import pytest

from conftest import ROOT, SCRIPTS, TEX, shrink

# {program that no rule of the small study runs: the test that runs this program}
RUN_BY_A_TEST = {
    "annotate_sample": "test_answers_that_were_not_bought_do_not_change_the_subset",
    "bench": "test_all_speeds_are_measured_after_the_demo",
    "build_image": "test_images_are_built_by_a_target_and_stay_built",
    "calibrate": "test_calibration_changes_the_planned_times_and_plans_no_finished_job",
    "compare_choices": "test_the_program_compares_the_choices_for_a_recording",
    "compare_probe_sizes": "test_the_program_prints_the_share_of_mixed_groups_for_each_probe",
    "compare_with_reference": "test_the_program_compares_the_committed_miniature_with_itself",
    "convert_recording": "test_a_study_of_published_files_runs_from_the_originals",
    "count_answers": "test_shares_become_numbers_of_right_answers_and_a_repeated_question_counts_once",
    "cut_completions": "test_cut_completions_equal_those_sampled_under_the_limit",
    "draw_ways": "test_the_paper_is_compiled_and_a_table_that_contradicts_it_is_an_error",
    "export_subset": "test_chosen_rows_are_exported_unchanged_in_the_order_of_their_rank",
    "fetch_model": "test_model_from_the_hub",
    "fetch_original": "test_an_original_is_downloaded_and_compared_with_the_lock",
    "format_subset": "test_rows_of_trl_are_conversational_prompts_with_answers",
    "grade_recording": "test_a_study_of_recordings_runs_without_weights",
    "import_recording": "test_a_study_of_recordings_runs_without_weights",
    "import_trajectory": "test_a_training_run_is_summarised_from_its_file_to_its_page",
    "measure_signals": "test_answers_that_were_not_bought_do_not_change_the_subset",
    "plan": "test_other_gpus_prices_seeds_and_completion_limits_change_the_plan",
    "prune_checkpoints": "test_an_evaluated_study_keeps_the_last_checkpoints",
    "read_annotated": "test_rows_with_an_answer_become_problems_and_rows_without_are_listed",
    "remove_answers": "test_answers_that_were_not_bought_do_not_change_the_subset",
    "show_results": "test_figures_tables_and_numbers_are_made_and_the_log_says_what_to_open",
    "summarize_counts": "test_an_analysis_runs_from_its_files_to_its_page",
    "write_answers": "test_an_analysis_runs_from_its_files_to_its_page",
    "write_findings": "test_the_paper_is_written_without_torch",
    "write_locks": "test_locks_that_are_written_again_equal_the_committed_locks",
    "write_solutions": "test_a_second_recipe_trains_its_own_runs_and_leaves_the_runs_of_grpo_unchanged",
}
# Programs that write the repository's generated files from other files of the repository. A test
# below runs them. write_locks is left out, because it needs the package index.
WRITING = sorted(
    path.stem for path in SCRIPTS.glob("maintenance/write_*.py") if path.stem != "write_locks"
)


def test_every_program_is_run_to_its_end(world):
    """The small study is the study of the fixture `finished_world`."""
    programs = {
        path.stem
        for path in SCRIPTS.glob("*/*.py")
        if "\ndef main(" in path.read_text(encoding="utf-8")
    }
    world.configure(shrink)
    world.clear()
    rules = "".join(
        path.read_text(encoding="utf-8") for path in sorted((ROOT / "rules").glob("*.smk"))
    )
    run_by = {  # rule: program
        rule.split(":")[0]: re.search(r"scripts/\w+/(\w+)\.py", rule)[1]
        for rule in re.split(r"^ *rule ", rules, flags=re.MULTILINE)[1:]
        if re.search(r"scripts/\w+/(\w+)\.py", rule)
    }
    run = {
        "draw_figure" if rule.startswith("plot_") else run_by.get(rule, rule)
        for rule in world.plan()
    } & programs
    assert {"train_grpo", "evaluate", "summarize", "draw_figure"} <= run, (
        "the plan of the small study lacks one of these programs"
    )
    needs_tex = set() if TEX else {"compile_paper"}
    assert sorted(programs - run - set(WRITING) - needs_tex) == sorted(RUN_BY_A_TEST)


def test_the_tests_named_in_run_by_a_test_exist():
    text = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    assert [name for name in RUN_BY_A_TEST.values() if f"\ndef {name}(" not in text] == []


@pytest.mark.slow
@pytest.mark.parametrize("program", WRITING)
def test_programs_that_generate_committed_files_write_the_committed_bytes(program, world):
    """The programs run in a copy of the repository that no other test uses. The numbers of its
    README are outdated."""
    before, generated, after = re.split(
        "(?<=<!-- found)|(?=<!-- end of found)", (ROOT / "README.md").read_text(encoding="utf-8")
    )
    if program == "write_pages":
        generated = re.sub(r"\d\.\d", "0.0", generated)
    (world.folder / "README.md").write_text(before + generated + after, encoding="utf-8")
    shutil.copytree(ROOT / "docs", world.folder / "docs", dirs_exist_ok=True)
    shutil.copy(ROOT / "config.yaml", world.folder / "config.yaml")
    files = [
        path
        for name in ("README.md", "docs", "envs")
        for path in [world.folder / name, *(world.folder / name).rglob("*")]
    ]
    for path in files:
        os.utime(path, (0, 0))
    command = [sys.executable, f"scripts/maintenance/{program}.py"]
    done = subprocess.run(command, cwd=world.folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    written = [
        path.relative_to(world.folder) for path in files if path.is_file() and path.stat().st_mtime
    ]
    assert written, "the program wrote no committed file"
    assert [
        str(path)
        for path in written
        if (world.folder / path).read_bytes() != (ROOT / path).read_bytes()
    ] == []


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
    user = {
        "PYTHONPATH": f"{tmp_path}:{ROOT / 'src'}",
        "PYTHONWARNINGS": "default",
        "MPLBACKEND": "svg",
    }
    done = subprocess.run(
        [sys.executable, program], env=os.environ | user, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_a_program_that_runs_out_of_memory_gives_a_one_line_error(tmp_path):
    """The error is one line even if an exit handler of a library fails, too. By default, Python
    would print the traceback of the exit handler."""
    code = "import atexit; from hardgrpo.runtime import errors; atexit.register(lambda: bytes(1 << 62)); errors.run(lambda: bytes(1 << 62))"
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True
    )
    assert (
        done.returncode == 1
        and done.stderr.startswith("error: the program needs more memory")
        and done.stderr.count("\n") == 1
    ), done.stderr


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
