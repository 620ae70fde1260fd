"""``python -m gmmatch``, which is what the command ``gmmatch`` runs."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run the command line. Ctrl-C while it is loaded ends in one line as well."""
    if sys.getfilesystemencoding() != "utf-8":  # or names of files would hold bytes that no table takes
        os.execv(sys.executable, [sys.executable, "-X", "utf8", "-m", "gmmatch", *sys.argv[1:]])
    for stream in (sys.stdout, sys.stderr):
        if stream.encoding.lower() != "utf-8":
            stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    try:
        from gmmatch.cli import main as run

        run()
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        sys.exit(130)  # 128 + SIGINT, what shells expect


if __name__ == "__main__":
    main()
