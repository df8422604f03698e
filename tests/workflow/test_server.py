"""`snakemake subset` and evaluations with a model behind a server, and mistakes in the
configuration of such a model."""

import copy

import pandas
import pytest
import yaml
from test_own_prompts import TABLE

from conftest import World
from hardgrpo.runtime import files
from hardgrpo.sampling.server_engine import SEEDS
from model_server import WORDS, completions_of
from own_prompts import OVERLAY, TASK, as_csv, make_world

CONFIG = {
    "data": "prompts",
    "tasks": {
        "balls": {
            "source": {
                "kind": "files",
                "train": "balls.csv",
                "test": "test.csv",
                "columns": {"question": "text", "answer": "colour"},
            },
            "prompt": "{question}",
            "grader": "final_word",
            "completion_tokens": 50,
            "probe": {"samples": 5, "shards": 2, "seed": 1},
            "test": {"samples": 2, "greedy": True, "seed": 2},
        }
    },
    "models": {
        "served": {
            "source": {
                "kind": "server",
                "model": "name-4B",
                "key": "MY_ACCESS",
                "price": {"input": 1, "output": 4},
            }
        }
    },
    "subset": {"model": "served", "task": "balls", "policy": "hard"},
}
SECRET = "abc123/verysecret=="


@pytest.fixture
def served_world(tmp_path, model_server):
    world = World(tmp_path / "world")
    (world.folder / "prompts").mkdir()
    for name, number in (("balls", 20), ("test", 4)):
        rows = "".join(f"Which colour has {name} {n}?,{WORDS[n % 3]}\n" for n in range(number))
        (world.folder / f"prompts/{name}.csv").write_text("text,colour\n" + rows)
    write_config(world, model_server.url)
    return world


def write_config(world, url, change=lambda config: None):
    config = copy.deepcopy(CONFIG)
    config["models"]["served"]["source"]["url"] = url
    change(config)
    (world.folder / "my.yaml").write_text(yaml.safe_dump(config))


def snakemake(world, *arguments):
    return world.snakemake(*arguments, "--configfile", "my.yaml", env={"MY_ACCESS": SECRET})


def test_a_subset_is_chosen_with_samples_from_a_server_and_the_plan_states_their_cost(
    served_world, model_server
):
    plan = snakemake(served_world, "-n", "subset")
    assert plan.returncode == 0, plan.stdout + plan.stderr
    assert "at most 10 requests" in plan.stdout + plan.stderr  # for each of the two probe jobs
    assert "2,500 sampled tokens, costing at most 0.01" in plan.stdout + plan.stderr
    done = snakemake(served_world, "subset")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "tokens/s" in done.stdout and " spent" in done.stdout
    rows = files.read_rows(
        served_world.folder / "results/subsets/served/balls/hard/seed0.csv",
        {"id": str, "pass_rate": float},
    )
    assert len(rows) == 2 and len(model_server.requests) == 20
    written = [
        path.read_bytes()
        for path in served_world.folder.rglob("*")
        if path.is_file() and not path.is_relative_to("src")
    ]
    assert (
        not any(b"verysecret" in text for text in written)
        and "verysecret" not in done.stdout + done.stderr
    )

    # After a change of the address or the limits, no job runs again.
    url = model_server.url.replace("127.0.0.1", "localhost")
    write_config(
        served_world,
        url,
        lambda config: config["models"]["served"]["source"].update(concurrency=2, most_money=9.5),
    )
    done = snakemake(served_world, "subset")
    assert done.returncode == 0 and "Nothing to be done" in done.stdout + done.stderr, (
        done.stdout + done.stderr
    )

    # Another output format is written from the existing subset, without a request.
    model_server.requests.clear()
    write_config(served_world, url, lambda config: config["subset"].update(format="verl"))
    assert snakemake(served_world, "subset").returncode == 0 and model_server.requests == []
    rows_of_trainer = pandas.read_parquet(
        served_world.folder / "results/subsets/served/balls/hard/seed0.verl.parquet"
    )
    assert [info["id"] for info in rows_of_trainer["extra_info"]] == [row["id"] for row in rows]

    # With more samples per prompt, only the additional samples are requested.
    model_server.requests.clear()
    write_config(
        served_world, url, lambda config: config["tasks"]["balls"]["probe"].update(samples=7)
    )
    assert snakemake(served_world, "subset").returncode == 0
    assert [body["n"] for body in model_server.requests] == [2] * 20


