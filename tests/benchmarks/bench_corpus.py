"""The first and the second start on a corpus of generated sentences; the goals are those for 2 million of them."""

import json
import subprocess
import sys

from tests.benchmarks.figures import figure, write_figures

SENTENCES = 100_000


def start():
    command = [sys.executable, "-m", "tests.benchmarks.large_corpus", "--sentences", str(SENTENCES)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def test_corpus(tmp_path, monkeypatch):
    monkeypatch.setenv("DEPGEN_CACHE", str(tmp_path))
    first, second = start(), start()
    assert first["batch"] == second["batch"]
    write_figures(
        "corpus",
        {
            "first start, annotation and vocabulary": figure(first["annotation_and_vocabulary_s"], "s"),
            "first start, setup to first batch": figure(first["setup_to_first_batch_s"], "s"),
            "second start, setup to first batch": figure(second["setup_to_first_batch_s"], "s", at_most=5.0),
            "second start, private memory with 2 workers": figure(second["private_mb"], "MB", at_most=1500.0),
        },
    )
