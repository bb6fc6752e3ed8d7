"""``python -m fairopt``, where the script is not on the path."""

from fairopt.cli import main

if __name__ == "__main__":
    main()
