"""Training: optimizers, schedules, the loop, checkpoints, data-parallel and pre-training.

The order in which to read: config, schedule, muon, adamw, optim, objective, step, distributed,
validate, checkpoint, loop, recipe, pretrain.
"""
