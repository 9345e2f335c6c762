"""What the tests share: models, cases, references, and how programs are run."""
