"""A convolutional GAN on small drawings, with weights_init and fixed noise."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils import spectral_norm

torch.manual_seed(999)
device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
nz, ngf, ndf = 16, 8, 8


def weights_init(m):
    classname = m.__class__.__name__
    if classname.find("Conv") != -1 and hasattr(m, "weight"):
        nn.init.normal_(m.weight.data, 0.0, 0.02)
    elif classname.find("BatchNorm") != -1:
        nn.init.normal_(m.weight.data, 1.0, 0.02)
        nn.init.constant_(m.bias.data, 0)


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(
            nn.ConvTranspose2d(nz, ngf * 2, 4, 1, 0, bias=False),
            nn.BatchNorm2d(ngf * 2),
            nn.ReLU(True),
            nn.ConvTranspose2d(ngf * 2, ngf, 4, 2, 1, bias=False),
            nn.BatchNorm2d(ngf),
            nn.ReLU(True),
            nn.ConvTranspose2d(ngf, 1, 4, 2, 1, bias=False),
            nn.Tanh(),
        )

    def forward(self, input):
        return self.main(input)


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1 = nn.Conv2d(1, ndf, 4, 2, 1, bias=False)
        self.c2 = spectral_norm(nn.Conv2d(ndf, ndf * 2, 4, 2, 1, bias=False))
        self.bn = nn.BatchNorm2d(ndf * 2)
        self.out = nn.Conv2d(ndf * 2, 1, 4, 1, 0)

    def forward(self, x):
        x = F.leaky_relu(self.c1(x), 0.2, inplace=True)
        x = F.leaky_relu(self.bn(self.c2(x)), 0.2)
        return self.out(x).view(-1, 1).squeeze(1)


def drawings(n):
    images = torch.full((n, 1, 16, 16), -1.0)
    for i in range(n):
        r, c = torch.randint(0, 12, (2,)).tolist()
        images[i, 0, r : r + 4, c : c + 4] = 1
    return images


netG = Generator().to(device)
netD = Discriminator().to(device)
netG.apply(weights_init)
netD.c1.apply(weights_init)
print(sum(p.numel() for p in netG.parameters()), sum(p.numel() for p in netD.parameters()))
criterion = nn.BCEWithLogitsLoss()
fixed_noise = torch.randn(4, nz, 1, 1, device=device)
optD = torch.optim.Adam(netD.parameters(), lr=2e-3, betas=(0.5, 0.999))
optG = torch.optim.Adam(netG.parameters(), lr=2e-3, betas=(0.5, 0.999))
for i in range(8):
    netD.zero_grad()
    real = drawings(8).to(device, non_blocking=True)
    label = torch.full((real.size(0),), 0.9, dtype=torch.float, device=device)
    out = netD(real)
    errD_real = criterion(out, label)
    errD_real.backward()
    D_x = torch.sigmoid(out).mean().item()
    noise = torch.randn(8, nz, 1, 1, device=device)
    fake = netG(noise)
    label.fill_(0.0)
    errD_fake = criterion(netD(fake.detach()), label)
    errD_fake.backward()
    optD.step()
    netG.zero_grad(set_to_none=True)
    label.fill_(1.0)
    out = netD(fake)
    errG = criterion(out, label)
    errG.backward()
    optG.step()
    if i % 2 == 0:
        print("[%d] D %.3f G %.3f D(x) %.3f" % (i, errD_real + errD_fake, errG, D_x))
with torch.inference_mode():
    sample = netG.eval()(fixed_noise)
print(sample.shape, sample.min() >= -1, f"{sample.std():.3f}")
