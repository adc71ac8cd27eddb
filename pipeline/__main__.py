"""``python -m pipeline``: the command line."""

import sys

from pipeline.command_line import main

if __name__ == "__main__":
    sys.exit(main())
