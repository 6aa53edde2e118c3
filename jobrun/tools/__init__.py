"""What is built on top of runs: inspection, reports, proofs."""
