"""Every example in a docstring gives what stands under it.

Docstrings are read from the source: behind the checks of shapes, doctest's own finder misses most functions.
"""

import ast
import doctest
import importlib
from pathlib import Path

import pytest

import depgen

ROOT = Path(depgen.__file__).parent
DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef
FILES = {
    ".".join(("depgen", *path.relative_to(ROOT).with_suffix("").parts)): path
    for path in sorted(ROOT.rglob("*.py"))
    if ">>> " in path.read_text()
}


@pytest.mark.parametrize("name", FILES)
def test_doctests(name):
    source = FILES[name].read_text()
    runner = doctest.DocTestRunner()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, DOCUMENTED) and (docstring := ast.get_docstring(node)):
            names = dict(vars(importlib.import_module(name)))
            runner.run(doctest.DocTestParser().get_doctest(docstring, names, name, None, None))
    assert runner.tries == source.count(">>> ")
    assert runner.failures == 0
