"""The batches, the loss and the training of UNION; scores by what lies in the cache."""

import json
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from depgen.annotation.tagger import SuffixTagger
from depgen.cli import main
from depgen.data.sampler import RankBatch
from depgen.errors import UserError
from depgen.evaluation import corruption, union
from depgen.evaluation.pretrained import load_pretrained
from depgen.evaluation.text.measures import TextOptions, text_metrics
from depgen.evaluation.text.outcome import NotComputed
from depgen.evaluation.union import (
    HEAD,
    IGNORED,
    UnionData,
    UnionModule,
    UnionNetwork,
    UnionTraining,
    areas,
    load_scorer,
    reconstruction_targets,
    report,
    scorer_folder,
    text_of,
    train_union,
    union_score,
)
from depgen.metrics.roc import auc
from tests.evaluation.stories import PetStories
from tests.invented_models import write_bert

LENGTH = 60
TRAINING = UnionTraining(epochs=2, learning_rate=3e-3, accelerator="cpu")
TOKENS = torch.tensor([[2, 5, 6, 7, 3], [2, 6, 5, 3, 0]])
MASK = torch.tensor([[True] * 5, [True] * 4 + [False]])


def pets(**options):
    return UnionData(PetStories(), SuffixTagger(), **{"tokens_per_batch": 200, "max_length": LENGTH, **options})


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    """The folder of a BERT that knows the words of the stories."""
    folder = tmp_path_factory.mktemp("models") / "bert"
    words = {word for story in pets().stories("train") for word in text_of(story).split()}
    write_bert(folder, sorted(words), length=LENGTH)
    return folder


@pytest.fixture
def data(bert):
    data = pets()
    data.tokenizer = load_pretrained(str(bert), "encoder").tokenizer
    return data


@pytest.fixture
def module(bert, monkeypatch):
    torch.manual_seed(0)
    module = UnionModule(load_pretrained(str(bert), "encoder").model, TRAINING)
    monkeypatch.setattr(module, "log", lambda *args, **options: None)
    return module


def batch_of(data, indices):
    return data.pairs("train", epoch=0).__getitems__(RankBatch(np.array(indices), 0, len(indices)))


def test_a_batch_holds_stories_and_then_their_corrupted_versions(data):
    pairs, batch = data.pairs("train", epoch=0), batch_of(data, [4, 1])
    stories = [pairs.stories[4], pairs.stories[1], pairs.corrupted(4).story, pairs.corrupted(1).story]
    for tokens, mask, story in zip(batch.tokens, batch.is_word, stories, strict=True):
        assert tokens[mask].tolist() == data.tokenizer.encode(text_of(story))
    assert batch.human.tolist() == [True, True, False, False]
    assert batch.untouched.tolist() == [8, 8, 8, 8]  # [CLS] [ female ] wanted a goat .
    assert batch.items.tolist() == [4, 1]


def test_every_epoch_has_negative_samples_of_its_own_and_held_out_ones_stay(data):
    def samples(split, epoch=None):
        pairs = data.pairs(split, epoch=epoch)
        return [text_of(pairs.corrupted(index).story) for index in range(len(pairs))]

    first, second, held_out = samples("train", 0), samples("train", 1), samples("valid")
    assert first == samples("train", 0)
    assert sum(a != b for a, b in zip(first, second, strict=True)) > 8
    data.seed = 7
    assert samples("train", 0) != first
    assert samples("valid") == held_out


def test_batches_stay_within_the_budget_and_hold_every_story_once(data):
    items = [batch.items.tolist() for batch in data.train_dataloader()]
    assert sorted(item for batch in items for item in batch) == list(range(12))
    assert max(map(len, items)) <= 200 // 31


def test_the_fingerprint_knows_all_that_stories_and_samples_depend_on(data, tmp_path, monkeypatch):
    fingerprints = [data.fingerprint(), pets(max_length=50).fingerprint(), pets(tokens_per_batch=100).fingerprint()]
    fingerprints.append(UnionData(PetStories(train=11), SuffixTagger(), max_length=LENGTH).fingerprint())
    for name in ("antonyms.txt", "irregular_verbs.txt"):
        for other in ("antonyms.txt", "irregular_verbs.txt"):
            lines = (corruption._DATA / other).read_text()
            (tmp_path / other).write_text(lines + "up down\n" * (other == name))
        with monkeypatch.context() as patch:
            patch.setattr(corruption, "_DATA", tmp_path)
            fingerprints.append(data.fingerprint())
    with monkeypatch.context() as patch:
        patch.setattr(union, "RULES", "0")
        fingerprints.append(data.fingerprint())
    assert data.fingerprint() == fingerprints[0] == pets().fingerprint()
    assert len({*fingerprints}) == len(fingerprints)


