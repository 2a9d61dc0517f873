"""The changelog of a commit: with it, after a lost race, or later by a job."""
