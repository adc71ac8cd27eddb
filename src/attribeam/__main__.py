"""``python -m attribeam``: the command line."""

import sys

from attribeam.pipeline.command_line import main

if __name__ == "__main__":
    sys.exit(main())
