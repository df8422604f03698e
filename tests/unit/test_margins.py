"""Tests of measure_margins: the probabilities of the results of arithmetic steps."""

import csv
import shutil
import subprocess
import sys

import pytest
import torch

import measure_margins
from conftest import ROOT, path_of
from hardgrpo.runtime import files, provenance
from hardgrpo.sampling import engines
from hardgrpo.training.pretraining import build_model, build_tokenizer

QUESTIONS = [
    "Fred has 17 apples. Fred loses 3. Fred gives away 7. How many apples does Fred have?",
    "Alice has 4 books. Alice doubles the books. Alice sells half. How many books does Alice have?",
]
STEPS = [("17 - 3 =", 14), ("14 - 7 =", 7), ("4 * 2 =", 8), ("8 / 2 =", 4)]
PREFIXES = ["", "17 - 3 = 14 ; ", "", "4 * 2 = 8 ; "]


def save_model(folder, seed: int):
    """Save an untrained model of two layers. Return its folder."""
    sizes = {"hidden_size": 32, "intermediate_size": 48, "layers": 2, "heads": 2}
    sizes |= {"key_value_heads": 2, "head_size": 16, "context_tokens": 96, "rotary_base": 100.0}
    tokenizer = build_tokenizer()
    build_model(sizes | {"seed": seed}, tokenizer).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    provenance.write_manifest(folder)
    return str(folder)


def test_the_probability_of_a_result_is_the_product_of_the_probabilities_of_its_tokens(tmp_path):
    folder = save_model(tmp_path / "model", 0)
    measurements = list(
        measure_margins.measure(folder, [{"question": question} for question in QUESTIONS])
    )
    assert [operation for operation, _, _ in measurements] == ["-", "-", "*", "/"]
    assert [right for _, _, right in measurements] == [result for _, result in STEPS]
    model, tokenizer = engines.load(folder), engines.model_folders.load_tokenizer(folder)
    for index, (_, probabilities, _) in enumerate(measurements):
        before = f"{QUESTIONS[index // 2]} Answer: {PREFIXES[index]}{STEPS[index][0]}"
        start = len(tokenizer(before)["input_ids"])
        for result in (0, 7, 30, 99):
            text = f"{before} {result}" + (" ;" if result < 10 else "")
            ids = torch.tensor([tokenizer(text)["input_ids"]])
            with torch.inference_mode():
                log_probabilities = model(ids).logits[0].double().log_softmax(-1)
            tokens = range(start, ids.shape[1])
            expected = sum(log_probabilities[place - 1, ids[0, place]] for place in tokens).exp()
            assert len(tokens) == 2 and probabilities[result] == pytest.approx(
                float(expected), rel=1e-4
            )


def test_the_program_measures_base_models_and_last_checkpoints(tmp_path):
    shutil.copytree(ROOT / "config", tmp_path / "config")
    shutil.copy(ROOT / "config.yaml", tmp_path)
    results = tmp_path / "results"
    (results / "tasks/arithmetic").mkdir(parents=True)
    rows = [{"id": f"p{i}", "question": text, "answer": "7"} for i, text in enumerate(QUESTIONS)]
    files.write_jsonl(results / "tasks/arithmetic/test.jsonl", rows)

    def run(study: str = "mini_rates") -> subprocess.CompletedProcess:
        command = [sys.executable, path_of("measure_margins"), "--study", study]
        command += ["--output", "margins.csv"]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)

    assert run().returncode == 1 and "results/models" in run().stderr
    assert "no runs on task 'arithmetic'" in run("recordings").stderr
    save_model(results / "models/tiny-seed50", 0)
    checkpoints = results / "training/tiny-seed50/arithmetic/mini_100/random/seed50/checkpoints"
    save_model(checkpoints / "step-100", 1)
    files.write_json(checkpoints / "manifest.json", {"steps": [50, 100]})
    earlier_rows = [
        dict.fromkeys(measure_margins.COLUMNS, study) for study in ("other", "mini_rates")
    ]
    files.write_rows(tmp_path / "margins.csv", measure_margins.COLUMNS, earlier_rows)
    done = run()
    assert done.returncode == 0, done.stderr
    with (tmp_path / "margins.csv").open() as stream:
        table = list(csv.DictReader(stream))
    names = ("study", "model", "policy", "recipe", "models", "operation", "steps")
    arms = [("mini_rates", "tiny", "", "", "1"), ("mini_rates", "tiny", "random", "mini_100", "1")]
    counts = [("*", "1"), ("-", "2"), ("/", "1")]
    assert [tuple(row[name] for name in names) for row in table] == [
        ("other",) * len(names),
        *((*arm, *count) for arm in arms for count in counts),
    ]
    for row in table[1:]:
        quartiles = [float(row[f"margin_{name}"]) for name in ("low_quartile", "median")]
        assert 0 <= quartiles[0] <= quartiles[1] < 1 and 0 <= float(row["right_probability"]) < 1
