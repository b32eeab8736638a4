"""`python -m depgen` and the `depgen` command."""

from depgen.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
