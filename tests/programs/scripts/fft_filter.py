"""Signals by their spectra: filters, convolutions, a learned spectrum."""

import torch

torch.manual_seed(0)
t = torch.arange(256) / 256
signal = torch.sin(2 * torch.pi * 5 * t) + 0.5 * torch.sin(2 * torch.pi * 40 * t)
spectrum = torch.fft.rfft(signal)
print(torch.topk(spectrum.abs(), 2).indices.tolist(), f"{spectrum.abs().max().item():.3f}")
frequencies = torch.fft.rfftfreq(256, 1 / 256)
low = torch.fft.irfft(
    torch.where(frequencies < 20, spectrum, torch.zeros((), dtype=spectrum.dtype)), n=256
)
print(f"{(low - torch.sin(2 * torch.pi * 5 * t)).abs().max().item():.4f}")
kernel = torch.zeros(256, requires_grad=True)
optimizer = torch.optim.Adam([kernel], lr=0.05)
target = torch.roll(signal, 7)
for step in range(41):
    out = torch.fft.irfft(torch.fft.rfft(signal) * torch.fft.rfft(kernel), n=256)
    loss = (out - target).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, f"{loss.item():.4f}")
S = torch.stft(signal, 64, hop_length=16, window=torch.hann_window(64), return_complex=True)
back = torch.istft(S, 64, hop_length=16, window=torch.hann_window(64), length=256)
print(
    S.shape, bool((back - signal).abs().max() < 1e-5), torch.fft.fftshift(torch.arange(5)).tolist()
)
