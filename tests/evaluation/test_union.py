"""The batches, the loss and the training of UNION; scores by a run."""

import shutil

import numpy as np
import pandas as pd
import pytest
import torch
import yaml

from depgen.cli import main
from depgen.data.sampler import RankBatch
from depgen.errors import UserError
from depgen.evaluation.text_judges import NotComputedError
from depgen.evaluation.text_measures import TextOptions, measure_texts
from depgen.evaluation.union import IGNORED, UNION, UnionData, reconstruction_targets, text_of, union_score
from depgen.training.runs import best_checkpoint, find_run
from tests.evaluation.stories import PetStories
from tests.evaluation.taggers import SuffixTagger
from tests.fixtures.kinds import named
from tests.invented_models import write_bert

LENGTH = 60
TOKENS = torch.tensor([[2, 5, 6, 7, 3], [2, 6, 5, 3, 0]])
MASK = torch.tensor([[True] * 5, [True] * 4 + [False]])


def pets(**options):
    return UnionData(PetStories(), SuffixTagger(), **{"tokens_per_batch": 200, **options})


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    """The folder of a BERT that knows the words of the stories."""
    folder = tmp_path_factory.mktemp("models") / "bert"
    words = {word for story in pets().stories("train") for word in text_of(story).split()}
    write_bert(folder, sorted(words), length=LENGTH)
    return folder


@pytest.fixture
def union(bert, monkeypatch):
    torch.manual_seed(0)
    union = UNION(str(bert), max_length=LENGTH)
    monkeypatch.setattr(union, "log", lambda *args, **options: None)
    return union


def batch_of(data, indices):
    return data.pairs("train", epoch=0).__getitems__(RankBatch(np.array(indices), 0, len(indices)))


def test_a_batch_holds_stories_and_their_corrupted_versions():
    pairs, batch = pets().pairs("train", epoch=0), batch_of(pets(), [4, 1])
    assert batch.human == [text_of(pairs.stories[4]), text_of(pairs.stories[1])]
    assert batch.corrupted == [text_of(pairs.corrupted(4)), text_of(pairs.corrupted(1))]
    assert batch.first == ["[female] wanted a horse .", "[female] wanted a cat ."]


def test_every_epoch_has_corrupted_versions_of_its_own_and_held_out_ones_stay():
    def corrupted(split, epoch=None, **options):
        pairs = pets(**options).pairs(split, epoch=epoch)
        return [text_of(pairs.corrupted(index)) for index in range(len(pairs))]

    first = corrupted("train", 0)
    assert first == corrupted("train", 0) != corrupted("train", 0, seed=7)
    assert sum(a != b for a, b in zip(first, corrupted("train", 1), strict=True)) > 8
    assert corrupted("valid") == corrupted("valid", seed=7)


def test_the_classifier_sees_the_first_state_and_no_padding(union):
    union.eval()
    logits = union.classifier(union.states(TOKENS, MASK)[:, 0])
    padded = torch.nn.functional.pad(TOKENS, (0, 3), value=7)
    assert torch.allclose(union(TOKENS, MASK), logits)
    assert torch.allclose(union(padded, torch.nn.functional.pad(MASK, (0, 3))), logits, atol=1e-6)


def test_reconstruction_asks_for_the_human_word_at_each_later_place():
    tokens = torch.tensor([[2, 5, 6, 7, 3, 0], [2, 5, 8, 3, 0, 0], [2, 5, 7, 6, 9, 3], [2, 5, 3, 0, 0, 0]])
    mask = tokens != 0
    first = torch.tensor([2, 3, 2, 3])
    targets = reconstruction_targets(tokens, mask, first)
    for text in range(4):
        for place in range(6):
            human = text % 2
            scored = place >= first[human] and mask[text, place] and mask[human, place]
            assert targets[text, place] == (tokens[human, place] if scored else IGNORED)
    assert targets[3].eq(IGNORED).all()


def test_the_loss_is_that_of_the_equations(union):
    batch = batch_of(pets(), range(3))
    union.eval()
    texts = [union.encode([text])[0] for text in (*batch.human, *batch.corrupted)]
    expected = 0.0
    for number, ids in enumerate(texts):
        tokens = torch.tensor([ids])
        states = union.states(tokens, torch.ones_like(tokens, dtype=torch.bool))[0]
        expected = expected - union.classifier(states[0]).log_softmax(-1)[int(number < 3)] / 6
        human = texts[number % 3]
        after_first = len(union.encode([batch.first[number % 3]])[0]) - 1
        nats = [
            -union.token_head(states[place], union.embedding).log_softmax(-1)[human[place]]
            for place in range(after_first, min(len(ids), len(human)))
        ]
        expected = expected + 0.1 * torch.stack(nats).mean() / 6
    assert union.training_step(batch, 0).item() == pytest.approx(expected.item(), rel=1e-5)


@pytest.fixture(scope="module")
def runs(bert, tmp_path_factory):
    """A folder with the run `pets`, whose encoder's folder is gone, and the experiment it is of."""
    folder = tmp_path_factory.mktemp("union")
    encoder = shutil.copytree(bert, folder / "bert")
    settings = {
        "seed_everything": 1,
        "trainer": {"max_epochs": 2, "accelerator": "cpu", "devices": 1, "gradient_clip_val": 1.0},
        "model": named("evaluation.union.UNION", encoder=str(encoder), max_length=LENGTH, learning_rate=0.003),
        "data": named(
            "evaluation.union.UnionData",
            corpus="tests.evaluation.stories.PetStories",
            tagger="tests.evaluation.taggers.SuffixTagger",
            tokens_per_batch=200,
        ),
    }
    (folder / "pets.yaml").write_text(yaml.safe_dump(settings))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DEPGEN_RUNS", str(folder / "runs"))
        patch.setenv("DEPGEN_CACHE", str(folder / "cache"))
        assert main(["fit", "--config", str(folder / "pets.yaml")]) == 0
        encoder.rename(folder / "elsewhere")
        yield folder


