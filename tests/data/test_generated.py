import hashlib
import itertools
import json
import math
from collections import Counter
from random import Random

import pytest

from depgen.data.corpus import SPLITS, Corpus
from depgen.data.generated import GRAMMAR_VERSION, GeneratedStories, document_plan, story_plan
from depgen.data.story_grammar.lexicon import LEXICON, SCENARIOS
from depgen.errors import UserError
from depgen.trees.sentence import Document, Sentence

STORIES = 800
GENDERS = {gender.placeholder: gender for gender in LEXICON.genders}
PLURAL_NOUNS = {n.plural for s in SCENARIOS for n in (*s.objects, *s.roles)}
SINGULAR_NOUNS = {n.singular for s in SCENARIOS for n in (*s.objects, *s.roles)} | set(LEXICON.companions)
THIRD = {v.third for s in SCENARIOS for v in s.verbs}
BASE = {v.base for s in SCENARIOS for v in s.verbs}


@pytest.fixture(scope="module")
def corpus():
    return GeneratedStories(train=STORIES, valid=200, test=200, seed=7)


@pytest.fixture(scope="module")
def stories(corpus):
    return list(corpus.documents("train"))


@pytest.fixture(scope="module")
def sentences(stories):
    return [sentence for story in stories for sentence in story.sentences]


def dominates(heads, ancestor, position):
    while position and position != ancestor:
        position = heads[position - 1]
    return position == ancestor


def is_tree(sentence):
    heads = sentence.heads
    in_range = all(0 <= head <= len(heads) and head != k for k, head in enumerate(heads, start=1))
    steps_up = True
    for start in range(1, len(heads) + 1):
        position, steps = start, 0
        while position and steps <= len(heads):
            position, steps = heads[position - 1], steps + 1
        steps_up = steps_up and not position
    roots = [r for h, r in zip(heads, sentence.relations, strict=True) if h == 0]
    return in_range and steps_up and roots == ["root"] and sentence.relations.count("root") == 1


def is_projective(sentence):
    heads = sentence.heads
    return all(
        dominates(heads, head, between)
        for dependent, head in enumerate(heads, start=1)
        if head
        for between in range(min(dependent, head) + 1, max(dependent, head))
    )


# The protocol, sizes, streams


@pytest.mark.slow
def test_it_is_a_corpus(corpus):
    assert isinstance(corpus, Corpus)
    assert corpus.published == {}
    assert [sum(1 for _ in corpus.documents(split)) for split in SPLITS] == [STORIES, 200, 200]


def test_every_sentence_is_an_annotated_tree(stories, sentences):
    assert all(len(story.sentences) == 5 for story in stories)
    for sentence in sentences:
        assert is_tree(sentence), sentence
        assert None not in (sentence.heads, sentence.relations, sentence.tags)
        assert sentence.words.index(".") == len(sentence) - 1
        assert 4 <= len(sentence) <= 19


def test_sizes_of_stories_and_vocabulary(stories):
    lengths = [sum(len(sentence) for sentence in story.sentences) for story in stories]
    assert 40 < sum(lengths) / len(lengths) < 55
    assert sum(35 <= length <= 65 for length in lengths) > 0.9 * len(lengths)
    assert 250 <= len({w for story in stories for w in story.words()}) <= 540


def test_the_same_seed_gives_the_same_stories(corpus, stories):
    again = list(GeneratedStories(train=50, seed=7).documents("train"))
    assert again == stories[:50]
    assert list(GeneratedStories(train=50, seed=8).documents("train")) != again
    assert corpus.document("train", 33) == stories[33]


def test_a_smaller_corpus_is_a_prefix(stories):
    assert list(itertools.islice(GeneratedStories(train=10**9, seed=7).documents("train"), 20)) == stories[:20]


def test_splits_are_disjoint(corpus, stories):
    texts = {split: {tuple(d.words()) for d in corpus.documents(split)} for split in SPLITS}
    assert len(texts["train"]) == STORIES
    assert not texts["train"] & texts["test"]
    assert not texts["train"] & texts["valid"]
    assert not texts["valid"] & texts["test"]
    assert len({story.identifier for story in stories}) == STORIES


