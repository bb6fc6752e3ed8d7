"""What an allocation or a whole mechanism can be held to: checks with witnesses, lies, and the audit."""
