"""``python -m mha_sym`` and the command ``mha-sym``: loads the command line, and ends in one line if stopped meanwhile.

Defines `main`, which imports everything else when it runs; how a command ends, `mha_sym.cli` says.
"""

import sys


def main() -> int:
    """Run the command line and return its exit code; 130 after Ctrl-C, also while modules are loaded."""
    try:
        from mha_sym.cli import main as run

        return run()
    except KeyboardInterrupt:
        sys.stderr.write("mha-sym: interrupted\n")
        return 130


if __name__ == "__main__":
    raise SystemExit(main())
