"""`python -m unabridged` is the command `unabridged`."""

from unabridged.app.cli import main

if __name__ == "__main__":
    main()
