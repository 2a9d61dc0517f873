"""The declared options, one file for each subject."""
