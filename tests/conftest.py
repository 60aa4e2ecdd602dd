"""One thread for all tests: small tensors, and two busy processes would spin against each other."""

import torch

torch.set_num_threads(1)
