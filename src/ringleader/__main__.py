"""`python -m ringleader` is the same program as `ringleader`."""

from ringleader.cli.main import main

if __name__ == "__main__":
    main()