def test_fingerprints_tell_contents_apart(corpus):
    prints = [corpus.fingerprint(split) for split in SPLITS]
    for other in ({"seed": 8}, {"train": 3}, {"non_projective": 0.5}, {"sentences_per_story": 6}):
        prints.append(GeneratedStories(**{"train": STORIES, "seed": 7, **other}).fingerprint("train"))
    assert len(set(prints)) == len(prints)
    assert GeneratedStories(train=STORIES, valid=1, seed=7, name="x").fingerprint("train") == corpus.fingerprint(
        "train"
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"train": -1}, "train must be a number of documents, found -1"),
        ({"non_projective": 1.5}, "from 0 to 1, found 1.5"),
        ({"sentences_per_story": 3}, "at least 4"),
        ({"document_sentences": 4}, "episode of 5 sentences, found 4"),
    ],
)
def test_options_out_of_range_are_refused(options, message):
    with pytest.raises(UserError, match=message):
        GeneratedStories(**options)


# What the language promises


def number_of_subject(sentence, subject):
    """True if plural, from the subject's words alone."""
    form = sentence.words[subject - 1]
    if form in {"that", "who"}:  # a relative pronoun has the number of what its clause modifies
        clause = sentence.heads[subject - 1]
        assert sentence.relations[clause - 1] == "acl:relcl"
        return number_of_subject(sentence, sentence.heads[clause - 1])
    if any(h == subject and r == "conj" for h, r in zip(sentence.heads, sentence.relations, strict=True)):
        return True
    if form in {"they", "he", "she"} or form in GENDERS:
        return form == "they"
    assert (form in PLURAL_NOUNS) != (form in SINGULAR_NOUNS), form
    return form in PLURAL_NOUNS


def agreements(sentence):
    """(subject position, verb position, is the verb plural) for every finite form that shows number."""
    for k, (head, relation) in enumerate(zip(sentence.heads, sentence.relations, strict=True), start=1):
        if relation != "nsubj":
            continue
        dependents = [
            (d, r) for d, (h, r) in enumerate(zip(sentence.heads, sentence.relations, strict=True), 1) if h == head
        ]
        for position in [d for d, r in dependents if r == "cop"] or [head]:
            form = sentence.words[position - 1]
            if form in {"was", "is", "were", "are"}:
                yield k, position, form in {"were", "are"}
            elif (form in THIRD or form in BASE) and not any(r in {"mark", "aux"} for _, r in dependents):
                yield k, position, form in BASE


def test_verbs_agree_with_their_subjects_over_distractors(sentences):
    checked = distracted = 0
    for sentence in sentences:
        for subject, verb, plural in agreements(sentence):
            checked += 1
            number = number_of_subject(sentence, subject)
            assert number == plural, " ".join(sentence.words)
            between = sentence.words[subject : verb - 1]
            nouns = [w for w in between if w in PLURAL_NOUNS | SINGULAR_NOUNS]
            distracted += any((w in PLURAL_NOUNS) != number for w in nouns)
    assert checked > 0.2 * len(sentences)
    assert distracted > 0.02 * len(sentences)  # a noun of the other number stands in between


def test_one_protagonist_a_story(stories):
    forms = {g: {g.subject, g.object, g.possessive, g.reflexive} for g in LEXICON.genders}
    seen = Counter()
    for story in stories:
        placeholders = {w for w in story.words() if w in GENDERS}
        assert len(placeholders) == 1
        hero = GENDERS[placeholders.pop()]
        seen[hero.placeholder] += 1
        assert hero.placeholder in story.sentences[0].words
        allowed = forms[hero]
        pronouns = {w for w in story.words() if any(w in group for group in forms.values())}
        assert pronouns <= allowed
        assert len({w for w in story.words() if w in LEXICON.companions}) == 1
    assert min(seen.values()) > 0.28 * len(stories)


