"""`python -m holdfast` is the command line."""

import sys

if not sys.flags.safe_path:
    # `python -m` puts the working directory first, where a file such as queue.py would stand in for Python's own.
    sys.path.append(sys.path.pop(0))

from holdfast.cli import main

if __name__ == "__main__":
    main()
