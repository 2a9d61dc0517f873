"""Plans: which files a read must look at, from rows and from packed chunks."""