def test_one_scenario_a_story_which_the_ending_keeps(stories):
    nouns = {n.singular: s.name for s in SCENARIOS for n in s.things}
    kept = 0
    for story in stories:
        assert len({nouns[w] for w in story.words() if w in nouns}) == 1
        kept += any(w in nouns or w in LEXICON.companions for w in story.sentences[-1].words)
    assert kept > 0.6 * len(stories)


def test_shares_of_constructions(sentences):
    share = Counter()
    for sentence in sentences:
        pairs = list(zip(sentence.relations, sentence.words, sentence.heads, strict=True))
        relatives = [k for k, relation in enumerate(sentence.relations, 1) if relation == "acl:relcl"]
        roles = {r for r, w, h in pairs if w in {"that", "who"} and h in relatives}
        share["subject relative"] += "nsubj" in roles
        share["object relative"] += "obj" in roles
        share["coordination"] += "conj" in sentence.relations
        share["fronted"] += any(r == "punct" and w == "," for r, w, _ in pairs[:6]) and pairs[0][0] != "nsubj"
        for relation in ("iobj", "ccomp", "xcomp", "advcl"):
            share[relation] += relation in sentence.relations
    least = {"subject relative": 0.05, "object relative": 0.04, "coordination": 0.1, "fronted": 0.2, "iobj": 0.04,
             "ccomp": 0.05, "xcomp": 0.1, "advcl": 0.01}  # fmt: skip
    for construction, minimum in least.items():
        assert share[construction] / len(sentences) > minimum, construction


def test_verbs_choose_their_objects(sentences):
    """The mutual information of verb and object lemma is a good part of the object's entropy."""
    pairs = Counter()
    for sentence in sentences:
        for k, relation in enumerate(sentence.relations):
            if relation == "obj" and sentence.tags[k] == "NOUN" and sentence.words[k] not in LEXICON.companions:
                pairs[sentence.words[sentence.heads[k] - 1], sentence.words[k]] += 1

    def entropy(counts):
        total = sum(counts.values())
        return -sum(c / total * math.log(c / total) for c in counts.values())

    verbs, objects = Counter(), Counter()
    for (verb, target), count in pairs.items():
        verbs[verb] += count
        objects[target] += count
    information = entropy(verbs) + entropy(objects) - entropy(pairs)
    assert information > 0.35 * entropy(objects)


def test_trees_are_projective_unless_asked(sentences):
    assert all(is_projective(sentence) for sentence in sentences)


@pytest.mark.parametrize("share", [0.3, 1.0])
def test_non_projective_share_on_request(share):
    corpus = GeneratedStories(train=300, seed=1, non_projective=share)
    found = [sentence for story in corpus.documents("train") for sentence in story.sentences]
    assert all(is_tree(sentence) for sentence in found)
    measured = sum(not is_projective(sentence) for sentence in found) / len(found)
    assert abs(measured - share) <= 4 * math.sqrt(share * (1 - share) / len(found))


# Probabilities


