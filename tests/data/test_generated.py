"""The small language: probabilities against hand and sampling, trees, and what its pairs can't be guessed by."""

import itertools
import math
from collections import Counter
from random import Random

import numpy as np
import pytest

from depgen.data.corpus import SPLITS
from depgen.data.generated import (
    NUMBER_OF,
    PROTAGONISTS,
    TAGS,
    GeneratedLanguage,
    Grammar,
    agreement_pairs,
    pronoun_pairs,
    reflexive_pairs,
    rules_of,
    subject_and_verb,
)
from depgen.errors import UserError
from depgen.trees.sentence import Document, Sentence

GRAMMAR = Grammar()


@pytest.fixture(scope="module")
def sentences():
    random = Random(3)
    return [GRAMMAR.sample(random) for _ in range(2000)]


def test_the_probability_of_a_sentence_is_the_product_of_its_choices():
    """Number, not indirect, gender, determiner, no adjective, noun, no modifier, predicate, verb."""
    king = 1 / 2 * 0.6 * 1 / 4 * 1 / 3 * 0.8 * 1 / 4 * 0.4 * 0.4 * 1 / 7
    assert math.exp(GRAMMAR.log_prob(["the", "king", "sleeps", "."])) == pytest.approx(king, rel=1e-12)
    near = king * (0.4 / 2) / 0.6 * (1 / 5 * 1 / 2 * 1 / 2 * 1 / 3 * 0.2 * 1 / 6 * 1 / 8 * 0.4)  # an old teacher or two
    said = "near the old teachers , the king sleeps ."
    assert math.exp(GRAMMAR.log_prob(said.split())) == pytest.approx(near, rel=1e-12)
    pronoun = 0.6 * 0.6 * 0.4 / 7
    assert GRAMMAR.inside(["she", "sleeps", "."], ("sentence", "singular", "feminine")) == pytest.approx(pronoun)
    assert GRAMMAR.inside(["she", "sleeps", "."]) == 0


@pytest.mark.parametrize("grammar", [GRAMMAR, Grammar(depth=0), Grammar(depth=3, disagreement=1.0, modified=1.0)])
def test_probabilities_of_every_symbol_sum_to_1(grammar):
    waiting, seen = (
        [("sentence",), *(("opening", *each) for each in PROTAGONISTS), ("sentence", *min(PROTAGONISTS))],
        set(),
    )
    while waiting:
        symbol = waiting.pop()
        if symbol in seen:
            continue
        seen.add(symbol)
        rules = rules_of(grammar, symbol)
        assert sum(rule.probability for rule in rules) == pytest.approx(1, abs=1e-12), symbol
        assert all([relation for relation, _ in rule.parts].count("") == 1 for rule in rules)
        waiting += [part for rule in rules for _, part in rule.parts if not isinstance(part, str)]
    assert sum(PROTAGONISTS.values()) == pytest.approx(1)


def test_every_sentence_has_one_derivation(sentences, monkeypatch):
    def counting(grammar, symbol):
        return [rule._replace(probability=1.0) for rule in rules_of(grammar, symbol)]

    monkeypatch.setattr("depgen.data.generated.rules_of", counting)
    assert {GRAMMAR.inside(each.words) for each in sentences[:400]} == {1}


def test_sentences_are_as_frequent_as_probable():
    grammar, random = Grammar(depth=0, indirect=0.0), Random(1)
    counts = Counter(grammar.sample(random).words for _ in range(20_000))
    often = [words for words, _ in counts.most_common(50)]
    expected = np.array([20_000 * math.exp(grammar.log_prob(words)) for words in often])
    drawn = np.array([counts[words] for words in often])
    assert (np.abs(drawn - expected) < 5 * np.sqrt(expected)).all()


def test_shares_are_those_of_the_arguments():
    grammar, random = Grammar(disagreement=0.2), Random(2)
    direct, other, among = 0, 0, 0
    for _ in range(2000):
        sentence = grammar.sample(random)
        subject, verb = subject_and_verb(sentence)
        first = next(place for place, word in enumerate(sentence.words) if TAGS[word] == "NOUN")
        direct += first == subject
        relatives = {"acl:relcl"} & {*sentence.relations[subject:verb]}
        between = [word for word in sentence.words[subject + 1 : verb] if TAGS[word] == "NOUN"] if not relatives else []
        other += sum(NUMBER_OF[word] != NUMBER_OF[sentence.words[subject]] for word in between)
        among += len(between)
    assert direct / 2000 == pytest.approx(0.6, abs=0.05)
    assert other / among == pytest.approx(0.2, abs=0.06)


def test_trees_are_projective_with_one_root_and_verbs_agree_with_subjects(sentences):
    for sentence in sentences:
        arcs = [(min(k, head), max(k, head)) for k, head in enumerate(sentence.heads, start=1) if head]
        assert [each == "root" for each in sentence.relations] == [head == 0 for head in sentence.heads]
        assert sentence.heads.count(0) == 1
        assert not any(a < c < b < d for (a, b), (c, d) in itertools.permutations(arcs, 2))
        for place, (head, relation) in enumerate(zip(sentence.heads, sentence.relations, strict=True)):
            word, verb = sentence.words[place], sentence.words[head - 1]
            if relation == "nsubj" and word != "that":
                assert NUMBER_OF[word] == NUMBER_OF[verb]
    one = next(each for each in sentences if "acl:relcl" in each.relations and len(each) == 8)
    assert len({*one.heads}) > 3