def test_the_classifier_sees_the_first_state_and_no_padding(module, tmp_path):
    network = module.network.eval()
    logits = network.head(network.states(TOKENS, MASK)[:, 0])
    padded = torch.nn.functional.pad(TOKENS, (0, 3), value=7)
    assert torch.allclose(network(TOKENS, MASK), logits)
    assert torch.allclose(network(padded, torch.nn.functional.pad(MASK, (0, 3))), logits, atol=1e-6)
    network.save(tmp_path)
    loaded = UnionNetwork.load(tmp_path)
    assert not loaded.training
    assert torch.allclose(loaded(TOKENS, MASK), logits, atol=1e-6)
    (tmp_path / HEAD).write_bytes(b"cut")
    with pytest.raises(UserError, match="expected a UNION scorer"):
        UnionNetwork.load(tmp_path)


def test_reconstruction_asks_for_the_human_word_at_each_later_place():
    tokens = torch.tensor([[2, 5, 6, 7, 3, 0], [2, 5, 8, 3, 0, 0], [2, 5, 7, 6, 9, 3], [2, 5, 3, 0, 0, 0]])
    mask = tokens != 0
    untouched = torch.tensor([2, 3, 2, 3])
    targets = reconstruction_targets(tokens, mask, untouched)
    for text in range(4):
        for place in range(6):
            human = text % 2
            scored = place >= untouched[human] and mask[text, place] and mask[human, place]
            assert targets[text, place] == (tokens[human, place] if scored else IGNORED)
    assert targets[3].eq(IGNORED).all()


def test_the_loss_is_that_of_the_equations(data, module):
    batch = batch_of(data, range(3))
    module.eval()
    states = module.network.states(batch.tokens, batch.is_word)
    logits = module.network.classify(states)
    expected = torch.stack([-logits[i].log_softmax(-1)[int(i < 3)] for i in range(6)]).mean()
    targets = reconstruction_targets(batch.tokens, batch.is_word, batch.untouched)
    embedding = module.network.encoder.get_input_embeddings().weight
    for text in range(6):
        nats = [
            -module.token_head(states[text, place], embedding).log_softmax(-1)[target]
            for place, target in enumerate(targets[text].tolist())
            if target != IGNORED
        ]
        expected = expected + 0.1 * torch.stack(nats).mean() / 6
    assert module.training_step(batch, 0).item() == pytest.approx(expected.item(), rel=1e-5)


