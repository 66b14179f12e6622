"""``python -m mha_sym``: the same as the command ``mha-sym``."""

from mha_sym.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