def test_prompts_without_answers_are_chosen_and_a_base_model_is_evaluated(
    served_world, model_server
):
    def unlabelled(config):
        config["tasks"]["balls"]["labelled"] = False
        config["policies"] = {
            "unsure": {"rule": "lowest", "by": "log_probability", "budget": {"prompts": 3}}
        }
        config["subset"]["policy"] = "unsure"

    def answer(body, number):
        answer = completions_of(body)
        for choice in answer["choices"]:
            for token in (choice["logprobs"] or {"content": []})["content"]:
                token["logprob"] = -1.0 if "balls 7?" in body["messages"][0]["content"] else -0.5
        return answer

    model_server.answer = answer
    write_config(served_world, model_server.url, unlabelled)
    evaluation = "results/evaluation/served/base/balls.csv.gz"
    done = snakemake(served_world, "subset", evaluation)
    assert done.returncode == 0, done.stdout + done.stderr
    folder = served_world.folder / "results/subsets/served/balls/unsure"
    rows = files.read_rows(folder / "seed0.to_annotate.csv", {"text": str})
    assert rows[0]["text"] == "Which colour has balls 7?" and len(rows) == 3
    assert len(files.read_rows(served_world.folder / evaluation, {"decoding": str})) == 4 * 3


def test_a_wrong_key_of_a_server_is_refused_by_a_message_without_it(served_world, model_server):
    """tests/refusals.yaml has further mistakes in the configuration of a server."""
    change = lambda config: config["models"]["served"]["source"].update(key=SECRET)
    write_config(served_world, model_server.url, change)
    output = served_world.fail("-n", "subset", "--configfile", "my.yaml")
    assert "models.served.source.key: the value should match" in output
    assert "verysecret" not in output


# --- the same completions from a server and from the weights ---


def replay(rows):
    """A function for `model_server.answer`, which answers a request for n completions with n
    successive rows. The first of these rows has the seed of the request."""
    index_of_seed = {row["seed"] % SEEDS: number for number, row in enumerate(rows)}

    def answer(body, number):
        first = index_of_seed[body["seed"]]
        answer, choices = completions_of(body), []
        for index, row in enumerate(rows[first : first + body.get("n", 1)]):
            tokens = [{"token": "", "logprob": -0.5}] * row["tokens"]
            choices.append(
                {
                    "index": index,
                    "finish_reason": row["finish_reason"],
                    "logprobs": {"content": tokens},
                }
                | {"message": {"role": "assistant", "content": row["completion"]}}
            )
        total = sum(row["tokens"] for row in rows[first : first + len(choices)])
        return answer | {"choices": choices, "usage": {"completion_tokens": total}}

    return answer


def test_the_subset_of_a_server_equals_that_of_the_weights_byte_for_byte(
    tmp_path, untrained, model_server
):
    served = {"source": {"kind": "server", "url": model_server.url, "model": "org/mine"}}
    overlay = OVERLAY | {"models": OVERLAY["models"] | {"served": served}}
    world = make_world(tmp_path, untrained, overlay, prompts_csv=as_csv(TABLE))

    def choose(model, **probe):
        overlay["subset"] = OVERLAY["subset"] | {"model": model}
        overlay["tasks"] = {"mine": TASK | {"probe": TASK["probe"] | probe}}
        (world.folder / "my.yaml").write_text(yaml.safe_dump(overlay))
        world.run("subset", "--configfile", "my.yaml")
        folder = world.folder / f"results/subsets/{model}/mine/half"
        return {path.name: path.read_bytes() for path in folder.glob("seed3.*")}

    files_of_weights = choose("mine")
    shards = sorted((world.folder / "results/probe/mine/mine").glob("*.gz"))
    rows = [row for path in shards for row in files.read_jsonl(path, {"id": str, "seed": int})]
    rates = files.read_rows(world.folder / "results/difficulty/mine/mine.csv", {"pass_rate": float})
    assert len({row["pass_rate"] for row in rates}) > 2, (
        "with so few different pass rates, the subset would depend mostly on the seed"
    )
    model_server.answer = replay(rows)
    files_of_server = choose("served")
    assert files_of_server.keys() == files_of_weights.keys()
    assert {"seed3.csv", "seed3.rows.csv", "seed3.json"} <= files_of_server.keys()
    for name, content in files_of_weights.items():
        assert files_of_server[name] == content, name
    difficulty = [
        (world.folder / f"results/difficulty/{model}/mine.csv").read_bytes()
        for model in ("mine", "served")
    ]
    assert difficulty[0] == difficulty[1]

    # Early stopping reuses the server's completions, and chooses the same prompts.
    model_server.requests.clear()
    early = choose("served", shards=1, stop=True)
    assert model_server.requests == []
    for name in ("seed3.csv", "seed3.rows.csv"):
        assert early[name] == files_of_weights[name], name
