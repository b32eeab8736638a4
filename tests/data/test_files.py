import logging
from pathlib import Path

import pytest

from depgen.data.files import content_fingerprint, log_left_out, lowercased
from depgen.errors import UserError
from depgen.trees.sentence import Document, Sentence


def test_fingerprints_see_content_options_and_order_alone(tmp_path):
    one, two, copy = (tmp_path / name for name in ("one", "two", "copy"))
    one.write_text("a b\n")
    two.write_text("a c\n")
    copy.write_text("a b\n")
    assert content_fingerprint([one], lowercase=True) == content_fingerprint([copy], lowercase=True)
    prints = {
        content_fingerprint([one]),
        content_fingerprint([two]),
        content_fingerprint([one], lowercase=True),
        content_fingerprint([one, two]),
        content_fingerprint([two, one]),
    }
    assert len(prints) == 5


def test_a_file_that_may_not_be_read_is_named(tmp_path, monkeypatch):
    def denied(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    (tmp_path / "one").write_text("a\n")
    monkeypatch.setattr(Path, "open", denied)
    with pytest.raises(UserError, match=r"one can't be read \(Permission denied\)"):
        content_fingerprint([tmp_path / "one"])


def test_lower_case_keeps_the_trees():
    document = Document((Sentence(("The", "CAT"), (2, 0), ("det", "root")),), "d")
    assert lowercased(document) == Document((Sentence(("the", "cat"), (2, 0), ("det", "root")),), "d")


def test_what_is_left_out_is_said_once(caplog):
    with caplog.at_level(logging.WARNING):
        log_left_out(0, "lines", corpus="c", split="train")
        log_left_out(3, "lines", corpus="c", split="train")
    assert caplog.messages == ["c, train: left out 3 lines."]
