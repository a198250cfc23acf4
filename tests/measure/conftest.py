"""One thread: tests run beside others, and threads that wait for each other there take many times longer."""

import torch

torch.set_num_threads(1)
