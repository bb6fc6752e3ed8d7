CAUSES: dict[tuple[str, str], str] = {}
