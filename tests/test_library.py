"""`import depgen`: what it offers, and that nothing heavy is imported before it is used."""

import subprocess
import sys

import pytest

import depgen

HEAVY = ("torch", "lightning", "numpy", "transformers", "datasets", "pandas", "jsonargparse", "spacy", "yaml")


def modules_after(code):
    """The modules that a fresh interpreter holds after some code."""
    script = f"import sys\n{code}\nsys.stdout.write('\\n' + ' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


@pytest.mark.parametrize(
    "code", ["import depgen; dir(depgen)", "from depgen.cli import main; main(['--help'])"], ids=["import", "help"]
)
def test_nothing_heavy_is_imported_before_it_is_used(code):
    found = modules_after(code) - modules_after("")
    assert not found & {"inspect", "logging", "dataclasses", "difflib", "traceback"}, "each takes a tenth of the time"
    assert not found & {*HEAVY}
    assert len([name for name in found if name.startswith("depgen")]) < 12


def test_all_names_are_there_and_no_others():
    assert {*depgen.__all__} <= {*dir(depgen)}
    assert all(getattr(depgen, name) is not None for name in depgen.__all__)
    with pytest.raises(AttributeError, match="module 'depgen' has no attribute 'lode'"):
        _ = depgen.lode


FIT = "from depgen.cli import main; main(['fit', '--config', 'experiments/dmlm_brown.yaml', '--print_config'])"


@pytest.mark.parametrize(
    ("system", "code"),
    [("dmlm", FIT), pytest.param("finetuned", "import depgen.models.finetuned", marks=pytest.mark.slow)],
)
def test_a_system_that_is_imported_imports_no_other(system, code):
    systems = {name for name in modules_after(code) if name.startswith("depgen.models.")}
    assert systems == {f"depgen.models.{system}"}
