"""``python -m acova`` is the ``acova`` command."""

from acova.cli import main

if __name__ == "__main__":
    main()
