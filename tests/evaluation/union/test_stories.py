import random
from dataclasses import replace

import numpy as np
import pytest

from depgen.annotation.tagger import SuffixTagger
from depgen.data.sampler import RankBatch
from depgen.errors import UserError
from depgen.evaluation.union import stories, words
from depgen.evaluation.union.corruption import Rates
from depgen.evaluation.union.stories import UnionData, text_of
from tests.evaluation.union.conftest import PetStories, small_encoder


@pytest.fixture
def ready(data):
    texts = [text_of(story) for story in data.stories("train")]
    data.tokenizer = small_encoder().build(texts, max_length=data.max_length).tokenizer
    return data


def test_a_batch_holds_stories_and_then_their_corrupted_versions(ready):
    pairs = ready.pairs("train", epoch=0)
    batch = pairs.__getitems__(RankBatch(np.array([4, 1]), 0, 2))
    read = [
        " ".join(ready.tokenizer.convert_ids_to_tokens(tokens[mask][1:-1].tolist()))
        for tokens, mask in zip(batch.tokens, batch.is_word, strict=True)
    ]
    assert read[:2] == [text_of(pairs.stories[4]), text_of(pairs.stories[1])]
    assert read[2:] == [text_of(pairs.corrupted(4).story), text_of(pairs.corrupted(1).story)]
    assert batch.human.tolist() == [True, True, False, False]
    assert batch.untouched.tolist() == [6, 6, 6, 6]  # [CLS] [female] wanted a goat .
    assert batch.items.tolist() == [4, 1]


def test_every_epoch_has_negative_samples_of_its_own_and_held_out_ones_stay(ready):
    def samples(**options):
        pairs = ready.pairs(options.pop("split", "train"), **options)
        return [text_of(pairs.corrupted(index).story) for index in range(len(pairs))]

    first, second = samples(epoch=0), samples(epoch=1)
    assert first == samples(epoch=0)
    assert sum(a != b for a, b in zip(first, second, strict=True)) > 8
    held_out = samples(split="valid")
    ready.seed = 7
    assert samples(epoch=0) != first
    assert samples(split="valid") == held_out


def test_batches_stay_within_the_budget_and_hold_every_story_once(ready):
    seen = [batch.items.tolist() for batch in ready.train_dataloader()]
    assert sorted(item for items in seen for item in items) == list(range(12))
    assert all(
        len(batch.tokens) // 2 * len(items) >= 1 for batch, items in zip(ready.train_dataloader(), seen, strict=True)
    )
    assert max(map(len, seen)) <= 200 // 31


def test_short_documents_are_left_out_and_too_few_are_refused(ready, caplog):
    assert len(ready.stories("valid")) == 6
    assert "left out 1 documents of fewer than 3 sentences" in caplog.text
    with pytest.raises(UserError, match=r"pets, test: .*3 sentences.*found 1"):
        UnionData(PetStories(held_out=1), SuffixTagger()).stories("test")


def test_the_fingerprint_knows_what_stories_and_samples_depend_on(data, tmp_path):
    antonyms = tmp_path / "antonyms.txt"
    antonyms.write_text("hot|||/r/Antonym|||cold\n")
    others = [
        UnionData(PetStories(), SuffixTagger(), tokens_per_batch=200, max_length=50),
        UnionData(PetStories(train=11), SuffixTagger(), tokens_per_batch=200, max_length=60),
        UnionData(
            PetStories(),
            SuffixTagger(),
            tokens_per_batch=200,
            max_length=60,
            rates=replace(Rates(), words_replaced=0.5),
        ),
        UnionData(PetStories(), SuffixTagger(), tokens_per_batch=200, max_length=60, conceptnet_antonyms=antonyms),
    ]
    same = UnionData(PetStories(), SuffixTagger(), tokens_per_batch=200, max_length=60)
    assert same.fingerprint() == data.fingerprint()
    assert len({data.fingerprint(), *(other.fingerprint() for other in others)}) == 5


def test_the_fingerprint_knows_the_packages_rules_and_each_of_its_lists(data, tmp_path, monkeypatch):
    found = [data.fingerprint()]
    for name in ("antonyms.txt", "irregular_verbs.txt"):
        with monkeypatch.context() as patch:
            for path in words._DATA.iterdir():
                if path.name.endswith(".txt"):
                    (tmp_path / path.name).write_text(path.read_text() + "up down\n" * (path.name == name))
            patch.setattr(words, "_DATA", tmp_path)
            found.append(data.fingerprint())
    for module, name, value in ((words, "FUNCTION_WORDS", words.FUNCTION_WORDS - {"the"}), (stories, "RULES", "0")):
        with monkeypatch.context() as patch:
            patch.setattr(module, name, value)
            found.append(data.fingerprint())
    assert data.fingerprint() == found[0]
    assert len(set(found)) == len(found) == 5


def test_the_fingerprint_tells_a_file_of_antonyms_from_one_of_entities(tmp_path):
    file = tmp_path / "words.txt"
    file.write_text("hot|||1\n")
    one = UnionData(PetStories(), SuffixTagger(), conceptnet_antonyms=file)
    other = UnionData(PetStories(), SuffixTagger(), conceptnet_entities=file)
    assert one.fingerprint() != other.fingerprint()


def test_conceptnets_files_are_used(tmp_path):
    (tmp_path / "antonyms.txt").write_text("dog|||/r/Antonym|||wolf\n")
    (tmp_path / "entities.csv").write_text("dog|||1\n")
    data = UnionData(
        PetStories(), SuffixTagger(), conceptnet_antonyms=tmp_path / "antonyms.txt",
        conceptnet_entities=tmp_path / "entities.csv",
    )  # fmt: skip
    lexicon = data.corruptor.lexicon
    assert lexicon.swap("dog", "NN", random.Random(0)) == "wolf"
    assert not lexicon.is_content("cat", "NN")
