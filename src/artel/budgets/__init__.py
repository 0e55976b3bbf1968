"""What may be spent, by plans and by projects, and what was."""
