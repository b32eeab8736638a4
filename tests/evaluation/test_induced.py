import pickle
import shutil

import pytest
import torch
import yaml

from depgen.cli import main
from depgen.data.batch import ItemBatch
from depgen.data.corpora import Ewt, TextLines
from depgen.data.table import AnnotatedSplit
from depgen.data.text import TextData
from depgen.data.vocabulary import Vocabulary, load_vocabulary
from depgen.errors import UserError
from depgen.evaluation.induced import InducedGraphs, InducedTrees
from depgen.evaluation.parsing import predicted_heads
from depgen.evaluation.trained import load_trained
from depgen.training.runs import named_checkpoint, read_record
from depgen.trees.removal import keep_words
from depgen.trees.sentence import Sentence, check_tree
from tests.fixtures.kinds import EXPERIMENTS, named
from tests.invented_models import without_reading

QUOTED = Sentence(("``", "The", "dog", ",", "she", "said", ",", "ran", "3", "km", "!", "''"))
BARE = ("the", "dog", "she", "said", "ran", "N", "km")


@pytest.fixture
def trees(parsing_run):
    return InducedTrees("udgn")


def heads_of(annotator, *words):
    return annotator.annotate([Sentence(tuple(words))])[0].heads


def best_heads(run, words):
    trained = load_trained(run)
    (heads,) = predicted_heads(trained.model, trained.vocabulary, [words])["tree"]
    return tuple(heads)


def test_words_are_read_as_the_run_has_learnt_them_and_the_others_hang_on_the_word_before(trees, parsing_run):
    (tree,) = trees.annotate([QUOTED])
    kept = [word.lower() in BARE or word == "3" for word in QUOTED.words]
    assert keep_words(tree, kept).heads == best_heads(parsing_run, BARE)
    assert [head for head, keep in zip(tree.heads, kept, strict=True) if not keep] == [2, 3, 6, 10, 10]
    assert tree.words == QUOTED.words
    assert tree.relations == tuple("root" if head == 0 else "dep" for head in tree.heads)


def test_tags_tell_what_is_read_where_there_are_any(trees):
    words = ("dogs", "her", "ran")
    (tree,) = trees.annotate([Sentence(words, tags=("NNS", ",", "VBD"))])
    assert tree.heads[1] == 1
    assert (tree.heads[0], tree.heads[2]) in ((0, 1), (3, 0))


def test_text_in_the_runs_form_is_read_as_it_is(parsing_run):
    words = ("the", "dog", ",", "Ran", ".")
    assert heads_of(InducedTrees("udgn", form="as_is"), *words) == best_heads(parsing_run, words)


def test_text_that_has_its_form_already_needs_no_form(trees, parsing_run):
    words = ("the", "dog", "ran", "N", "km", "N,N", "N-day")
    assert heads_of(trees, *words) == heads_of(InducedTrees("udgn", form="as_is"), *words)


def test_every_sentence_gets_a_tree_of_one_root(parsing_run):
    long = Sentence(("the", "dog", ",", "ran", ".") * 100)
    lone, marks, mark = Sentence(("Dogs",)), Sentence(("...", "(", "?!", ")")), Sentence(("!",))
    annotated = InducedTrees(str(parsing_run)).annotate([long, lone, marks, mark, QUOTED])
    for sentence in annotated:
        check_tree(sentence.heads, "here", single_root=True)
    assert len(annotated[0]) == 500
    assert [sentence.heads for sentence in annotated[1:4]] == [(0,), (0, 1, 1, 1), (0,)]


def test_a_tree_does_not_depend_on_what_is_parsed_beside_it(parsing_run):
    sentences = [QUOTED, Sentence(("Dogs",)), *(Sentence(QUOTED.words[:length]) for length in range(2, 12))]
    small = InducedTrees("udgn", tokens_per_batch=10)
    assert InducedTrees("udgn").annotate(sentences) == small.annotate(sentences)
    assert small.annotate(sentences) == [small.annotate([each])[0] for each in sentences]


