"""A training loop without end that is slower than it could be in several ways."""

import torch

torch.autograd.set_detect_anomaly(True, check_nan=False)
torch.set_num_threads(1)


class Rows(torch.utils.data.Dataset):
    """Data that is computed where it is asked for."""

    def __len__(self):
        return 24

    def __getitem__(self, index):
        return torch.sin(torch.arange(16.0) * index), torch.tensor([index / 24])


model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01, foreach=False)
loader = torch.utils.data.DataLoader(Rows(), batch_size=8, shuffle=True)
while True:
    for features, targets in loader:
        optimizer.zero_grad(set_to_none=False)
        torch.nn.functional.mse_loss(model(features), targets).backward()
        optimizer.step()
        torch.save(model.state_dict(), "last.pt")
