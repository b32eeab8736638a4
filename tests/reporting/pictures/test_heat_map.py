"""The heat map of heads and relations: what is drawn where."""

import pytest
import torch

from depgen.cli import main
from depgen.data.vocabulary import Vocabulary
from depgen.evaluation.trained import Trained
from depgen.evaluation.trees.correlations import HeadCorrelations
from depgen.models.udgn import UDGN
from depgen.reporting.pictures import heat_map
from depgen.reporting.pictures.heat_map import heat_map_figure
from depgen.trees.conllu import write_conllu
from depgen.trees.sentence import Document, Sentence


def test_cells_are_the_correlations_of_both_directions():
    values = torch.rand(2, 2, 3, 4, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64) - 0.5
    found = HeadCorrelations(("det", "obj", "aux"), (30, 20, 10), {"pearson": values, "mean_weight": 9 * values}, 0.0)
    *panels, scale = heat_map_figure(found, ["det", "aux"], after_mask=True).axes
    assert [panel.get_title() for panel in panels] == ["child to parent", "parent to child"]
    assert [tick.get_text() for tick in panels[0].get_yticklabels()] == ["det  30", "aux  10"]
    assert scale.get_ylabel().endswith("weights after the mask")
    limit = values[:, 1][..., [0, 2]].abs().max().item()
    for direction, panel in enumerate(panels):
        (image,) = panel.images
        assert image.get_clim() == (-limit, limit)
        dots = panel.lines[0].get_xydata()
        for row, column in enumerate([0, 2]):
            expected = values[direction, 1, :, :, column].flatten()
            torch.testing.assert_close(torch.from_numpy(image.get_array()[row].data), expected)
            assert dots[row].tolist() == [expected.argmax().item(), row]
        assert [tick.get_text() for tick in panel.get_xticklabels()] == ["0", "1", "2"]
        assert panel.get_xticks().tolist() == [1.5, 5.5, 9.5]


def test_heads_that_go_with_nothing_are_drawn_too():
    found = HeadCorrelations(("det",), (3,), {"pearson": torch.zeros(2, 2, 1, 1, 1).double()}, 0.0)
    assert heat_map_figure(found, ["det"]).axes[0].images[0].get_clim() == (-1, 1)


@pytest.fixture
def options(tmp_path, monkeypatch):
    """A treebank and a run, as the command line names them."""
    sentence = Sentence(("the", "cat", "saw", "it"), (2, 3, 0, 3), ("det", "nsubj", "root", "obj"))
    write_conllu([Document((sentence,), "d")], tmp_path / "en_ewt-ud-test.conllu")
    known = Vocabulary.of_words(["the", "cat", "saw"], specials=["mask_id"])
    model = UDGN(known.size, width=8, layers=2, attention_heads=2, head_size=4, parser_layers=1).eval()
    asked = []

    def load(run, **_):
        asked.append(run)
        return Trained(model, known, tmp_path, tmp_path)

    monkeypatch.setattr(heat_map, "load_trained", load)
    return asked, ["--corpus", "depgen.data.corpora.Ewt", "--corpus.folder", str(tmp_path)]


def test_the_picture_is_a_png(options, tmp_path, capsys):
    asked, treebank = options
    path = tmp_path / "deep" / "heat.png"
    assert main(["heat-map", "--run", "some/run", *treebank, "--output", str(path)]) == 0, capsys.readouterr().err
    assert path.read_bytes().startswith(b"\x89PNG")
    text = capsys.readouterr().out
    assert "3 relations, 3 edges of 1 sentences of " in text
    assert text.endswith("; 25.0 % of the words are unknown to the model.\n")
    assert asked == ["some/run"]


def test_what_can_not_be_drawn_is_refused_before_the_work(options, tmp_path, monkeypatch, capsys):
    import sys

    asked, treebank = options
    assert main(["heat-map", *treebank, "--relations", "prep"]) == 2
    assert "no relation 'prep'; it has det, nsubj, obj" in capsys.readouterr().err
    asked.clear()
    assert main(["heat-map", *treebank, "--output", str(tmp_path / "a.gif")]) == 2
    assert "ends in .png, .pdf or .svg" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "matplotlib.backends.backend_agg", None)
    assert main(["heat-map", *treebank]) == 2
    assert "depgen[plots]" in capsys.readouterr().err
    assert not asked