def test_what_does_not_agree_is_no_sentence():
    for wrong in (
        "the king sleep .",
        "the kings that the boy see sleep .",
        "the king sees herself .",
        "the king sleeps",
    ):
        assert GRAMMAR.log_prob(wrong.split()) == -math.inf
    assert GRAMMAR.document_log_prob([["the", "king", "sleeps", "."], ["she", "waits", "."]]) == -math.inf
    assert GRAMMAR.document_log_prob([["the", "king", "sleeps", "."], ["he", "waits", "."]]) > -math.inf


def test_a_smaller_corpus_is_the_beginning_of_a_larger_one():
    large, small = (GeneratedLanguage(train=size, sentences=(3, 6)) for size in (10**9, 20))
    documents = list(small.documents("train"))
    assert list(itertools.islice(large.documents("train"), 20)) == documents
    assert {len(document.sentences) for document in documents} == {3, 4, 5, 6}
    assert list(small.documents("valid"))[:20] != documents
    assert list(GeneratedLanguage(train=20, sentences=(3, 6), seed=2).documents("train")) != documents


def test_runs_of_other_seeds_differ_in_training_alone(monkeypatch):
    def splits(seed):
        monkeypatch.setenv("PL_GLOBAL_SEED", str(seed))
        corpus = GeneratedLanguage(5, 5, 5, seed=None)
        return [[*corpus.documents(split)] for split in SPLITS], [*map(corpus.fingerprint, SPLITS)]

    (texts, digests), (others, other_digests) = splits(1), splits(2)
    assert [one == other for one, other in zip(texts, others, strict=True)] == [False, True, True]
    assert [one == other for one, other in zip(digests, other_digests, strict=True)] == [False, True, True]
    assert texts == [[*GeneratedLanguage(5, 5, 5).documents(split)] for split in SPLITS]


def test_no_training_sentence_is_one_of_a_pair(monkeypatch):
    plain = [*GeneratedLanguage(40).documents("train")]
    held_out = " ".join(plain[7].sentences[0].words)
    monkeypatch.setattr("depgen.data.generated.sentences_of_pairs", lambda: frozenset([held_out]))
    kept = [*GeneratedLanguage(39, without_pairs=True).documents("train")]
    assert kept == [document for document in plain if " ".join(document.sentences[0].words) != held_out][:39]
    assert [*GeneratedLanguage(40, without_pairs=True).documents("valid")] == [
        *GeneratedLanguage(40).documents("valid")
    ]


def test_the_fingerprint_is_of_the_text():
    plain = GeneratedLanguage().fingerprint("train")
    changed = [{"train": 9}, {"seed": 2}, {"sentences": (2, 2)}, {"depth": 1}, {"disagreement": 0.4}]
    changed.append({"without_pairs": True})
    assert len({plain, *(GeneratedLanguage(**each).fingerprint("train") for each in changed)}) == 7
    assert GeneratedLanguage(test=1, name="other").fingerprint("train") == plain
    for wrong in ({"test": -1}, {"disagreement": 1.5}, {"sentences": (3, 2)}):
        with pytest.raises(UserError, match="GeneratedLanguage"):
            GeneratedLanguage(**wrong)


def test_the_floor_is_the_mean_over_the_very_text():
    corpus = GeneratedLanguage(test=5, sentences=(2, 3))
    documents = list(corpus.documents("test"))
    texts = [[sentence.words for sentence in document.sentences] for document in documents]
    nll = [math.log(2) - corpus.grammar.document_log_prob(words) for words in texts]
    assert corpus.floor() == pytest.approx(sum(nll) / sum(len(sum(words, ())) + 1 for words in texts), rel=1e-12)
    assert corpus.log_prob(Document((Sentence(("he", "sleeps", ".")),), "one")) == -math.inf
    alone = GeneratedLanguage(test=4)
    expected = [-GRAMMAR.log_prob(document.sentences[0].words) for document in alone.documents("test")]
    tokens = sum(len(document.sentences[0]) + 1 for document in alone.documents("test"))
    assert alone.floor() == pytest.approx(sum(expected) / tokens, rel=1e-12)


@pytest.mark.parametrize("depth", range(5))
def test_no_guess_without_syntax_answers_the_pairs(depth):
    for pairs, least in ((agreement_pairs(60, depth=depth), 1), (reflexive_pairs(20, depth=depth), 2)):
        for row in pairs:
            good, bad = row["sentence_good"].split(), row["sentence_bad"].split()
            assert math.isfinite(Grammar(depth=4).log_prob(good))
            assert Grammar(depth=4).log_prob(bad) == -math.inf
            assert sum(one != other for one, other in zip(good, bad, strict=True)) == 1
        assert len({row["sentence_good"] for row in pairs}) == len(pairs)
        guesses = [name for name, value in pairs[0].items() if isinstance(value, float)]
        shares = {name: np.mean([row[name] for row in pairs]) for name in guesses}
        if depth >= least:
            assert all(0.45 <= share <= 0.55 for share in shares.values()), shares


@pytest.mark.parametrize("swapped", ["gender", "number"])
def test_pronouns_are_told_by_the_context_alone(swapped):
    grammar = Grammar()
    for row in pronoun_pairs(30, swapped=swapped):
        good, bad, sentence = (row[name].split() for name in ("context_good", "context_bad", "sentence_good"))
        assert row["sentence_bad"] == row["sentence_good"]
        assert math.isfinite(grammar.document_log_prob([good, sentence]))
        assert len(good) == len(bad)
        assert grammar.log_prob(bad) > -math.inf
        with_bad, without = (
            grammar.document_log_prob([bad, each]) for each in (sentence, ["the", "king", "sleeps", "."])
        )
        assert with_bad == -math.inf < without
