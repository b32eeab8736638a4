"""A system trains on the graphs of a corpus, searches for graphs, and scores and writes texts with them."""

import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch

from depgen.cli import main
from depgen.data.batch import ItemBatch, TokenItem
from depgen.data.corpora import TextLines
from depgen.data.text import TextData
from depgen.decoding.settings import StructureOptions
from depgen.errors import UserError
from tests.contract.batches import PLAIN
from tests.contract.runs import fit
from tests.contract.systems import SYSTEMS, built
from tests.models.searches import hypotheses
from tests.toys.experiments import TOYS
from tests.toys.graph_lm import (
    NearGraphs,
    all_graphs,
    choices_of,
    collate_graphs,
    edges_of,
    ends_of,
)


@pytest.fixture
def model():
    return built(SYSTEMS["toy of graphs"])


def batch_of(sentences):
    items = [TokenItem(k, np.array(ids)) for k, ids in enumerate(sentences)]
    return collate_graphs(ItemBatch(items, sum(len(ids) + 1 for ids in sentences), PLAIN))


def padded(graphs, width):
    return torch.tensor([[0, *graph, *[0] * (width - len(graph) - 1)] for graph in graphs])


def test_graphs_reach_the_collate_through_the_table(tmp_path, monkeypatch):
    monkeypatch.setenv("DEPGEN_CACHE", str(tmp_path))
    monkeypatch.setenv("DEPGEN_DATA", str(tmp_path))
    for split in ("train", "valid", "test"):
        (tmp_path / f"{split}.txt").write_text("a bc def ghij\nabc bc\nbcd\n", encoding="utf-8")
    data = TextData(TextLines(str(tmp_path), steps=[]), annotator=NearGraphs())
    split = data.split("train")
    batch = collate_graphs(ItemBatch([split[k] for k in range(3)], 10, data.vocabulary))
    assert batch.choices.tolist() == [[0, 1, 2, 3, 0], [0, 1, 2, 0, 0], [0, 1, 0, 0, 0]]
    assert edges_of([1, 2, 3]) == ((0, 1, "arc"), (1, 2, "arc"), (3, 2, "arc"))


def test_choices_and_edges_are_the_same():
    for length in range(5):
        graphs = all_graphs(length)
        assert len(set(graphs)) == len(graphs) == np.prod([2 * k for k in range(1, length + 1)], dtype=int)
        for graph in graphs:
            assert edges_of(choices_of(*ends_of(graph), length)) == graph
    with pytest.raises(UserError, match="word 3: expected one arc"):
        choices_of([1, 2], [3, 3], 3)


@torch.no_grad()
def test_a_wide_beam_holds_every_graph_with_the_score_of_the_training_loss_and_a_narrow_one_the_best(model):
    for ids in ([4, 3, 7], [8, 9, 3, 4]):
        graphs, batch = all_graphs(len(ids)), batch_of([ids])
        choices = padded([choices_of(*ends_of(graph), len(ids)) for graph in graphs], len(ids) + 1)
        words, arcs = model.log_probs_of_both(batch_of([ids] * len(graphs)), choices)
        expected = dict(zip(graphs, (words + arcs).sum(1).tolist(), strict=True))
        in_beam = hypotheses(model, batch, beam_size=len(graphs))[0]
        assert {edges_of(choices) for choices, *_ in in_beam} == expected.keys()
        assert all(abs(expected[edges_of(choices)] - score) < 1e-10 for choices, _, score in in_beam)
        log_probs, (best,) = model.search(batch, beam_size=len(graphs))
        assert abs(float(log_probs.sum()) - np.logaddexp.reduce(list(expected.values()))) < 1e-10
        assert edges_of(best) == max(expected, key=expected.get)
        bounds = [float(model.search(batch, beam_size=size)[0].sum()) for size in (1, 4, 16, len(graphs))]
        assert all(one < other for one, other in pairwise(bounds))
        trained = model.training_step(replace(batch, choices=choices[:1]), 0) * batch.global_tokens
        assert trained.item() == pytest.approx(-expected[graphs[0]], abs=1e-10)


def test_texts_are_written_with_their_graphs_as_they_are_scored(model):
    prompts = [[4, 3, 7], [2], [5, 5]]
    for options in (StructureOptions(temperature=3.0), StructureOptions(beam_size=4, prompt_beam_size=9)):
        texts = model.generate(prompts, vocabulary=PLAIN, options=options, seeds=range(6), max_new_tokens=3, number=2)
        assert any(max(edge[:2]) > len(prompts[0]) for edge in texts[0].structure + texts[1].structure)
        for prompt, text in zip([each for each in prompts for _ in range(2)], texts, strict=True):
            whole = [[[*prompt, *text.ids]]]
            ((found,),) = model.sentence_log_probs(whole, vocabulary=PLAIN, structure=[[text.structure]])
            written = found[len(prompt) :][: 3 if len(text.ids) == 3 else None]
            assert abs(written.sum() - text.log_prob) < 1e-10
    with pytest.raises(UserError, match="prompt_beam_size"):
        StructureOptions(prompt_beam_size=0)


@pytest.mark.slow
def test_a_run_writes_texts_with_graphs_by_the_command_line(tmp_path, monkeypatch, capsys):
    for root in ("cache", "runs"):
        monkeypatch.setenv(f"DEPGEN_{root.upper()}", str(tmp_path / root))
    content = TOYS["toy_of_graphs"]
    run = fit(tmp_path, {**content, "trainer": {**content["trainer"], "max_epochs": 1}})
    capsys.readouterr()
    options = ["--json", "--number", "2", "--max_new_tokens", "4", "--prompt_beam_size", "2"]
    assert main(["generate", "--run", str(run), *options]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(rows) == 2
    assert all(row["log_prob"] < 0 for row in rows)
    assert any(row["structure"] for row in rows)
    assert main(["generate", "--help", "--run", str(run)]) == 0
    assert "--prompt_beam_size" in capsys.readouterr().out
