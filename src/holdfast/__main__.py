"""The command line, as `holdfast` and as `python -m holdfast`."""

import sys


def main() -> None:
    """Import the command line and run it; who interrupts the import sees no traceback either."""
    try:
        from holdfast.cli import main as run
    except KeyboardInterrupt:
        sys.stderr.write("holdfast: interrupted\n")
        sys.exit(130)
    run()


if __name__ == "__main__":
    if not sys.flags.safe_path:
        # `python -m` puts the working directory first, where a file such as queue.py would stand in for Python's own.
        sys.path.append(sys.path.pop(0))
    main()