def log_probability(corpus, words):
    return corpus.log_probability(Document((Sentence(tuple(words)),), "any"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", [{}, {"non_projective": 0.4}, {"sentences_per_story": 4}, {"document_sentences": 12}]
)
def test_probability_of_a_string_is_that_of_its_generation(options):
    corpus = GeneratedStories(**options)
    for k in range(150):
        sample = corpus.grammar.sample(Random(k))
        words = [w for sentence in sample.sentences for w in sentence.words]
        assert math.isclose(log_probability(corpus, words), sample.log_probability, rel_tol=1e-11)


def test_ungrammatical_strings_are_impossible(corpus, stories):
    for story in stories[:10]:
        words = list(story.words())
        assert log_probability(corpus, words) > -math.inf
        assert log_probability(corpus, words[:-1]) == -math.inf
        assert log_probability(corpus, [*words, "."]) == -math.inf
        assert log_probability(corpus, [*words[1:], words[0]]) == -math.inf
        for k in range(len(words)):
            assert log_probability(corpus, [*words[:k], "zebra", *words[k + 1 :]]) == -math.inf
        other = "himself" if "he" not in words and "his" not in words else "herself"
        wrong = [other if w in {"himself", "herself", "themselves"} else w for w in words]
        if wrong != words:
            assert log_probability(corpus, wrong) == -math.inf


@pytest.mark.slow
def test_mean_negative_log_probability_is_the_entropy(corpus):
    """20,000 stories; that a string's probability is its generation's is tested above, so that the quick one serves."""
    nll = [-corpus.grammar.sample(Random(f"entropy/{k}")).log_probability for k in range(20_000)]
    mean = math.fsum(nll) / len(nll)
    deviation = math.sqrt(math.fsum((x - mean) ** 2 for x in nll) / (len(nll) - 1))
    assert abs(mean - corpus.entropy()) < 4 * deviation / math.sqrt(len(nll))
    assert 1.2 < corpus.entropy_per_token() < math.log(12)


@pytest.mark.slow
def test_mean_negative_log_probability_of_strings_is_the_entropy():
    corpus = GeneratedStories(train=20_000, seed=3)
    scored = [(-corpus.log_probability(d), sum(1 for _ in d.words()) + 1) for d in corpus.documents("train")]
    for column, expected in ((0, corpus.entropy()), (1, corpus.tokens_per_document())):
        values = [row[column] for row in scored]
        mean = math.fsum(values) / len(values)
        deviation = math.sqrt(math.fsum((x - mean) ** 2 for x in values) / (len(values) - 1))
        assert abs(mean - expected) < 4 * deviation / math.sqrt(len(values))


@pytest.mark.slow
def test_floor_of_the_test_split(corpus):
    documents = list(corpus.documents("test"))
    tokens = sum(sum(1 for _ in d.words()) + 1 for d in documents)
    expected = -sum(corpus.log_probability(d) for d in documents) / tokens
    assert math.isclose(corpus.test_floor(), expected)
    assert abs(corpus.test_floor() - corpus.entropy_per_token()) < 0.05
    with pytest.raises(UserError, match="empty split"):
        GeneratedStories(test=0).test_floor("test")


# Long documents


def test_plans():
    assert story_plan(5) == ("opening", "company", "detail", "turn", "ending")
    assert document_plan(12, 5) == story_plan(5) + story_plan(7)
    assert [len(document_plan(n, 5)) for n in (5, 9, 10, 23)] == [5, 9, 10, 23]


def test_long_documents_keep_their_people_and_change_the_scenario():
    corpus = GeneratedStories(train=30, document_sentences=23, seed=2)
    nouns = {n.singular: s.name for s in SCENARIOS for n in s.things}
    for document in corpus.documents("train"):
        assert len(document.sentences) == 23
        assert all(is_tree(sentence) for sentence in document.sentences)
        assert len({w for w in document.words() if w in GENDERS}) == 1
        assert len({w for w in document.words() if w in LEXICON.companions}) == 1
        assert 1 <= len({nouns[w] for w in document.words() if w in nouns}) <= 4
        assert corpus.log_probability(document) > -math.inf
    assert corpus.tokens_per_document() > 200


def test_the_version_is_raised_when_the_text_changes():
    corpora = [
        GeneratedStories(train=200),
        GeneratedStories(train=20, non_projective=0.3, document_sentences=20),
    ]
    digest = hashlib.sha256()
    for corpus in corpora:
        for document in corpus.documents("train"):
            rows = [(s.words, s.heads, s.relations, s.tags) for s in document.sentences]
            digest.update(json.dumps([document.identifier, rows]).encode())
    found = (GRAMMAR_VERSION, digest.hexdigest())
    assert found == (1, "c2f37ec6d17da45eb89fcdbd9722d8ebdcb456134533663508adc9a559ed41bc"), (
        "raise GRAMMAR_VERSION, and write both down here"
    )
