"""Training: optimizers, schedules, the loop, checkpoints, data-parallel and pre-training.

The order in which to read: config, schedule, workers, muon, adamw, optim, objective, distributed,
step, validate, checkpoint, hooks, loop, recipe, pretrain.
"""