@pytest.mark.slow
def test_it_overfits_eight_stories(data, monkeypatch):
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    config = BertConfig(vocab_size=len(data.tokenizer), hidden_dropout_prob=0.0, **sizes)
    module = UnionModule(BertModel(config), TRAINING)
    monkeypatch.setattr(module, "log", lambda *args, **options: None)
    batch = batch_of(data, range(8))
    optimizer = torch.optim.AdamW(module.parameters(), lr=3e-3)
    module.train()
    for _ in range(120):
        loss = module.training_step(batch, 0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    probabilities = module.eval().network(batch.tokens, batch.is_word).softmax(-1)[:, 1]
    assert probabilities[:8].min() > 0.9 > 0.1 > probabilities[8:].max()


def train(name, bert, **options):
    return train_union(pets(), TRAINING, name, str(bert), progress=False, **options)


@pytest.fixture(scope="module")
def cache(bert, tmp_path_factory):
    """The cache with a trained scorer, `pets`; its report."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DEPGEN_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield train("pets", bert)


@pytest.fixture
def scorer(cache):
    return load_scorer(scorer_folder("pets"))


def test_the_report_says_how_well_stories_are_told_apart(cache, tmp_path):
    path = scorer_folder("pets") / "union.json"
    description = json.loads(path.read_text())
    assert cache.splitlines()[0].startswith("bert, pets (12 stories)")
    for split in ("valid", "test"):
        assert f"{description['auc'][split]['all']:.4f}" in cache
    description["auc"] = {"valid": {"all": 0.5, "shuffled": 0.25}, "test": {"all": 0.5}}
    (tmp_path / "union.json").write_text(json.dumps(description))
    assert report(tmp_path).splitlines()[3].split() == ["shuffled", "0.2500", "none"]


def test_it_is_trained_once_and_another_of_that_name_is_refused(cache, bert, tmp_path):
    path = scorer_folder("pets") / "union.json"
    before = path.read_bytes()
    assert "is up to date" in train("pets", bert)
    other = shutil.copytree(bert, tmp_path / "bert")
    weights = load_file(other / "model.safetensors")
    save_file({name: value + 1 for name, value in weights.items()}, other / "model.safetensors", {"format": "pt"})
    for options in ({"bert": bert, "seed": 2}, {"bert": other}):
        with pytest.raises(UserError, match="trained otherwise"):
            train("pets", **options)
    assert path.read_bytes() == before


def test_a_stopped_training_goes_on_to_the_same_weights(cache, bert, monkeypatch, scorer):
    def stop(module):
        if module.current_epoch == 1:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(UnionModule, "on_train_epoch_start", stop)
        with pytest.raises(KeyboardInterrupt):
            train("stopped", bert)
    assert not scorer_folder("stopped").exists()
    epochs = []
    monkeypatch.setattr(UnionModule, "on_train_epoch_start", lambda module: epochs.append(module.current_epoch))
    train("stopped", bert)
    assert epochs == [1]
    resumed, unbroken = (each.network.state_dict() for each in (load_scorer(scorer_folder("stopped")), scorer))
    untrained = load_pretrained(str(bert), "encoder").model.state_dict()
    assert all(torch.equal(resumed[name], value) for name, value in unbroken.items())
    name = "embeddings.word_embeddings.weight"
    assert not torch.equal(unbroken[f"encoder.{name}"], untrained[name])


def test_scores_depend_neither_on_batch_nor_on_order_nor_on_case(scorer, caplog):
    texts = [text_of(story) for story in pets().stories("train")]
    texts += ["a dog .", " ".join(texts[:3])]
    together = scorer.score(texts)
    assert "UNION reads no more than 60 tokens: 1 texts" in caplog.text
    tokens = torch.tensor([scorer.tokenizer.encode(texts[0])])
    logits = scorer.network(tokens, torch.ones_like(tokens, dtype=torch.bool))
    assert together[0] == pytest.approx(100 * logits.softmax(-1)[0, 1].item(), abs=1e-3)
    assert len(np.unique(together.round(6))) > 3
    assert scorer.score(texts, batch_size=1) == pytest.approx(together, abs=1e-3)
    assert scorer.score(texts[::-1], batch_size=3)[::-1] == pytest.approx(together, abs=1e-3)
    assert scorer.score([text.upper().replace(" ", "  ") for text in texts]) == pytest.approx(together, abs=1e-3)


def test_texts_are_read_after_their_prompts_and_empty_ones_score_zero(scorer):
    prompts, texts = ["[FEMALE] wanted a dog .", "a cat", "x"], ["she paid .", "", "the dog was found ."]
    prompted = union_score(texts, prompts, scorer="pets")
    whole = scorer.score([f"{prompt} {text}" for prompt, text in zip(prompts, texts, strict=True)])
    assert prompted.items == pytest.approx([whole[0], 0.0, whole[2]])
    alone = union_score(texts, scorer=str(scorer_folder("pets")))
    assert alone.items[0] != pytest.approx(prompted.items[0])
    assert "of our own, not the published one: bert, trained on pets (12 stories)" in prompted.description
    assert "texts after their prompts" in prompted.description
    assert "whole stories" in alone.description
    options = TextOptions(bertscore_model=None, perplexity_model=None, union="pets", device="cpu", resamples=20)
    metrics = text_metrics(texts, None, options, prompts=prompts)
    assert metrics.items["union"].tolist() == prompted.items.tolist()
    assert isinstance(union_score(["a"], scorer="absent"), NotComputed)


def test_areas_are_by_what_was_done(scorer):
    data = pets()
    data.tokenizer = scorer.tokenizer
    pairs = data.pairs("train", epoch=0)
    areas_of = areas(scorer, pairs)
    human = scorer.score([text_of(story) for story in pairs.stories])
    samples = [pairs.corrupted(index) for index in range(len(pairs))]
    scores = scorer.score([text_of(sample.story) for sample in samples])
    assert areas_of["all"] == pytest.approx(auc(human, scores))
    two = [score for score, sample in zip(scores, samples, strict=True) if len(sample.forms) == 2]
    assert areas_of["2 operations"] == pytest.approx(auc(human, np.array(two)))
    assert {sample.forms[0] for sample in samples if len(sample.forms) == 1} <= set(areas_of)


def test_what_cannot_be_trained_or_read_is_refused(cache, bert, tmp_path):
    with pytest.raises(UserError, match=r"pets, test: .*3 sentences.*found 1"):
        UnionData(PetStories(held_out=1), SuffixTagger()).stories("test")
    with pytest.raises(UserError, match=r"UNION wants a pretrained encoder: .*absent"):
        train("absent", tmp_path / "absent")
    with pytest.raises(UserError, match="reads 60 tokens, but stories of 61"):
        train_union(pets(max_length=61), TRAINING, "long", str(bert))
    with pytest.raises(UserError, match="one prompt a text"):
        union_score(["a", "b"], ["a"], scorer="pets")
    (tmp_path / "union.json").write_text("{")
    with pytest.raises(UserError, match=r"union\.json: expected JSON"):
        union_score(["a"], scorer=str(tmp_path))


def test_the_experiment_parses():
    assert main(["train-union", "--config", "experiments/union_rocstories.yaml", "--print_config"]) == 0
