"""Random models in QNN's terms, over every op record, typed and shaped.

A model is a function of a seed and a number. It grows by one node at a time: a rule of the op
(`rules_*`) chooses operands among the tensors that are there, or makes new ones, and params; the
plain reference gives the outputs' shapes and values, from which encodings are taken; the cpu
backend has to accept the node. So every model is valid, and what its values are is known.
"""
