"""Documents continued sentence by sentence: from the very distribution that scores them, whatever stands beside."""

import json
import shutil
from functools import partial

import numpy as np
import pytest
import torch
import yaml

from depgen.cli import main
from depgen.data.batch import whole_documents
from depgen.data.vocabulary import Vocabulary
from depgen.decoding.generation import Generated
from depgen.decoding.settings import Sampling
from depgen.errors import UserError
from depgen.evaluation.generation import continue_documents, stacked
from depgen.evaluation.trained import load_trained
from depgen.evaluation.verbs import generate
from depgen.models.dclm import DCLM
from depgen.nn.vocabulary import log_softmax_over_vocabulary
from tests.contract.runs import fit
from tests.fixtures.kinds import documents, experiment, named
from tests.invented_models import without_reading
from tests.models.documents import CONTEXTS as RECURRENT
from tests.models.documents import small_model

WORDS = [f"w{n}" for n in range(9)]
SYSTEMS = RECURRENT
DOCUMENTS = [[[4, 5, 6], [7], [8, 4], [5, 5], [9]], [], [[5]], [[6, 6], [], [4, 7, 8, 5]]]
"""One without a sentence, and one with a sentence without a word, as a system may write it."""


@pytest.fixture(scope="module")
def vocabulary():
    return Vocabulary.of_words(WORDS, specials=["start"])


def model_of(name, vocabulary, *, cell="cnn2015"):
    if cell == "standard":
        found = DCLM(vocabulary.size, context=partial(RECURRENT[name], size=4, cell=cell), embedding_size=4)
    else:
        found = small_model(name, vocabulary.size)
    torch.manual_seed(3)
    for parameter in found.parameters():
        torch.nn.init.normal_(parameter, std=0.8)
    return found.double().eval()


@torch.inference_mode()
def next_word_log_probs(model, documents, *, vocabulary):
    """What follows the last word of each document, read as a whole; its last sentence may have no word yet."""
    batch, rows = whole_documents(documents, vocabulary), torch.arange(len(documents))
    last = torch.tensor([len(document) - 1 for document in documents])
    features = model.encode(batch).features[rows, last, batch.lengths[rows, last] - 1]
    return log_softmax_over_vocabulary(features, model.output_weight, model.output_bias)


@pytest.mark.parametrize(
    ("name", "cell"), [*((name, "cnn2015") for name in SYSTEMS), *((name, "standard") for name in RECURRENT)]
)
@torch.inference_mode()
def test_what_a_sentence_leaves_is_all_that_the_next_needs(name, cell, vocabulary):
    model = model_of(name, vocabulary, cell=cell)
    left = []
    for document in (DOCUMENTS[0], DOCUMENTS[2], DOCUMENTS[3]):
        before = None
        for place, ids in enumerate(document):
            inputs = torch.tensor([[vocabulary.start, *ids]])
            features, before = model.step(inputs, before)
            found = log_softmax_over_vocabulary(features[0], model.output_weight, model.output_bias)
            begun = [[*document[:place], ids[:word]] for word in range(len(ids) + 1)]
            expected = next_word_log_probs(model, begun, vocabulary=vocabulary)
            torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
        left.append(before)
    inputs = torch.tensor([[vocabulary.start, 5, 6]] * 3)
    together, after = model.step(inputs, stacked(left))
    behind = [model.step(inputs[:1], each) for each in left]
    torch.testing.assert_close(together, torch.cat([features for features, _ in behind]), rtol=0, atol=1e-12)
    together, _ = model.step(inputs[:, :2], after)
    alone = torch.cat([model.step(inputs[:1, :2], each)[0] for _, each in behind])
    torch.testing.assert_close(together, alone, rtol=0, atol=1e-12)


def written(model, vocabulary, documents, seeds, **options):
    settings = {"sampling": Sampling(), "sentences": 3, "max_new_tokens": 6, "batch_size": 64, **options}
    texts = continue_documents(model, documents, vocabulary=vocabulary, seeds=seeds, **settings)
    return [[sentence.ids for sentence in text] for text in texts]


@pytest.mark.parametrize("name", ["ccdclm", "drnnlm", "adclm"])
def test_the_likeliest_words_are_those_of_the_likeliest_continuation_word_by_word(name, vocabulary):
    model = model_of(name, vocabulary)
    greedy = {"sampling": Sampling(greedy=True), "sentences": 2, "max_new_tokens": 3}
    for document, found in zip(DOCUMENTS, written(model, vocabulary, DOCUMENTS, range(4), **greedy), strict=True):
        text = [list(ids) for ids in document]
        for _ in range(2):
            text.append([])
            for _ in range(3):
                longer = [[*text[:-1], [*text[-1], word]] for word in range(vocabulary.size)]
                scores = [each[-1][-2] for each in model.sentence_log_probs(longer, vocabulary=vocabulary)]
                scores[vocabulary.start] = -np.inf
                if int(np.argmax(scores)) == vocabulary.eos:
                    break
                text[-1].append(int(np.argmax(scores)))
        assert found == text[len(document) :]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ccdclm", "drnnlm", "adclm"])
def test_a_continuation_depends_on_its_document_and_seed_alone(name, vocabulary):
    model = model_of(name, vocabulary)
    together = written(model, vocabulary, DOCUMENTS, [1, 2, 3, 4])
    assert together == [written(model, vocabulary, [d], [s])[0] for d, s in zip(DOCUMENTS, [1, 2, 3, 4], strict=True)]
    assert together == written(model, vocabulary, DOCUMENTS, [1, 2, 3, 4], batch_size=2)
    assert together != written(model, vocabulary, DOCUMENTS, [5, 6, 7, 8])
    assert [each[:2] for each in together] == written(model, vocabulary, DOCUMENTS, [1, 2, 3, 4], sentences=2)