@pytest.fixture
def trained(runs):
    return UNION.load_from_checkpoint(best_checkpoint(find_run("pets")), weights_only=True).eval()


def test_the_test_split_is_judged_by_the_area_under_the_curve(runs, trained, capsys):
    assert main(["test", "--run", "pets"]) == 0
    pairs = pets().pairs("test")
    human = trained.score([text_of(story) for story in pairs.stories])
    corrupted = trained.score([text_of(pairs.corrupted(index)) for index in range(len(pairs))])
    higher = (human[:, None] > corrupted).mean() + (human[:, None] == corrupted).mean() / 2
    area = float(capsys.readouterr().out.split("test/auc\t")[1])
    assert area == pytest.approx(higher, abs=1e-5)


def test_a_stopped_training_goes_on_to_the_same_weights(runs, bert, monkeypatch, trained):
    encoder = ["--model.init_args.encoder", str(bert)]
    with monkeypatch.context() as patch:
        patch.setattr(UNION, "on_train_epoch_start", lambda union: 1 / (1 - union.current_epoch))
        with pytest.raises(ZeroDivisionError):
            main(["fit", "--config", str(runs / "pets.yaml"), "--name", "stopped", *encoder])
    assert main(["fit", "--resume", "stopped"]) == 0
    resumed = UNION.load_from_checkpoint(best_checkpoint(find_run("stopped")), weights_only=True).state_dict()
    assert all(torch.equal(resumed[name], value) for name, value in trained.state_dict().items())
    untrained = UNION(str(bert), max_length=LENGTH).embedding
    assert not torch.equal(trained.embedding, untrained)


def test_scores_depend_neither_on_batch_nor_on_order_nor_on_case(trained, caplog):
    texts = [text_of(story) for story in pets().stories("train")]
    texts += ["a dog .", " ".join(texts[:3])]
    together = trained.score(texts)
    assert "UNION reads no more than 60 tokens: 1 texts" in caplog.text
    tokens = torch.tensor(trained.encode(texts[:1]))
    logits = trained(tokens, torch.ones_like(tokens, dtype=torch.bool))
    assert together[0] == pytest.approx(100 * logits.softmax(-1)[0, 1].item(), abs=1e-3)
    assert len(np.unique(together.round(6))) > 3
    assert trained.score(texts, batch_size=1) == pytest.approx(together, abs=1e-3)
    assert trained.score(texts[::-1], batch_size=3)[::-1] == pytest.approx(together, abs=1e-3)
    assert trained.score([text.upper().replace(" ", "  ") for text in texts]) == pytest.approx(together, abs=1e-3)


def test_texts_are_read_after_their_prompts_and_empty_ones_score_zero(trained):
    prompts, texts = ["[FEMALE] wanted a dog .", "a cat", "x"], ["she paid .", "", "the dog was found ."]
    prompted = union_score(texts, prompts, scorer="pets")
    whole = trained.score([f"{prompt} {text}" for prompt, text in zip(prompts, texts, strict=True)])
    assert prompted.items == pytest.approx([whole[0], 0.0, whole[2]])
    alone = union_score(texts, scorer=str(find_run("pets")))
    assert alone.items[0] != pytest.approx(prompted.items[0])
    assert "not the published one: pets, encoder bert, trained on pets, valid AUC 0.472" in prompted.settings
    options = TextOptions(bertscore_model=None, perplexity_model=None, union="pets", device="cpu", resamples=20)
    measured = measure_texts(pd.DataFrame({"prompt": prompts, "text": texts}), options)
    assert measured.items["union"].tolist() == prompted.items.tolist()
    with pytest.raises(NotComputedError, match="no run 'absent' of UNION"):
        union_score(["a"], scorer="absent")


def test_what_cannot_be_trained_is_refused(bert, tmp_path):
    with pytest.raises(UserError, match=r"pets, test: .*3 sentences.*found 1"):
        UnionData(PetStories(held_out=1), SuffixTagger()).stories("test")
    with pytest.raises(UserError, match=r"no weights at .*absent"):
        UNION(str(tmp_path / "absent"))
    with pytest.raises(UserError, match="reads 60 tokens, but stories of 61"):
        UNION(str(bert), max_length=61)


def test_batches_stay_within_the_budget_and_hold_every_story_once():
    batches = [batch.human for batch in pets().train_dataloader()]
    assert sorted(story for batch in batches for story in batch) == sorted(map(text_of, pets().stories("train")))
    assert max(map(len, batches)) <= 200 // 31


@pytest.mark.slow
def test_it_overfits_eight_stories(union):
    for module in union.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    batch = batch_of(pets(), range(8))
    optimizer = torch.optim.AdamW(union.parameters(), lr=3e-3)
    for _ in range(150):
        loss = union.training_step(batch, 0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    scores = union.eval().score([*batch.human, *batch.corrupted])
    assert scores[:8].min() > 90 > 10 > scores[8:].max()
