"""``python -m gmmatch``, which is what the command ``gmmatch`` runs."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line. Ctrl-C while it is loaded ends in one line as well."""
    try:
        from gmmatch.cli import main as run

        run()
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        sys.exit(130)  # 128 + SIGINT, what shells expect


if __name__ == "__main__":
    main()