def test_words_come_as_often_as_they_are_likely(vocabulary):
    model = model_of("codclm", vocabulary)
    found = written(
        model, vocabulary, [DOCUMENTS[0]] * 4000, range(4000), sentences=1, max_new_tokens=1, batch_size=4000
    )
    first = np.bincount([text[0][0] if text[0] else vocabulary.eos for text in found], minlength=vocabulary.size) / 4000
    (expected,) = next_word_log_probs(model, [[*DOCUMENTS[0], []]], vocabulary=vocabulary).exp().numpy()
    expected[vocabulary.start] = 0
    expected /= expected.sum()
    assert np.abs(first - expected).max() < 4 * (0.25 / 4000) ** 0.5


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(greedy=True), Sampling(top_p=0.9), Sampling(top_k=2)])
def test_no_sentence_begins_within_another(sampling, vocabulary):
    model = model_of("ccdclm", vocabulary)
    with torch.no_grad():  # so that it is the likeliest word wherever it may be drawn
        model.output.bias[vocabulary.start] = 20.0
    found = written(model, vocabulary, DOCUMENTS, range(4), sampling=sampling)
    assert any(ids for text in found for ids in text)
    assert not any(vocabulary.start in ids for text in found for ids in text)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A tiny CCDCLM trained for an epoch on generated stories."""
    folder = tmp_path_factory.mktemp("documents")
    model = named("models.dclm.DCLM", context=named("models.dclm.ContextToContext", size=8), embedding_size=8)
    with pytest.MonkeyPatch.context() as patch:
        for name in ("cache", "runs"):
            patch.setenv(f"DEPGEN_{name.upper()}", str(folder / name))
        yield fit(folder, experiment(model, documents(), 1))


@pytest.mark.slow
def test_documents_are_prompts_and_texts(run, tmp_path, capsys):
    prompts, output = tmp_path / "prompts.txt", tmp_path / "texts.txt"
    prompts.write_text("it was early .\nshe was late .\n\none day\n")
    options = {"run": str(run), "prompts": prompts, "number": 2, "sentences": 3, "max_new_tokens": 7, "seed": 5}
    rows = [json.loads(line) for line in generate(json=True, **options).splitlines()]
    assert [row["prompt"] for row in rows] == [["it was early .", "she was late ."]] * 2 + [["one day"]] * 2
    assert all(len(row["text"]) == 3 and max(len(each.split()) for each in row["text"]) <= 7 for row in rows)
    generate(output=output, **options)
    shown = [
        [line for line in part.split("\n") if line] for part in output.read_text().removesuffix("\n").split("\n\n")
    ]
    assert shown == [[each for each in row["text"] if each] for row in rows]
    lines = tmp_path / "prompts.jsonl"
    lines.write_text('{"sentences": ["it was early .", "she was late ."]}\n{"sentences": ["one day"]}\n')
    assert [json.loads(line) for line in generate(json=True, **{**options, "prompts": lines}).splitlines()] == rows
    assert main(["generate", "--run", str(run), "--sentences", "2", "--max_new_tokens", "5"]) == 0
    assert 1 <= len(capsys.readouterr().out.splitlines()) <= 2, "from nothing"
    assert main(["generate", "--run", str(run), "--beam_size", "2"]) == 2, "an option of other systems"
    assert "unrecognized arguments: --beam_size" in capsys.readouterr().err


@pytest.fixture
def run_of(run, tmp_path):
    """The run with other settings of its data module."""

    def of(**settings):
        copy = shutil.copytree(run, tmp_path / "copy")
        without_reading(copy)
        content = yaml.safe_load((copy / "config.yaml").read_text())
        content["data"]["init_args"].update(settings)
        (copy / "config.yaml").write_text(yaml.safe_dump(content))
        return str(copy)

    return of


def test_last_words_that_were_learnt_twice_are_read_so_and_written_once(run_of, tmp_path, monkeypatch):
    read = []

    def continued(model, documents, **options):
        read.extend(documents)
        return [[Generated(ids, None, -1.5) for ids in ([5, 6, 6], [7, 7], [8, 9], [4], [3, 3, 3, 3])]]

    monkeypatch.setattr("depgen.evaluation.generation.continue_documents", continued)
    (tmp_path / "prompt.txt").write_text("it was late .\nlate\n")
    options = {"prompts": tmp_path / "prompt.txt", "sentences": 5, "max_new_tokens": 4, "json": True}
    run = run_of(duplicate_final_word=True)
    row = json.loads(generate(run=run, **options))
    ((first, second),) = read
    assert (len(first), len(second)) == (5, 2)
    assert (first[-1], second[0]) == (first[-2], second[1])
    assert row["prompt"] == ["it was late .", "late"]
    vocabulary = load_trained(run).vocabulary
    written = [[5, 6], [7], [8, 9], [4], [3, 3, 3, 3]]  # the last was cut, so that its last word is not its end
    assert row["text"] == [vocabulary.decode(ids) for ids in written]
    assert row["log_prob"] == 5 * -1.5


def test_a_run_tested_on_segments_writes_no_longer_documents(run_of, tmp_path):
    (tmp_path / "prompt.txt").write_text("it was late .\nlate\n")
    options = {"run": run_of(eval_sentences_per_segment=3), "prompts": tmp_path / "prompt.txt"}
    assert generate(**options, sentences=1, max_new_tokens=3)
    with pytest.raises(UserError, match=r"3 sentences.*have 4: .*shorter prompts"):
        generate(**options, sentences=2)
