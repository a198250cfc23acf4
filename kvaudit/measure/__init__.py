"""Measurement on a real checkpoint with PyTorch. The only place that imports torch and transformers.

Read in this order: `checkpoint` loads a model, `attention` puts a store of ours in the place of its attention, `store`
holds the rows, `signals` and `selection` say which rows a policy keeps, `policies` what each policy is, `run` measures,
`record` writes down what was measured. `process` runs all of that in a child process and survives its death.
"""
