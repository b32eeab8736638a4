"""Annotators that say what happens to them. Processes that annotate import this module, so it imports no torch."""

import os
import signal
import time
from dataclasses import replace

from depgen.annotation.controls import LeftChain
from depgen.trees.annotator import Annotator, SentenceError


class Named(Annotator):
    """Hangs each word on the word before it, by edges that bear the name of the sentence, its first word."""

    scheme, structure = "named", "graph"

    def __init__(self, log):
        self.log = str(log)

    def fingerprint(self):
        return "named 1"

    def annotate(self, sentences):
        with open(self.log, "a") as stream:
            stream.write(f"{os.getpid()} {len(sentences)}\n")
        return [named(sentence) for sentence in sentences]


def named(sentence):
    length = len(sentence)
    edges = tuple((word - 1, word, sentence.words[0]) for word in range(1, length + 1))
    return replace(sentence, edges=edges, heads=(0,) * length, relations=("root",) * length)


class Counting(LeftChain):
    """Notes in a file every time it annotates."""

    def __init__(self, log):
        self.log = str(log)

    def annotate(self, sentences):
        with open(self.log, "a") as stream:
            stream.write(f"{os.getpid()} {len(sentences)}\n")
        return super().annotate(sentences)


class Sent(Counting):
    """Notes each process that it is sent to, in another file."""

    def __setstate__(self, state):
        self.__dict__.update(state)
        with open(f"{self.log}.made", "a") as stream:
            stream.write(f"{os.getpid()}\n")


class Refusing(LeftChain):
    def annotate(self, sentences):
        for number, sentence in enumerate(sentences, start=1):
            if "laughed" in sentence.words:
                raise SentenceError(number, "no laughing.")
        return super().annotate(sentences)


class Interrupted(LeftChain):
    """Interrupts the process that waits for the annotation, as Ctrl-C does."""

    def __init__(self, process):
        self.process = process

    def annotate(self, sentences):
        os.kill(self.process, signal.SIGINT)
        time.sleep(0.5)
        return super().annotate(sentences)
