"""`python -m ioassay`: the command line."""

from ioassay.cli import main

if __name__ == "__main__":
    main()
