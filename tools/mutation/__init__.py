"""What tools/mutate.py is made of."""
