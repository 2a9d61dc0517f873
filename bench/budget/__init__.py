"""Memory, threads, connections and open files of services under the worst requests, against their budget."""