def test_the_fingerprint_follows_the_weights_the_words_and_the_options(parsing_run, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(parsing_run, copy)

    def fingerprint(run=copy, **options):
        return InducedTrees(str(run), **options).fingerprint()

    before = fingerprint()
    assert before == fingerprint(parsing_run) == fingerprint(form="bare", tokens_per_batch=9, device="cpu")
    assert len({before, fingerprint(form="ptb"), fingerprint(form="as_is")}) == 3
    words = ["thee" if word == "the" else word for word in load_vocabulary(copy / "vocabulary.json").types[3:]]
    Vocabulary.of_words(words, specials=["mask_id"]).save(copy / "vocabulary.json")
    assert fingerprint() != before
    shutil.copyfile(parsing_run / "vocabulary.json", copy / "vocabulary.json")
    with (copy / "checkpoints" / "best.ckpt").open("ab") as stream:
        stream.write(b"\0")
    assert fingerprint() != before


def test_it_annotates_a_corpus_and_travels_to_other_processes(trees, parsing_run):
    table = AnnotatedSplit(Ewt(), "test", trees).table()
    row = table[0]
    first = Sentence(tuple(row["words"][: row["sentence_lengths"][0]]))
    other = pickle.loads(pickle.dumps(trees))
    assert "trained" not in other.__dict__
    assert other.fingerprint() == trees.fingerprint()
    assert list(other.annotate([first])[0].heads) == row["heads"][: len(first)]
    sent = pickle.loads(pickle.dumps(InducedGraphs("udgn")))
    assert vars(sent)["source"] == named_checkpoint(str(parsing_run)), "the run that was the newest here"


def test_a_scheme_names_no_folder_of_the_machine(tmp_path, monkeypatch):
    monkeypatch.setenv("DEPGEN_RUNS", str(tmp_path / "runs"))
    below, elsewhere = (InducedTrees(str(tmp_path / path)) for path in ("runs/udgn/small", "copied/udgn"))
    assert below.scheme.startswith("induced by udgn/small (")
    assert elsewhere.scheme.startswith("induced by udgn (")


@pytest.mark.slow
def test_gilt_learns_from_induced_trees_as_graphs(parsing_run, tmp_path, monkeypatch):
    monkeypatch.setenv("DEPGEN_RUNS", str(tmp_path))
    data = named(
        "data.text.TextData",
        corpus=named("data.corpora.TextLines", folder="emnlp_news"),
        annotator=named("evaluation.induced.InducedTrees", run=str(parsing_run)),
        vocabulary=named("data.vocabulary.SubwordPieces", size=280),
    )
    (tmp_path / "gilt.yaml").write_text(yaml.safe_dump({**EXPERIMENTS["gilt"], "data": data}))
    assert main(["fit", "--config", str(tmp_path / "gilt.yaml")]) == 0
    (run,) = (tmp_path / "gilt").iterdir()
    assert read_record(run)["trees"].startswith("induced by ")
    data = TextData(TextLines("emnlp_news"), annotator=InducedTrees(str(parsing_run)))
    data.use_vocabulary(run / "vocabulary.json")
    batch = load_trained(run).model.collate(ItemBatch([data.split("train")[0]], 1, data.vocabulary))
    words = next(TextLines("emnlp_news").documents("train")).sentences[0].words
    heads = heads_of(InducedTrees(str(parsing_run)), *words)
    later = [max(head, word) for word, head in enumerate(heads, start=1)]
    assert batch.counts[0].tolist() == [later.count(word) for word in range(1, len(words) + 1)]
    pairs = [[head, word] for word, head in enumerate(heads, start=1) if head < word]
    assert (batch.from_earlier[0].nonzero() + torch.tensor([1, 0])).flip(1).tolist() == pairs


def test_a_corpus_that_does_not_say_its_form(parsing_run, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(parsing_run, copy)
    without_reading(copy)
    settings = yaml.safe_load((copy / "config.yaml").read_text())
    lines = named("data.corpora.TextLines", folder="ptb")
    settings["data"]["init_args"]["corpus"] = lines
    (copy / "config.yaml").write_text(yaml.safe_dump(settings))
    with pytest.raises(UserError, match=r"name it by `form`.*bare, ptb"):
        InducedTrees(str(copy)).annotate([QUOTED])
    settings["data"]["init_args"]["corpus"] = {"class_path": "depgen.data.corpora.Ptb"}
    (copy / "config.yaml").write_text(yaml.safe_dump(settings))
    words = ("the", "dog", ",", "Ran", "3", ".")
    as_ptb = best_heads(copy, ("the", "dog", "ran", "N"))
    (tree,) = InducedTrees(str(copy)).annotate([Sentence(words)])
    assert keep_words(tree, [word not in ",." for word in words]).heads == as_ptb
    assert InducedTrees(str(copy)).fingerprint() == InducedTrees(str(copy), form="ptb").fingerprint()


def test_a_run_that_finds_another_structure_is_named(parsing_run, graph_place):
    with pytest.raises(UserError, match="expected a run that finds a graph, found a UDGN: a tree"):
        InducedGraphs("udgn").annotate([QUOTED])
    with pytest.raises(UserError, match="expected a run that finds a tree, found a GiLT: a graph"):
        InducedTrees(str(graph_place / "runs" / "gilt")).annotate([QUOTED])
